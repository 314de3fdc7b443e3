"""Values that differ though no file does come from somewhere else: a folder with earlier code would give the same ones."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recorder
from recorder.ambient.outside.code_parts.same_files import file_digests, may_read_files
from replayer.desync.code_comparison import CODE, asks_for_earlier_code, versions_not_tested
from replayer.desync.finding import Finding
from replayer.report.report_text import print_report
from replayer.timeline.verify import verify_tape

RULES, MILL = "rules_of_a_mill", "game_of_a_mill"
GAME = f"""import {RULES} as rules


class Wheel:
    pass


class Mill:
    def __init__(self):
        self.flour = 0

    def step(self):
        self.flour += 1 + rules.FAST
"""
FROM_ARGUMENTS = 'import sys\n\nFAST = "--fast" in sys.argv\n'
FROM_FILE = (
    "import json\nfrom pathlib import Path\n\n\ndef table():\n    return json.loads(Path(__file__).with_name('mill.json').read_text())\n"
    "\n\nFAST = table()\n"
)
CONSTANT = "FAST = False\n"
Load = Callable[..., types.ModuleType]


@pytest.fixture
def load_mill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Loads the two modules from these sources, as a new process with these arguments would."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def loaded(rules: str, *arguments: str, game: str = GAME, data: str = "false") -> types.ModuleType:
        (tmp_path / "mill.json").write_text(data)
        for name, text in ((RULES, rules), (MILL, game)):
            (tmp_path / f"{name}.py").write_text(text)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        with monkeypatch.context() as patched:
            patched.setattr(sys, "argv", ["mill.py", *arguments])
            return importlib.import_module(MILL)

    yield loaded
    for name in (MILL, RULES):
        sys.modules.pop(name, None)


def recorded(mill: types.ModuleType, path: Path) -> None:
    """Record some steps of a mill."""
    with recorder.record(mill.Mill(), path, quiet=True, trial_ms=0) as one:
        for _ in range(5):
            one.step()


def said_of_code(finding: Finding) -> Any:
    """What verify says about the code."""
    return next(one for one in finding.tested if one.cause == CODE)


EDITED = {
    "a flag of the arguments": (FROM_ARGUMENTS, FROM_ARGUMENTS, False),
    "another constant": (CONSTANT.replace("False", "True"), CONSTANT, True),
    "a statement that was edited as well": (FROM_ARGUMENTS, f"{FROM_ARGUMENTS}SLOW = 3\n", True),
    "a file that the folder may have": (FROM_FILE, FROM_FILE, True),
}


@pytest.mark.parametrize("name", EDITED)
def test_earlier_code_is_asked_for_where_it_can_answer(
    name: str, load_mill: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A value that the same files give is no reason: the folder of the earlier code has these as well."""
    before, now, is_asked = EDITED[name]
    path = tmp_path / "run.tape"
    recorded(load_mill(before, "--fast", data="true"), path)
    report = verify_tape(path, load_mill(now).Mill)
    (finding,) = report.findings
    code = said_of_code(finding)
    assert "FAST (rules_of_a_mill.py:" in code.found
    assert ("(their files are the same)" in code.found) is not is_asked
    print_report(path, report, f"{MILL}:Mill")
    assert ("--code FOLDER" in capsys.readouterr().out) is is_asked
    assert asks_for_earlier_code(code, is_explained=True) is is_asked


def test_an_object_that_is_not_compared_is_no_reason_where_the_files_are_the_same(
    load_mill: Load, tmp_path: Path
) -> None:
    """It may be another one, but not by an edit."""
    game = GAME.replace("class Mill:", "WHEEL = Wheel()\n\n\nclass Mill:").replace("+ rules.FAST", "+ len(vars(WHEEL))")
    path = tmp_path / "run.tape"
    for made, is_asked in (("Wheel()", False), ("Wheel() or 1", True)):
        recorded(load_mill(CONSTANT, game=game.replace("Wheel()", made)), path)
        mill = load_mill(CONSTANT, game=game)
        mill.WHEEL.turns = 1  # type: ignore[attr-defined]
        code = said_of_code(*verify_tape(path, mill.Mill).findings)
        assert "not compared, since they are no plain values" in code.found
        assert "WHEEL (game_of_a_mill.py:" in code.found
        assert asks_for_earlier_code(code, is_explained=False) is is_asked
        assert ("--code FOLDER" in versions_not_tested(code)) is is_asked
        path.unlink()


PROGRAM = '''"""A program."""
import json

LIMIT = 3


class Box:
    """A box."""

    size = LIMIT

    def load(self, text):
        """From a text."""
        return json.loads(text)


def twice(x): return 2 * x


if __name__ == "__main__":
    print(open("scores.txt").read())
'''


def test_what_only_functions_and_programs_read_is_not_read_by_an_import(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    assert not may_read_files([str(path)])


@pytest.mark.parametrize(
    "text", ["BOX = Box().load('{}')", "with open('x') as file:\n    X = 1", "class Map(Box):\n    X = np.load('y')"]
)
def test_statements_that_may_read_a_file_are_found(text: str, tmp_path: Path) -> None:
    """Also by a method of the module."""
    path = tmp_path / "program.py"
    path.write_text(f"{PROGRAM}\n{text}\n")
    assert may_read_files([str(path)])


def test_what_cannot_be_read_is_not_said_to_be_the_same(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("def (")
    assert may_read_files([str(path)])
    assert file_digests(["<stdin>", str(tmp_path / "missing.py")]) == {
        "<stdin>": None,
        str(tmp_path / "missing.py"): None,
    }
