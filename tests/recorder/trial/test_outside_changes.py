"""What steps change outside the simulation's objects is named before the recording, and accused only if a step reads it."""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trapped_games as games

import recorder
from recorder.ambient import roots
from recorder.trial.trial import try_simulation
from sim.adapters import NotCapturedError, adapt, fields
from sim.kernel.simulation import as_simulation

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="a trial needs Linux"), pytest.mark.tried]


def outside(game: Any) -> tuple[str, ...]:
    return try_simulation(as_simulation(adapt(game, fields())), 4000.0).outside


def test_class_attributes_and_globals_that_steps_change_are_named() -> None:
    """Also where no step of the trial reads them; this process keeps its values."""
    before = games.LateReader.made, games.STEPS_MADE
    assert set(outside(games.LateReader())) == {
        "LateReader.made (class attribute)",
        "module trapped_games: STEPS_MADE (module global)",
    }
    assert (games.LateReader.made, games.STEPS_MADE) == before


RULES = "MOVES = {}\n"
GAME = """
from many_games.war import rules
from many_games import players

class War:
    def __init__(self):
        self.turn = 0

    def step(self, _):
        self.turn += 1
        rules.MOVES[self.turn] = str(self.turn)
        players.NAMES.append("another")
"""


@pytest.mark.seldom(0.18)
def test_modules_beside_that_of_an_installed_game_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the same part of the package, as in PettingZoo's chess; what other parts keep is not."""
    (tmp_path / "many_games/war").mkdir(parents=True)
    for name, text in {"__init__": "", "players": "NAMES = []\n", "war/rules": RULES, "war/game": GAME}.items():
        (tmp_path / f"many_games/{name}.py").write_text(text)
    monkeypatch.setattr(roots, "_installed", lambda: (str(tmp_path),))
    monkeypatch.syspath_prepend(tmp_path)
    war = importlib.import_module("many_games.war.game").War()

    assert outside(war) == ("module many_games.war.rules: MOVES (module global)",)


@pytest.mark.parametrize("kind", [games.Sound, games.Remembers])
@pytest.mark.seldom(0.18)
def test_a_sound_game_changes_nothing_there(kind: Any) -> None:
    """A cache of functools is not named: it gives what the function would give."""
    assert outside(kind()) == ()


@pytest.mark.seldom(0.18)
def test_the_line_before_a_recording_names_them_without_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says that no step tried depends on them."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with recorder.record(games.LateReader(), tmp_path / "run.tape", trial_ms=4000) as game:
            game.step(None)
    printed = capsys.readouterr().err.splitlines()
    assert printed[1].endswith(": LateReader: exact in the steps tried: LateReader captured")
    (line,) = [line for line in printed if line.startswith("tried")]
    assert "; steps change " in line
    assert "LateReader.made (class attribute)" in line
    assert "not saved: no step tried depends on it" in line


def test_a_class_attribute_that_a_step_reads_is_refused(tmp_path: Path) -> None:
    """By its name."""
    with pytest.raises(NotCapturedError, match=r"a step reads ClassCounter\.ids \(class attribute\)"):
        recorder.record(games.ClassCounter(), tmp_path / "run.tape", quiet=True, trial_ms=4000)


class Soldier:
    """Numbered by its class."""

    made = 0

    def __init__(self) -> None:
        Soldier.made += 1
        self.number = Soldier.made


class Barracks:
    """Recruits one soldier in each step."""

    def __init__(self) -> None:
        self.soldiers = [Soldier()]

    def step(self, _: Any) -> None:
        """Recruit."""
        self.soldiers.append(Soldier())


def test_what_differs_is_named_by_its_path(tmp_path: Path) -> None:
    """The trial names no field in which objects are kept."""
    with pytest.raises(NotCapturedError, match=r"the state after step 1 differs: soldiers\[1\]\.number\. "):
        recorder.record(Barracks(), tmp_path / "run.tape", quiet=True, trial_ms=4000)


class Heat:
    """What a room's class leads to, and its stove holds, too."""

    def __init__(self) -> None:
        self.degrees = np.zeros(3)


class Room:
    """Its class names what stands in it, and counts."""

    heat: Any = None
    opened = 0


class House:
    """Saves the heat itself, and restores it in place."""

    def __init__(self) -> None:
        self.heat = Heat()
        Room.heat = self.heat

    def step(self, _: Any) -> None:
        """Warm the room."""
        Room.heat.degrees += 1.0
        Room.opened += 1

    def save(self) -> dict[str, Any]:
        return {"degrees": self.heat.degrees}

    def load(self, saved: dict[str, Any]) -> None:
        self.heat.degrees[:] = saved["degrees"]


def test_what_a_class_leads_to_is_not_called_unsaved_where_a_restore_brings_it_back() -> None:
    assert try_simulation(as_simulation(House()), 4000.0).outside == ("Room.opened (class attribute)",)
