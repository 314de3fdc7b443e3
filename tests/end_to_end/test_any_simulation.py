"""Properties of recording and seeking that hold for any schema, any writes and any cadence."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import replayer
from recorder.session.pages.userfaultfd import obstacle
from sim import Blob, Field, Schema, State, Table

from small_worlds import record

DTYPES = ["?", "i1", "<u2", "<i4", "<f4", "<i8", "<f8", "<c16"]
NAMES = ["alpha", "beta", "gamma", "delta"]
WAYS = ("marks", "scan", "audit") if obstacle() else ("marks", "scan", "pages", "audit")


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """One to four entries of every kind, including sizes of zero."""
    entries: list[Any] = []
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)):
        dtype = draw(st.sampled_from(DTYPES))
        match draw(st.sampled_from(["field", "table", "blob"])):
            case "field":
                shape = tuple(draw(st.lists(st.integers(0, 5), max_size=3)))
                row_axes = draw(st.integers(0, len(shape)))
                entries.append(Field(name, dtype, shape, row_axes=row_axes, hot=draw(st.booleans())))
            case "table":
                columns = [Field("a", dtype), Field("b", draw(st.sampled_from(DTYPES)), (draw(st.integers(0, 3)),))]
                entries.append(Table(name, *columns, capacity=draw(st.integers(1, 4))))
            case "blob":
                entries.append(Blob(name, capacity=draw(st.integers(1, 9))))
    return Schema(*entries)


class Written:
    """A simulation whose inputs name its writes: a list of [entry, kind, number, content]."""

    marks_writes = True

    def __init__(self, schema: Schema) -> None:
        self.state = State(schema)

    def step(self, inputs: Any) -> None:
        entries = self.state.layout.schema.entries
        for place, choice, number, content in inputs:
            entry = entries[place % len(entries)]
            match entry:
                case Blob():
                    self.state.set_blob(entry.name, content)
                case Table() if choice == 0:
                    self.state.add_rows(entry.name, number % 4)
                case Table() if choice == 1:
                    self.state.truncate_rows(entry.name, number % (self.state.count(entry.name) + 1))
                case Table():
                    self.write(f"{entry.name}.{entry.columns[choice % 2].name}", choice, number, content)
                case Field():
                    self.write(entry.name, choice, number, content)

    def write(self, name: str, choice: int, number: int, content: bytes) -> None:
        """Write some rows of a field through set, or through a view with a mark."""
        slot = self.state.layout.slots[name]
        rows = self.state[name].reshape(-1) if not slot.rows_shape else self.state[name]
        row_count = len(rows) if slot.owner else slot.row_count
        if not row_count or not slot.row_bytes:
            return
        one_row = np.resize(np.frombuffer(content + b"\1", np.uint8), slot.row_bytes)
        if slot.dtype.kind == "b":
            one_row &= 1
        values = one_row.view(slot.dtype).reshape(slot.shape[len(slot.rows_shape) :])
        chosen = number % row_count
        if choice % 2:
            self.state.set(name, chosen, values)
        else:
            self.state[name].reshape(row_count, *values.shape)[chosen] = values
            self.state.mark(name, [chosen])


WRITES = st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 50), st.binary(max_size=12))
RUNS = st.lists(st.lists(WRITES.map(list), max_size=4), max_size=25)


@given(schema=schemas(), inputs=RUNS, interval=st.integers(1, 9), full_every=st.integers(1, 4), seed=st.randoms())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_marked_and_scanned_recordings_are_equal_and_every_sought_state_is_live(
    schema: Schema, inputs: list[Any], interval: int, full_every: int, seed: Any
) -> None:
    """Marks, scan, pages and audit write the same bytes; each tick, sought in any order, is the live state."""
    folder = Path(tempfile.mkdtemp())
    try:
        tapes: dict[str, bytes] = {}
        live: dict[int, bytes] = {}
        cadence = {"keyframe_interval_ticks": interval, "full_every": full_every}
        for changes in WAYS:
            path = folder / f"{changes}.tape"
            live = record(path, Written(schema), inputs, changes=changes, deterministic=True, sync="never", **cadence)
            tapes[changes] = path.read_bytes()
        assert len(set(tapes.values())) == 1

        with replayer.open(folder / "marks.tape", lambda: Written(schema)) as run:
            order = list(live)
            seed.shuffle(order)
            for tick in order:
                report = run.seek(tick)
                assert run.state.arena.tobytes() == live[tick]
                assert report.simulated_ticks < interval
            for keyframe in run.tape.keyframes:
                assert run.tape.snapshot(keyframe).arena.tobytes() == live[keyframe.tick]
            assert run.verify().ok
    finally:
        shutil.rmtree(folder)
