"""Tapes of small simulations, read by the second reader and compared with the live runs; the examples in SPEC.md."""

from __future__ import annotations

import re
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder import Recorder
from sim import Blob, Field, Schema, State, Table
from sim.kernel.hooks import Phase
from sim.kernel.simulation import run_phases

from oracle.live_runs import assert_whole, record_live
from oracle.second_checks import CheckedTape, field_hashes, field_of
from oracle.second_reader import unpack
from project_paths import ROOT
from small_worlds import Herd, Saved, Walkers

SPEC = ROOT / "SPEC.md"


class Counter:
    """The simulation of SPEC.md's example."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("count", "i8")))

    def step(self, inputs: int) -> None:
        self.state["count"][...] += inputs


Counter.__module__, Counter.__qualname__ = "example", "Counter"


def shown_in_specification(title: str) -> bytes:
    """The bytes of the hex dump with this title."""
    text = SPEC.read_text(encoding="utf-8")
    (dump,) = re.findall(rf"^```\n{title}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    shown = b""
    for offset, row in re.findall(r"^([0-9a-f]{4})  ((?:[0-9a-f]{2} ?)+)", dump, re.MULTILINE):
        assert int(offset, 16) == len(shown)
        shown += bytes.fromhex(row)
    return shown


def test_the_examples_in_the_specification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hex dumps in SPEC.md are exactly the recorder's bytes, and the second reader reads them."""
    monkeypatch.setattr("recorder.writer.journal.AREA_BYTES", 64)
    path = tmp_path / "run.tape"
    with Recorder(path, Counter(), keyframe_interval_ticks=2, deterministic=True, run_id=bytes(range(16))) as tape:
        tape.step(1)
        tape.step(2)
        journal = path.with_name("run.tape.journal").read_bytes()

    assert shown_in_specification("file header") == path.read_bytes()
    reader = CheckedTape(path)
    assert [(tick, inputs) for tick, _, inputs in reader.frames()] == [(1, 1), (2, 2)]
    assert [(k.tick, k.is_full, field_of(k, "count").tolist()) for k in reader.keyframes()] == [
        (0, True, 0),
        (2, False, 3),
    ]
    assert shown_in_specification("journal header") == journal
    path.with_name("run.tape.journal").write_bytes(journal)
    assert list(CheckedTape(path).journal.values()) == list(reader.frames()) == list(CheckedTape(path).frames())


@pytest.mark.parametrize("simulation", [Walkers, Herd, Saved], ids=lambda simulation: simulation.__name__)
def test_small_worlds(tmp_path: Path, simulation: Any) -> None:
    """Fixed fields, a table that grows and shrinks, a blob that changes its length, and a save/load simulation."""
    inputs: list[Any] = list(range(60)) if simulation is Saved else [None] * 60
    path = tmp_path / "run.tape"
    live = record_live(path, simulation(), inputs, keyframe_interval_ticks=4, full_every=5)

    assert_whole(CheckedTape(path), live, inputs, 4, 5)
    assert {keyframe.is_full for keyframe in CheckedTape(path).keyframes()} == {True, False}


@pytest.mark.parametrize("simulation", [Walkers, Herd, Saved], ids=lambda simulation: simulation.__name__)
def test_field_hashes(tmp_path: Path, simulation: Any) -> None:
    """Frames have 16 bits of each field's hash; at the ticks of keyframes they match the states there."""
    path = tmp_path / "run.tape"
    record_live(
        path, simulation(), list(range(1, 41)) if simulation is Saved else [None] * 40, keyframe_interval_ticks=3
    )
    tape = CheckedTape(path)
    said = {frame[0]: frame[3:] for block in tape.blocks if block.kind == 2 for frame in unpack(block.payload)}
    found = [(said[keyframe.tick], [field_hashes(keyframe)]) for keyframe in tape.keyframes() if keyframe.tick]
    assert len(found) == 13
    for one, other in found:
        assert one == other


def test_phase_hashes(tmp_path: Path) -> None:
    """With blame="phases" frames have 16 bits of the state's hash after each phase; META names the phases."""
    path = tmp_path / "run.tape"
    herd = Phased()
    record_live(path, herd, [1, 2, 3], blame="phases", keyframe_interval_ticks=2)
    tape = CheckedTape(path)
    assert tape.meta["phases"] == ["add", "double"]
    frames = [frame for block in tape.blocks if block.kind == 2 for frame in unpack(block.payload)]
    assert [frame[4] for frame in frames] == [b"".join(pair) for pair in pairwise(herd.seen)][::2]
    assert all(frame[4][2:] == (frame[1] & 0xFFFF).to_bytes(2, "big") for frame in frames)


@pytest.mark.parametrize(("blame", "lengths"), [("none", {3}), ("auto", {4}), ("fields", {4})])
def test_how_much_frames_say(tmp_path: Path, blame: Any, lengths: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames have only the state hash if that was requested, or if the state is large."""
    for most in (1 << 20, 1):
        monkeypatch.setattr("recorder.session.blame_hashes.AUTO_BYTES_MAX", most)
        path = tmp_path / f"{most}.tape"
        record_live(path, Walkers(), [None] * 3, blame=blame)
        frames = [frame for block in CheckedTape(path).blocks if block.kind == 2 for frame in unpack(block.payload)]
        assert {len(frame) for frame in frames} == ({3} if (blame, most) == ("auto", 1) else lengths)


class Phased:
    """Two phases, with the hash of the state after each."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("n", "i8")))
        self.phases = (Phase("add", self._add), Phase("double", self._double))
        self.seen: list[bytes] = []

    def _add(self, inputs: int) -> None:
        self.state["n"][...] += inputs
        self.seen.append((self.state.hash() & 0xFFFF).to_bytes(2, "big"))

    def _double(self, _: int) -> None:
        self.state["n"][...] *= 2
        self.seen.append((self.state.hash() & 0xFFFF).to_bytes(2, "big"))

    def step(self, inputs: int) -> None:
        """One tick."""
        run_phases(self.phases, inputs)


class Drawn:
    """A simulation of any schema; its inputs are seeds for its writes."""

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


@given(
    schemas(),
    st.lists(st.integers(0, 2**32), max_size=20),
    st.integers(1, 5),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([None, 1, 2000]),
)
@settings(deadline=None, max_examples=30)
def test_any_simulation(
    schema: Schema,
    inputs: list[int],
    interval_ticks: int,
    full_every: int,
    many: bool,  # noqa: FBT001
    split: int | None,
) -> None:
    """Tapes of any schema, interval and length, in one file or several: the second reader finds the run."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
        if many:
            monkeypatch.setattr("recorder.format.segments.segment_encoder.INDEX_BLOCKS", 4)
        path = Path(folder) / "run.tape"
        cadence = {"keyframe_interval_ticks": interval_ticks, "full_every": full_every}
        live = record_live(path, Drawn(schema), inputs, **cadence, split=split, deterministic=True)
        found = CheckedTape(path)

        assert_whole(found, live, inputs, interval_ticks, full_every)
        assert split != 1 or len(found.segments) == 1 + len(inputs) // interval_ticks


def test_inputs_of_every_kind(tmp_path: Path) -> None:
    """Inputs are read back unchanged: plain values, nested ones, arrays and NumPy numbers."""

    class Deaf:
        def __init__(self) -> None:
            self.state = State(Schema(Field("nothing", "f4", (0,))))

        def step(self, inputs: Any) -> None:
            """Do nothing."""

    inputs = [None, True, -1, 2**64 - 1, 1.5, "ä", b"\0", [1, [2]], {"a": {1: None}}, np.float32(2), np.arange(6.0).reshape(2, 3),
              {"x": [np.zeros((0, 2), "u1")]}]  # fmt: skip
    path = tmp_path / "run.tape"
    record_live(path, Deaf(), inputs)

    assert repr([given_inputs for _, _, given_inputs in CheckedTape(path).frames()]) == repr(inputs)
    assert [keyframe.arena for keyframe in CheckedTape(path).keyframes()] == [b""]


SETTINGS = {
    "keyframe_interval_ticks": 7,
    "full_every": 3,
    "durability": "block",
    "sync_interval_s": 0.5,
    "sync_each_block": False,
    "on_error": "raise",
    "keep_ticks": None,
    "keep_s": None,
    "split_bytes": 2_000_000,
    "deterministic": True,
    "blame": "auto",
}


def test_meta(tmp_path: Path) -> None:
    """META has the keys that SPEC.md lists, three of them only if the tape need not be reproducible."""
    keys = ["world", "simulation", "mode", "hash", "random", "settings", "notes"]
    told = {"durability": "block", "sync": "0.5s", "on_error": "raise", "split": "2MB", "notes": {"who": ["me", 1]}}
    for deterministic, more in ((True, []), (False, ["environment", "outside", "created"])):
        path = tmp_path / f"{deterministic}.tape"
        cadence = {"keyframe_interval_ticks": 7, "full_every": 3}
        record_live(path, Counter(), [], deterministic=deterministic, **cadence, **told)
        meta = CheckedTape(path).meta
        assert list(meta) == keys + more
        assert [meta[key] for key in keys[:4]] == [None, "example.Counter", "events", "xxh3-64"]
        assert meta["settings"] == {**SETTINGS, "deterministic": deterministic}
        assert list(meta["settings"]) == list(SETTINGS)
        assert meta["notes"] == {"who": ["me", 1]}
