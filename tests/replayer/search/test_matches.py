"""The ticks at which a condition holds, beside those that a plain loop without a recorder sees."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asked_worlds import INTERVAL, TICKS, Battle, Garden

import recorder
import replayer
from replayer.search.matches import Finder, UnprovedAnswerError
from replayer.search.search_errors import ExpressionError

from oracle.second_reader import FRAMES, Reader
from small_worlds import Walkers


def ensure_answers(run: Any, condition: Any, expected: list[int]) -> None:
    """All, first and last are what is expected."""
    assert run.find(condition).ticks == expected
    assert run.first(condition) == (expected[0] if expected else None)
    assert run.last(condition) == (expected[-1] if expected else None)


def test_conditions_over_fields_equal_a_plain_loop(garden: tuple[Path, list[Any]], seed: int) -> None:
    """Random thresholds of sums, elements and extremes."""
    path, states = garden
    chance = random.Random(seed)
    with replayer.open(path, Garden) as run:
        for _ in range(12):
            tick = chance.randrange(TICKS + 1)
            row = chance.randrange(6)
            limit = int(states[tick]["plants.energy"].sum())
            element = int(states[tick]["plants.energy"][row])
            texts: dict[str, Callable[[Any], bool]] = {
                f"plants.energy.sum() > {limit}": lambda s, limit=limit: int(s["plants.energy"].sum()) > limit,
                f"plants.energy[{row}] == {element} and heat[1, 2] == 0.5": lambda s, row=row, element=element: (
                    s["plants.energy"][row] == element and s["heat"][1, 2] == 0.5
                ),
            }
            for text, holds in texts.items():
                ensure_answers(run, text, [number for number, state in enumerate(states) if holds(state)])


def test_a_function_of_a_snapshot_is_a_condition(garden: tuple[Path, list[Any]]) -> None:
    """It gets the state of each tick."""
    path, states = garden
    expected = [number for number, state in enumerate(states) if state["plants.id"].max() > 6]
    with replayer.open(path, Garden) as run:
        ensure_answers(run, lambda state: state["plants.id"].max() > 6, expected)


@pytest.mark.seldom(0.15)
def test_a_function_that_asks_for_an_object_hears_what_it_gets(garden: tuple[Path, list[Any]]) -> None:
    """A note on the error of a snapshot; any other AttributeError has none."""
    path, _ = garden
    with replayer.open(path, Garden) as run:
        with pytest.raises(AttributeError, match="fog") as raised:
            run.find(lambda state: len(state.fog[1]) < 40)  # type: ignore[attr-defined]
        assert (
            "no recorded objects: for values inside objects write the condition as a text" in raised.value.__notes__[0]
        )
        with pytest.raises(AttributeError) as own:
            run.find(lambda _: [].fog)  # type: ignore[attr-defined]
        assert not hasattr(own.value, "__notes__")


def test_conditions_over_objects_equal_a_plain_loop(battle: tuple[Path, list[Any]]) -> None:
    """Paths, all items of a list, keys, texts and lengths."""
    path, states = battle
    texts: dict[str, Callable[[Any], bool]] = {
        "knights[:].hp.min() < 5": lambda s: bool(s["hp"]) and min(s["hp"]) < 5,
        "knights[:].hp.sum() > 50 and gold['red'] >= 6": lambda s: sum(s["hp"]) > 50 and s["gold"]["red"] >= 6,
        "knights[1].mood == 'angry'": lambda s: len(s["mood"]) > 1 and s["mood"][1] == "angry",
        "len(knights) != 6 and tick % 2 == 0": lambda s: len(s["hp"]) != 6,
        "knights[-1].hp > 10": lambda s: bool(s["hp"]) and s["hp"][-1] > 10,
    }
    with replayer.open(path, Battle) as run:
        for text, holds in texts.items():
            expected = [number for number, state in enumerate(states) if holds(state)]
            if "tick" in text:
                expected = [number for number in expected if number % 2 == 0]
            ensure_answers(run, text, expected)


def test_telemetry_needs_no_step(garden: tuple[Path, list[Any]]) -> None:
    """The figures are on the tape: nothing is simulated, and no simulation is made."""
    path, states = garden
    sums = [int(state["plants.energy"].sum()) for state in states]
    limit = sorted(sums)[len(sums) // 2]

    def never() -> Any:
        raise AssertionError("a simulation was made")

    with replayer.open(path, never) as run:
        matches = run.find(f"telemetry.energy > {limit}", first_tick=1)

    assert matches.ticks == [tick for tick in range(1, TICKS + 1) if sums[tick] > limit]
    assert matches.simulated == 0


def test_the_cost_is_told(garden: tuple[Path, list[Any]]) -> None:
    """The last match is found without a step before its interval; a monotone one with one interval of steps."""
    path, _ = garden
    with replayer.open(path, Garden) as run:
        last = run.finder(f"tick == {TICKS - 1}").find("last")
        monotone = run.finder("steps >= 73").find_monotone()

    assert (last.ticks, last.simulated <= INTERVAL) == ([TICKS - 1], True)
    assert (monotone.ticks, monotone.simulated <= 2 * INTERVAL) == ([73], True)


@pytest.mark.parametrize("limit", [0, 1, INTERVAL - 1, INTERVAL, INTERVAL + 1, TICKS - 1, TICKS, TICKS + 1])
def test_a_monotone_condition_at_the_edges(garden: tuple[Path, list[Any]], limit: int) -> None:
    """It begins at a keyframe, next to one, at the first tick, at the last, or never."""
    path, _ = garden
    with replayer.open(path, Garden) as run:
        found = run.finder(f"steps >= {limit}").find_monotone().ticks

    assert found == ([limit] if limit <= TICKS else [])


def test_no_value_is_not_false(garden: tuple[Path, list[Any]]) -> None:
    """Where a condition has no value, it does not hold, nor does its negation, and the number of such ticks is told."""
    path, states = garden
    defined = [number for number, state in enumerate(states) if (state["plants.energy"] > 900).any()]
    with replayer.open(path, Garden) as run:
        matches = run.find("not plants.energy[plants.energy > 900].min() < 0")

    assert matches.ticks == defined
    assert matches.undefined == len(states) - len(defined)


@pytest.mark.parametrize("text", ["plants.enrgy > 3", "telemetry.lions > 3", "plants > 3"])
def test_an_unknown_name_is_refused_at_once(garden: tuple[Path, list[Any]], text: str) -> None:
    """Before anything is simulated, with the names that exist."""
    with replayer.open(garden[0], Garden) as run, pytest.raises(ExpressionError, match="there is no '"):
        run.find(text)


def test_ticks_that_cannot_be_reached_leave_the_answer_open(garden: tuple[Path, list[Any]], tmp_path: Path) -> None:
    """A first match behind lost ticks is not called the first; one before them is."""
    path = tmp_path / "damaged.tape"
    content = bytearray(garden[0].read_bytes())
    block = [block for block in Reader(bytes(content)).blocks if block.kind == FRAMES][2]
    content[block.offset + 80] ^= 1
    path.write_bytes(content)
    with replayer.open(path, Garden) as run:
        matches = run.find("steps >= 0")
        assert matches.missing
        begins = matches.missing[0].last_tick + 1
        early, late = run.first("steps >= 1"), run.last(f"steps <= {begins}")
        with pytest.raises(UnprovedAnswerError):
            run.first(f"steps >= {begins}")

    assert (early, late) == (1, begins)
    reached = {tick for one in matches.missing for tick in range(one.first_tick, one.last_tick + 1)}
    assert matches.ticks == [tick for tick in range(TICKS + 1) if tick not in reached]


def test_a_range_is_asked_alone(garden: tuple[Path, list[Any]]) -> None:
    """Both ends are included."""
    path, _ = garden
    with replayer.open(path, Garden) as run:
        finder = Finder(run.tape, run.counted_cursor, "steps % 10 == 0")

        assert finder.find("all", 20, 40).ticks == [20, 30, 40]
        assert finder.find("first", 21, 40).ticks == [30]
        assert finder.find("last", 0, 29).ticks == [20]


def test_a_figure_with_dots_in_its_name(tmp_path: Path) -> None:
    """As meadow has one for each species; alone, and together with a field."""

    class Counted(Walkers):
        def telemetry(self) -> dict[str, float]:
            return {"far.x": float(self.state["x"].max()), "far": 1.0}

    path = tmp_path / "run.tape"
    with recorder.Recorder(path, Counted(), trial_ms=0) as tape:
        for _ in range(60):
            tape.step(None)
    plain, xs = Counted(), []
    for _ in range(61):
        xs.append(plain.state["x"].copy())
        plain.step(None)
    wanted = [tick for tick, x in enumerate(xs) if x.max() > 3]
    assert wanted
    with replayer.open(path, world=Counted) as run:
        assert list(run.find("telemetry.far.x > 3").ticks) == wanted
        assert list(run.find("telemetry.far.x > 3 and telemetry.far == 1 and x.max() > 3").ticks) == wanted
