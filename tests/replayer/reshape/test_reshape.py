"""Tapes cut, re-keyed and joined: the states are those of a plain run without a recorder, tick by tick."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asked_worlds import Battle, Garden, battle_run, garden_run

import recorder
import replayer
from replayer.reshape.cut import cut_tape
from replayer.reshape.join import join_tapes
from replayer.reshape.rekey import rekey_tape
from replayer.tape.copied_range import UnfitTapeError

from oracle.second_reader import FRAMES, Reader

TICKS, INTERVAL = 120, 20


@pytest.fixture
def garden(tmp_path: Path) -> tuple[Path, list[Any]]:
    """A tape of a garden with telemetry, and the plain run's states."""
    seed = random.randrange(1 << 20)
    print("seed", seed)
    return tmp_path / "garden.tape", garden_run(tmp_path / "garden.tape", seed, TICKS, INTERVAL)


def ensure_states(path: Path, states: list[Any], first: int, last: int) -> None:
    """Each tick of a tape has the plain run's values; the tape verifies, and is whole."""
    with replayer.open(path, Garden) as run:
        assert (run.first_tick, run.last_tick) == (first, last)
        for tick in range(first, last + 1):
            for name, values in states[tick].items():
                assert np.array_equal(run[tick][name], values, equal_nan=values.dtype.kind == "f"), (tick, name)
        assert run.tape.check_blocks() == []
        assert run.tape.status == "intact"
        figures = run.tape.telemetry()
        assert run.verify().ok
    begin = max(first, 0)
    expected = {tick: int(states[tick]["plants.energy"].sum()) for tick in range(begin, last + 1)}
    assert dict(zip(figures["tick"].tolist(), figures["energy"].tolist(), strict=True)).items() <= expected.items()
    assert set(figures["tick"].tolist()) >= set(range(begin + 1, last + 1))


@pytest.mark.parametrize(
    ("first", "last"), [(0, 0), (0, TICKS), (20, 40), (23, 31), (59, 61), (TICKS, TICKS), (1, 119)]
)
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.share(0.22)
def test_a_part_has_the_states_of_the_plain_run(
    garden: tuple[Path, list[Any]], tmp_path: Path, first: int, last: int, *, exact: bool
) -> None:
    """From its keyframe on, or from its first tick exactly."""
    path, states = garden
    before = path.read_bytes()
    report = cut_tape(path, tmp_path / "part.tape", first, last, Garden, exact=exact)

    begin = first if exact else first - first % INTERVAL
    assert (report.first_tick, report.last_tick) == (begin, last)
    assert report.simulated == (first % INTERVAL if exact else 0)
    assert report.size_bytes == (tmp_path / "part.tape").stat().st_size
    ensure_states(tmp_path / "part.tape", states, begin, last)
    assert path.read_bytes() == before


def test_one_tick_is_little_more_than_its_state(garden: tuple[Path, list[Any]], tmp_path: Path) -> None:
    """A save game: one keyframe, no frame."""
    cut_tape(garden[0], tmp_path / "save.tape", 37, 37, Garden, exact=True)

    with replayer.Tape(tmp_path / "save.tape") as tape:
        assert [place.tick for place in tape.keyframes] == [37]
        assert not [block for block in Reader((tmp_path / "save.tape").read_bytes()).blocks if block.kind == FRAMES]
        assert tape.meta["cut"] == {"from": "garden.tape", "run": tape.run_id, "ticks": [37, 37]}


@pytest.mark.parametrize("every", [1, 7, INTERVAL, TICKS, TICKS + 1])
@pytest.mark.seldom(0.18)
def test_other_keyframes_lead_to_the_same_states(garden: tuple[Path, list[Any]], tmp_path: Path, every: int) -> None:
    """At any spacing, from one at each tick to a single one."""
    path, states = garden
    report = rekey_tape(path, tmp_path / "new.tape", every, Garden)

    with replayer.Tape(tmp_path / "new.tape") as tape:
        assert [place.tick for place in tape.keyframes] == list(range(0, TICKS + 1, every))
        assert tape.meta["settings"]["keyframe_interval_ticks"] == every
    assert report.keyframes == len(range(0, TICKS + 1, every))
    ensure_states(tmp_path / "new.tape", states, 0, TICKS)


@pytest.mark.parametrize("at", [0, 1, 20, 33, 60, TICKS])
@pytest.mark.seldom(0.15)
def test_two_parts_are_the_whole_again(garden: tuple[Path, list[Any]], tmp_path: Path, at: int) -> None:
    """Whether they meet at a keyframe, next to one, or overlap."""
    path, states = garden
    cut_tape(path, tmp_path / "front.tape", 0, min(TICKS, at + 5), Garden)
    cut_tape(path, tmp_path / "back.tape", at, TICKS, Garden, exact=True)
    report = join_tapes(tmp_path / "front.tape", tmp_path / "back.tape", tmp_path / "both.tape")

    assert (report.first_tick, report.last_tick, report.joined_at) == (0, TICKS, at)
    ensure_states(tmp_path / "both.tape", states, 0, TICKS)


def test_tapes_of_other_runs_are_not_joined(garden: tuple[Path, list[Any]], tmp_path: Path) -> None:
    """Their states differ where they would meet; nothing is written."""
    other = tmp_path / "other.tape"
    garden_run(other, 77, TICKS, INTERVAL)
    cut_tape(other, tmp_path / "back.tape", 60, TICKS, Garden)
    with pytest.raises(UnfitTapeError, match="different states"):
        join_tapes(garden[0], tmp_path / "back.tape", tmp_path / "both.tape")
    cut_tape(garden[0], tmp_path / "front.tape", 0, 40, Garden)
    with pytest.raises(UnfitTapeError, match="begins at tick 60"):
        join_tapes(tmp_path / "front.tape", tmp_path / "back.tape", tmp_path / "both.tape")

    assert not (tmp_path / "both.tape").exists()


@pytest.mark.seldom(0.15)
def test_a_part_of_a_game_of_objects(tmp_path: Path) -> None:
    """Its values at each tick, the digests of its keyframes' values included."""
    states = battle_run(tmp_path / "battle.tape", 5, TICKS, INTERVAL)
    cut_tape(tmp_path / "battle.tape", tmp_path / "part.tape", 30, 90, Battle)
    rekey_tape(tmp_path / "part.tape", tmp_path / "new.tape", 13, Battle)
    for path in (tmp_path / "part.tape", tmp_path / "new.tape"):
        with replayer.open(path, Battle) as run:
            assert (run.first_tick, run.last_tick) == (20, 90)
            for tick in (20, 33, 57, 90):
                run.seek(tick)
                assert [knight.hp for knight in run.subject.knights] == states[tick]["hp"]
            assert run.verify().ok


def test_events_are_those_of_the_ticks(tmp_path: Path) -> None:
    """No event of a tick outside of the part, and each of those inside."""
    recorder_path = tmp_path / "run.tape"
    with recorder.Recorder(recorder_path, Bell(), keyframe_interval_ticks=10) as tape:
        for _ in range(50):
            tape.step(None)
    cut_tape(recorder_path, tmp_path / "part.tape", 13, 27, Bell)

    with replayer.Tape(tmp_path / "part.tape") as part:
        told = [(tick, event["number"]) for tick, event in part.events()]
        missing = part.missing_event_ticks()
    assert told == [(tick, tick) for tick in range(10, 28) if tick % 3 == 0]
    assert missing == []


def test_a_lost_tick_is_not_cut_over(garden: tuple[Path, list[Any]], tmp_path: Path) -> None:
    """The tick is named, and nothing is written; a part beside it can be cut."""
    path, states = garden
    content = bytearray(path.read_bytes())
    block = [block for block in Reader(bytes(content)).blocks if block.kind == FRAMES][2]
    content[block.offset + 80] ^= 1
    path.write_bytes(content)
    with pytest.raises(UnfitTapeError, match=r"tick \d+ cannot be read"):
        cut_tape(path, tmp_path / "part.tape", 0, TICKS, Garden)
    assert [one.name for one in tmp_path.iterdir()] == ["garden.tape"]

    cut_tape(path, tmp_path / "part.tape", 0, 20, Garden)
    ensure_states(tmp_path / "part.tape", states, 0, 20)


def test_a_tape_with_changes_needs_no_step_after_the_cut(tmp_path: Path) -> None:
    """The changes of the ticks are copied with them."""
    path = tmp_path / "run.tape"
    with recorder.Recorder(path, Garden(3), keyframe_interval_ticks=INTERVAL, mode="changes") as tape:
        for _ in range(TICKS):
            tape.step(None)
    with replayer.open(path, Garden) as run:
        expected = {tick: run[tick].hash() for tick in range(30, 76)}
    cut_tape(path, tmp_path / "part.tape", 30, 75)

    with replayer.open(tmp_path / "part.tape", Garden) as run:
        assert run.last_tick == 75
        for tick, state_hash in expected.items():
            assert run[tick].hash() == state_hash
        run.seek(20)
        report = run.seek(39)
    assert report.simulated_ticks == 0


class Bell:
    """Tells an event every third tick."""

    def __init__(self) -> None:
        from sim import Field, Schema, State

        self.state = State(Schema(Field("tick", "i8")))

    def step(self, inputs: Any) -> None:  # noqa: ARG002 - the signature of a step
        """Count."""
        self.state["tick"][...] += 1

    def events(self) -> list[dict[str, Any]]:
        """One event, or none."""
        tick = int(self.state["tick"])
        return [{"kind": "rung", "number": tick}] if tick % 3 == 0 else []
