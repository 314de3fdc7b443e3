"""Repairs with and without simulations, right and wrong ones; repairs that fail, and targets that exist."""

from __future__ import annotations

import errno
import os
import signal
import tomllib
from pathlib import Path
from typing import Any

import pytest

import replayer
from recorder import MissingTickError, UnreadableError
from recorder.storage.tape_files import TapeFile
from replayer.playback.make_simulation import UnfitSimulationError
from replayer.repair.repair import repair_tape
from sim.kernel.registry import find_world

from oracle.live_runs import Live
from oracle.repair_runs import Pushed, assert_right, block_at, record_pushed, record_small, spoil
from oracle.second_reader import DELTA, FULL, Reader
from small_worlds import Herd

TINY_MEADOW = """
seed = 3
ticks = 90
diet = [[true]]
grid = {width = 12, height = 8}
plants = [{species = "moss", count = 20}]
swarms = [{species = "snail", x = 2, y = 3, population = 4}]
herbivores = [{name = "snail", consumption_rate = 0.2, upkeep = 0.05, energy_min = 1}]
[[flora]]
name = "moss"
base_energy = 4
max_energy = 9
growth_percent = 5
survival_threshold = 1
reproduction_interval = 9
seed_cost = 2
"""


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Path, Live, list[Any]]:
    """A tape of walkers, their states, and its blocks."""
    return record_pushed(tmp_path / "run.tape")


@pytest.fixture
def meadow(tmp_path: Path) -> tuple[Path, dict[int, int]]:
    """A tape of a registered world, and its hashes."""
    path, config = tmp_path / "run.tape", tomllib.loads(TINY_MEADOW)
    live = record_small(path, find_world("meadow").make(config), inputs=[])
    return path, {tick: state_hash for tick, (state_hash, _, _) in live.items()}


def test_a_lost_first_keyframe_is_rebuilt_from_the_registered_world(meadow: Any) -> None:
    """The tape names its world: no option is needed, and nothing is lost."""
    path, hashes = meadow
    spoil(path, block_at(Reader(path.read_bytes()).blocks, FULL, 0))
    report = repair_tape(path, path.with_name("new.tape"))

    assert report.rebuilt_ticks == [0, 7, 14]  # And those that build upon the first.
    assert (report.lost_ticks, report.lost_keyframe_ticks, report.first_tick) == ([], [], 0)
    with replayer.Timeline(report.path) as run:
        assert {tick: run.seek(tick).state_hash for tick in hashes} == hashes


def test_without_a_simulation_intact_blocks_are_copied_and_losses_listed(recorded: Any) -> None:
    """A keyframe that cannot be rebuilt is listed with the reason; without the first one, so are the ticks after it."""
    path, live, blocks = recorded
    whole = path.read_bytes()
    spoil(path, block_at(blocks, DELTA, 14))
    report = repair_tape(path, path.with_name("a.tape"))
    ((tick, why),) = report.lost_keyframe_ticks
    assert (tick, report.lost_ticks, report.rebuilt_ticks) == (14, [], [])
    assert why.startswith("the tape names no registered world")
    assert_right(report.path, live, range(0), Pushed)

    path.write_bytes(whole)
    spoil(path, block_at(blocks, FULL, 0))
    report = repair_tape(path, path.with_name("b.tape"))
    assert (report.first_tick, [tick for tick, _ in report.lost_keyframe_ticks]) == (21, [0, 7, 14])
    assert report.lost_ticks == [(0, 20, "the keyframe that leads to them is lost")]
    assert_right(report.path, live, range(0), Pushed)


class Swerving(Pushed):
    """Walkers whose step was edited: it differs from tick 30 on, long after the first keyframes."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if inputs == 30:
            self.state["y"][3] += 1


class Clumsy(Pushed):
    """Walkers that raise at tick 12."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if inputs == 12:
            raise ZeroDivisionError("fell")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Pushed(seed=1), None),  # Its state is restored from the keyframe before: any instance will do.
        (Swerving, "re-simulating gives a hash that differs from the recorded one"),
        (Clumsy, "re-simulating raised ZeroDivisionError: fell"),
    ],
    ids=["other seed", "edited", "failing"],
)
def test_a_wrong_simulation_never_gets_a_keyframe_in(recorded: Any, make: Any, why: str | None) -> None:
    """A state without the recorded hash is listed as lost; its ticks are copied."""
    path, live, blocks = recorded
    spoil(path, block_at(blocks, DELTA, 14), block_at(blocks, DELTA, 35))
    report = repair_tape(path, path.with_name("new.tape"), make)

    wrong = {Swerving: [35], Clumsy: [14]}.get(make, [])
    assert report.lost_keyframe_ticks == [(tick, why) for tick in wrong]
    assert report.rebuilt_ticks == [tick for tick in (14, 35) if tick not in wrong]
    assert report.lost_ticks == []
    assert_right(report.path, live, range(0), Pushed)


def test_a_first_keyframe_is_proved_by_the_ticks_up_to_the_next_one(recorded: Any) -> None:
    """Later steps prove nothing about the start of the run; a different start state is not accepted."""
    path, live, blocks = recorded
    spoil(path, block_at(blocks, FULL, 0))
    edited = repair_tape(path, path.with_name("a.tape"), Swerving)
    other = repair_tape(path, path.with_name("b.tape"), lambda: Pushed(seed=1))

    assert edited.rebuilt_ticks == [0, 7, 14]
    assert_right(edited.path, live, range(0), Pushed)
    assert (other.first_tick, other.rebuilt_ticks) == (21, [])
    assert other.lost_ticks == [(0, 20, "the keyframe that leads to them is lost")]


def test_a_simulation_with_other_fields_is_refused(recorded: Any) -> None:
    """The error is raised before anything is written."""
    path, *_ = recorded
    with pytest.raises(UnfitSimulationError, match="different fields"):
        repair_tape(path, path.with_name("new.tape"), Herd)
    assert sorted(path.parent.iterdir()) == [path]


def test_a_target_that_exists_is_left_alone(recorded: Any) -> None:
    """Also a target that appears while the repair runs, and the tape itself."""
    path, *_ = recorded
    whole, target = path.read_bytes(), path.with_name("new.tape")
    with pytest.raises(FileExistsError):
        repair_tape(path, path, Pushed)
    with pytest.raises(FileExistsError):
        repair_tape(path, target, Pushed, progress=lambda *_: target.write_bytes(b"mine"))

    assert (path.read_bytes(), target.read_bytes()) == (whole, b"mine")
    assert sorted(path.parent.iterdir()) == [target, path]
    assert target.name == "new.tape"


def calls_of_append(monkeypatch: pytest.MonkeyPatch, act: Any) -> list[int]:
    """Call act with the number of each append from now on, before the append; the list grows with them."""
    append, calls = TapeFile.append, []

    def counted(self: TapeFile, data: bytes) -> None:
        calls.append(len(data))
        act(len(calls), self, data)
        append(self, data)

    monkeypatch.setattr(TapeFile, "append", counted)
    return calls


def test_a_repair_that_fails_leaves_nothing(recorded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """For any write that the disk refuses: no target afterwards, nor a part of it; the original is unchanged."""
    path, *_ = recorded
    whole, target = path.read_bytes(), path.with_name("new.tape")
    calls = calls_of_append(monkeypatch, lambda *_: None)
    repair_tape(path, path.with_name("whole.tape"), Pushed)
    monkeypatch.undo()
    path.with_name("whole.tape").unlink()
    assert len(calls) > 10
    for k in range(1, len(calls) + 1):

        def fail_at(call: int, file: TapeFile, data: bytes, k: int = k) -> None:
            if call == k:
                os.write(file.descriptor, data[: len(data) // 2])
                raise OSError(errno.ENOSPC, "No space left on device")

        calls_of_append(monkeypatch, fail_at)
        with pytest.raises(OSError, match="No space left"):
            repair_tape(path, target, Pushed)
        monkeypatch.undo()
        assert sorted(path.parent.iterdir()) == [path], k
    assert path.read_bytes() == whole


def test_a_repair_that_is_killed_leaves_no_target_and_the_next_one_works(
    recorded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the killed repair has a temporary name, and is removed by the next repair."""
    path, live, _ = recorded
    target = path.with_name("new.tape")
    for k in (1, 2, 8, 14):
        child = os.fork()
        if child == 0:
            calls_of_append(monkeypatch, lambda call, *_, k=k: os.kill(os.getpid(), signal.SIGKILL) if call == k else 0)
            repair_tape(path, target, Pushed)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        assert not target.exists()
    repair_tape(path, target, Pushed)

    assert sorted(path.parent.iterdir()) == [target, path]
    assert_right(target, live, range(0), Pushed)


def test_a_tape_with_nothing_to_start_from_is_refused(recorded: Any) -> None:
    """No keyframe and no simulation, or not a tape: one clear error, nothing is written."""
    path, _, blocks = recorded
    spoil(path, *(b for b in blocks if b.kind in {FULL, DELTA}))
    with pytest.raises(MissingTickError, match="there is nothing to repair"):
        repair_tape(path, path.with_name("new.tape"))
    path.write_bytes(b"no tape")
    with pytest.raises(UnreadableError):
        repair_tape(path, path.with_name("new.tape"), Pushed)
    assert sorted(path.parent.iterdir()) == [path]
