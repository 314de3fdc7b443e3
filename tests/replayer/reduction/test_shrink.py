"""Shrinking inputs: what is left fails in a plain loop, and each input of it is needed."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from failing_worlds import LEVERS, Levers, Maze, Robot, Till, lever_inputs, record_inputs, trapped_at, with_parts

import recorder
import replayer
from recorder.errors import DesyncError
from replayer.reduction.shrink_tape import ShrinkReport, shrink
from replayer.tape.copied_range import UnfitTapeError
from sim import Field, Schema, State


def left_inputs(report: ShrinkReport) -> dict[int, Any]:
    """The inputs that are left by tick, items together in a list."""
    left: dict[int, Any] = {}
    for one in report.inputs:
        if one.item is None:
            left[one.tick] = one.value
        else:
            left.setdefault(one.tick, []).append(one.value)
    return left


def plain_ddmin(count: int, fails: Callable[[list[int]], bool]) -> list[int]:
    """Zeller's delta debugging over the numbers below count."""
    current, parts = list(range(count)), 2
    while len(current) >= 2:
        size = -(-len(current) // parts)
        chunks = [current[start : start + size] for start in range(0, len(current), size)]
        for chunk in chunks:
            if fails(chunk):
                current, parts = chunk, 2
                break
        else:
            for chunk in chunks:
                rest = [number for number in current if number not in set(chunk)]
                if rest and fails(rest):
                    current, parts = rest, max(parts - 1, 2)
                    break
            else:
                if parts >= len(current):
                    break
                parts = min(len(current), 2 * parts)
    return current


@pytest.mark.seldom(0.15)
def test_a_planted_bug_shrinks_to_its_inputs(tmp_path: Path) -> None:
    """Three of 5,000 inputs are left, in a tape that verifies, for a fraction of the steps of delta debugging."""
    ticks, places = 5_000, (3_900, 4_300, 4_600)
    inputs = lever_inputs(ticks, places)
    record_inputs(tmp_path / "long.tape", Levers(), inputs)

    report = shrink(tmp_path / "long.tape", "broken == 1", Levers, output=tmp_path / "small.tape")

    assert [(one.tick - 1, one.value) for one in report.inputs] == list(zip(places, LEVERS, strict=True))
    assert (report.tick, report.recorded_tick, report.recorded_count) == (4_601, 4_601, 4_601)
    assert replayer.verify_tape(tmp_path / "small.tape", Levers).ok
    steps, known = 0, set[tuple[int, ...]]()

    def fails(numbers: list[int]) -> bool:
        nonlocal steps
        if tuple(numbers) not in known:  # No list is run twice, and a run ends with the failure.
            steps += ticks if not set(places) <= set(numbers) else places[-1] + 1
        known.add(tuple(numbers))
        return set(places) <= set(numbers)

    assert plain_ddmin(ticks, fails) == list(places)
    print(report.steps, steps)
    assert report.steps * 4 < steps


@pytest.mark.sample(10)
@pytest.mark.parametrize("number", range(40))
@pytest.mark.parametrize("lists", [False, True])
def test_random_machines_as_by_brute_force(tmp_path: Path, number: int, *, lists: bool) -> None:
    """The failure comes at the same or an earlier tick in a loop over a table; without any one input it does not."""
    chance = random.Random(f"{random.randrange(1 << 20)} {number}")
    seed, tick, inputs = 0, None, list[Any]()
    while tick is None or trapped_at(seed, [None] * tick) is not None:
        seed = chance.randrange(1 << 20)
        moves = [[chance.randrange(1, 4) for _ in range(chance.randrange(4))] for _ in range(50)]
        inputs = moves if lists else [(one or [None])[0] for one in moves]
        tick = trapped_at(seed, inputs)
    inputs = inputs[:tick]
    print("seed", seed, inputs)
    record_inputs(tmp_path / "long.tape", Maze(seed), [*inputs, *inputs[:7]])

    report = shrink(tmp_path / "long.tape", f"room == {Maze.trap}", lambda: Maze(seed), output=tmp_path / "small.tape")

    empty: Any = [] if lists else None
    left = left_inputs(report)
    assert trapped_at(seed, with_parts(tick, left, empty)) == report.tick <= tick
    for one in report.inputs:
        fewer = dict(left)
        if one.item is None or len(left[one.tick]) == 1:
            fewer.pop(one.tick)
        else:
            at = [other.item for other in report.inputs if other.tick == one.tick].index(one.item)
            fewer[one.tick] = [move for place, move in enumerate(left[one.tick]) if place != at]
        assert trapped_at(seed, with_parts(report.tick, fewer, empty)) is None
    with replayer.open(tmp_path / "small.tape", lambda: Maze(seed)) as run:
        assert run.verify().ok
        assert run.last_tick == report.tick
        recorded = {tick: run.tape.frame(tick).inputs for tick in range(1, report.tick + 1)}
    assert {tick: one for tick, one in recorded.items() if one != empty} == {
        t: v for t, v in left.items() if v != empty
    }


SALES = [
    [["sell", 0], ["lock", 0]],
    [["sell", 1], ["sell", 5 - 3], ["pay", 1]],
    [["pay", 3], ["sell", 4 - 3]],
    [["sell", 2], ["pay", 2], ["sell", 7], ["sell", 0]],
]


def test_only_the_same_exception_counts(tmp_path: Path) -> None:
    """Without its sales the till raises KeyError at another line: that is something else. The raising inputs are kept."""
    with pytest.raises(KeyError, match="article 7"):
        record_inputs(tmp_path / "long.tape", Till(), SALES)

    for raises in (True, "article", "KeyError"):
        path = tmp_path / f"{raises}.tape"
        report = shrink(tmp_path / "long.tape", None, Till, raises=raises, output=path)
        assert [(one.tick, one.value) for one in report.inputs] == [(1, ["lock", 0]), (4, ["sell", 7])]
        assert report.failure.startswith("KeyError at failing_worlds.py:")
        assert report.failure.endswith("in Till.sell")
        assert replayer.verify_tape(path, Till).ok
        with replayer.Tape(path) as tape:
            assert (tape.last_tick, tape.outcome["step"]) == (3, {"tick": 4, "inputs": [["sell", 7]]})
            again = shrink(path, None, Till, raises=True)
        assert (again.inputs[0].value, again.recorded_count) == ([["lock", 0]], 2)


class Duel:
    """Two players strike; who is struck does not strike back in that step."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("hits", "i8", (2,))))

    def step(self, inputs: Any) -> None:
        for player, strikes in inputs.items():
            self.state["hits"][int(player == "red")] += len(strikes)


def test_keys_of_dicts_are_left_out(tmp_path: Path) -> None:
    """The inputs of one player, and within a tick of one key, all of them."""
    inputs = [{"red": ["a"], "blue": ["b"]}, {}, {"blue": ["c"]}, {"blue": ["d"], "red": ["e", "f"]}]
    record_inputs(tmp_path / "long.tape", Duel(), inputs)

    report = shrink(tmp_path / "long.tape", "hits[1] >= 3", Duel, output=tmp_path / "small.tape")

    assert [(one.tick, one.item, one.value) for one in report.inputs] == [(1, "red", ["a"]), (4, "red", ["e", "f"])]
    with replayer.open(tmp_path / "small.tape", Duel) as run:
        assert run.verify().ok
        assert [run.tape.frame(tick).inputs for tick in range(1, 5)] == [{"red": ["a"]}, {}, {}, {"red": ["e", "f"]}]


def test_a_step_of_an_object_that_raises(tmp_path: Path) -> None:
    """Exceptions that the program caught are kept as they are; the one that ended it is looked for."""
    pushes = ["left", "left", "right", "neither", "right", "left", "", "left", "left", "left"]
    robot = recorder.record(Robot(), tmp_path / "long.tape", step="push", trial_ms=0, quiet=True)

    def play() -> None:
        with robot:
            for arm in pushes:
                with contextlib.suppress(ValueError):
                    robot.push(arm)

    with pytest.raises(RuntimeError):
        play()

    report = shrink(tmp_path / "long.tape", None, Robot, raises=True, output=tmp_path / "small.tape")

    assert [one.value for one in report.inputs] == ["left"] * 4  # Two pairs: the empty call ends one.
    assert report.failure.startswith("RuntimeError at failing_worlds.py")
    plain = Robot()
    for tick in range(1, report.tick):
        plain.push(left_inputs(report).get(tick, ""))
    with pytest.raises(RuntimeError):
        plain.push("left")
    verified = replayer.verify_tape(tmp_path / "small.tape", Robot)
    assert verified.ok
    assert verified.tick_count == report.tick + 1


def test_a_search_that_was_interrupted_continues(tmp_path: Path) -> None:
    """Its results are used again, and the end is the same; the file is gone then, and one of another search is refused."""
    inputs = lever_inputs(300, (30, 170, 250))
    record_inputs(tmp_path / "long.tape", Levers(), inputs)
    whole = shrink(tmp_path / "long.tape", "broken == 1", Levers)

    calls = iter(range(20))

    def stop(*_: int) -> None:
        if next(calls, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shrink(tmp_path / "long.tape", "broken == 1", Levers, output=tmp_path / "small.tape", progress=stop)
    kept = tmp_path / "small.tape.progress"
    kept.write_text(kept.read_text() + '["half a li')  # As a kill may leave it.
    with pytest.raises(UnfitTapeError, match="a different search"):
        shrink(tmp_path / "long.tape", "pulled == 2", Levers, output=tmp_path / "small.tape")
    with pytest.raises(UnfitTapeError, match="a different search"):
        shrink(tmp_path / "long.tape", lambda state: state["broken"], Levers, output=tmp_path / "small.tape")
    report = shrink(tmp_path / "long.tape", "broken == 1", Levers, output=tmp_path / "small.tape")

    assert report.inputs == whole.inputs
    assert report.reused == 21
    assert report.runs < whole.runs
    assert report.steps < whole.steps
    assert sorted(path.name for path in tmp_path.iterdir()) == ["long.tape", "small.tape"]


def test_a_predicate_and_a_failure_without_inputs(tmp_path: Path) -> None:
    """A function of a snapshot is a condition; a clock needs no input."""
    record_inputs(tmp_path / "long.tape", Maze(3), [1, 2, 3, 1] * 5)

    report = shrink(tmp_path / "long.tape", lambda state: int(state["steps"]) >= 9, lambda: Maze(3))

    assert (report.inputs, report.tick, report.path) == ([], 9, None)


class Reporting(Levers):
    """Has marks, figures and events."""

    marks_writes = True

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        for name in self.state:
            self.state.mark(name)

    def telemetry(self) -> dict[str, int]:
        """One figure."""
        return {"pulled": int(self.state["pulled"])}

    def events(self) -> list[dict[str, Any]]:
        """One event a tick."""
        return [{"kind": "pulled", "number": int(self.state["pulled"])}]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "options",
    [
        {"keep": 60, "keyframe_interval_ticks": 10},
        {"mode": "changes", "hashes": "changes"},
        {"split": "1KB", "blame": "fields"},
        {"deterministic": True},
    ],
    ids=["ring", "changes", "split", "deterministic"],
)
def test_tapes_of_all_kinds(tmp_path: Path, options: dict[str, Any]) -> None:
    """The new tape is whole, with events and figures, and can be recorded on."""
    inputs = lever_inputs(150, (100, 120, 140))
    record_inputs(tmp_path / "long.tape", Reporting(), inputs, **options)

    report = shrink(tmp_path / "long.tape", "telemetry.pulled == 3", Reporting, output=tmp_path / "small.tape")

    assert [one.tick for one in report.inputs] == [101, 121, 141]
    with replayer.open(tmp_path / "small.tape", Reporting) as run:
        assert run.verify().ok
        assert (run.last_tick, run.tape.check_blocks(), run.tape.missing_event_ticks()) == (141, [], [])
        assert [event["number"] for tick, event in run.tape.events() if tick > 99] == [
            (tick > 100) + (tick > 120) + (tick > 140) for tick in range(100, 142)
        ]
        assert run.tape.telemetry()["pulled"].tolist()[-42:] == [
            (t > 100) + (t > 120) + (t > 140) for t in range(100, 142)
        ]
    with recorder.resume(tmp_path / "small.tape", Reporting()) as tape:
        tape.step(7)
    assert replayer.verify_tape(tmp_path / "small.tape", Reporting).ok


def test_an_environment_needs_its_reset(tmp_path: Path) -> None:
    """The empty input, an action, is tried after the first recorded input; what is left leads there in a plain loop."""
    gymnasium = pytest.importorskip("gymnasium")
    actions = [0, 1, 1, 1, 0, 1, 0, 1]
    env = recorder.record(gymnasium.make("CartPole-v1"), tmp_path / "long.tape", trial_ms=0, quiet=True)
    env.reset(seed=3)
    for action in actions:
        env.step(action)
    env.close()

    report = shrink(tmp_path / "long.tape", "CartPoleEnv.state[2] < 0.01", empty=0)

    def reaches(ones: list[int]) -> bool:
        plain = gymnasium.make("CartPole-v1")
        plain.reset(seed=3)
        return any(plain.step(int(tick in ones))[0][2] < 0.01 for tick in range(2, report.tick + 1))

    assert (report.inputs[0].tick, report.inputs[0].value) == (1, {"reset": 3})
    ones = [one.tick for one in report.inputs[1:]]
    assert {actions[tick - 2] for tick in ones} == {1}
    assert reaches(ones)
    assert not any(reaches([other for other in ones if other != one]) for one in ones)


class Hidden(Levers):
    """Keeps a counter outside its state, of which nothing is seen in the first steps."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def step(self, inputs: Any) -> None:
        self.count += inputs is not None
        super().step(inputs)
        if self.count > 60:
            self.state["broken"][...] = 1


class Refuses:
    """Takes no empty input."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("sum", "i8")))

    def step(self, inputs: Any) -> None:
        self.state["sum"][...] += inputs["amount"]


def test_what_cannot_be_shrunk_is_refused(tmp_path: Path) -> None:
    """In one line, with nothing written."""
    path = tmp_path / "long.tape"
    record_inputs(path, Hidden(), lever_inputs(50, (3, 9, 40)))
    with pytest.raises(UnfitTapeError, match="outside its state"):
        shrink(path, "broken == 1", Hidden, output=tmp_path / "small.tape")
    with pytest.raises(UnfitTapeError, match="expected one failure"):
        shrink(path, "broken == 1", Hidden, raises=True)
    with pytest.raises(UnfitTapeError, match="at the first tick already"):
        shrink(path, "sum == 0", Levers)
    with pytest.raises(UnfitTapeError, match="has no property few: it has no scenario"):
        shrink(path, None, Levers, violation="few")
    record_inputs(tmp_path / "needs.tape", Refuses(), [{"amount": 1}] * 5)
    with pytest.raises(UnfitTapeError, match=r"takes no empty input: \{\} raised KeyError: 'amount'; name what"):
        shrink(tmp_path / "needs.tape", "sum > 3", Refuses)
    report = shrink(tmp_path / "needs.tape", "sum > 3", Refuses, empty={"amount": 0})
    assert [one.tick for one in report.inputs] == [1, 2, 3, 4]
    assert not (tmp_path / "small.tape").exists()


def test_a_run_that_does_not_replay_is_a_desync(tmp_path: Path) -> None:
    """The first tick that differs is named."""
    record_inputs(tmp_path / "long.tape", Maze(3), [1, 2, 3, 1] * 5)
    with pytest.raises(DesyncError):
        shrink(tmp_path / "long.tape", lambda state: int(state["steps"]) >= 9, lambda: Maze(4))
