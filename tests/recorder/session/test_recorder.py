"""The recorder: when keyframes are recorded, what is refused, how a recording ends."""

from __future__ import annotations

import datetime as dt
import fcntl
import os
import sys
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from recorder import Recorder, SimulationFailedError
from recorder.format.limits import INPUT_BYTES_MAX
from replayer.tape.tape import Tape
from replayer.timeline.verify import check_seal
from sim import Field, Schema, State

from oracle.fake_files import MemoryFiles, use_files
from oracle.second_reader import Reader
from small_worlds import Herd, Saved, Walkers


class Counter:
    """Counts its steps and keeps its inputs."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("count", "i8")))
        self.given: list[Any] = []

    def step(self, inputs: Any) -> int:
        if inputs == "raise":
            self.state["count"][...] = -1
            raise ZeroDivisionError
        self.given.append(inputs)
        self.state["count"][...] += 1
        return int(self.state["count"])


@pytest.mark.parametrize(
    ("interval_ticks", "full_every", "full", "delta"),
    [
        (4, 3, [0, 12, 24], [4, 8, 16, 20]),
        (1, 2, list(range(0, 26, 2)), list(range(1, 26, 2))),
        (10, 1, [0, 10, 20], []),
        (25, 10, [0], [25]),
        (26, 10, [0], []),
    ],
)
def test_when_keyframes_come(
    tmp_path: Path, interval_ticks: int, full_every: int, full: list[int], delta: list[int]
) -> None:
    """Tick 0 and each interval have a keyframe; each full_every-th of them is full."""
    path = tmp_path / "run.tape"
    settings: Any = {"keyframe_interval_ticks": interval_ticks, "full_every": full_every}
    with Recorder(path, Counter(), deterministic=True, **settings) as tape:
        for _ in range(25):
            tape.step()
    keyframes = list(Reader(path.read_bytes()).keyframes())

    assert [keyframe.tick for keyframe in keyframes if keyframe.is_full] == full
    assert [keyframe.tick for keyframe in keyframes if not keyframe.is_full] == delta


def test_by_default_a_keyframe_comes_every_300_ticks_and_each_tenth_is_full(tmp_path: Path) -> None:
    """The others are deltas."""
    path = tmp_path / "run.tape"
    with Recorder(path, Counter()) as tape:
        for _ in range(3_300):
            tape.step()
    found = {keyframe.tick: keyframe.is_full for keyframe in Reader(path.read_bytes()).keyframes()}
    assert found == {tick: tick % 3_000 == 0 for tick in range(0, 3_301, 300)}


@pytest.mark.parametrize("simulation", [Walkers, Herd, Saved], ids=lambda simulation: simulation.__name__)
def test_the_same_run_twice_gives_the_same_bytes(tmp_path: Path, simulation: Any) -> None:
    """With deterministic, simulation and inputs decide every byte; without, each run has its own id."""
    written: dict[bool, set[bytes]] = {True: set(), False: set()}
    for number in range(2):
        for deterministic, found in written.items():
            path = tmp_path / f"{number}{deterministic}.tape"
            with Recorder(path, simulation(), keyframe_interval_ticks=3, deterministic=deterministic) as tape:
                for tick in range(40):
                    tape.step(tick if simulation is Saved else None)
            found.add(path.read_bytes())
    assert (len(written[True]), len(written[False])) == (1, 2)


def test_every_way_of_tracking_changes_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks, scan and audit record the same keyframes."""
    written = set()
    for changes in ("auto", "marks", "scan", "audit"):
        files = use_files(monkeypatch, MemoryFiles())
        with Recorder("memory", Herd(), keyframe_interval_ticks=3, changes=changes, deterministic=True) as tape:
            for _ in range(40):
                tape.step()
        written.add(bytes(files.segments[0]))
    assert len(written) == 1


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"keyframe_interval_ticks": 0}, ValueError),
        ({"full_every": 0}, ValueError),
        ({"run_id": b""}, ValueError),
        ({"run_id": bytes(15)}, ValueError),
        ({"run_id": bytes(17)}, ValueError),
        ({"changes": "guess"}, ValueError),
        *(({"sync": sync}, ValueError) for sync in ("", "1", "s", "-1s", "0s", "25h", "1.s", "always", "1s ")),
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused(tmp_path: Path, settings: Any, error: type[Exception]) -> None:
    """A setting out of its range raises, and no file is made."""
    with pytest.raises(error):
        Recorder(tmp_path / "run.tape", Counter(), **settings)
    assert list(tmp_path.iterdir()) == []


def test_an_object_that_is_not_a_simulation_is_refused(tmp_path: Path) -> None:
    """An object without state and step is a TypeError, and no file is made."""
    for candidate in (object(), Counter, None):
        with pytest.raises(TypeError):
            Recorder(tmp_path / "run.tape", candidate)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sync", ["block", "never", "1ms", "0.2s", "1s"])
def test_every_way_of_syncing_gives_an_intact_tape(tmp_path: Path, sync: str) -> None:
    """With every value of sync the tape is complete after close, and its statistics are right."""
    path = tmp_path / "run.tape"
    with Recorder(path, Counter(), sync=sync, keyframe_interval_ticks=2) as tape:
        for tick in range(1, 6):
            assert tape.step() == tick
        tape.flush()
        assert len(list(Reader(path.read_bytes()).frames())) == 5
    figures = tape.statistics()
    assert len(list(Reader(path.read_bytes()).frames())) == 5
    assert (figures.tick, figures.writer.frame_count, figures.writer.written_bytes) == (5, 5, path.stat().st_size)
    assert (figures.writer.sync_count == 0) == (sync == "never")


def test_an_existing_file_is_refused(tmp_path: Path) -> None:
    """An existing file is not changed."""
    path = tmp_path / "run.tape"
    path.write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        Recorder(path, Counter())
    assert path.read_bytes() == b"precious"


def test_the_tape_is_locked_until_it_is_closed(tmp_path: Path) -> None:
    """No other writer gets the lock during the recording; after close it is free."""
    path = tmp_path / "run.tape"
    with Recorder(path, Counter()) as tape:
        tape.flush()
        descriptor = os.open(path, os.O_WRONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


@attrs.define
class Order:
    """An object that is not plain data."""

    what: str = "go"


@pytest.mark.parametrize(
    "inputs",
    [object(), [1, {"a": object()}], Order(), {1, 2}, frozenset(), dt.datetime(2020, 1, 1), [dt.date(2020, 1, 1)],  # noqa: DTZ001
     dt.datetime(2020, 1, 1, tzinfo=dt.UTC), np.array(["x"]), np.datetime64(1, "s"), 1j, {"a": (Order(),)}],
    ids=lambda inputs: type(inputs).__name__,
)  # fmt: skip
def test_inputs_that_would_not_come_back_are_refused(tmp_path: Path, inputs: Any) -> None:
    """Such inputs are a TypeError at the first tick; nothing has happened, and the recording continues."""
    path = tmp_path / "run.tape"
    simulation = Counter()
    with Recorder(path, simulation) as tape:
        with pytest.raises(TypeError):
            tape.step(inputs)
        assert (tape.tick, simulation.given, int(simulation.state["count"])) == (0, [], 0)
        tape.step((1, [2]))
    assert [(tick, given) for tick, _, given in Reader(path.read_bytes()).frames()] == [(1, [1, [2]])]


def test_inputs_that_have_no_bytes_are_refused_at_every_tick(tmp_path: Path) -> None:
    """Objects and integers beyond 64 bits are refused at any tick, before the simulation sees them."""
    simulation = Counter()
    with Recorder(tmp_path / "run.tape", simulation) as tape:
        for tick in range(3):
            for inputs in (object(), 2**64, -(2**63) - 1, "\ud800"):
                with pytest.raises((TypeError, ValueError, OverflowError)):
                    tape.step(inputs)
                assert (tape.tick, simulation.given) == (tick, list(range(tick)))
            tape.step(tick)


def test_the_longest_inputs(tmp_path: Path) -> None:
    """Inputs of 16 MiB when encoded are recorded; one byte more is refused before the simulation sees them."""
    path = tmp_path / "run.tape"
    simulation = Counter()
    longest = bytes(INPUT_BYTES_MAX - 5)  # Five bytes for the binary type and the length.
    with Recorder(path, simulation) as tape:
        tape.step(longest)
        with pytest.raises(ValueError, match="16777217 bytes, expected at most 16777216"):
            tape.step(longest + b"\0")
        assert (tape.tick, len(simulation.given), int(simulation.state["count"])) == (1, 1, 1)
        tape.step(2)
    assert [given for _, _, given in Reader(path.read_bytes()).frames()] == [longest, 2]


def test_a_step_that_raises_ends_the_tape_before_it(tmp_path: Path) -> None:
    """The exception is the user's own; the tape is sealed, ends at the tick before, and names the exception."""
    path = tmp_path / "run.tape"

    def run() -> None:
        with Recorder(path, Counter(), keyframe_interval_ticks=1) as tape:
            for inputs in (1, 2, "raise"):
                tape.step(inputs)

    with pytest.raises(ZeroDivisionError):
        run()
    with Tape(path) as read:
        assert (read.last_tick, check_seal(read), read.check_blocks(), read.status) == (2, [], [], "intact")
        assert [int(read.snapshot(place)["count"]) for place in read.keyframes] == [0, 1, 2]
        assert read.outcome == {
            "reason": "exception",
            "exception": "ZeroDivisionError: ",
            "step": {"tick": 3, "inputs": "raise"},  # Which no frame has: they show how to raise it again.
        }


def test_after_a_step_that_raised_nothing_is_recorded(tmp_path: Path) -> None:
    """The state belongs to no tick: step and flush raise SimulationFailedError; close seals."""
    path = tmp_path / "run.tape"
    tape = Recorder(path, Counter())
    tape.step(1)
    with pytest.raises(ZeroDivisionError):
        tape.step("raise")
    for call in (tape.step, tape.flush):
        with pytest.raises(SimulationFailedError) as caught:
            call()
        assert caught.value.tick == 2
    tape.close()
    assert [tick for tick, _, _ in Reader(path.read_bytes()).frames()] == [1]


def test_closing_twice_and_using_after_close(tmp_path: Path) -> None:
    """A second close changes nothing; step and flush after close raise ValueError, and nothing is stepped."""
    path = tmp_path / "run.tape"
    simulation = Counter()
    tape = Recorder(path, simulation)
    tape.step()
    tape.close({"reason": "enough"})
    data = path.read_bytes()
    tape.close({"reason": "again"})
    for call in (tape.step, tape.flush):
        with pytest.raises(ValueError, match="closed"):
            call()
    assert path.read_bytes() == data
    assert (tape.tick, len(simulation.given)) == (1, 1)
    assert Reader(data).seal["outcome"] == {"reason": "enough"}


def test_an_outcome_that_is_not_plain_data_is_refused(tmp_path: Path) -> None:
    """close raises TypeError; the recording is still open and can be closed with a different outcome."""
    path = tmp_path / "run.tape"
    with Recorder(path, Counter()) as tape:
        with pytest.raises(TypeError):
            tape.close(object())
        tape.step()
    assert Reader(path.read_bytes()).seal["outcome"] == {"reason": "closed"}


def test_a_forgotten_recorder_writes_its_ticks(tmp_path: Path) -> None:
    """Deleted without close: a ResourceWarning names the file; all ticks are on the tape, unsealed."""
    path = tmp_path / "run.tape"
    tape = Recorder(path, Counter())
    for _ in range(5):
        tape.step()
    with pytest.warns(ResourceWarning, match=str(path)):
        del tape
    reader = Reader(path.read_bytes())
    assert (len(list(reader.frames())), reader.seal) == (5, None)


def test_a_forgotten_recorder_writes_its_ticks_where_warnings_are_errors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The warning, which cannot be caught here, comes after the ticks were written."""
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    path = tmp_path / "run.tape"
    tape = Recorder(path, Counter())
    tape.step()
    del tape
    assert [type(found.exc_value) for found in unraisable] == [ResourceWarning]
    unraisable.clear()
    assert len(list(Reader(path.read_bytes()).frames())) == 1


def test_a_tape_without_ticks(tmp_path: Path) -> None:
    """A recording that was closed at once holds its first state."""
    path = tmp_path / "run.tape"
    Recorder(path, Counter()).close()
    reader = Reader(path.read_bytes())
    assert ([keyframe.tick for keyframe in reader.keyframes()], list(reader.frames())) == ([0], [])


def test_a_refused_recording_leaves_the_state_as_it_was(tmp_path: Path) -> None:
    """After FileExistsError no change masks are left on the state: its writes cost what they did before."""
    path = tmp_path / "run.tape"
    path.write_bytes(b"")
    herd = Herd()
    with pytest.raises(FileExistsError):
        Recorder(path, herd, changes="audit")

    assert herd.state._marks == []


def test_a_masked_array_is_refused(tmp_path: Path) -> None:
    """A masked array is refused because its mask would be lost."""
    with Recorder(tmp_path / "run.tape", Walkers()) as tape, pytest.raises(TypeError, match="MaskedArray"):
        tape.step(np.ma.masked_less(np.arange(3), 1))
