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
    """A field of up to three short axes. whole: with row_axes, as outside a table."""
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
    """One change of a state; numbers are taken modulo the existing count, so that a write fits any schema.

    Attributes:
        kind: set (State.set), view (through the view, then marked), add, truncate or blob.
        where: the number of the field, table or blob.
        rows: the rows, or the number of rows.
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
    """row_count rows for a field of the state, made of repeated content: (row_count, *shape of a row)."""
    slot = state.layout.slots[name]
    size = row_count * slot.row_bytes
    raw = np.frombuffer((content * (size // len(content) + 1))[:size], np.uint8)
    if slot.dtype == np.bool_:
        raw = raw & 1
    return raw.copy().view(slot.dtype).reshape(row_count, *slot.shape[len(slot.rows_shape) :])


def live_row_count(state: State, name: str) -> int:
    """The number of rows of a field that are in use."""
    slot = state.layout.slots[name]
    return slot.row_count if slot.owner is None else state.count(slot.owner)


def apply_write(state: State, write: Write, *, marked: bool = True) -> None:
    """Carry a write out. marked: true to mark a write through a view."""
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
    """Philox4x32-10 in plain integers, written from the paper: the oracle for counter_rng."""
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
    threshold, above, more = draw(quarters(0, 4)), draw(quarters(1, 8)), draw(quarters(0, 20))
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
        "camouflage": draw(st.sampled_from((1, 1, 0.75, 0.3, 0))),
    }


HARDLY_EVER = 1_000_000  # A split_population that no swarm of a small meadow reaches alone; the largest head count.


@st.composite
def herbivores(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """A herbivore species that eats, divides and starves within some dozen ticks."""
    return {
        "name": name,
        "consumption_rate": draw(st.sampled_from((0.75, 1, 2.5, 4, 0))),
        "upkeep": draw(st.sampled_from((0.25, 0, 0.5, 0.25, 1))),  # Low, so that most do not starve soon.
        "energy_min": draw(quarters(1, 4)) + draw(st.sampled_from((0, 1, 2))),
        "velocity": draw(st.integers(1, 3)),
        "reproduction_divisor": draw(quarters(1, 6)),
        "split_population": draw(st.integers(2, 20) | st.just(HARDLY_EVER)),
    }


@st.composite
def substances(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """A signal or toxin that is made quickly, ends soon, and is expensive enough to be abandoned."""
    toxin = draw(st.booleans())
    return {
        "name": name,
        "kind": "toxin" if toxin else "signal",
        "strength": draw(st.sampled_from((1, 0.3, 2.5, 16, 1000))),
        "synthesis_ticks": draw(st.integers(0, 3)),
        "aftereffect_ticks": draw(st.integers(0, 5)),
        "irreversible": draw(st.sampled_from((False, False, True))),
        "energy_cost": draw(quarters(0, 2)),
        **(
            {"lethality": draw(st.sampled_from((0.1, 0, 0.5, 0.05, 1))), "repellence": draw(st.integers(0, 4))}
            if toxin
            else {}
        ),
    }


def conditions(eaters: list[str], defences: list[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """A condition or a small tree of them, of these species and substances."""
    names, signals = [one["name"] for one in defences], [one["name"] for one in defences if one["kind"] == "signal"]
    own = st.fixed_dictionaries({"substance": st.sampled_from(names)})
    leaves = [own, own.map(lambda leaf: {"not": leaf})]  # The second holds at first, so that something begins.
    if eaters:
        heads = st.fixed_dictionaries({"herbivore": st.sampled_from(eaters), "heads": st.integers(1, 2)})
        leaves = [heads, heads, *leaves]
    if signals:
        least = st.sampled_from((0.001, 0.01, 0.1, 1, 0))
        leaves.append(st.fixed_dictionaries({"signal": st.sampled_from(signals), "concentration": least}))

    def trees(parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
        some = st.lists(parts, max_size=3)
        return st.one_of(*(st.fixed_dictionaries(each) for each in ({"not": parts}, {"any": some}, {"all": some})))

    return st.recursive(st.one_of(leaves), trees, max_leaves=4)


@st.composite
def players(draw: st.DrawFn, species: str) -> dict[str, Any]:
    """A player who can pay for some commands, but not for all."""
    budget = draw(quarters(0, 8))
    return {
        "species": species,
        "budget": budget,
        "budget_max": budget + draw(quarters(0, 5)),
        "income": draw(quarters(0, 2)),
        "spawn_cost": draw(quarters(0, 2)),
        "split_cost": draw(quarters(0, 8)),
        "bias": draw(st.integers(1, 16)),
        "sight": draw(st.integers(0, 4)),
    }


@st.composite
def terminations(draw: st.DrawFn, flora: list[str], eaters: list[str]) -> dict[str, Any]:
    """Reasons to end, some of which a small meadow soon has."""
    bounds: dict[str, Any] = {}
    if draw(st.booleans()):
        bounds["flora_energy_max"] = draw(quarters(0, 200))
    if draw(st.booleans()):
        bounds["population_max"] = draw(st.integers(0, 60))
    return {
        "flora_extinct": draw(st.lists(st.sampled_from(flora), max_size=2)),
        "all_flora": draw(st.booleans()),
        "herbivores_extinct": draw(st.lists(st.sampled_from(eaters), max_size=2)) if eaters else [],
        "all_herbivores": draw(st.booleans()),
        **bounds,
    }


def placements(species: list[str], grid: dict[str, int], count_max: int, **more: Any) -> st.SearchStrategy[Any]:
    """Entities in one cell or scattered; more: strategies for the keys that both kinds have besides."""
    named = {"species": st.sampled_from(species), **more}
    column, row = st.integers(0, grid["width"] - 1), st.integers(0, grid["height"] - 1)
    return st.one_of(
        st.fixed_dictionaries({**named, "x": column, "y": row}),
        st.fixed_dictionaries({**named, "count": st.integers(1, count_max)}),
    )


def breezes() -> st.SearchStrategy[float]:
    """Wind of up to three cells a tick, on one axis."""
    return st.sampled_from((0, 0.25, -0.5, 0.5, 1, -1, 2.5, -3))


@st.composite
def defences(draw: st.DrawFn, flora: list[str], eaters: list[str]) -> dict[str, Any]:
    """The substances of a meadow and their triggers; often none, often both kinds."""
    made = [draw(substances(f"substance{i}")) for i in range(draw(st.sampled_from((0, 1, 2, 3, 4, 4))))]
    if not made:
        return {"substances": [], "triggers": []}
    rule = st.fixed_dictionaries(
        {
            "flora": st.sampled_from(flora),
            "substance": st.sampled_from([one["name"] for one in made]),
            "when": conditions(eaters, made),
        }
    )
    return {"substances": made, "triggers": draw(st.lists(rule, min_size=2, max_size=8))}


@st.composite
def meadows(draw: st.DrawFn, *, swarms: bool = True, height_max: int = 8) -> dict[str, Any]:
    """The plain configuration of a small meadow without scheduled inputs."""
    grid = {"width": draw(st.integers(1, 6)), "height": draw(st.integers(1, height_max))}
    flora = [draw(floras(f"flora{i}")) for i in range(draw(st.integers(1, 3)))]
    eaters = [draw(herbivores(f"herbivore{i}")) for i in range(draw(st.integers(1, 2)) if swarms else 0)]
    plant_names, eater_names = [one["name"] for one in flora], [one["name"] for one in eaters]
    config = {
        "grid": grid,
        "seed": draw(st.integers(0, (1 << 63) - 1)),
        "ticks": draw(st.integers(1, 150)),
        "ids": draw(st.sampled_from(("counted", "births"))),
        "flora": flora,
        "herbivores": eaters,
        "diet": [[draw(st.sampled_from((True, True, True, False))) for _ in flora] for _ in eaters],
        **draw(defences(plant_names, eater_names)),
        "links": {
            "interval": draw(st.integers(1, 6)),
            "cost": draw(quarters(0, 3)),
            "between_species": draw(st.booleans()),
        },
        "dispersal": {"flight_ticks": draw(quarters(0, 3))},
        "wind": {"east": draw(breezes()), "south": draw(breezes())},
        "crowding": {
            "carrying_capacity": draw(st.integers(1, 12) | st.just(500)),
            "taste_ticks": draw(st.integers(0, 4)),
        },
        "signalling": {
            "emission": draw(st.sampled_from((0.1, 1, 0.33, 1, 0.5, 1000, 0))),
            "decay": draw(st.sampled_from((0.85, 1, 0.5, 0.99, 0))),
            "epsilon": draw(st.sampled_from((0.0001, 0.01, 0))),
        },
        "players": [draw(players(name)) for name in eater_names if draw(st.sampled_from((True, True, False)))],
        "termination": draw(terminations(plant_names, eater_names)),
        "plants": draw(st.lists(placements(plant_names, grid, 20), min_size=2, max_size=6)),
    }
    if eaters:
        herds = placements(eater_names, grid, 3, population=st.integers(1, 15) | st.integers(1, 2))
        config["swarms"] = draw(st.lists(herds, min_size=1, max_size=5))
    if draw(st.sampled_from((True, True, False))):
        _liven(config)
    return config


def _liven(config: dict[str, Any]) -> None:
    """Change a meadow so that many species live long at the same time; random numbers alone seldom achieve this."""
    eaters, flora = config["herbivores"], config["flora"]
    cell_count = config["grid"]["width"] * config["grid"]["height"]
    for species in flora:
        species["growth_percent"] += 8
        species["max_energy"] += 8
        config["plants"].append({"species": species["name"], "count": 1 + cell_count // 4})
    for number, species in enumerate(eaters):
        species["upkeep"] = min(species["upkeep"], 0.5)
        species["consumption_rate"] = max(species["consumption_rate"], species["upkeep"] + 0.75) * species["velocity"]
        if species["split_population"] < HARDLY_EVER:
            species["split_population"] = min(species["split_population"], 8)
        config["diet"][number][number % len(flora)] = True
        config["swarms"].append({"species": species["name"], "population": 3, "count": 2})
    for player in config["players"]:
        player["income"] += 0.5
    for number, substance in enumerate(config["substances"]):
        if eaters:  # A trigger that follows the swarms.
            when = {"herbivore": eaters[number % len(eaters)]["name"], "heads": 1 + number % 2}
            one = {"flora": flora[number % len(flora)]["name"], "substance": substance["name"], "when": when}
            config["triggers"].append(one)


def _parameter_values() -> st.SearchStrategy[dict[str, Any]]:
    """A parameter, by its number, and the value that an input sets."""
    values = (
        st.integers(0, 300).map(lambda percent: percent << 16),  # growth
        st.integers(1, 6),  # link_interval
        quarters(0, 3).map(lambda energy: int(energy * 65_536)),  # link_cost
        st.integers(1, 20),  # carrying_capacity
        st.sampled_from((0, 6554, 65_536, 1000 << 16)),  # emission
        st.sampled_from((0, 30_000, 55_706, 65_536)),  # signal_decay
    )
    each = [
        st.fixed_dictionaries({"parameter": st.just(number), "value": value}) for number, value in enumerate(values)
    ]
    return st.one_of(each)


@st.composite
def meadow_inputs(draw: st.DrawFn, config: dict[str, Any]) -> dict[str, Any]:
    """One valid input for the meadow of this plain configuration."""
    grid, eaters = config["grid"], config["herbivores"]
    cell = {"x": st.integers(0, grid["width"] - 1), "y": st.integers(0, grid["height"] - 1)}
    breeze = st.one_of(st.integers(-3 << 16, 3 << 16), breezes().map(lambda part: int(part * 65_536)))
    radius, swarm = st.integers(0, 4), st.integers(1, 6)  # Ids that are often those of a living swarm.
    plant_species, species = st.integers(0, len(config["flora"]) - 1), st.integers(0, max(0, len(eaters) - 1))
    keys: dict[str, dict[str, st.SearchStrategy[Any]]] = {
        "plant": {"species": plant_species, **cell},
        "wind": {"east": breeze, "south": breeze},
        "gust": {**cell, "radius": radius, "east": breeze, "south": breeze},
        "drought": {"ticks": st.integers(0, 15) | st.integers(0, 1), "percent": st.integers(0, 200)},
        "steer": {"swarm": swarm, "direction": st.integers(0, 4)},
        "split": {"swarm": swarm},
    }
    if eaters:
        keys["release"] = {"species": species, **cell, "population": st.integers(1, 9)}
        keys["spawn"] = {"species": species, **cell, "population": st.integers(1, 9)}
        keys["cull"] = {"species": species, **cell, "radius": radius, "percent": st.sampled_from((100, 50, 10, 0))}
    kind = draw(st.sampled_from([*keys, "set", *(("steer", "split", "spawn", "release") if eaters else ())]))
    one = draw(_parameter_values() if kind == "set" else st.fixed_dictionaries(keys[kind]))
    if kind == "release" and eaters[one["species"]].get("split_population") == HARDLY_EVER:
        one["population"] = draw(st.integers(1, 9) | st.integers(HARDLY_EVER - 3, HARDLY_EVER))
    return {"kind": kind, **one}


def small_meadow(**changes: Any) -> dict[str, Any]:
    """The plain configuration of a 6 × 5 meadow with one idle plant species; changes replace whole keys.

    Without growth (growth_percent 0) and with reproduction a million ticks away, nothing happens without inputs.
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
