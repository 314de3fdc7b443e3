"""Tapes of objects verified with newer code: attributes renamed or added since, by a field map."""

from __future__ import annotations

import importlib
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest

import recorder
import replayer
from recorder.errors import SimulationFailedError
from replayer.commands.main import main
from replayer.playback.field_map import FieldMapError
from replayer.regression.golden_tapes import compare_golden, record_golden

from oracle.command_lines import run

OLD = """
import random


class Ship:
    def __init__(self, number):
        self.name, self.hull, self.crew = f"ship {number}", 10, [number]


class Fleet:
    def __init__(self, seed=3):
        self.rng = random.Random(seed)
        self.day = 0
        self.ships = [Ship(number) for number in range(5)]
        self.flagship = self.ships[0]
        self.lost = {}

    def advance(self, order=None):
        self.day += 1
        if order is not None:
            self.launch(order)
        for ship in self.ships:
            if self.rng.random() < 0.2:
                ship.hull -= 1
            if ship.hull == 0:
                self.lost[ship.name] = ship.crew
        self.ships = [ship for ship in self.ships if ship.hull > 0]

    def launch(self, number):
        self.ships.append(Ship(number))
"""
CHANGES = (
    ("self.day", "self.turn"),
    ("self.hull", "self.strength"),
    ("ship.hull", "ship.strength"),
    ("ship.name", "ship.label"),
)
NEW = OLD.replace("self.name, ", "self.label, ")
for old_text, new_text in CHANGES:
    NEW = NEW.replace(old_text, new_text)
ADDED = NEW.replace("self.lost = {}", "self.lost = {}\n        self.steps = 7").replace(
    "self.turn += 1", "self.turn += 1\n        self.steps += 1"
)
MAP = """
[renamed]
Fleet.day = "turn"
Ship.hull = "strength"
"Ship.name" = "Ship.label"
"""


def module(text: str) -> ModuleType:
    """The module fleet with this code."""
    Path("fleet.py").write_text(text)
    sys.modules.pop("fleet", None)
    importlib.invalidate_caches()
    return importlib.import_module("fleet")


@pytest.fixture(autouse=True)
def tape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tape of the old code, in which ships come and go."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "old.tape"
    options = {"keyframe_interval_ticks": 15, "keyframe_after_ms": None, "quiet": True, "trial_ms": 0}
    with recorder.record(module(OLD).Fleet(), path, step=("advance", "launch"), **options) as fleet:
        for day in range(80):
            fleet.advance(day if day % 9 == 4 else None)
            if day == 30:
                fleet.launch(99)
        assert len(fleet.lost) > 2
    Path("fleet.toml").write_text(MAP)
    return path


def test_renamed_attributes_verify(tape: Path) -> None:
    """Every tick, and keyframes; the new code alone, and a map that lacks a name, do not."""
    new = module(NEW)
    report = replayer.verify_tape(tape, replayer.with_field_map(new.Fleet, "fleet.toml", tape))
    assert (report.ok, report.verified_ticks) == (True, 82)
    assert new.Fleet().__class__ is new.Fleet
    with pytest.raises(SimulationFailedError, match="'Fleet' object has no attribute 'turn'"):
        replayer.verify_tape(tape, new.Fleet)
    Path("less.toml").write_text(MAP.replace('Ship.hull = "strength"\n', ""))
    with pytest.raises(SimulationFailedError, match="'Ship' object has no attribute 'strength'"):
        replayer.verify_tape(tape, replayer.with_field_map(new.Fleet, "less.toml", tape))


def test_a_change_of_behaviour_is_a_desync_at_its_tick(tape: Path) -> None:
    """A ship that loses two at a time from day 41 on, found by a plain loop as well."""
    changed = NEW.replace("ship.strength -= 1", "ship.strength -= 2 if self.turn > 40 else 1")
    plain, other = module(OLD).Fleet(), module(changed).Fleet()
    first = None
    for tick in range(1, 60):
        calls = [("launch", 99)] if tick == 32 else [("advance", tick - 1 - (tick > 32))]
        for name, day in calls:
            for fleet in (plain, other):
                getattr(fleet, name)(day if name == "launch" or day % 9 == 4 else None)
        hulls = [ship.hull for ship in plain.ships], [ship.strength for ship in other.ships]
        if first is None and hulls[0] != hulls[1]:
            first = tick
    report = replayer.verify_tape(tape, replayer.with_field_map(sys.modules["fleet"].Fleet, "fleet.toml", tape))
    assert report.first_bad == first
    assert first is not None


def test_an_added_attribute_has_the_value_of_the_map_after_a_load(tape: Path) -> None:
    """The step counts in it; the tape does not have it."""
    new = module(ADDED)
    Path("added.toml").write_text(f"{MAP}\n[added]\nFleet.steps = 0\n")
    factory = replayer.with_field_map(new.Fleet, "added.toml", tape)
    assert replayer.verify_tape(tape, factory).ok
    with pytest.raises(SimulationFailedError, match="'Fleet' object has no attribute 'steps'"):
        replayer.verify_tape(tape, replayer.with_field_map(new.Fleet, "fleet.toml", tape))


def test_an_added_attribute_begins_again_at_each_load(tape: Path) -> None:
    """A seek backwards, or far ahead, is a load: the value of another tick would make it a desync that is none."""
    wears_out = ADDED.replace(
        "        if order is not None",
        "        if self.steps > 40:\n            self.turn += 1\n        if order is not None",
    )
    assert wears_out != ADDED
    Path("added.toml").write_text(f"{MAP}\n[added]\nFleet.steps = 0\n")
    factory = replayer.with_field_map(module(wears_out).Fleet, "added.toml", tape)
    numbers = random.Random(4)
    with replayer.open(tape, factory) as run:
        for tick in [80, 10, 79, 3, *numbers.sample(range(82), 8)]:
            run.seek(tick)
            assert run.state.hash() == run.tape.state_hash(tick)


def test_two_attributes_that_would_be_one_are_refused(tape: Path) -> None:
    """The tape has both: none is lost without a word, and the object is mapped again in the next call."""
    Path("both.toml").write_text(MAP.replace('Fleet.day = "turn"', 'Fleet.day = "lost"'))
    factory = replayer.with_field_map(module(NEW).Fleet, "both.toml", tape)
    fleet = factory()
    fleet.day, fleet.lost = 0, {}  # As a load of the tape does.
    for _ in range(2):
        with pytest.raises(FieldMapError, match=r"^both.toml: Fleet has both day and lost, which are one attribute"):
            fleet.advance()


def test_the_command_and_a_golden_tape(tape: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``replay verify --map``, and golden_tape(field_map=...), which compares the inputs as well."""
    days = [day if day % 9 == 4 else None for day in range(40)]
    golden = tape.with_name("golden.tape")
    record_golden(golden, module(OLD).Fleet, days, step="advance")
    new = module(NEW)
    assert run(main, "verify old.tape --sim fleet:Fleet --map fleet.toml") == 0
    assert "all 82 ticks match the recording" in capsys.readouterr().out
    mapped = {"step": "advance", "field_map": Path("fleet.toml")}
    assert compare_golden(golden, new.Fleet, days, **mapped) is None
    differs = compare_golden(golden, new.Fleet, [*days[:20], 5, *days[21:]], **mapped)
    assert differs is not None
    assert differs.tick == 21
    assert compare_golden(golden, new.Fleet, days, step="advance") is not None


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            '[renamed]\nday = "turn"',
            r"\[renamed\] day: expected the name of a class and of its attribute, such as Unit.hp",
        ),
        ('[renamed]\nFleet.day = "Ship.turn"', "an attribute cannot move to another class"),
        ('[renamed]\nFleet.day = "turn"\nFleet.lost = "turn"', "two attributes of Fleet are called turn"),
        (
            '[added]\nFleet.steps = "new"',
            r'\[added\] Fleet.steps: expected a number, true or false: "new" is for fields',
        ),
    ],
)
def test_a_map_that_does_not_fit(lines: str, message: str, tape: Path) -> None:
    """One line each."""
    Path("bad.toml").write_text(lines)
    with pytest.raises(FieldMapError, match=f"^bad.toml: .*{message}"):
        replayer.with_field_map(module(NEW).Fleet, "bad.toml", tape)


def test_a_class_without_dict_is_refused(tape: Path) -> None:
    """Its attributes cannot be renamed."""
    slots = NEW.replace("class Ship:\n", "class Ship:\n    __slots__ = ('label', 'strength', 'crew')\n\n")
    with pytest.raises(FieldMapError, match="Ship has no __dict__: its attributes cannot be renamed"):
        replayer.with_field_map(module(slots).Fleet, "fleet.toml", tape)
