"""Tapes of small simulations, read by the second reader and compared with the live runs; and SPEC.md's own example."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recorder import Recorder
from sim import Blob, Field, Schema, State, Table

from oracle.fake_logs import MemoryLog, use_log
from oracle.second_reader import Reader, field_of
from small_worlds import Herd, Saved, Walkers

SPEC = Path(__file__).parents[2] / "SPEC.md"


class Counter:
    """The simulation of SPEC.md's example."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("count", "i8")))

    def step(self, inputs: int) -> None:
        self.state["count"][...] += inputs


Counter.__module__, Counter.__qualname__ = "example", "Counter"


def test_the_example_in_the_specification(tmp_path: Path) -> None:
    """The hex dump in SPEC.md is exactly what the recorder writes, and the second reader reads it."""
    path = tmp_path / "run.tape"
    with Recorder(path, Counter(), keyframe_interval_ticks=2, deterministic=True, run_id=bytes(range(16))) as tape:
        tape.step(1)
        tape.step(2)
    rows = re.findall(r"^([0-9a-f]{4})  ((?:[0-9a-f]{2} ?)+)", SPEC.read_text(encoding="utf-8"), re.MULTILINE)
    shown = b""
    for offset, row in rows:
        assert int(offset, 16) == len(shown)
        shown += bytes.fromhex(row)

    assert shown == path.read_bytes()
    reader = Reader(shown)
    assert [(tick, inputs) for tick, _, inputs in reader.frames()] == [(1, 1), (2, 2)]
    assert [(k.tick, k.is_full, field_of(k, "count").tolist()) for k in reader.keyframes()] == [
        (0, True, 0),
        (2, False, 3),
    ]


Live = dict[int, tuple[int, bytes, dict[str, np.ndarray]]]


def record_live(path: Any, simulation: Any, inputs: list[Any], **settings: Any) -> Live:
    """Record a run; hash, arena and fields of the live state at every tick."""
    live: Live = {}

    def look(tick: int) -> None:
        state = tape.simulation.state
        live[tick] = (state.hash(), state.arena.tobytes(), {name: state[name].copy() for name in state})

    with Recorder(path, simulation, **settings) as tape:
        look(0)
        for tick, given_inputs in enumerate(inputs, start=1):
            tape.step(given_inputs)
            look(tick)
    return live


def assert_agrees(data: bytes, live: Live, inputs: list[Any], interval_ticks: int, full_every: int) -> None:
    """What the second reader finds is what the live run was."""
    reader = Reader(data)
    frames = list(reader.frames())
    assert [(tick, state_hash) for tick, state_hash, _ in frames] == [(t, live[t][0]) for t in live if t]
    assert repr([given_inputs for _, _, given_inputs in frames]) == repr(inputs)
    keyframes = list(reader.keyframes())
    assert [keyframe.tick for keyframe in keyframes] == list(range(0, len(inputs) + 1, interval_ticks))
    assert all(k.is_full for number, k in enumerate(keyframes) if number % full_every == 0)
    for keyframe in keyframes:
        state_hash, arena, fields = live[keyframe.tick]
        assert (keyframe.state_hash, keyframe.arena) == (state_hash, arena)
        assert [name for name in keyframe.layout if name != "#counts"] == list(fields)
        for name, values in fields.items():
            found = field_of(keyframe, name)
            assert found.dtype == values.dtype
            assert found[: len(values)].tobytes() == values.tobytes() if values.ndim else found == values
    assert reader.seal is not None
    assert (reader.seal["frame_count"], reader.seal["last_tick"]) == (len(inputs), len(inputs))


@pytest.mark.parametrize("simulation", [Walkers, Herd, Saved], ids=lambda simulation: simulation.__name__)
def test_small_worlds(tmp_path: Path, simulation: Any) -> None:
    """Fixed fields, a table that grows and shrinks, a blob that changes its length, and a save/load simulation."""
    inputs: list[Any] = list(range(60)) if simulation is Saved else [None] * 60
    path = tmp_path / "run.tape"
    live = record_live(path, simulation(), inputs, keyframe_interval_ticks=4, full_every=5)

    assert_agrees(path.read_bytes(), live, inputs, 4, 5)
    kinds = {keyframe.is_full for keyframe in Reader(path.read_bytes()).keyframes()}
    assert kinds == {True, False}


class Drawn:
    """A simulation of any schema; its inputs are seeds for what it writes."""

    def __init__(self, schema: Schema) -> None:
        self.state = State(schema)

    def step(self, inputs: int) -> None:
        random, state = np.random.default_rng(inputs), self.state
        for entry in state.layout.schema.entries:
            if random.random() < 0.4:
                continue
            if isinstance(entry, Blob):
                state.set_blob(entry.name, random.bytes(int(random.integers(0, 40))))
            elif isinstance(entry, Table):
                state.truncate_rows(entry.name, int(random.integers(0, state.count(entry.name) + 1)))
                state.add_rows(entry.name, int(random.integers(0, 4)))
                for column in entry.columns:
                    self._scribble(state[f"{entry.name}.{column.name}"], random)
            else:
                self._scribble(state[entry.name], random)

    @staticmethod
    def _scribble(array: np.ndarray, random: np.random.Generator) -> None:
        some = random.random(array.shape) < random.random()
        array[some] = random.integers(0, 100, int(some.sum())).astype(array.dtype)


dtypes = st.sampled_from(["b1", "i1", "u1", "i2", "u2", ">i4", "u4", "i8", "u8", "f2", "f4", ">f8", "c8", "c16"])
shapes = st.lists(st.integers(0, 5), max_size=3).map(tuple)
names = st.text("abcXYZ_09.-", min_size=1, max_size=6).map(lambda text: f"n{text}")


@st.composite
def fields(draw: st.DrawFn, name: str) -> Field:
    """A field of any dtype and shape."""
    shape = draw(shapes)
    return Field(name, draw(dtypes), shape, row_axes=draw(st.integers(0, len(shape))), hot=draw(st.booleans()))


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """One to five entries of any kind."""
    entries: list[Any] = []
    for name in draw(st.lists(names.filter(lambda name: "." not in name), min_size=1, max_size=5, unique=True)):
        kind = draw(st.sampled_from(["field", "table", "blob"]))
        if kind == "field":
            entries.append(draw(fields(name)))
        elif kind == "blob":
            entries.append(Blob(name, capacity=draw(st.integers(1, 9))))
        else:
            columns = draw(st.lists(names, min_size=1, max_size=3, unique=True))
            capacity = draw(st.integers(1, 4))
            entries.append(Table(name, *(draw(fields(column)) for column in columns), capacity=capacity))
    return Schema(*entries)


@given(schemas(), st.lists(st.integers(0, 2**32), max_size=20), st.integers(1, 5), st.integers(1, 4), st.booleans())
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_simulation(
    monkeypatch: pytest.MonkeyPatch,
    schema: Schema,
    inputs: list[int],
    interval_ticks: int,
    full_every: int,
    many: bool,  # noqa: FBT001
) -> None:
    """Tapes of any schema, cadence and length are read by the second reader as what the run was."""
    log = use_log(monkeypatch, MemoryLog())
    if many:
        monkeypatch.setattr("recorder.format.encoder.INDEX_BLOCKS", 4)
    settings = {"keyframe_interval_ticks": interval_ticks, "full_every": full_every, "deterministic": True}
    live = record_live("memory", Drawn(schema), inputs, **settings)
    monkeypatch.undo()

    assert_agrees(log.data, live, inputs, interval_ticks, full_every)
    assert log.closed


def test_inputs_of_every_kind(tmp_path: Path) -> None:
    """Inputs come out of the tape as they went in: plain values, nested ones, arrays and NumPy numbers."""

    class Deaf:
        def __init__(self) -> None:
            self.state = State(Schema(Field("nothing", "f4", (0,))))

        def step(self, inputs: Any) -> None:
            """Do nothing."""

    inputs = [None, True, -1, 2**64 - 1, 1.5, "ä", b"\0", [1, [2]], {"a": {1: None}}, np.float32(2), np.arange(6.0).reshape(2, 3),
              {"x": [np.zeros((0, 2), "u1")]}]  # fmt: skip
    path = tmp_path / "run.tape"
    record_live(path, Deaf(), inputs)
    reader = Reader(path.read_bytes())

    assert repr([given_inputs for _, _, given_inputs in reader.frames()]) == repr(inputs)
    assert [keyframe.arena for keyframe in reader.keyframes()] == [b""]


def test_meta(tmp_path: Path) -> None:
    """META holds the keys that SPEC.md lists, two of them only where the tape need not be the same each time."""
    keys = ["world", "simulation", "mode", "hash", "random", "keyframe_interval_ticks", "full_every"]
    for deterministic, more in ((True, []), (False, ["environment", "created"])):
        path = tmp_path / f"{deterministic}.tape"
        record_live(path, Counter(), [], deterministic=deterministic, keyframe_interval_ticks=7, full_every=3)
        meta = Reader(path.read_bytes()).meta
        assert list(meta) == keys + more
        assert (meta["world"], meta["simulation"], meta["mode"], meta["hash"]) == (
            None,
            "example.Counter",
            "events",
            "xxh3-64",
        )
        assert (meta["keyframe_interval_ticks"], meta["full_every"]) == (7, 3)
