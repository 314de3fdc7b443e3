"""Who changed a value last, beside a plain loop without a recorder that compares it after each step."""

from __future__ import annotations

import inspect
import random
from pathlib import Path
from typing import Any

import asked_worlds
import numpy as np
import pytest
from asked_worlds import INTERVAL, ROWS, TICKS, Battle, Garden, battle_run

import replayer
from replayer.search.last_write import WriteSearch
from replayer.search.search_errors import ExpressionError
from replayer.search.watched_value import ABSENT, are_same, watched_value
from replayer.search.written_line import NOT_SEEN
from sim import Field, Schema, State

from small_worlds import Saved, record


class Generated:
    """Its step was made by exec: its lines are in no file."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("steps", "i8")))

    exec("def step(self, inputs):\n    self.state['steps'][...] += 1")


def last_change(values: list[Any], at: int) -> int | None:
    """The last tick up to at whose value is not that of the tick before."""
    changed = [tick for tick in range(1, at + 1) if not are_same(values[tick - 1], values[tick])]
    return changed[-1] if changed else None


def test_elements_equal_a_plain_loop(garden: tuple[Path, list[Any]], seed: int) -> None:
    """Random elements and ticks, values that come back and NaN among them."""
    path, states = garden
    chance = random.Random(seed)
    with replayer.open(path, Garden) as run:
        for _ in range(20):
            at, row, cell = (
                chance.randrange(TICKS + 1),
                chance.randrange(ROWS),
                (chance.randrange(3), chance.randrange(4)),
            )
            for field, place in (("plants.energy", (row,)), ("heat", cell)):
                values = [state[field][place].item() for state in states]
                write = run.last_write(field, place, at=at, line=False)

                assert write.tick == last_change(values, at), (field, place, at)
                assert are_same(write.after, values[at])
                if write.tick is not None:
                    assert are_same(write.before, values[write.tick - 1])


def test_an_entity_is_followed_through_its_life(garden: tuple[Path, list[Any]]) -> None:
    """It appears, changes and vanishes; another one in its row is not it."""
    path, states = garden
    numbers = sorted({int(number) for state in states for number in state["plants.id"]})
    with replayer.open(path, Garden) as run:
        for number in numbers:
            values = [
                state["plants.energy"][rows[0]].item()
                if (rows := np.flatnonzero(state["plants.id"] == number)).size
                else ABSENT
                for state in states
            ]
            write = run.last_write("plants.energy", entity=number, line=False)

            assert write.tick == last_change(values, TICKS)
            assert are_same(write.after, values[TICKS])


def test_again_and_again_backwards(garden: tuple[Path, list[Any]]) -> None:
    """Asked before each change, all changes of a value are found, once each."""
    path, states = garden
    values = [state["plants.energy"][2].item() for state in states]
    expected = [tick for tick in range(1, TICKS + 1) if values[tick] != values[tick - 1]]
    found, at = [], TICKS
    with replayer.open(path, Garden) as run:
        search = WriteSearch(run.tape, run.counted_cursor, watched_value("plants.energy", (2,)))
        while (write := search.last(at, wants_line=False)).tick is not None:
            found.append(write.tick)
            at = write.tick - 1

    assert found[::-1] == expected


def test_phase_line_and_inputs_are_those_of_the_change(garden: tuple[Path, list[Any]]) -> None:
    """The line that is named holds the statement that wrote the value, in the phase that ran it."""
    path, states = garden
    with replayer.open(path, Garden) as run:
        changed = [row for row in range(ROWS) if last_change([s["plants.energy"][row].item() for s in states], TICKS)]
        energy = run.last_write("plants.energy", changed[0])
        heat_at = next(
            (cell for cell in np.ndindex(3, 4) if last_change([s["heat"][cell].item() for s in states], TICKS)), (0, 0)
        )
        heat = run.last_write("heat", heat_at)

        assert energy.tick is not None
        assert energy.inputs == run.tape.frame(energy.tick).inputs
    assert energy.line is not None
    assert (energy.phase, heat.phase) == ("grow", "weather")
    assert "plants.energy" in energy.line.text
    assert energy.line.text == inspect.getsource(asked_worlds).splitlines()[energy.line.number - 1].strip()
    assert heat.line is not None
    assert heat.line.function.endswith("_weather")
    assert "self.state[" in heat.line.text


def test_paths_of_objects_equal_a_plain_loop(battle: tuple[Path, list[Any]], seed: int) -> None:
    """Attributes of members of a list, which is a list of places, and values of a dict."""
    path, states = battle
    chance = random.Random(seed)
    with replayer.open(path, Battle) as run:
        for _ in range(8):
            at, index = chance.randrange(TICKS + 1), chance.randrange(3)
            values = [state["hp"][index] if index < len(state["hp"]) else ABSENT for state in states]
            if values[at] is ABSENT:
                continue
            write = run.last_write(f"knights[{index}].hp", at=at, line=False)
            assert write.tick == last_change(values, at)
        gold = run.last_write("gold['red']", at=100)

    assert gold.tick == last_change([state["gold"]["red"] for state in states], 100)
    assert gold.line is not None
    assert gold.line.text == 'self.gold["red"] += bonus'


def test_the_line_is_in_the_function_that_writes(tmp_path: Path) -> None:
    """Where a function of its own changes the value, its line is named, not that of its call."""
    path = tmp_path / "battle.tape"
    states = battle_run(path, 5, TICKS, INTERVAL)
    changes = [tick for tick in range(1, TICKS + 1) if states[tick]["hp"][:1] != states[tick - 1]["hp"][:1]]
    with replayer.open(path, Battle) as run:
        write = run.last_write("knights[0].hp", at=changes[0])

    assert write.line is not None
    assert (write.line.function, write.line.text) == ("Battle.hurt", "knight.hp -= damage")


def test_without_a_change_none_is_named(garden: tuple[Path, list[Any]]) -> None:
    """The value of the first tick is both before and after."""
    with replayer.open(garden[0], Garden) as run:
        write = run.last_write("seed")

        assert (write.tick, write.line, write.is_proved) == (None, None, True)
        assert write.before == write.after == int(run[0]["seed"])


def test_the_cost_is_one_interval_for_a_late_change(garden: tuple[Path, list[Any]]) -> None:
    """What changed in the last interval is found without a step before it."""
    with replayer.open(garden[0], Garden) as run:
        write = run.last_write("steps", line=False)

    assert (write.tick, write.phase) == (TICKS, None), "it is counted before the first phase"
    assert write.simulated <= INTERVAL + 1


def test_a_saved_simulation_has_no_line_and_says_why(tmp_path: Path) -> None:
    """Its values are known after save() only: no line of the step is named, and none of the program that asks."""
    path = tmp_path / "saved.tape"
    record(path, Saved(), list(range(30)), keyframe_interval_ticks=7)
    with replayer.open(path, Saved) as run:
        write = run.last_write("total")

    assert (write.tick, write.before, write.after) == (30, 406, 435)
    assert (write.line, write.line_note) == (None, "the value is one that save() returned after the step")


def test_what_changes_outside_of_the_lines_of_a_step_has_no_line(tmp_path: Path) -> None:
    """The program that asks is not named, although it is the user's code, and runs on when the step has returned."""
    path = tmp_path / "generated.tape"
    record(path, Generated(), [None] * 10, keyframe_interval_ticks=4)
    with replayer.open(path, Generated) as run:
        write = run.last_write("steps")

    assert (write.tick, write.line, write.line_note) == (10, None, NOT_SEEN)


@pytest.mark.parametrize(
    ("field", "options", "why"),
    [
        ("plants.enrgy", {}, "did you mean plants.energy"),
        ("plants.energy", {"row": (1, 2)}, "has 1 axes"),
        ("plants.energy", {"row": 1, "entity": 3}, "not both"),
        ("plants.energy[:]", {}, "not the name of a value"),
        ("heat", {"entity": 3}, "is not the name of a value|there is no"),
        ("plants.energy.sum()", {}, "not the name of a value"),
        ("", {}, "not the name of a value"),
    ],
)
def test_a_value_that_is_none_is_refused(
    garden: tuple[Path, list[Any]], field: str, options: dict[str, Any], why: str
) -> None:
    """In one line, before anything is searched."""
    with replayer.open(garden[0], Garden) as run, pytest.raises(ExpressionError, match=why):
        run.last_write(field, **options)


def test_a_container_is_not_one_value(battle: tuple[Path, list[Any]]) -> None:
    """Its parts are; a list of objects has no value that two ticks could be compared by."""
    with replayer.open(battle[0], Battle) as run, pytest.raises(ExpressionError, match="name one value in it"):
        run.last_write("knights")
