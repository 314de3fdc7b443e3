"""Commands are imported on use: one that is imported alone works as among all of them."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import pytest

import recorder.commands.main
import replayer.commands.main
from recorder.console.app import run_app

from oracle.command_lines import assert_one_line

PROGRAMS = {"record": recorder.commands.main, "replay": replayer.commands.main}
COMMANDS = [(program, name) for program, cli in PROGRAMS.items() for name in cli.COMMANDS]


@pytest.mark.parametrize(("program", "name"), COMMANDS)
@pytest.mark.share(0.22)
def test_alone_and_among_all_a_command_has_the_same_help(
    capsys: pytest.CaptureFixture[str], program: str, name: str
) -> None:
    """Under its name, which exists."""
    cli = PROGRAMS[program]
    texts = []
    for loaded_for in ([name], []):
        assert run_app(cli.load(loaded_for), [name, "--help"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert texts[0].startswith(f"Usage: {program} {name}")


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_names_every_command_and_a_typo_gets_a_suggestion(
    capsys: pytest.CaptureFixture[str], program: str
) -> None:
    """With the first sentence of each; a word that is not a command is never taken for one."""
    cli = PROGRAMS[program]
    assert run_app(cli.load(["--help"]), ["--help"]) == 0
    lines = capsys.readouterr().out.partition("Commands")[2].splitlines()
    described = {words[0] for line in lines if len(words := line.strip("│").split()) > 1}
    assert described >= set(cli.COMMANDS)
    for name in cli.COMMANDS:
        typo = f"{name}x"
        assert run_app(cli.load([typo]), [typo]) == 2
        assert_one_line(capsys.readouterr(), f'Did you mean "{name}"?')


@pytest.mark.parametrize(
    ("command", "not_needed"),
    [
        (
            "import replayer.commands.main; replayer.commands.main.load(['info'])",
            ("recorder.session.recorder", "replayer.desync", "rich.progress"),
        ),
        (
            "import recorder.commands.main; recorder.commands.main.load(['run'])",
            ("replayer", "recorder.corpus", "sim.adapters"),
        ),
        ("import recorder, replayer", ("numpy", "recorder.session.recorder", "replayer.tape.tape")),
    ],
)
def test_what_is_not_needed_is_not_imported(command: str, not_needed: tuple[str, ...]) -> None:
    """Otherwise each command would wait for all the others."""
    program = f"{command}\nimport sys\nprint(sorted(set({not_needed}) & set(sys.modules)))"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "[]\n"


def test_every_public_name_is_there() -> None:
    """Including those that are imported later; an unknown name is refused as by any module."""
    import recorder
    import replayer
    import sim.adapters

    for package in (recorder, replayer, sim.adapters):
        assert set(package.__all__) <= set(dir(package))
        for name in package.__all__:
            assert getattr(package, name) is getattr(package, name)
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            _ = package.nothing
    assert callable(recorder.resume)


@pytest.mark.parametrize(("package", "command"), [("recorder", "record"), ("replayer", "replay")])
@pytest.mark.seldom(0.15)
def test_a_package_runs_as_its_command(package: str, command: str) -> None:
    """With its exit codes, where the script is not on the path."""
    run = partial(subprocess.run, capture_output=True, text=True, check=False)
    help_page = run([sys.executable, "-m", package, "--help"])
    assert help_page.stdout.startswith(f"Usage: {command} COMMAND\n")
    mistake = run([sys.executable, "-m", package, "nonsense"])
    assert (mistake.returncode, mistake.stdout) == (2, "")
    assert len(mistake.stderr.splitlines()) == 1
