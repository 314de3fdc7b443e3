"""Hypothesis strategies for schemas, writes and meadows, and a plain Philox; shared by the tests of all packages."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from hypothesis import strategies as st

from sim import Blob, Field, Schema, State, Table

DTYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")


@st.composite
def fields(draw: st.DrawFn, name: str, *, whole: bool) -> Field:
    """A field of up to three short axes; whole: with row_axes, as it stands outside of a table."""
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    row_axes = draw(st.integers(0, len(shape))) if whole else 0
    return Field(name, draw(st.sampled_from(DTYPES)), shape, row_axes=row_axes, hot=draw(st.booleans()))


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """A schema of one to five entries of any kind."""
    entries: list[Field | Table | Blob] = []
    for index in range(draw(st.integers(1, 5))):
        match draw(st.sampled_from(("field", "table", "blob"))):
            case "field":
                entries.append(draw(fields(f"field{index}", whole=True)))
            case "table":
                columns = [draw(fields(f"column{c}", whole=False)) for c in range(draw(st.integers(1, 3)))]
                entries.append(Table(f"table{index}", *columns, capacity=draw(st.integers(1, 6))))
            case _:
                entries.append(Blob(f"blob{index}", capacity=draw(st.integers(1, 12))))
    return Schema(*entries)


@attrs.frozen
class Write:
    """One change of a state; numbers are taken modulo what there is, so that a write fits any schema.

    Attributes:
        kind: set (State.set), view (through the view, then marked), add, truncate or blob.
        where: which field, table or blob.
        rows: which rows, or how many.
        content: bytes to write, repeated as needed.
    """

    kind: str
    where: int
    rows: tuple[int, ...]
    content: bytes


WRITE_KINDS = ("set", "view", "add", "truncate", "blob")


def writes(kinds: tuple[str, ...] = WRITE_KINDS) -> st.SearchStrategy[Write]:
    """One write of these kinds; its content leans towards NaN, -0.0 and bytes that are already there."""
    content = st.one_of(
        st.binary(min_size=1, max_size=16),
        st.sampled_from(
            (b"\0", b"\xff", np.float64(-0.0).tobytes(), np.float32(-0.0).tobytes(), b"\0\0\0\0\0\0\xf8\x7f")
        ),
    )
    rows = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(tuple)
    return st.builds(Write, kind=st.sampled_from(kinds), where=st.integers(0, 30), rows=rows, content=content)


def raw_values(state: State, name: str, row_count: int, content: bytes) -> np.ndarray[Any, Any]:
    """row_count rows for a field of the state, made of content over and over: (row_count, *shape of a row)."""
    slot = state.layout.slots[name]
    size = row_count * slot.row_bytes
    raw = np.frombuffer((content * (size // len(content) + 1))[:size], np.uint8)
    if slot.dtype == np.bool_:
        raw = raw & 1
    return raw.copy().view(slot.dtype).reshape(row_count, *slot.shape[len(slot.rows_shape) :])


def live_row_count(state: State, name: str) -> int:
    """How many rows of a field are in use."""
    slot = state.layout.slots[name]
    return slot.row_count if slot.owner is None else state.count(slot.owner)


def apply_write(state: State, write: Write, *, marked: bool = True) -> None:
    """Carry a write out. marked: whether a write through a view is marked."""
    entries = state.layout.schema.entries
    tables = [entry.name for entry in entries if isinstance(entry, Table)]
    blobs = [entry.name for entry in entries if isinstance(entry, Blob)]
    match write.kind:
        case "set" | "view":
            name = list(state)[write.where % len(state)]
            live = live_row_count(state, name)
            if not live:
                return
            rows = np.unique(np.array(write.rows) % live)
            values = raw_values(state, name, len(rows), write.content)
            if write.kind == "set":
                state.set(name, rows, values)
                return
            row_shape = values.shape[1:]
            state[name].reshape(live, *row_shape)[rows] = values
            if marked:
                state.mark(name, rows)
        case "add" if tables:
            table = tables[write.where % len(tables)]
            new = state.add_rows(table, write.rows[0] % 5)
            for name, slot in state.layout.slots.items():
                if slot.owner == table and new.stop > new.start:
                    state.set(name, new, raw_values(state, name, new.stop - new.start, write.content))
        case "truncate" if tables:
            table = tables[write.where % len(tables)]
            state.truncate_rows(table, write.rows[0] % (state.count(table) + 1))
        case "blob" if blobs:
            state.set_blob(blobs[write.where % len(blobs)], write.content * (write.rows[0] % 4))


def philox_block(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Philox4x32-10 in plain integers, written from the paper: the oracle for keyed_random."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c0, 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c2, 1 << 32)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) % (1 << 32), (k1 + 0xBB67AE85) % (1 << 32)
    return c0, c1, c2, c3


def quarters(low: int, high: int) -> st.SearchStrategy[float]:
    """Decimals from low to high in steps of a quarter, which are exact in fixed point."""
    return st.integers(low * 4, high * 4).map(lambda n: n / 4)


@st.composite
def floras(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """A plant species that grows, spreads and dies within some dozen ticks."""
    threshold, above, more = draw(quarters(0, 4)), draw(quarters(0, 8)), draw(quarters(0, 20))
    near = draw(st.integers(1, 3))
    return {
        "name": name,
        "survival_threshold": threshold,
        "base_energy": threshold + above,
        "max_energy": threshold + above + more,
        "growth_percent": draw(quarters(0, 40)),
        "reproduction_interval": draw(st.integers(1, 12)),
        "seed_cost": draw(quarters(0, 6)),
        "seed_distance_min": near,
        "seed_distance_max": draw(st.integers(near, 4)),
    }


@st.composite
def herbivores(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """A herbivore species that eats, divides and starves within some dozen ticks."""
    return {
        "name": name,
        "consumption_rate": draw(quarters(0, 4)),
        "upkeep": draw(quarters(0, 1)),
        "energy_min": draw(quarters(1, 4)),
        "velocity": draw(st.integers(1, 3)),
        "reproduction_divisor": draw(quarters(1, 6)),
        "split_population": draw(st.integers(2, 20)),
    }


@st.composite
def meadows(draw: st.DrawFn, *, swarms: bool = True) -> dict[str, Any]:
    """The plain configuration of a small meadow without scheduled inputs."""
    width, height = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    flora = [draw(floras(f"flora{i}")) for i in range(draw(st.integers(1, 3)))]
    eaters = [draw(herbivores(f"herbivore{i}")) for i in range(draw(st.integers(1, 2)) if swarms else 0)]
    column, row = st.integers(0, width - 1), st.integers(0, height - 1)
    named = st.sampled_from([one["name"] for one in flora])
    plants = st.one_of(
        st.fixed_dictionaries({"species": named, "x": column, "y": row}),
        st.fixed_dictionaries({"species": named, "count": st.integers(1, 12)}),
    )
    config = {
        "grid": {"width": width, "height": height},
        "seed": draw(st.integers(0, (1 << 63) - 1)),
        "flora": flora,
        "herbivores": eaters,
        "diet": [[draw(st.booleans()) for _ in flora] for _ in eaters],
        "links": {
            "interval": draw(st.integers(1, 6)),
            "cost": draw(quarters(0, 3)),
            "between_species": draw(st.booleans()),
        },
        "plants": draw(st.lists(plants, min_size=1, max_size=6)),
    }
    if eaters:
        herd = st.fixed_dictionaries(
            {
                "species": st.sampled_from([one["name"] for one in eaters]),
                "x": column,
                "y": row,
                "population": st.integers(1, 15),
            }
        )
        config["swarms"] = draw(st.lists(herd, max_size=4))
    return config


@st.composite
def meadow_inputs(draw: st.DrawFn, config: dict[str, Any]) -> dict[str, Any]:
    """One valid input for the meadow of this plain configuration."""
    x = draw(st.integers(0, config["grid"]["width"] - 1))
    y = draw(st.integers(0, config["grid"]["height"] - 1))
    kinds = ["plant", "wind", "drought", *(["release"] if config["herbivores"] else [])]
    match draw(st.sampled_from(kinds)):
        case "plant":
            species = draw(st.integers(0, len(config["flora"]) - 1))
            return {"kind": "plant", "species": species, "x": x, "y": y}
        case "release":
            species = draw(st.integers(0, len(config["herbivores"]) - 1))
            return {"kind": "release", "species": species, "x": x, "y": y, "population": draw(st.integers(1, 9))}
        case "wind":
            breeze = st.integers(-3 << 16, 3 << 16)
            return {"kind": "wind", "east": draw(breeze), "south": draw(breeze)}
    return {"kind": "drought", "ticks": draw(st.integers(0, 15)), "percent": draw(st.integers(0, 200))}


def small_meadow(**changes: Any) -> dict[str, Any]:
    """The plain configuration of a 6 × 5 meadow with one idle plant species; changes replace whole keys.

    Without growth (growth_percent 0) and with reproduction a million ticks away, nothing happens by itself.
    """
    return {
        "grid": {"width": 6, "height": 5},
        "seed": 1,
        "flora": [idle_flora("moss")],
        "links": {"interval": 1_000_000},
        **changes,
    }


def idle_flora(name: str, **changes: Any) -> dict[str, Any]:
    """A plant species with base energy 10, threshold 4 and maximum 20 that neither grows nor spreads."""
    return {
        "name": name,
        "base_energy": 10,
        "max_energy": 20,
        "growth_percent": 0,
        "survival_threshold": 4,
        "reproduction_interval": 1_000_000,
        "seed_cost": 3,
        **changes,
    }
