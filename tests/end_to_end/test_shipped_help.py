"""The help of a whole program, which is printed without the commands, is the one that cyclopts makes of them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import recorder.commands.main
import replayer.commands.main
from recorder.commands.summaries import SUMMARIES as RECORD_SUMMARIES
from recorder.console.app import run_app
from recorder.console.shipped_help import help_lines, wrapped
from replayer.commands.summaries import SUMMARIES as REPLAY_SUMMARIES

PROGRAMS = {
    "record": (recorder.commands.main, RECORD_SUMMARIES),
    "replay": (replayer.commands.main, REPLAY_SUMMARIES),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_shipped_help_is_the_one_of_the_commands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    """At each width. A command that is new, or whose first paragraph changed, needs it in summaries.py."""
    cli, summaries = PROGRAMS[program]
    for columns in (60, 80, 133):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert run_app(cli.load(["--help"]), ["--help"]) == 0
        expected = [line.rstrip() for line in capsys.readouterr().out.rstrip().splitlines()]
        shown = help_lines(program, cli.help_text(), summaries, columns)
        assert [line.rstrip() for line in shown] == expected


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
@pytest.mark.share(0.22)
def test_a_process_prints_it_without_numpy(program: str, words: list[str]) -> None:
    """And without cyclopts, rich or attrs, which take the time."""
    code = (
        "import sys, simulation_flight_recorder as entry\n"
        f"sys.argv[1:] = {words!r}\n"
        f"entry.{program}()\n"
        "print({'numpy', 'cyclopts', 'rich', 'attr'} & sys.modules.keys(), file=sys.stderr)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.startswith(f"Usage: {program} COMMAND\n")
    assert run.stderr.strip() == "set()"


@pytest.mark.seldom(0.15)
def test_where_it_cannot_be_written_the_other_way_says_why() -> None:
    """A full disk gives one line and an exit code, as for all other output."""
    if not os.path.exists("/dev/full"):  # noqa: PTH110
        pytest.skip("needs /dev/full")
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        run = subprocess.run(
            [sys.executable, "-m", "recorder", "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert run.returncode == 2
    assert run.stderr == "error: standard output: No space left on device\n"


def test_colours_are_on_a_terminal_only() -> None:
    """Names of commands are coloured, nothing else; a word that is too long stands alone."""
    lines = help_lines("record", "Text.", RECORD_SUMMARIES, 80, "\x1b[36m")
    plain = help_lines("record", "Text.", RECORD_SUMMARIES, 80)
    assert [line.replace("\x1b[36m", "").replace("\x1b[0m", "") for line in lines] == plain
    assert any("\x1b[36m" in line for line in lines)
    assert wrapped("  a bb ccccccccccc d", 6) == ["  a bb", "ccccccccccc", "d"]
