"""replay explain names hidden state of any kind, as it was before the step."""

from __future__ import annotations

import importlib
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replayer.commands.main
from recorder import Recorder
from replayer.diagnose.explain.texts.value_texts import text_of
from replayer.diagnose.explain.value_hash import Digester

from oracle.command_lines import run

BAD_TICK = 11  # The first tick after a keyframe, which does not hold hidden state.
KEPT = '''
import random

import numpy as np
from sim import Field, Schema, State


class Crowded:
    """Keeps a dict that has many parts before the step; a loop names it."""

    def __init__(self):
        self.state = State(Schema(Field("x", "i8", (10,))))
        self.seen = {}

    def step(self, inputs):
        tick = int(self.state["x"][0])
        for number in range(30):
            self.seen[tick, number] = number
        self.state["x"][:] += 1
        self.state["x"][5] += len(self.seen)  # Crowded


class Hidden:
    def __init__(self):
        self.state = State(Schema(Field("x", "f8", (3,))))
        self.step_count = 0

    def step(self, inputs):
        self.step_count += 1
        self.state["x"][:] += self.step_count  # Hidden


class Dicing:
    def __init__(self):
        self.state = State(Schema(Field("x", "f8", (3,))))
        self.dice = np.random.default_rng(5)

    def step(self, inputs):
        self.state["x"][1] += self.dice.random()  # Dicing


class Saved:
    """Arithmetic turns an array without axes into a NumPy scalar; loading restores it as an array."""

    def __init__(self):
        self.total = np.zeros(())
        self.kept = 0.0

    def step(self, inputs):
        self.kept += 0.5
        self.total = self.total + self.kept  # Saved

    def save(self):
        return {"total": self.total}

    def load(self, saved):
        self.total = saved["total"].copy()


class Unit:
    def __init__(self, name):
        self.name, self.hp, self.tags = name, 70.0, {"green"}


class Army:
    """Objects outside the state, read in an expression with its own frame."""

    def __init__(self):
        self.state = State(Schema(Field("x", "f8", (3,))))
        self.units = [Unit(f"unit {number}") for number in range(20)]

    def step(self, inputs):
        self.units[14].hp -= 9.5
        self.units[15].tags.add(int(self.state["x"][1]))
        self.state["x"][0] += sum(unit.hp for unit in self.units)  # Army
        self.state["x"][1] += 1


class Legion:
    """A loop names a list of many objects in each turn, and the last turn changes one by what a class keeps."""

    total = 0

    def __init__(self):
        self.state = State(Schema(Field("x", "f8", (3,))))
        self.units = [Unit(f"unit {number}") for number in range(150)]

    def step(self, inputs):
        for unit in self.units:
            unit.hp = float(self.state["x"][1])
        Legion.total += 1
        for unit in self.units:
            if unit.name == "unit 140":
                unit.hp += Legion.total  # Legion
        self.state["x"][0] += sum(unit.hp for unit in self.units)
        self.state["x"][1] += 1


class Raising(Hidden):
    def step(self, inputs):
        self.state["x"][:] += 1
        if self.state["x"][0] == 5 and self.fails:
            raise RuntimeError("no more")

    fails = False


class Failing(Raising):
    fails = True
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the module."""
    (tmp_path / "kept_outside.py").write_text(KEPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    yield tmp_path
    sys.modules.pop("kept_outside", None)


def explained(capsys: Any, name: str, *, tick: int = BAD_TICK) -> dict[str, Any]:
    """Return the cause that the command names."""
    record(name)
    assert run(replayer.commands.main.main, f"explain {name}.tape --sim kept_outside:{name} --tick {tick} --json") == 1
    facts = json.loads(capsys.readouterr().out)
    line = KEPT[: KEPT.index(f"  # {name}")].count("\n") + 1
    assert (facts["tick"], facts["cause"]["line"]) == (tick, line)
    cause: dict[str, Any] = facts["cause"]
    return cause


def record(name: str) -> None:
    """Record twenty ticks in this process."""
    simulation = getattr(importlib.import_module("kept_outside"), name)()
    with Recorder(f"{name}.tape", simulation, keyframe_interval_ticks=10) as tape:
        for _ in range(20):
            tape.step()


def test_a_value_that_was_large_before_the_step_is_named(capsys: Any) -> None:
    """Large values are not read after each line; this one was last read before the first line ran."""
    cause = explained(capsys, "Crowded")

    assert cause["kind"] == "outside"
    assert [value["name"] for value in cause["outside"]] == ["self.seen"]


def test_hidden_state_is_shown_as_it_was_before_the_step(capsys: Any) -> None:
    """Not as the step's own line left it: after ten steps, and after none in the fresh instance."""
    cause = explained(capsys, "Hidden")

    assert [(value["name"], value["first"], value["second"]) for value in cause["outside"]] == [
        ("self.step_count", str(BAD_TICK - 1), "0")
    ]


def test_objects_are_shown_by_the_parts_that_differ(capsys: Any) -> None:
    """The recorded run has made eleven steps at this tick, the other instance one: never a text equal on both sides."""
    cause = explained(capsys, "Army")

    [hidden] = cause["outside"]
    assert hidden["name"] == "self.units"
    parts = {part["path"]: (part["first"], part["second"]) for part in hidden["parts"]}
    assert parts.pop("self.units[14].hp") == (str(70.0 - 10 * 9.5), "70.0")
    assert parts.pop("self.units[15].tags") == ("a set of 11", "a set of 1")
    assert parts == {f"self.units[15].tags{{{number}}}": ("present", "absent") for number in range(10)}

    assert run(replayer.commands.main.main, "explain Army.tape --sim kept_outside:Army --tick 11") == 1
    out = capsys.readouterr().out
    assert "      self.units[14].hp  A -25.0  B 70.0\n" in out
    assert "a Unit" not in out


@pytest.mark.seldom(0.15)
def test_a_change_in_a_late_turn_of_a_loop_over_many_objects_is_found(capsys: Any) -> None:
    """The list is not read in each turn, as that would take seconds."""
    cause = explained(capsys, "Legion")

    assert [value["name"] for value in cause["outside"]] == ["Legion.total"]
    assert [part["path"] for part in cause["value"]["parts"]] == ["unit.hp"]


def test_generators_are_shown_by_their_states(capsys: Any) -> None:
    """Both variants by the state of the generator before the step: after ten draws, and after none."""
    dice = np.random.default_rng(5)
    fresh = text_of(dice)
    dice.random(BAD_TICK - 1)
    assert text_of(dice) != fresh
    cause = explained(capsys, "Dicing")

    assert [(value["name"], value["first"], value["second"]) for value in cause["outside"]] == [
        ("self.dice", text_of(dice), fresh)
    ]


def test_an_array_without_axes_is_the_scalar_that_it_holds(capsys: Any) -> None:
    """A saved value is not taken for the cause because loading restores it as an array; one that is not saved is."""
    cause = explained(capsys, "Saved")

    assert [(value["name"], value["first"], value["second"]) for value in cause["outside"]] == [
        ("self.kept", "5.0", "0.0")
    ]


def test_digests_of_arrays_without_axes_and_of_scalars() -> None:
    """Equal values have equal digests; a different value, dtype or number of axes gives a different one."""
    digest = Digester().digest

    for scalar in (np.float64(2.5), np.int32(7), np.bool_(True), np.datetime64("2026-01-01")):
        assert digest(np.array(scalar)) == digest(scalar)
        assert digest(np.array([scalar])) != digest(scalar)
    assert digest(np.array(2.5)) != digest(np.array(2.25))
    assert digest(np.array(2.5, "f4")) != digest(np.array(2.5))


@pytest.mark.parametrize(
    "make",
    [
        lambda: random.Random(3),
        lambda: np.random.default_rng(3),
        *(lambda kind=kind: getattr(np.random, kind)(3) for kind in ("PCG64DXSM", "Philox", "MT19937", "SFC64")),
    ],
)
def test_texts_of_generators_differ_as_soon_as_they_drew(make: Any) -> None:
    """Equal states have equal texts; after a draw, also of half a word, they differ and fit on a line."""
    generator, same = make(), make()
    before = text_of(same)
    assert text_of(generator) == before

    numbers = np.random.Generator(generator) if isinstance(generator, np.random.BitGenerator) else generator
    if isinstance(numbers, random.Random):
        numbers.random()
    else:
        numbers.integers(0, 9, dtype="u4")
    assert text_of(generator) != before
    assert "…" not in before


@pytest.mark.seldom(0.18)
def test_a_failure_of_the_present_variant_has_no_label(capsys: Any) -> None:
    """Without --env and --code, the message begins with the error."""
    record("Raising")

    assert run(replayer.commands.main.main, "explain Raising.tape --sim kept_outside:Failing") == 2
    captured = capsys.readouterr()
    # The tick stood there before the step was run again.
    assert captured.out == "Raising.tape: tick 5: the search ended early\n"
    assert captured.err.startswith("error: tick 5: the step raised RuntimeError: no more")
    assert captured.err.count("\n") == 1
