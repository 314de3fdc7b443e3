"""Hints for names that do not exist."""

from __future__ import annotations

from pathlib import Path

import pytest

import recorder.commands.main
import replayer.commands.main
from recorder import Recorder
from sim.near_names import did_you_mean

from oracle.command_lines import assert_one_line, run
from small_worlds import Walkers

KNOWN = ["meadow", "plants.energy", "swarms.energy", "Units"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("medow", "; did you mean meadow?"),
        ("plants.enregy", "; did you mean plants.energy?"),
        ("energy", "; did you mean plants.energy or swarms.energy?"),
        ("units", "; did you mean Units?"),
        ("water", ""),
        ("", ""),
    ],
)
def test_names_that_are_near_are_asked_for(name: str, hint: str) -> None:
    """A letter more or less, the other case, or a column without its table; nothing for a name that is like none."""
    assert did_you_mean(name, KNOWN) == hint


def test_no_name_is_near_where_there_is_none() -> None:
    assert did_you_mean("meadow", []) == ""


@pytest.mark.parametrize(
    ("main", "line", "hint"),
    [
        (recorder.commands.main.main, "run quiet-medow", "did you mean quiet-meadow?"),
        (recorder.commands.main.main, "run world.toml", "did you mean meadow?"),
        (recorder.commands.main.main, "run key.toml", "did you mean seed?"),
        (replayer.commands.main.main, "seek run.tape --tick 1 --sim small_worlds:Walkers --field X", "did you mean x?"),
        (replayer.commands.main.main, "find 'xs > 1' run.tape --sim small_worlds:Walkers", "there is no 'xs'"),
    ],
)
def test_commands_ask_for_the_name_that_was_meant(
    main: object,
    line: str,
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Scenarios, worlds, keys and fields; in one line, with exit code 2."""
    monkeypatch.chdir(tmp_path)
    Path("world.toml").write_text('world = "medow"\n')
    Path("key.toml").write_text('world = "meadow"\nsead = 1\n')
    with Recorder("run.tape", Walkers(), durability="none") as tape:
        tape.step([[0, 1]])
    assert run(main, line) == 2
    assert_one_line(capsys.readouterr(), hint)
