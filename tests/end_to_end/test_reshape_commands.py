"""``replay cut``, ``rekey``, ``pack`` and ``join``: what they print, the test that is written, and one line for each mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from asked_worlds import battle_run, garden_run

import replayer.commands.main

from oracle.command_lines import assert_one_line, files, run
from project_paths import ROOT

SUPPORT = ROOT / "tests" / "support"
GARDEN = "--sim asked_worlds:Garden"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a tape of fields and one of objects, of 60 ticks each."""
    monkeypatch.chdir(tmp_path)
    garden_run(tmp_path / "garden.tape", 3, 60, 20)
    battle_run(tmp_path / "battle.tape", 3, 60, 20)


def asked(capsys: pytest.CaptureFixture[str], line: str) -> str:
    """What a command prints."""
    assert run(replayer.commands.main.main, line) == 0
    return capsys.readouterr().out


@pytest.mark.seldom(0.18)
def test_the_written_test_passes_and_fails_with_the_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It imports the simulation; with other code it names the first tick that differs."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # It needs none: that of zarr imports all of it.
    asked(capsys, "cut battle.tape --ticks 45..50 -o part.tape --pytest test_part.py --sim asked_worlds:Battle")
    for damage, code in (0, 0), (1, 1):
        source = (SUPPORT / "asked_worlds.py").read_text(encoding="utf-8")
        Path("asked_worlds.py").write_text(source.replace("knight.hp -= damage", f"knight.hp -= damage + {damage}"))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_part.py"]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        assert finished.returncode == code, finished.stdout
    assert "the first tick that differs: 4" in finished.stdout


def test_what_is_printed_is_what_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON as well."""
    facts = json.loads(asked(capsys, f"cut garden.tape --ticks 33..-1 --exact -o part.tape --json {GARDEN}"))
    size = Path("part.tape").stat().st_size
    assert facts == {"path": "part.tape", "first_tick": 33, "last_tick": 60, "simulated": 13, "size_bytes": size}
    assert "4 → 13 keyframes" in asked(capsys, f"rekey garden.tape --every 5 -o new.tape {GARDEN}")
    packed = json.loads(asked(capsys, "pack garden.tape -o packed.tape --json"))
    sizes = {"bytes_before": Path("garden.tape").stat().st_size, "size_bytes": Path("packed.tape").stat().st_size}
    assert packed == {"path": "packed.tape", "first_tick": 0, "last_tick": 60, **sizes}
    assert "all 61 ticks match" in asked(capsys, f"verify packed.tape {GARDEN}")
    assert asked(capsys, "pack garden.tape -o quick.tape --level 1").startswith(
        "quick.tape: ticks 0 to 60 of garden.tape, "
    )
    assert asked(capsys, "join garden.tape part.tape -o both.tape").startswith(
        "both.tape: ticks 0 to 60, joined at tick 33"
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("cut garden.tape -o part.tape", "--ticks A..B or --tick N"),
        ("cut garden.tape --ticks 3..4 --tick 3 -o part.tape", "--ticks A..B or --tick N"),
        ("cut garden.tape --ticks 30..61 -o part.tape", "the tape has ticks 0 to 60"),
        ("cut garden.tape --ticks 40..30 -o part.tape", "the first tick is after the last one"),
        ("cut garden.tape --ticks 30..40 -o battle.tape", "exists already"),
        ("cut garden.tape --ticks 30..40 -o nowhere/part.tape", "nowhere"),
        ("cut nothing.tape --ticks 30..40 -o part.tape", "nothing.tape"),
        ("rekey garden.tape --every 0 -o part.tape", "every"),
        ("pack garden.tape -o battle.tape", "exists already"),
        ("pack garden.tape --level 20 -o part.tape", "level"),
        ("pack nothing.tape -o part.tape", "nothing.tape"),
        ("join garden.tape battle.tape -o part.tape", "differ in their"),
        ("join garden.tape nothing.tape -o part.tape", "nothing.tape"),
    ],
)
def test_a_mistake_gets_one_line_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str, why: str
) -> None:
    """All files stay as they were."""
    before = files(tmp_path)
    assert run(replayer.commands.main.main, line) in (2, 5)
    assert_one_line(capsys.readouterr(), why)
    assert files(tmp_path) == before
