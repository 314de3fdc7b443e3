"""``replay branch --override`` with calls whose arguments are objects, given as ``replay who --json`` shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commanded_battle import ACE, KING, Act, Battle, Command, Table, hand, orders

import recorder
import replayer
import replayer.commands.main
from replayer.diagnose.parties.party_runner import PartyRunner
from replayer.value_text import inputs_to_json

from oracle.command_lines import assert_one_line, run


class StoppedError(Exception):
    """What is tested has happened."""


SIM = "--sim commanded_battle:"
TICKS, TICK = 8, 5


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a tape of eight turns."""
    monkeypatch.chdir(tmp_path)
    with recorder.record(Battle(), "battle.tape", step="turn", quiet=True) as battle:
        for tick in range(1, TICKS + 1):
            battle.turn(orders(battle, tick))


def shown(tape_name: str = "battle.tape") -> Any:
    """The inputs of the tick as ``replay who --json`` prints them."""
    with replayer.Tape(tape_name) as tape:
        return json.loads(json.dumps(inputs_to_json(tape.frame(TICK).inputs)))


def branch(inputs: Any, game: str = "Battle") -> int:
    """The exit code of a branch with these inputs at the tick."""
    Path("x.jsonl").write_text(json.dumps({"tick": TICK, "inputs": inputs}) + "\n")
    return int(
        run(replayer.commands.main.main, f"branch {game.lower()}.tape --at 4 --override x.jsonl -o x.tape {SIM}{game}")
    )


def facts(battle: Any) -> Any:
    """All values of a battle."""
    return [(one.name, one.health, one.place) for one in battle.squads], list(battle.notes)


def plain(change: Any = None) -> Any:
    """The battle of a plain loop, with other commands at the tick."""
    battle = Battle()
    for tick in range(1, TICKS + 1):
        commands = orders(battle, tick)
        if tick == TICK and change is not None:
            change(battle, commands)
        battle.turn(commands)
    return facts(battle)


def branched() -> Any:
    """The end of the branch, whose ticks are verified."""
    with replayer.open("x.tape", world=Battle) as made:
        assert made.verify().ok
        made.seek(-1)
        return facts(made.subject)


def test_recorded_calls_are_read_as_they_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Inputs copied from what is shown give the same run."""
    assert branch(shown()) == 0
    assert "the same as battle.tape to tick 8" in capsys.readouterr().out
    assert branched() == plain()


def test_other_members_objects_and_tuples() -> None:
    """A member that was never recorded, other objects by their paths, a tuple, a text that looks like a path, one more order."""
    inputs = shown()
    commands = inputs["turn()"][0][0]
    commands[0]["Command"] |= {"act": "Act.REST", "about": None}
    commands[1]["Command"] |= {"squad": "squads[1]", "to": [30, 40], "note": "squads[2]"}
    added = {"act": "Act.HEAL", "squad": "by_name['red']", "to": None, "note": "Act.HEAL", "about": None}
    commands.append({"Command": added})
    commands.append({"Command": {**added, "squad": "by_name[7]", "note": None}})
    assert branch(inputs) == 0

    def change(battle: Battle, given: list[Command]) -> None:
        given[0].act, given[0].about = Act.REST, None
        given[1].squad, given[1].to, given[1].note = battle.squads[1], (30, 40), "squads[2]"
        given.append(Command(Act.HEAL, battle.by_name["red"], note="Act.HEAL"))
        given.append(Command(Act.HEAL, battle.by_name[7]))

    assert branched() == plain(change) != plain()


def test_keywords_that_were_never_recorded_are_plain() -> None:
    """A text stays a text where none was recorded."""
    inputs = shown()
    inputs["turn()"][0][0][0]["Command"]["about"] = None  # Texts and objects were recorded there.
    inputs["turn()"][1] = {"by": "squads[0]"}
    assert branch(inputs) == 0
    assert branched()[1][4] == "squads[0]: squads[5]"


@pytest.mark.parametrize(
    ("attribute", "value", "why"),
    [
        ("act", "Act.FLY", "expected a member of Act (MARCH, HEAL, REST)"),
        ("act", "march", "expected a member of Act"),
        ("act", 3, "expected a member of Act"),
        ("squad", "squads[77]", "expected the path to an object that the game holds now"),
        ("squad", "squads[0].health", "expected the path to an object"),
        ("squad", "squads[0", "expected the path to an object"),
        ("squad", "__class__", "expected the path to an object"),
        ("squad", 5, "expected the path to an object"),
        ("squad", {"name": "red"}, "what was recorded there"),
        ("squad", [1], "what was recorded there"),
        ("about", "squads[1]", "texts and objects were recorded there"),
        ("more", 1, "expected the attributes act, squad, to, note, about"),
    ],
)
def test_what_cannot_be_read_is_refused(
    capsys: pytest.CaptureFixture[str], attribute: str, value: Any, why: str
) -> None:
    """One line that names the place and the way in Python; no tape is written."""
    inputs = shown()
    inputs["turn()"][0][0][0]["Command"][attribute] = value
    assert branch(inputs) == 2
    assert_one_line(capsys.readouterr(), why)
    assert not Path("x.tape").exists()


def test_other_classes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A class that was not recorded at the place is none there."""
    inputs = shown()
    inputs["turn()"][0][0][0] = {"Squad": {"name": "red", "health": 1, "place": [0, 0]}}
    assert branch(inputs) == 2
    assert_one_line(capsys.readouterr(), "expected Command")


@pytest.fixture
def table() -> Any:
    """A tape on which cards of a module are played."""
    with recorder.record(Table(), "table.tape", step="play", quiet=True) as table:
        for tick in range(1, TICKS + 1):
            table.play(*hand(tick))


def played(change: Any = None) -> Any:
    """The end of a plain loop, with another hand at the tick."""
    table = Table()
    for tick in range(1, TICKS + 1):
        table.play(*(change if tick == TICK and change is not None else hand(tick)))
    return vars(table)


def played_in_branch() -> Any:
    """The end of the branch, whose ticks are verified."""
    with replayer.open("x.tape", world=Table) as made:
        assert made.verify().ok
        made.seek(-1)
        return vars(made.subject)


@pytest.mark.usefixtures("table")
def test_objects_of_modules_are_read_by_their_names() -> None:
    """The recorded one of the tick, and another one that was recorded at the place; a set cannot be given."""
    inputs = shown("table.tape")
    assert inputs == {"play()": [["KING", "KING", ["KING"]], {}]}
    inputs["play()"][0][0] = "ACE"
    inputs["play()"][0][2] = {}  # No card, but no list either.
    assert branch(inputs, "Table") == 0
    assert played_in_branch() == played((ACE, KING, {})) != played()


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        (0, "TEN", "[0]: 'TEN': expected one of the objects ACE, KING"),  # Of the module, but it was never recorded.
        (0, "pass", "[0]: 'pass': expected one of the objects ACE, KING"),
        (0, [1], "[0]: [1]: expected what was recorded there"),
        (0, 3, "[0]: 3: expected one of the objects ACE, KING"),
        (1, "ACE", "[1]: 'ACE': texts and objects were recorded there"),
        (2, ["ACE"], "[2]: ['ACE']: a list may stand for several types"),
    ],
)
def test_objects_of_modules_and_sets_of_them_are_not_taken_for_texts_and_lists(
    capsys: pytest.CaptureFixture[str], place: int, value: Any, why: str
) -> None:
    """One line that names the place; no tape is written."""
    inputs = shown("table.tape")
    inputs["play()"][0][2] = {}
    inputs["play()"][0][place] = value
    assert branch(inputs, "Table") == 2
    assert_one_line(capsys.readouterr(), why)
    assert not Path("x.tape").exists()


@pytest.mark.usefixtures("table")
def test_a_text_stays_a_text_beside_objects_of_modules() -> None:
    """One that is no name of such an object."""
    inputs = shown("table.tape")
    inputs["play()"][0][1:] = ["stop", {}]
    assert branch(inputs, "Table") == 0
    assert played_in_branch() == played((KING, "stop", {})) != played()


def test_diff_names_values_of_objects_by_their_paths(capsys: pytest.CaptureFixture[str]) -> None:
    """No keyframe is at the first different tick: the objects are those of the re-simulated states."""
    inputs = shown()
    inputs["turn()"][0][0][1]["Command"]["to"] = [30, 40]
    assert branch(inputs) == 0
    capsys.readouterr()
    assert run(replayer.commands.main.main, f"diff battle.tape x.tape {SIM}Battle") == 1
    out = capsys.readouterr().out
    assert "  fields: squads[0].place[0], squads[0].place[1]\n" in out
    assert "  at tick 5, re-simulated:\n    squads[0].place[0]: first 15, second 40\n" in out
    assert run(replayer.commands.main.main, f"diff battle.tape x.tape {SIM}Battle --json") == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["fields"] == ["squads[0].place[0]", "squads[0].place[1]"]
    assert "graph." not in json.dumps(facts)
    assert run(replayer.commands.main.main, f"diff battle.tape x.tape {SIM}Battle --ticks 1 --json") == 1
    assert json.loads(capsys.readouterr().out)["fields"] == facts["fields"]


def test_explain_prints_the_first_different_tick_before_it_runs_anything(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows may take long: the tick is known from the tapes alone."""
    inputs = shown()
    inputs["turn()"][0][0][1]["Command"]["to"] = [30, 40]
    assert branch(inputs) == 0
    capsys.readouterr()
    printed: list[str] = []

    def stop(*_: Any) -> None:
        printed.append(capsys.readouterr().out)
        raise StoppedError

    monkeypatch.setattr(PartyRunner, "run", stop)
    with pytest.raises(StoppedError):
        run(replayer.commands.main.main, f"explain battle.tape x.tape {SIM}Battle")
    assert printed == ["battle.tape and x.tape: first different at tick 5 of 4 to 8\n"]
