"""The simulation of --sim: one fitting line for each mistake."""

from __future__ import annotations

import importlib
import subprocess
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


@pytest.mark.parametrize(
    ("spec", "module"),
    [
        ("good_one:Ok", "good_one"),
        ("folder_of.inner:Ok", "folder_of.inner"),
        ("good_one.py:Ok", "good_one"),
        ("./good_one.py:Ok", "good_one"),
        ("folder_of/inner.py:Ok", "folder_of.inner"),
    ],
)
def test_what_is_there_is_found(spec: str, module: str) -> None:
    """Including modules in folders, and files as the shell completes them: these are the same modules."""
    assert load_factory(spec) is importlib.import_module(module).Ok


@pytest.mark.parametrize(("package", "is_found"), [(False, True), (True, False)])
def test_a_file_in_a_folder_finds_the_modules_beside_it(
    monkeypatch: pytest.MonkeyPatch, *, package: bool, is_found: bool
) -> None:
    """As a program in it does; a module of a package names the others from the package."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = Path(f"older_{package}")
    folder.mkdir()
    if package:
        (folder / "__init__.py").touch()
    (folder / f"rates_of_{package}.py").write_text("RATE = 3\n")
    (folder / "game.py").write_text(f"from rates_of_{package} import RATE\n\n\nclass Game:\n    rate = RATE\n")
    if is_found:
        assert load_factory(f"{folder}/game.py:Game").rate == 3  # type: ignore[attr-defined]
    else:
        with pytest.raises(ValueError, match="No module named 'rates_of_True'"):
            load_factory(f"{folder}/game.py:Game")


@pytest.mark.parametrize("name", ["sim", "recorder", "replayer"])
def test_a_file_with_the_name_of_one_of_our_packages_is_loaded_by_its_path(name: str) -> None:
    """Its class names the file on a tape; ours stay what they are, and its own modules are found."""
    Path(f"{name}.py").write_text("import good_one\nclass World(good_one.Ok): ...\n")
    ours = sys.modules[name]
    made = load_factory(f"./{name}.py:World")

    assert made.__mro__[1].__module__ == "good_one"
    assert load_factory(f"{name}.py:World") is made
    assert sys.modules[name] is ours
    assert sim_option(f"{made.__module__}.{made.__qualname__}") == f"--sim ./{name}.py:World"
    with pytest.raises(ValueError, match=rf"{name} is one of our packages; name your file as ./{name}.py:World"):
        load_factory(f"{name}:World")
    del sys.modules[made.__module__]


@pytest.mark.seldom(0.18)
def test_commands_take_a_file_with_the_name_of_one_of_our_packages() -> None:
    """Checked in a fresh process, recorded, and verified by two processes, with modules of its folder."""
    Path("sim.py").write_text("import units\nclass World(units.Units): ...\n")
    Path("units.py").write_text(UNITS)
    for command in (
        "check ./sim.py:World --ticks 30",
        "verify run.tape --jobs 2 --sim ./sim.py:World",
    ):
        if command.startswith("verify"):
            recording = "from recorder.factory_spec import load_factory as load; import recorder;" + RECORDING
            subprocess.run([sys.executable, "-P", "-c", recording], check=True, capture_output=True, timeout=60)
        program = "from replayer.commands.main import main; main()"
        finished = subprocess.run(
            [sys.executable, "-P", "-c", program, *command.split()],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (finished.returncode, finished.stderr) == (0, ""), command


UNITS = """
class Units:
    def __init__(self):
        self.x = 0
    def step(self, inputs=None):
        self.x += 1
"""
RECORDING = """
units = recorder.record(load("./sim.py:World")(), "run.tape")
for _ in range(40):
    units.step()
units.close()
"""


GUARD = "(move code that should not run on import below: if __name__ == '__main__')"
LINES = {
    "bad_one.py:Ok": "bad_one.py:Ok: there is no file bad_one.py in ",
    "folder_of/bad-one.py:Ok": "folder_of/bad-one.py:Ok: there is no file folder_of/bad-one.py in ",
    "/tmp/good_one.py:Ok": "name the module as in an import: go to its folder and use good_one:Ok",
    "../good_one.py:Ok": "name the module as in an import: go to its folder and use good_one:Ok",
    "good_one.py": "good_one.py: name the class or function in it, too: good_one.py:factory",
    "good_one:Ok()": "good_one:Ok(): expected the name alone, good_one:Ok; it is called whenever",
    "good_one:Ok(seed=1)": "expected the name alone, good_one:Ok; it is called whenever",
    "./good_one:Ok": "'./good_one:Ok': expected module:factory",
    "good_one": "'good_one': expected module:factory",
    ".good_one:Ok": "'.good_one:Ok': expected module:factory",
    "good_one:Nobody": "good_one:Nobody: module 'good_one' has no attribute 'Nobody'",
    "./good_one.py:Okk": "./good_one.py:Okk: module './good_one.py' has no attribute 'Okk'; did you mean Ok?",
    "wrong_syntax:Ok": "wrong_syntax.py, line 2: invalid syntax",
    "leaving:Ok": f"leaving:Ok: importing leaving ended with sys.exit(3) {GUARD}",
    "leaving_quietly:Ok": f"importing leaving_quietly ended with sys.exit() {GUARD}",
    "raising:Ok": f"raising:Ok: importing raising raised ZeroDivisionError: division by zero {GUARD}",
    "away_from_here:Ok": "No module named 'away_from_here': run this in the folder of the module, or name that folder in",
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
