"""What the code of a simulation names of the outside world is noted when a recording begins."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import recorder
from recorder.ambient.outside import outside_note
from recorder.ambient.outside.code_parts import named_outside
from recorder.ambient.outside.code_parts.named_outside import ENTRIES_MAX, NAMED_MAX, named_path
from recorder.ambient.outside.outside_note import OutsideNote, decode_note
from recorder.ambient.outside.outside_read import (
    argument_digest,
    arguments_fact,
    content_fact,
    folder_fact,
    variable_fact,
)
from replayer.tape.noted_outside import noted_outside
from replayer.tape.tape import Tape

GAME = """
import os
import named_rules


class Siege:
    def __init__(self):
        self.day = 0

    def step(self):
        self.day += 1
        if self.day > 1_000:
            import json
            import quick_dice
            from slow_dice.parts import roll
            open(os.path.dirname(__file__) + "/walls.csv")
            open(f"towers/{self.day}.txt")
            os.environ["SIEGE_PACE"]
            "not/there.json", "nor this", "named_rules.py"
"""
RULES = "from pathlib import Path\n\nTABLE = Path(__file__).with_name('rules.toml')\n"


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OutsideNote:
    """The note of a recording of a game that names files of its folder, of which its first steps read none."""
    folder = tmp_path / "siege"
    (folder / "towers").mkdir(parents=True)
    for name, text in (
        ("walls.csv", "1,2"),
        ("rules.toml", "a = 1"),
        ("towers/north.txt", "n"),
        ("towers/south.txt", "s"),
        ("quick_dice.py", "raise AssertionError('it is looked for, not imported')"),
    ):
        (folder / name).write_text(text)
    (folder / "named_siege.py").write_text(GAME)
    (folder / "named_rules.py").write_text(RULES)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("SIEGE_PACE", "3")
    for name in ("named_siege", "named_rules"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    game = recorder.record(importlib.import_module("named_siege").Siege(), "run.tape", quiet=True)
    game.step()
    game.close()
    with Tape("run.tape") as tape:
        return noted_outside(tape)


def test_what_the_code_names_is_noted(note: OutsideNote) -> None:
    """With a folder its files, modules that a function imports, and a missing file with the name of data; by paths beside the code."""
    assert {(kind, name): fact for kind, name, fact in note.named} == {
        ("file", "walls.csv"): content_fact("walls.csv"),
        ("file", "rules.toml"): content_fact("rules.toml"),
        ("folder", "towers"): folder_fact("towers"),
        ("file", "towers/north.txt"): content_fact("towers/north.txt"),
        ("file", "towers/south.txt"): content_fact("towers/south.txt"),
        ("file", "not/there.json"): "absent",
        ("variable", "SIEGE_PACE"): variable_fact("3"),
        ("import", "quick_dice"): "found",
        ("import", "slow_dice"): "absent",
    }
    assert note.entries("towers", str(Path("named_siege.py").resolve())) == {"north.txt", "south.txt"}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (
            "from rules import A\nimport pace\nfrom world import B as C\n\nclass G: pass\n",
            ["rules", "rules.A", "pace", "world", "world.B"],
        ),
        (
            "from rules import (\n    A,\n    B as C,\n)\nimport a.b as c, d\n",
            ["rules", "rules.A", "rules.B", "rules.", "a.b", "d"],
        ),
        (
            "from . import sea\nfrom ..land.hills import H\n",
            ["pkg.game", "pkg.game.sea", "pkg.land.hills", "pkg.land.hills.H"],
        ),
    ],
)
def test_each_import_statement_is_read_by_itself(source: str, names: list[str]) -> None:
    """Those that follow one another, and those over several lines."""
    assert list(named_outside._imports(source, "pkg.game")) == names


def test_a_finder_of_the_program_is_not_asked(note: OutsideNote, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is code of the user's, and may take long; what it might find is not said to be missing."""

    class Finder:
        asked: list[str] = []  # noqa: RUF012

        def find_spec(self, name: str, *_: Any) -> None:
            Finder.asked.append(name)

    assert note.named
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    with recorder.record(importlib.import_module("named_siege").Siege(), "again.tape", quiet=True) as game:
        game.step()
    assert not {"quick_dice", "slow_dice"} & {*Finder.asked}
    with Tape("again.tape") as tape:
        named = noted_outside(tape).named
    assert [fact for fact in named if fact[0] == "import"] == [("import", "quick_dice", "found")]


def test_without_a_trial_nothing_is_noted(note: OutsideNote) -> None:
    """A digest of a value that can be guessed is no secret."""
    assert note.named
    game = recorder.record(importlib.import_module("named_siege").Siege(), "bare.tape", quiet=True, trial_ms=0)
    game.step()
    game.close()
    with Tape("bare.tape") as tape:
        assert noted_outside(tape).named == ()


def test_a_copy_of_the_project_is_compared(note: OutsideNote, tmp_path: Path) -> None:
    """Paths are relative to the code that reads them, and a file of the same name elsewhere is another one."""
    reader = str(tmp_path / "copy" / "named_siege.py")
    assert note.fact("file", str(tmp_path / "copy/walls.csv"), reader) == (content_fact("walls.csv"),)
    assert note.fact("file", str(tmp_path / "copy/towers/north.txt"), reader) == (content_fact("towers/north.txt"),)
    assert note.fact("file", str(tmp_path / "elsewhere/walls.csv"), reader) is None
    assert note.fact("file", str(tmp_path / "copy/other_walls.csv"), reader) is None
    assert named_path("/data/walls.csv", "/game/siege.py", "/data/walls.csv")


def test_names_of_a_folder_are_known_only_if_all_are_noted(note: OutsideNote) -> None:
    """A folder in it, or a file of code, has no fact of its own."""
    few = [one for one in note.named if one[1] != "towers/south.txt"]
    reader = str(Path("named_siege.py").resolve())
    assert OutsideNote(named=tuple(few)).entries("towers", reader) is None
    assert note.entries("gates", reader) is None


def test_what_is_large_is_left_out(note: OutsideNote, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of many files has only its own fact; there are at most so many facts, in so much time."""
    assert note.named
    for number in range(ENTRIES_MAX):
        Path(f"towers/{number}.txt").write_text("")
    game = importlib.import_module("named_siege").Siege()
    facts = facts_of(game)
    assert ("folder", "towers") in facts
    assert ("file", "towers/north.txt") not in facts
    Path("towers/0.txt").unlink()
    Path("towers/1.txt").unlink()
    assert ("file", "towers/north.txt") in facts_of(game)
    monkeypatch.setattr(named_outside, "NAMED_MAX", 3)
    assert len(facts_of(game)) == 3
    monkeypatch.setattr(named_outside, "NAMED_MAX", NAMED_MAX)
    monkeypatch.setattr(named_outside, "TIME_S", 0.0)
    assert set(facts_of(game)) <= {("variable", "SIEGE_PACE")}


def test_nothing_is_noted_of_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor of a class without a file; and whatever goes wrong stops no recording."""
    gymnasium: Any = pytest.importorskip("gymnasium")
    assert outside_note.named_note(gymnasium.make("CartPole-v1")) == {}
    monkeypatch.setattr(outside_note, "named_facts", lambda _: 1 / 0)
    assert outside_note.named_note(object()) == {}


@pytest.mark.parametrize("plain", [7, [7], [["file", "a"]], [["clock", "a", "b"]], [["file", 1, "b"]]])
def test_anything_else_is_no_note(plain: Any) -> None:
    """A tape may hold whatever its writer put there."""
    assert decode_note({"named": plain}).named == ()


def facts_of(game: Any) -> list[tuple[str, str]]:
    """The kinds and names of the facts of a game, as it is now."""
    return [(kind, name) for kind, name, _ in outside_note.named_facts(game)]


def test_a_home_folder_is_not_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what texts of the code name is looked at."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "private.txt").write_text("mine")
    assert [name for _, name in named_outside_paths(["walls.csv", "day"])] == [f"{tmp_path}/walls.csv"]


def named_outside_paths(texts: list[str]) -> list[tuple[str, str]]:
    """What texts name in the present folder."""
    return list(named_outside.paths_of([os.getcwd()], texts))  # noqa: PTH109


@pytest.mark.parametrize(
    "statement",
    [
        "from harvest_settings import (\n    PACE,\n    TURNS as MANY)",
        "import os, harvest_settings as rules",
        "from fields import harvest_rules",
    ],
)
def test_what_a_module_names_of_which_only_a_number_is_used_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """A number does not tell the module that it comes from; the statement that imports it does."""
    names = ["harvest", "harvest_settings", "fields", "fields.harvest_rules", "fields.deeper"]
    settings = "import os\nPACE = TURNS = int(os.environ.get('HARVEST_PACE', '2'))\n"
    (tmp_path / "fields").mkdir()
    (tmp_path / "fields/__init__.py").write_text("")
    (tmp_path / "fields/harvest_rules.py").write_text("from .deeper import PACE\n")
    (tmp_path / "fields/deeper.py").write_text(settings)
    (tmp_path / "harvest_settings.py").write_text(settings)
    (tmp_path / "harvest.py").write_text(f"{statement}\n\nclass Harvest:\n    def step(self):\n        self.day = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("HARVEST_PACE", "3")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    game = importlib.import_module("harvest").Harvest()
    assert ("variable", "HARVEST_PACE", variable_fact("3")) in outside_note.named_facts(game)


def plain(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> OutsideNote:
    """The note of a recording of a game with this code before its class, whose module imports argued_options."""
    (folder / "argued_options.py").write_text(code)
    (folder / "argued.py").write_text(
        "import argued_options\n\n\nclass Game:\n    def step(self):\n        self.n = 1\n"
    )
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    for name in ("argued", "argued_options"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    game = recorder.record(importlib.import_module("argued").Game(), "run.tape", quiet=True)
    game.step()
    game.close()
    with Tape("run.tape") as tape:
        return noted_outside(tape)


@pytest.mark.parametrize("code", ["import sys\nHARD = '--hard' in sys.argv\n", "import argparse\n"])
def test_arguments_of_the_program_are_noted_as_digests(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of code that reads them, also by a library; no text of them is on the tape."""
    monkeypatch.setattr(sys, "argv", ["play.py", "--hard", "private"])
    note = plain(code, tmp_path, monkeypatch)
    assert note.arguments() == (argument_digest("--hard"), argument_digest("private"))
    assert note.fact("arguments", "sys.argv") == (arguments_fact(["--hard", "private"]),)
    assert b"private" not in Path("run.tape").read_bytes()


def test_arguments_are_not_noted_of_code_that_reads_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["play.py", "--hard"])
    note = plain("HARD = 'arguments'\n", tmp_path, monkeypatch)
    assert note.arguments() is None
    assert note.fact("arguments", "sys.argv") is None


@pytest.mark.parametrize("arguments", [[], [str(number) for number in range(33)]])
def test_of_no_arguments_the_number_is_known_and_of_many_it_is_not(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["play.py", *arguments])
    note = plain("from sys import argv\n", tmp_path, monkeypatch)
    assert note.arguments() == (None if arguments else ())
    assert note.fact("arguments", "sys.argv") == (arguments_fact(arguments),)
