"""Going to ticks of a tape and reading them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replayer
from recorder import CorruptError, DesyncError, MissingTickError
from recorder.format.blocks.block import HEADER_BYTES, BlockKind
from replayer.playback import near_states
from replayer.playback.make_simulation import UnfitSimulationError
from sim import Field, Schema, State, UnknownWorldError

from small_worlds import Herd, Saved, Walkers, record

TICKS = 60
WORLDS: dict[str, Any] = {"walkers": Walkers, "herd": Herd, "saved": Saved}


def inputs_for(name: str, count: int = TICKS) -> list[Any]:
    """Inputs that the small world of this name accepts."""
    made = {"walkers": [[[i % 20, i]] for i in range(count)], "herd": [None] * count, "saved": list(range(count))}
    return made[name]


@pytest.fixture(params=WORLDS)
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Any, dict[int, bytes]]:
    """A tape of a small world, its factory, and the live run's states."""
    path = tmp_path / "run.tape"
    live = record(path, WORLDS[request.param](), inputs_for(request.param), keyframe_interval_ticks=7, full_every=3)
    return path, WORLDS[request.param], live


def test_every_tick_in_random_order_is_the_live_state(recorded: Any) -> None:
    """The state after a seek equals the live one byte for byte, and its hash is the recorded one."""
    path, factory, live = recorded
    seed = random.randrange(1 << 30)
    print("seed", seed)
    order = random.Random(seed).sample(sorted(live), len(live))
    with replayer.Timeline(path, factory) as run:
        for tick in order:
            report = run.seek(tick)

            assert run.state.arena.tobytes() == live[tick]
            assert report.state_hash == run.state.hash()
            assert report.tick == run.tick == tick


def test_a_seek_starts_at_the_nearest_keyframe(recorded: Any) -> None:
    """The first seek to tick 33 runs five steps from the keyframe at 28."""
    path, factory, _ = recorded
    with replayer.Timeline(path, factory) as run:
        report = run.seek(33)

        assert (report.keyframe_tick, report.simulated_ticks) == (28, 5)


def test_steps_forward_and_back_agree_with_the_live_run(recorded: Any) -> None:
    """Stepping to the end and all the way back gives every live state."""
    path, factory, live = recorded
    with replayer.Timeline(path, factory) as run:
        run.seek(0)
        for tick in range(1, TICKS + 1):
            run.step()
            assert run.state.arena.tobytes() == live[tick]
        for tick in reversed(range(TICKS)):
            run.step_back()
            assert run.state.arena.tobytes() == live[tick]


def test_reading_by_index_leaves_the_cursor_alone(recorded: Any) -> None:
    """run[t] and run[a:b:c] give live states; the timeline does not move."""
    path, factory, live = recorded
    with replayer.Timeline(path, factory) as run:
        run.seek(20)

        assert run[5].arena.tobytes() == live[5]
        assert run[-1].arena.tobytes() == live[TICKS]
        assert [state.arena.tobytes() for state in run[3:40:9]] == [live[t] for t in range(3, 40, 9)]
        assert run[::-20][1].arena.tobytes() == live[TICKS - 20]
        assert len(run) == TICKS + 1
        assert (run.tick, run.state.arena.tobytes()) == (20, live[20])


def test_negative_ticks_count_from_the_end(recorded: Any) -> None:
    """-1 is the last tick, -(n + 1) the first; -(n + 2) raises."""
    path, factory, _ = recorded
    with replayer.Timeline(path, factory) as run:
        assert run.seek(-1).tick == TICKS
        assert run.seek(-TICKS - 1).tick == 0
        with pytest.raises(MissingTickError) as caught:
            run.seek(-TICKS - 2)
        assert caught.value.tick == -TICKS - 2


@pytest.mark.parametrize("tick", [TICKS + 1, 10**9])
def test_a_tick_outside_of_the_tape_is_refused(recorded: Any, tick: int) -> None:
    """The error names the first and the last tick; the timeline does not move."""
    path, factory, live = recorded
    with replayer.Timeline(path, factory) as run:
        run.seek(9)
        with pytest.raises(MissingTickError, match=f"tick {tick}: the tape has ticks 0 to {TICKS}"):
            run.seek(tick)
        assert run.state.arena.tobytes() == live[9]
        run.seek(TICKS)
        with pytest.raises(MissingTickError):
            run.step()
        run.seek(0)
        with pytest.raises(MissingTickError):
            run.step_back()


def test_before_the_first_seek_there_is_no_state(recorded: Any) -> None:
    """Asking for a state, a step or a step back before any seek is misuse."""
    path, factory, _ = recorded
    with replayer.Timeline(path, factory) as run:
        assert run.tick is None
        for action in (lambda: run.state, run.step, run.step_back):
            with pytest.raises(ValueError, match="seek first"):
                action()


def test_step_back_after_a_seek_is_a_copy_and_not_a_seek(recorded: Any) -> None:
    """After a seek the states just before it are in memory: going back simulates nothing."""
    path, factory, live = recorded
    with replayer.Timeline(path, factory) as run:
        run.seek(34)
        report = run.step_back()

        assert (report.tick, report.simulated_ticks) == (33, 0)
        assert run.state.arena.tobytes() == live[33]


def test_a_seek_keeps_one_state_if_they_are_large(recorded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One step back is then a copy; the next one runs from a keyframe, and all further ones are copies."""
    monkeypatch.setattr(near_states, "KEPT_BYTES_MAX", 1)
    path, factory, live = recorded
    with replayer.Timeline(path, factory) as run:
        run.seek(41)
        backs = [run.step_back() for _ in range(5)]
        assert [report.tick for report in backs] == [40, 39, 38, 37, 36]
        assert backs[0].simulated_ticks == 0
        assert sum(report.simulated_ticks > 0 for report in backs) <= 1
        assert run.state.arena.tobytes() == live[36]


def test_looking_changes_nothing(recorded: Any) -> None:
    """Reading every field, hash and summary does not change the state's hash."""
    path, factory, _ = recorded
    with replayer.Timeline(path, factory) as run:
        run.seek(13)
        before = run.state.hash()
        for name in run.state:
            run.state.field_hash(name)
            assert run.state[name].nbytes >= 0
        run.state.snapshot().hash()
        repr(run[3])

        assert run.state.hash() == before


def test_one_keyframe_only(tmp_path: Path) -> None:
    """A tape without ticks has tick 0."""
    path = tmp_path / "run.tape"
    live = record(path, Herd(), [])
    with replayer.Timeline(path, Herd) as run:
        assert len(run) == 1
        assert run[0].arena.tobytes() == live[0]
        assert run.verify().ok


def flip(path: Path, offset: int) -> None:
    """Invert one byte of a file."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(data)


def test_a_damaged_keyframe_loses_no_tick(recorded: Any) -> None:
    """With each keyframe but the first destroyed in turn, every tick is still reached and correct."""
    path, factory, live = recorded
    with replayer.Tape(path) as tape:
        keyframes = tape.keyframes[1:]
    whole = path.read_bytes()
    for keyframe in keyframes:
        flip(path, keyframe.entry.offset + HEADER_BYTES + 3)
        with replayer.Timeline(path, factory) as run:
            for tick in range(0, TICKS + 1, 4):
                run.seek(tick)
                assert run.state.arena.tobytes() == live[tick]
        path.write_bytes(whole)


def test_a_damaged_frame_block_costs_only_its_interval(recorded: Any) -> None:
    """Ticks after the next keyframe are still available; those after the damage raise CorruptError."""
    path, factory, live = recorded
    with replayer.Tape(path) as tape:
        block = [e for e in tape.segments[0].contents.entries if e.kind == BlockKind.FRAMES][2]
        assert (block.first_tick, block.final_tick) == (15, 21)
    flip(path, block.offset + HEADER_BYTES)
    with replayer.Timeline(path, factory) as run:
        for tick in [*range(15), *range(22, TICKS + 1)]:
            run.seek(tick)
            assert run.state.arena.tobytes() == live[tick]
        with pytest.raises(CorruptError):
            run.seek(18)
        report = run.verify()
        assert not report.ok
        assert report.status == "corrupt"
        assert report.first_bad is None


class Sluggish(Walkers):
    """Walkers whose step was edited: from tick 31 on the first walker is late."""

    def __init__(self) -> None:
        super().__init__()
        self.ticks = 0

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if self.state["rng"][2] >= 31 * 40:  # Each tick draws forty words.
            self.state["x"][0] -= 1


def test_a_changed_step_is_named_at_its_first_tick(tmp_path: Path) -> None:
    """A seek beyond the change raises DesyncError for tick 31, with field and row in the finding and a dump."""
    path = tmp_path / "run.tape"
    live = record(path, Walkers(), inputs_for("walkers"), keyframe_interval_ticks=20)
    with replayer.Timeline(path, Sluggish, dump_folder=tmp_path / "dumps") as run:
        run.seek(30)
        with pytest.raises(DesyncError) as caught:
            run.seek(39)
        error = caught.value

        assert error.tick == 31
        assert error.dump_path == tmp_path / "dumps" / "run.desync-31"
        finding = error.finding
        assert finding.before.arena.tobytes() == live[30]
        assert finding.compared_tick == 40
        assert [difference.field for difference in finding.differences] == ["x"]
        assert finding.differences[0].rows == [(0,)]
        assert finding.differences[0].recorded - finding.differences[0].replayed == 10
        assert run.tick is None
        assert run.seek(30).state_hash == run.state.hash()


def test_the_dump_holds_both_states(tmp_path: Path) -> None:
    """The files of a dump hold the agreed state before, the replayed state, the inputs around, both hashes."""
    path = tmp_path / "run.tape"
    record(path, Walkers(), inputs_for("walkers"), keyframe_interval_ticks=20)
    with replayer.Timeline(path, Sluggish, dump_folder=tmp_path) as run, pytest.raises(DesyncError) as caught:
        run.seek(39)
    folder = caught.value.dump_path
    before, after = (np.load(folder / name) for name in ("before.npz", "replayed.npz"))
    with before, after, replayer.Timeline(path, Walkers) as truth:
        assert (before["x"] == truth[30]["x"]).all()
        assert after["x"][0] == truth[31]["x"][0] - 1
        assert (after["y"] == truth[31]["y"]).all()
    finding = json.loads((folder / "finding.json").read_text())
    assert finding["tick"] == 31
    assert finding["expected_hash"] == f"{caught.value.expected_hash:016x}"
    assert finding["actual_hash"] == f"{caught.value.actual_hash:016x}"
    frames = json.loads((folder / "inputs.json").read_text())
    assert [frame["tick"] for frame in frames] == list(range(21, 42))
    assert frames[10]["inputs"] == [[10, 30]]
    assert "# Desync at tick 31" in (folder / "report.md").read_text()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run.desync-31", "run.tape"]


class Forgetful(Walkers):
    """Walkers with a hidden counter that spoils one step of the process."""

    calls = 0

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        Forgetful.calls += 1
        if Forgetful.calls == 12:
            self.state["y"][1] += 1


def test_a_desync_that_does_not_come_again_is_called_so(tmp_path: Path) -> None:
    """If a second run of the interval gives the right hash, the finding says so, and lists what can do that."""
    path = tmp_path / "run.tape"
    record(path, Walkers(), inputs_for("walkers"), keyframe_interval_ticks=20)
    Forgetful.calls = 0
    with replayer.Timeline(path, Forgetful) as run, pytest.raises(DesyncError) as caught:
        run.seek(15)
    assert "wrong once and right when the interval was run again (possible: " in caught.value.finding.note
    assert "values that no keyframe holds" in caught.value.finding.note


def test_a_world_that_is_not_there(tmp_path: Path) -> None:
    """Without a world, the tape opens and shows keyframes, and a seek names the missing world."""
    path = tmp_path / "run.tape"
    live = record(path, Walkers(), inputs_for("walkers"))
    with replayer.Timeline(path) as run:
        assert run.tape.snapshot(run.tape.keyframes[0]).arena.tobytes() == live[0]
        with pytest.raises(UnknownWorldError, match=r"small_worlds\.Walkers.*--sim small_worlds:Walkers"):
            run.seek(3)


def test_a_world_with_other_fields_is_refused(tmp_path: Path) -> None:
    """A simulation whose fields have different names or dtypes is refused as unfit before a step is run."""

    class Other:
        def __init__(self) -> None:
            self.state = State(Schema(Field("x", "i4", (20,)), Field("rng", "u8", (4,))))

        def step(self, inputs: Any) -> None:
            raise AssertionError(inputs)

    path = tmp_path / "run.tape"
    record(path, Walkers(), inputs_for("walkers"))
    with (
        replayer.Timeline(path, Other) as run,
        pytest.raises(UnfitSimulationError, match="x: expected int64, got int32"),
    ):
        run.seek(3)
    of_another = r"the tape was recorded from small_worlds\.Walkers, and what was given makes a builtins\.dict: "
    with replayer.Timeline(path, dict) as run, pytest.raises(UnfitSimulationError, match=of_another):
        run.seek(3)
