"""The arguments of the program, which a step or the import of a module reads: noted as digests, compared, and tested."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import replayer.commands.main
from recorder.ambient.outside.outside_read import argument_digest
from replayer.diagnose.explain.outside.found_arguments import found_texts

from oracle.command_lines import run

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="a trial needs Linux"), pytest.mark.tried]
KILN = """
import sys


class Kiln:
    def __init__(self):
        self.heat, self.tick = 20.0, 0

    def step(self):
        self.tick += 1
        self.heat += warming()


def warming():
    return 3.5 if "--bisque" in sys.argv else 2.0
"""
ON_IMPORT = """
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--colour", action="store_true")
parser.add_argument("--cones", type=int, default=4)
OPTIONS = parser.parse_args()


class Kiln:
    def __init__(self):
        self.heat, self.tick = 20.0, 0

    def step(self):
        self.tick += 1
        self.heat += OPTIONS.cones / 8
"""
WITHOUT_EFFECT = """
import os
import sys


class Kiln:
    def __init__(self):
        self.heat, self.tick = 20.0, 0
        self.said = ""

    def step(self):
        self.tick += 1
        said = "done" if "--quiet" in sys.argv else ""
        self.heat += float(os.environ["KILN_DRAUGHT"])
"""
COUNTED = """
import sys


class Kiln:
    def __init__(self):
        self.heat, self.tick = 20.0, 0

    def step(self):
        self.tick += 1
        self.heat += len(sys.argv)
"""
PLAY = """
import recorder
import kiln

game = recorder.record(kiln.Kiln(), "run.tape", quiet=True)
for _ in range(6):
    game.step()
game.close()
"""
Recorded = Callable[..., Path]


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """Records a program in a process of its own. The commands that come after see no arguments, as those of a shell do."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "argv", ["replay"])
    monkeypatch.setenv("KILN_DRAUGHT", "0.5")

    def record(source: str, *arguments: str) -> Path:
        Path("kiln.py").write_text(source)
        Path("play.py").write_text(PLAY)
        subprocess.run([sys.executable, "play.py", *arguments], check=True)
        monkeypatch.delitem(sys.modules, "kiln", raising=False)
        return tmp_path

    return record


def printed(capsys: Any, line: str, code: int) -> str:
    """What a command prints."""
    assert run(replayer.commands.main.main, line) == code
    return str(capsys.readouterr().out)


def line_of(source: str, text: str) -> int:
    return source.splitlines().index(text) + 1


@pytest.mark.seldom(1 / 2)
def test_arguments_that_a_step_reads_are_compared_and_are_the_cause(recorded: Recorded, capsys: Any) -> None:
    """The step is run with those that were recorded, and each is left out once: one of them has no effect."""
    recorded(KILN, "--colour", "--bisque")
    place = f"kiln.py:{line_of(KILN, KILN.splitlines()[-1])}"
    out = printed(capsys, "verify run.tape --sim kiln:Kiln", 1)
    assert (
        f"! a different environment: sys.argv: 2 arguments when the recording began, none now (read at {place})" in out
    )
    Path("colours.py").write_text("SHOWN = '--colour'\n")  # Of the program, without being imported.
    out = printed(capsys, "explain run.tape --tick 1 --sim kiln:Kiln", 1)
    assert (
        f"cause: the arguments of the program (sys.argv, read at {place}): where they are as recorded, "
        "--colour --bisque (--bisque alone is enough), the step gives the recorded state (in 4 of 4 processes), "
        "and as they are now another one"
    ) in out
    assert "before the step: sys.argv" not in out


@pytest.mark.seldom(1 / 2)
def test_arguments_that_are_read_on_import_are_the_cause(recorded: Recorded, capsys: Any) -> None:
    """A library reads them for the module, which is imported with them; the value is found as well."""
    recorded(ON_IMPORT, "--cones", "7")
    place = f"kiln.py:{line_of(ON_IMPORT, 'OPTIONS = parser.parse_args()')}"
    out = printed(capsys, "verify run.tape --sim kiln:Kiln", 1)
    what = "the arguments of the program (sys.argv): 2 arguments when the recording began, none now"
    assert f"different, but not seen to be read in this step: {what};" in out
    out = printed(capsys, "explain run.tape --tick 1 --sim kiln:Kiln", 1)
    assert (
        f"cause: the arguments of the program (sys.argv, read on import at {place}): where they are as recorded" in out
    )
    assert "as recorded, --cones 7, the step gives the recorded state" in out
    assert f"! sys.argv: 2 arguments when the recording began, none now (read at {place}, on import)" in out


@pytest.mark.seldom(1 / 2)
def test_an_argument_without_effect_is_not_called_the_cause(
    recorded: Recorded, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It differs, and the variable, whose value no tape has, is what makes the difference."""
    recorded(WITHOUT_EFFECT, "--quiet")
    monkeypatch.setenv("KILN_DRAUGHT", "0.75")
    out = printed(capsys, "explain run.tape --tick 1 --sim kiln:Kiln", 1)
    assert "cause: the arguments" not in out
    assert "tested: with what the recording noted of sys.argv, the step does not give the recorded state" in out


@pytest.mark.seldom(1 / 2)
def test_arguments_that_are_not_found_are_said_to_differ_untested(recorded: Recorded, capsys: Any) -> None:
    """No text of the program has the digest of the second one; with the first one alone nothing is claimed."""
    name = "Anna"
    recorded(KILN, "--bisque", f"of 1 Nov, for {name} K.")  # This file is searched as well.
    out = printed(capsys, "explain run.tape --tick 1 --sim kiln:Kiln", 1)
    assert "cause: the arguments" not in out
    assert "    sys.argv: 2 arguments when the recording began, none now" in out
    assert "whether that makes the difference is not tested: the tape has a digest of it at most" in out
    assert name not in out


def test_equal_arguments_are_said_to_be_equal(recorded: Recorded, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a step that reads them, and of code that only names them; the name of the program is not compared."""
    recorded(WITHOUT_EFFECT, "--quiet")
    monkeypatch.setattr(sys, "argv", ["replay", "--quiet"])
    monkeypatch.setenv("KILN_DRAUGHT", "0.75")
    out = printed(capsys, "verify run.tape --sim kiln:Kiln", 1)
    (line,) = [one for one in out.splitlines() if "! a different environment" in one]
    place = f"(read at kiln.py:{line_of(WITHOUT_EFFECT, WITHOUT_EFFECT.splitlines()[12])})"
    assert "as when the recording began: the arguments of the program (sys.argv)" in line
    assert f"not compared: the name of the program, sys.argv[0] {place}, what other steps read" in line
    assert "arguments when the recording began" not in line


def test_a_step_does_not_see_the_command_line_of_the_replay(recorded: Recorded) -> None:
    """Recorded without arguments, it has none in a replay, which is started as from a shell, with options."""
    folder = recorded(COUNTED)
    program = "from simulation_flight_recorder import replay; replay()"
    command = [sys.executable, "-c", program, "verify", "run.tape", "--sim", "kiln:Kiln"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert re.search(r"all 7 ticks match the recording", done.stdout), done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--bisque", "--bisque"),
        ("--speed=3",),
        ("--speed", "12500"),
        ("--no-shelves",),
        ("--shel",),
        ("-n5",),
        ("slow", "0.25", "-3", "levels"),
        ("--mode=slow",),
    ],
)
def test_texts_of_arguments_are_found_by_their_digests(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Options, those made of names, and shortened ones; choices, numbers and files, also joined with an option."""
    source = "OPTIONS = '--bisque', '-n', '--speed', '--mode', 'slow fast'\n\ndef main(shelves: bool) -> None: ...\n"
    (tmp_path / "options.py").write_text(source)
    (tmp_path / "levels").mkdir()
    assert found_texts([argument_digest(one) for one in arguments], [str(tmp_path)]) == arguments
    assert found_texts([argument_digest("--unknown"), *map(argument_digest, arguments)], [str(tmp_path)]) is None
