"""Tapes with the changes of each tick: every tick is reached without a step, in all recordings and after losses."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from recorder import Recorder
from recorder.errors import MissingTickError
from recorder.format.blocks.block import BlockKind
from recorder.format.recording.change_replay import ChangeLog
from recorder.storage.file_names import segment_numbers
from replayer.commands.main import main
from replayer.repair.repair import repair_tape
from replayer.timeline.verify import verify_tape
from sim import Field, Schema, State
from sim.kernel.changes.row_changes import UnmarkedWriteError
from sim.kernel.registry import UnknownWorldError

from oracle.crashes import lay_out
from oracle.fake_files import MemoryFiles, use_files
from oracle.naive_changes import apply, changes_of
from oracle.repair_runs import all_blocks, destroy
from oracle.second_reader import Reader
from small_worlds import Herd, Kinds, Saved, Walkers, record

TICKS = 60


class Counter:
    """Counts the steps of all its instances."""

    steps = 0

    def __init__(self) -> None:
        self.state = State(Schema(Field("sum", "i8"), Field("noise", "f8", (3,))))

    def step(self, inputs: Any) -> None:
        """Not deterministic: no replay would give this."""
        Counter.steps += 1
        self.state["sum"][...] += inputs
        self.state["noise"][:] = [random.random() for _ in range(3)]


def inputs_for(make: Any) -> list[Any]:
    """Inputs that a simulation accepts."""
    return [None if make in (Herd, Walkers) else tick * 7 % 50 for tick in range(1, TICKS + 1)]


def assert_reached_without_a_step(path: Path, make: Any, live: dict[int, bytes], ticks: Any) -> None:
    """In any order, by the change log alone."""
    with replayer.Timeline(path, make) as run:
        for tick in ticks:
            report = run.seek(tick)
            assert report.simulated_ticks <= 1, tick  # The next tick is a step all the same.
            assert run.state.arena.tobytes() == live[tick], tick
            assert report.state_hash == run.state.hash()


@pytest.mark.sample(6)
@pytest.mark.parametrize("make", [Herd, Walkers, Kinds, Saved])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"keyframe_interval_ticks": 7, "full_every": 3},
        {"deterministic": True, "durability": "block"},
        {"split": 2000, "keyframe_interval_ticks": 5},
        {"changes": "scan", "durability": "none"},
    ],
    ids=str,
)
def test_every_tick_is_the_live_state(tmp_path: Path, make: Any, settings: dict[str, Any]) -> None:
    """Tables that grow, every dtype, simulations with save and load; verified like any tape."""
    path = tmp_path / "run.tape"
    live = record(path, make(), inputs_for(make), mode="changes", **settings)
    numbers = random.Random(4)
    ticks = [*range(TICKS + 1), *range(TICKS, -1, -1), *(numbers.randrange(TICKS + 1) for _ in range(30))]
    with replayer.Timeline(path, make) as run:
        assert run.tape.logs_changes
        log = ChangeLog(run.tape.recording)
        assert log.missing_ticks() == []
        for tick in ticks:
            reached = log.reach(tick)
            assert reached is not None, tick
            assert reached.snapshot.arena.tobytes() == live[tick], tick
    assert_reached_without_a_step(path, make, live, ticks)
    assert verify_tape(path, make).ok


@pytest.mark.parametrize("make", [Kinds, Walkers])
def test_an_independent_reader_gets_the_live_states(tmp_path: Path, make: Any) -> None:
    """An encoder written after SPEC.md, number by number."""
    path = tmp_path / "run.tape"
    live = record(path, make(), inputs_for(make), mode="changes", keyframe_interval_ticks=20, full_every=1)
    reader = Reader(path.read_bytes())
    by_tick = defaultdict(list)
    for block in reader.blocks:
        if block.kind == BlockKind.CHANGES:
            for change in changes_of(block.payload):
                by_tick[change[0]].append(change)
    keyframes = {keyframe.tick: keyframe for keyframe in reader.keyframes()}
    arena, offsets, seed = bytearray(), dict[str, int](), None
    for tick in range(TICKS + 1):
        keyframe = keyframes.get(tick)
        if keyframe is not None and keyframe.seed != seed:
            arena, seed = bytearray(keyframe.arena), keyframe.seed
            offsets = {name: place[4] for name, place in keyframe.layout.items()}
        else:
            apply(arena, offsets, by_tick[tick])
        assert arena == live[tick], tick


def test_the_same_bytes_whatever_the_threads_do(tmp_path: Path) -> None:
    """deterministic is valid for the change log, too."""
    for name in ("one.tape", "two.tape"):
        record(tmp_path / name, Herd(), inputs_for(Herd), mode="changes", deterministic=True)
    assert (tmp_path / "one.tape").read_bytes() == (tmp_path / "two.tape").read_bytes()


def test_what_no_replay_would_give(tmp_path: Path) -> None:
    """States of a non-deterministic simulation are read with it and without it, and it does not step."""
    path = tmp_path / "run.tape"
    live = record(path, Counter(), inputs_for(Counter), mode="changes")
    Counter.steps = 0
    with replayer.Timeline(path) as run:
        assert [run[tick].arena.tobytes() for tick in range(TICKS + 1)] == list(live.values())
        run.seek(10)
        assert run.step().applied_ticks == 1
        assert run.step_back().tick == 10
    with replayer.Timeline(path, Counter) as run:
        assert [run[tick].arena.tobytes() for tick in range(TICKS, -1, -1)] == list(live.values())[::-1]
    assert Counter.steps == 0
    with replayer.Timeline(path, Counter) as run:
        run.seek(5)
        with pytest.warns(UserWarning, match="the steps to tick 6 give another state than the recorded one"):
            assert run.step().applied_ticks == 1
        assert run.state.arena.tobytes() == live[6]
        assert Counter.steps == 1
    assert verify_tape(path, Counter).first_bad == 1


def test_a_lost_block_costs_no_tick_of_a_simulation_that_can_step(tmp_path: Path) -> None:
    """Ticks without changes are listed, and simulated. Without the simulation they are missing."""
    path = tmp_path / "run.tape"
    made = {"keyframe_interval_ticks": 9, "full_every": 2, "mode": "changes"}
    live = record(path, Walkers(), inputs_for(Walkers), **made)
    data = path.read_bytes()
    blocks = [block for block in all_blocks(path) if block.kind == BlockKind.CHANGES]
    assert len(blocks) == 7
    for block in blocks:
        path.write_bytes(destroy(data, block, "payload"))
        first, last = block.first_tick, min(block.first_tick + 8, TICKS)
        with replayer.Timeline(path, Walkers) as run:
            lost = range(first, last + 1)
            assert {run.seek(tick).simulated_ticks for tick in range(first, last)} == {1}
            for tick in range(TICKS + 1):
                assert run[tick].arena.tobytes() == live[tick]
        with replayer.Timeline(path) as run:
            keyframes = {place.tick for place in run.tape.keyframes}
            assert ChangeLog(run.tape.recording).missing_ticks() == missing_without(keyframes, lost)
            for tick in set(lost) - keyframes:
                with pytest.raises(UnknownWorldError, match="only the states that are on the tape"):
                    run.seek(tick)


def missing_without(keyframes: set[int], lost: range) -> list[tuple[int, int]]:
    """Ranges of the lost ticks without keyframes."""
    kept = [tick for tick in lost if tick not in keyframes]
    return [(kept[0], kept[-1])] if kept else []


def test_a_write_without_a_mark_is_found(tmp_path: Path) -> None:
    """The change log does not lead there; a seek simulates, and verify gives the reason."""

    class Forgetful(Walkers):
        marks_writes = True

        def step(self, inputs: Any) -> None:
            super().step(inputs)
            self.state.mark("x")
            self.state.mark("rng")

    path = tmp_path / "run.tape"
    live = record(path, Forgetful(), inputs_for(Walkers), mode="changes", full_every=1)
    with replayer.Timeline(path, Forgetful) as run:
        assert run.seek(30).simulated_ticks == 30
        assert run.state.arena.tobytes() == live[30]
    report = verify_tape(path, Forgetful)
    assert report.first_bad is None
    assert [str(problem) for problem in report.problems if "the changes of ticks 1 to 60" in str(problem)]
    with pytest.raises(UnmarkedWriteError, match="field y: 14 rows"):
        record(tmp_path / "audited.tape", Forgetful(), inputs_for(Walkers), mode="changes", changes="audit")


def test_a_resumed_recording_continues_its_change_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ticks whose changes were lost by the kill are reached by steps; ticks after the resume have changes again."""
    files = use_files(monkeypatch, MemoryFiles())
    tape = Recorder("memory", Walkers(), keyframe_interval_ticks=8, mode="changes")
    live = {0: tape.simulation.state.arena.tobytes()}
    for _ in range(30):
        tape.step()
        live[tape.tick] = tape.simulation.state.arena.tobytes()
    tape.flush()
    for _ in range(2):
        tape.step()
        live[tape.tick] = tape.simulation.state.arena.tobytes()
    path = lay_out(files, tmp_path)
    tape.close()
    monkeypatch.undo()
    with recorder.resume(path, Walkers()) as tape:
        assert (tape.tick, tape.meta["mode"]) == (32, "changes")
        while tape.tick < TICKS:
            tape.step()
            live[tape.tick] = tape.simulation.state.arena.tobytes()
    with replayer.Timeline(path, Walkers) as run:
        assert ChangeLog(run.tape.recording).missing_ticks() == [(31, 31)]  # 32 has the keyframe of the resume.
    with replayer.Timeline(path, Walkers) as run:
        for tick in range(TICKS, -1, -1):
            run.seek(tick)
            assert run.state.arena.tobytes() == live[tick]


def test_a_ring_and_what_is_written_out_of_it(tmp_path: Path) -> None:
    """Copies and repairs keep the change log."""
    path, out, mended = tmp_path / "run.tape", tmp_path / "out.tape", tmp_path / "mended.tape"
    live = {}
    with Recorder(path, Herd(), keyframe_interval_ticks=5, full_every=2, keep=20, mode="changes") as tape:
        for _ in range(TICKS):
            tape.step()
            live[tape.tick] = tape.simulation.state.arena.tobytes()
        tape.write_out(out)
    assert len(segment_numbers(path)) > 1
    data = bytearray(out.read_bytes())
    keyframe = [block for block in all_blocks(out) if block.kind in (BlockKind.FULL, BlockKind.DELTA)][2]
    out_damaged = tmp_path / "damaged.tape"
    out_damaged.write_bytes(destroy(bytes(data), keyframe, "payload"))
    repair_tape(out_damaged, mended, Herd)
    for one in (path, out, mended):
        with replayer.Timeline(one) as run:
            ticks = range(run.first_tick, run.last_tick + 1)
            assert len(ticks) >= 20
            for tick in ticks:
                assert run[tick].arena.tobytes() == live[tick], (one.name, tick)


def test_one_tick_may_change_more_than_a_block_holds(tmp_path: Path) -> None:
    """Its changes are cut into pieces, as keyframes are."""

    class Large:
        def __init__(self) -> None:
            self.state = State(Schema(Field("numbers", "u8", (400_000,))))

        def step(self, inputs: int) -> None:
            self.state["numbers"][:] = (self.state["numbers"] + 1) * 0x9E3779B97F4A7C15 % (1 << 63) + inputs

    path = tmp_path / "run.tape"
    live = record(path, Large(), [1, 2, 3, 4], mode="changes")
    assert len([block for block in all_blocks(path) if block.kind == BlockKind.CHANGES]) > 4
    with replayer.Timeline(path) as run:
        for tick in (3, 1, 4, 2):
            assert run[tick].arena.tobytes() == live[tick]


def test_what_cannot_be_recorded_so(tmp_path: Path) -> None:
    """A different mode is refused before anything is written."""
    with pytest.raises(ValueError, match="mode='both'"):
        Recorder(tmp_path / "run.tape", Walkers(), mode="both")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """info prints the mode, seek the ticks applied, and losses are listed."""
    path = tmp_path / "run.tape"
    record(path, Walkers(), inputs_for(Walkers), mode="changes")
    said = {}
    for arguments in (
        ["info", str(path)],
        ["seek", str(path), "--tick", "40"],
        ["seek", str(path), "--tick", "40", "--json"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
        said[arguments[0] + arguments[-1][:6]] = capsys.readouterr().out
    assert "mode: changes" in said["info" + str(path)[:6]]
    assert "keyframe at tick 0, the changes of 40 ticks applied" in said["seek40"]
    assert '"applied_ticks": 40' in said["seek--json"]
    with pytest.raises(MissingTickError), replayer.Timeline(path) as run:
        run.seek(TICKS + 1)
