"""Inputs that influence a value: as leaving out each one in a plain loop says, within a bound of runs."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest
from failing_worlds import Ledger, Maze, record_inputs, with_parts

from replayer.reduction.influence import influence
from replayer.search.search_errors import ExpressionError


def plain(inputs: list[Any], make: Any = Ledger) -> Any:
    """The state after these inputs, by a loop without a recording."""
    simulation = make()
    for one in inputs:
        simulation.step(one)
    return simulation.state


@pytest.mark.parametrize("number", range(3))
def test_three_of_500_inputs_in_60_runs(tmp_path: Path, number: int) -> None:
    """A planted dependency: only these touch the account."""
    chance = random.Random(f"{random.randrange(1 << 20)} {number}")
    places = sorted(chance.sample(range(500), 3))
    inputs = [[[0 if tick in places else 2, chance.randrange(1, 9)]] for tick in range(500)]
    print(places)
    record_inputs(tmp_path / "run.tape", Ledger(), inputs)

    report = influence(tmp_path / "run.tape", "account", 0, Ledger)

    assert [(one.tick - 1, one.value) for one in report.inputs] == [(place, inputs[place]) for place in places]
    for one in report.inputs:
        fewer = [[] if tick == one.tick else given for tick, given in enumerate(inputs, 1)]
        assert one.without == int(plain(fewer)["account"][0])
    assert report.is_now == int(plain(inputs)["account"][0])
    assert (report.together, report.others_change, report.input_count) == ([], False, 500)
    assert report.runs <= 60
    assert report.steps < 500 * 40


def test_inputs_that_matter_only_together(tmp_path: Path) -> None:
    """Two doors, of which one is enough, are found as a set; the check is needed alone."""
    inputs: list[Any] = [[[2, 1]] for _ in range(100)]
    inputs[10], inputs[60], inputs[90] = [["door", 0]], [["door", 0]], [["check", 0]]
    record_inputs(tmp_path / "run.tape", Ledger(), inputs)

    for each in (False, True):
        report = influence(tmp_path / "run.tape", "alarm", (), Ledger, each=each)
        assert [one.tick for one in report.inputs] == [91]
        assert [[one.tick for one in group] for group in report.together] == [[11, 61]]
        assert not report.others_change


def test_inputs_that_cancel_each_other_are_found_one_by_one(tmp_path: Path) -> None:
    """Left out together they change nothing, which is not looked into by groups."""
    inputs: list[Any] = [[[2, 1]] for _ in range(64)]
    inputs[40], inputs[41] = [[0, 5]], [[0, -5]]
    record_inputs(tmp_path / "run.tape", Ledger(), inputs)

    assert influence(tmp_path / "run.tape", "account", 0, Ledger).inputs == []
    report = influence(tmp_path / "run.tape", "account", 0, Ledger, each=True)
    assert [(one.tick, one.without) for one in report.inputs] == [(41, -5), (42, 5)]
    assert report.runs <= 64 + 3


def test_items_of_lists(tmp_path: Path) -> None:
    """Of a tick with several items, those that matter are named; ticks after the one asked about do not count."""
    inputs = [[[1, 1], [0, 2], [2, 3], [0, 4]], [[2, 1]], [[0, 7]], [[0, 1], [0, 1]]]
    record_inputs(tmp_path / "run.tape", Ledger(), inputs)

    report = influence(tmp_path / "run.tape", "account", 0, Ledger, at=3)

    assert [(one.tick, one.item, one.value, one.without) for one in report.inputs] == [
        (1, 1, [0, 2], 11),
        (1, 3, [0, 4], 9),
        (3, None, [[0, 7]], 6),
    ]


@pytest.mark.parametrize("number", range(6))
def test_one_by_one_as_by_brute_force(tmp_path: Path, number: int) -> None:
    """Of a random machine; each set changes the room when all of it is left out, and no part of it does."""
    chance = random.Random(f"{random.randrange(1 << 20)} {number}")
    seed, inputs = chance.randrange(1 << 20), [chance.choice([None, 1, 2, 3]) for _ in range(12)]
    print(seed, inputs)
    record_inputs(tmp_path / "run.tape", Maze(seed), inputs)
    given = {tick: one for tick, one in enumerate(inputs, 1) if one is not None}
    room = int(plain(inputs, lambda: Maze(seed))["room"])

    def without(*left_out: int) -> int:
        left = {tick: one for tick, one in given.items() if tick not in left_out}
        return int(plain(with_parts(len(inputs), left), lambda: Maze(seed))["room"])

    report = influence(tmp_path / "run.tape", "room", (), lambda: Maze(seed), each=True)

    assert {one.tick: one.without for one in report.inputs} == {
        tick: without(tick) for tick in given if without(tick) != room
    }
    for group in report.together:
        ticks = [one.tick for one in group]
        assert without(*ticks) != room
        assert all(without(*some) == room for some in itertools.combinations(ticks, len(ticks) - 1))
    rest = set(given) - {one.tick for one in itertools.chain(report.inputs, *report.together)}
    assert (without(*rest) != room) == report.others_change


def test_values_that_are_not_there(tmp_path: Path) -> None:
    """The name is corrected, and a row that the field does not have is named."""
    record_inputs(tmp_path / "run.tape", Ledger(), [[[0, 1]]])
    with pytest.raises(ExpressionError, match="did you mean account"):
        influence(tmp_path / "run.tape", "acount", 0, Ledger)
    with pytest.raises(ExpressionError, match="1 axes"):
        influence(tmp_path / "run.tape", "account", (0, 0), Ledger)
