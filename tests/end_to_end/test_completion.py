"""Tab completion: what a shell, an editor and Python's own prompt offer."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

import recorder.commands.main
import replayer.commands.main

from oracle.command_lines import assert_one_line, run

PROGRAMS = {"record": recorder.commands.main.main, "replay": replayer.commands.main.main}
COMPLETING = """
source {script}
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); COMPREPLY=()
{function}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
PACKAGES = {
    "sim": {"adapters", "scenario", "worlds"},
    "sim.adapters": set(),
    "sim.scenario": set(),
    "sim.worlds.meadow": set(),
    "recorder": {"corpus", "scenarios", "testing"},
    "recorder.corpus": set(),
    "recorder.scenarios": set(),
    "recorder.testing": set(),
    "replayer": {"datasets", "diagnose"},
    "replayer.datasets": set(),
    "replayer.diagnose": set(),
}


@cache
def script_of(program: str, shell: str) -> str:
    """Return the script that a command prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert run(PROGRAMS[program], f"completion {shell}") == 0
    return printed.getvalue()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("replay ver", {"verify"}),
        ("replay seek --ti", {"--tick"}),
        ("replay seek a", {"a.tape"}),
        ("record res", {"resume"}),
        ("record run --durability no", {"none"}),
    ],
)
def test_bash_completes_commands_options_choices_and_files(words: str, offered: set[str], tmp_path: Path) -> None:
    """With the script that the command prints."""
    name = words.split(maxsplit=1)[0]
    (tmp_path / "script").write_text(script_of(name, "bash"))
    (tmp_path / "a.tape").touch()
    program = COMPLETING.format(script="./script", words=words, function=f"_{name}")
    finished = subprocess.run(
        ["bash", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert set(finished.stdout.split()) == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script_with_every_command(shell: str) -> None:
    script = script_of("replay", shell)
    assert [name for name in replayer.commands.main.COMMANDS if name not in script] == []
    assert shell != "zsh" or script.rstrip().endswith("compdef _cyclopts_replay replay"), "eval registers it"


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(replayer.commands.main.main, "completion csh") == 2
    assert_one_line(capsys.readouterr(), 'Choose from: "bash", "zsh", "fish"')


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.seldom(0.15)
def test_the_tab_key_offers_no_internal_name(package: str) -> None:
    """dir() of a package is what it offers, and its public modules once they are imported."""
    module = importlib.import_module(package)
    offered = set(dir(module))

    assert offered - PACKAGES[package] == set(module.__all__)
    assert all(hasattr(module, name) for name in offered)


def test_the_tab_key_offers_no_internal_method(tmp_path: Path) -> None:
    """dir() of a recorder and of a timeline lacks what is for other modules of the package, and has all the rest."""
    recorder, replayer = importlib.import_module("recorder"), importlib.import_module("replayer")
    walkers = importlib.import_module("small_worlds").Walkers
    with recorder.Recorder(tmp_path / "run.tape", walkers(), durability="none") as tape:
        tape.step([])
        assert set(dir(type(tape))) - set(dir(tape)) == {"beginning_at", "outcome_of", "with_options"}
        assert "report_hash" in dir(tape)
    with replayer.open(tmp_path / "run.tape", walkers) as run:
        hidden = set(dir(type(run))) - set(dir(run))
        assert hidden == {"absolute_tick", "another_simulation", "counted_cursor", "finder", "holder_of"}
        assert {"seek", "find", "tape", "last_seek"} <= set(dir(run))
    settings = (Path(__file__).parents[2] / "tools/site/mkdocs.yml").read_text(encoding="utf-8")
    assert all(re.search(rf"[(|]{name}[|)]", settings) for name in hidden), "the reference leaves them out, too"
