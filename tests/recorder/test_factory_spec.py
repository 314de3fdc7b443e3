"""The simulation of --sim: one fitting line for each mistake."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import replayer.commands.main
from recorder import Recorder
from recorder.factory_spec import load_factory, sim_option

from oracle.command_lines import assert_one_line, run
from small_worlds import Walkers

MODULES = {
    "good_one.py": "class Ok: ...\n",
    "folder_of/__init__.py": "",
    "folder_of/inner.py": "class Ok: ...\n",
    "wrong_syntax.py": "x = 1\ndef broken(:\n    pass\n",
    "leaving.py": "import sys\nsys.exit(3)\n",
    "leaving_quietly.py": "raise SystemExit\n",
    "raising.py": "1 / 0\n",
    "lacking.py": "import no_such_module_anywhere\n",
}


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules in the current folder."""
    for name, text in MODULES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


@pytest.mark.parametrize("spec", ["good_one:Ok", "folder_of.inner:Ok"])
def test_what_is_there_is_found(spec: str) -> None:
    """Including modules in folders."""
    assert load_factory(spec).__name__ == "Ok"


GUARD = "(move code that should not run on import below: if __name__ == '__main__')"
LINES = {
    "good_one.py:Ok": "good_one.py:Ok: name the module as in an import, good_one:Ok",
    "./good_one.py:Ok": "./good_one.py:Ok: name the module as in an import, good_one:Ok",
    "folder_of/inner.py:Ok": "folder_of/inner.py:Ok: name the module as in an import, folder_of.inner:Ok",
    "/tmp/good_one.py:Ok": "name the module as in an import: go to its folder and use good_one:Ok",
    "../good_one.py:Ok": "name the module as in an import: go to its folder and use good_one:Ok",
    "good_one.py": "good_one.py: name the module as in an import, good_one:factory",
    "good_one:Ok()": "good_one:Ok(): expected the name alone, good_one:Ok; it is called whenever",
    "good_one:Ok(seed=1)": "expected the name alone, good_one:Ok; it is called whenever",
    "./good_one:Ok": "'./good_one:Ok': expected module:factory",
    "good_one": "'good_one': expected module:factory",
    ".good_one:Ok": "'.good_one:Ok': expected module:factory",
    "good_one:Nobody": "good_one:Nobody: module 'good_one' has no attribute 'Nobody'",
    "wrong_syntax:Ok": "wrong_syntax.py, line 2: invalid syntax",
    "leaving:Ok": f"leaving:Ok: importing leaving ended with sys.exit(3) {GUARD}",
    "leaving_quietly:Ok": f"importing leaving_quietly ended with sys.exit() {GUARD}",
    "raising:Ok": f"raising:Ok: importing raising raised ZeroDivisionError: division by zero {GUARD}",
    "lacking:Ok": "lacking:Ok: No module named 'no_such_module_anywhere'",
}


@pytest.mark.parametrize("spec", LINES)
def test_a_mistake_gets_one_fitting_line(capsys: pytest.CaptureFixture[str], spec: str) -> None:
    """Exit code 2, whatever the module does."""
    assert run(replayer.commands.main.main, f"seek run.tape --tick 1 --sim '{spec}'") == 2
    captured = capsys.readouterr()
    assert_one_line(captured, LINES[spec])
    assert captured.err.startswith("error: --sim ")
    assert ("__main__" in captured.err) is (GUARD in LINES[spec])


@pytest.mark.parametrize(
    ("recorded", "option"),
    [
        ("walkers.Walkers", "--sim walkers:Walkers"),
        ("farm.animals.Herd", "--sim farm.animals:Herd"),
        ("__main__.Herd", "--sim module:factory"),
        ("walkers.make.<locals>.Herd", "--sim module:factory"),
        ("Herd", "--sim module:factory"),
        ("bad\x1b[2J.Herd", "--sim module:factory"),
        (None, "--sim module:factory"),
    ],
)
def test_what_a_tape_says_of_its_simulation_is_how_to_name_it(recorded: object, option: str) -> None:
    """The class of a module can be named; one made by a script or a function cannot."""
    assert sim_option(recorded) == option


def test_commands_name_the_simulation_that_a_tape_was_recorded_from(capsys: pytest.CaptureFixture[str]) -> None:
    """The printed command replays the tape."""
    with Recorder("run.tape", Walkers()) as tape:
        tape.step([[0, 1]])

    assert run(replayer.commands.main.main, "verify run.tape") == 2
    assert_one_line(capsys.readouterr(), "--sim small_worlds:Walkers on the command line")
    assert run(replayer.commands.main.main, "info run.tape") == 0
    assert "replay it with --sim small_worlds:Walkers)" in capsys.readouterr().out
    assert run(replayer.commands.main.main, "verify run.tape --sim small_worlds:Walkers") == 0
