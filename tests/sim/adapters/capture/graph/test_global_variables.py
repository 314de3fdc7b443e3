"""An object is that of a global variable only while the variable refers to it, and code of the game can reach it."""

from __future__ import annotations

import gc
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from sim.adapters.capture.graph.names.global_names import names_of_globals
from sim.adapters.find_adapter import adapt
from sim.kernel.simulation import restore

SHARED: Any = None


class Thing:
    """An object with attributes of its own."""

    def __init__(self, number: int) -> None:
        self.number = number


class Keeper:
    """Takes up an object from outside at its first step, and gives the variable another value at its second."""

    def __init__(self, taken: Any, replaced_at: int = -1) -> None:
        self.ticks, self.held, self.replaced_at = 0, [], replaced_at
        self._taken = [taken]

    def step(self, _: Any) -> None:
        """One tick."""
        self.ticks += 1
        if self.ticks == 1:
            self.held.append(self._taken.pop())
        if self.ticks == self.replaced_at:
            globals()["SHARED"] = Thing(7)
        self.held[0].number += 1


@pytest.fixture(autouse=True)
def same_variable_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """SHARED is None again after each test."""
    monkeypatch.setattr(sys.modules[__name__], "SHARED", None)


def test_an_object_that_a_variable_referred_to_is_an_ordinary_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable has another value when the game takes the object up: a restore writes to neither."""
    module = sys.modules[__name__]
    thing = Thing(1)
    monkeypatch.setattr(module, "SHARED", thing)
    live = adapt(Keeper(None))  # The names of global variables are read here.
    other = Thing(100)
    monkeypatch.setattr(module, "SHARED", other)
    live.subject._taken[:] = [thing]
    live.step(None)
    state = live.state.snapshot()
    fresh = adapt(Keeper(Thing(0)))
    restore(fresh, state)

    assert fresh.subject.held[0].number == 2
    assert fresh.subject.held[0] not in (thing, other)
    assert (thing.number, other.number) == (2, 100)


def test_a_variable_that_a_step_gives_another_value_no_longer_names_the_object(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before that step a restore fills the object of the variable; after it, it makes one of its own."""
    module = sys.modules[__name__]
    thing = Thing(1)
    monkeypatch.setattr(module, "SHARED", thing)
    live = adapt(Keeper(thing, replaced_at=2))
    live.step(None)
    named = live.state.snapshot()
    live.step(None)
    unnamed = live.state.snapshot()
    second = module.SHARED
    restore(live, unnamed)
    assert live.subject.held[0].number == 3
    assert live.subject.held[0] not in (thing, second)
    assert (thing.number, second.number) == (3, 7)
    monkeypatch.setattr(module, "SHARED", thing)
    restore(live, named)
    assert live.subject.held[0] is thing
    assert thing.number == 2


SCRIPT = """
import functools

class Tile: pass

GRASS, WATER, ROCK, SAND, RULES, UNUSED = Tile(), Tile(), Tile(), Tile(), [], []
TILES = {"water": WATER, "more": [ROCK]}
LEFT = []
game = Tile()
hero = Tile()
for enemy in [Tile()]:
    pass
TURNS, SCORES = [], []

def named():
    GRASS.colour = 1
    return TILES

def by_default(rules=RULES):
    return [rules.hero for enemy in rules]

class Game:
    LEVELS = []
    def act(self, enemy):
        self.hero = enemy
        def inner():
            TURNS.append(enemy)

ACTIONS = {"score": functools.partial(lambda: SCORES)}
"""


def test_only_variables_of_a_script_that_its_code_reaches_have_names() -> None:
    """By name, by a default, in a container of these, in a table of functions; the script's own variables have none."""
    script, imported = types.ModuleType("__main__"), types.ModuleType("a_game_like_a_script")
    for module in (script, imported):
        exec(SCRIPT, vars(module))
    reached = {"GRASS", "WATER", "ROCK", "RULES", "TILES", "TURNS", "SCORES", "Game.LEVELS"}

    assert {name.removeprefix(".:") for name in names_of_globals(script, ".").values()} == reached
    others = {"SAND", "UNUSED", "LEFT", "game", "hero", "enemy", "ACTIONS"}
    assert {name.removeprefix(".:") for name in names_of_globals(imported, ".").values()} == reached | others


PROGRAM = """
import recorder

class Thing:
    def __init__(self, number):
        self.number, self.parts = number, [number]

class Game:
    def __init__(self):
        self.n, self.things = 0, [Thing(1), Thing(2)]
    def step(self):
        self.n += 1
        self.things.append(Thing(self.n))
        if len(self.things) > 6:
            del self.things[0]

def facts(game):
    return game.n, [(type(one).__name__, getattr(one, "number", None), getattr(one, "parts", [])[:]) for one in game.things]

if __name__ == "__main__":
    for round in range(2):
        game = Game()
        for thing in game.things:
            pass
        parts = thing.parts
        truth = [facts(game)]
        for _ in range(12):
            game.step()
            truth.append(facts(game))
        begun = Game()
        for first in begun.things:
            pass
        game = recorder.record(
            begun, f"{round}.tape", step="step", quiet=True, trial_ms=0, keyframe_interval_ticks=4
        )
        f = [facts(game)]
        for _ in range(12):
            game.step()
            f.append(facts(game))
        game.close()
        assert f == truth
        import replayer
        with replayer.open(f"{round}.tape", world=Game) as run:
            for tick in (7, 0, 5, 12):
                run.seek(tick)
                assert facts(run.subject) == truth[tick], (round, tick)
        assert f == truth, "a seek wrote into a list of the script"
"""


@pytest.mark.seldom(0.15)
def test_a_script_whose_variables_hold_parts_of_its_game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tapes are right in the script itself, and where the file is imported and these variables are missing."""
    import replayer

    (tmp_path / "a_game_of_things.py").write_text(PROGRAM)
    command = [sys.executable, "a_game_of_things.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    monkeypatch.syspath_prepend(tmp_path)
    import a_game_of_things as game  # type: ignore[import-not-found]

    plain, truth = game.Game(), []
    for _ in range(13):
        truth.append(game.facts(plain))
        plain.step()
    for number in range(2):
        with replayer.open(tmp_path / f"{number}.tape", world=game.Game) as run:
            for tick in (6, 0, 11, 12, 4):
                run.seek(tick)
                assert game.facts(run.subject) == truth[tick]
            assert run.verify(jobs=1).ok
    del sys.modules["a_game_of_things"]
    gc.collect()
