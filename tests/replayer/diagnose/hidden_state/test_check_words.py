"""The messages of replay check for arguments that it cannot check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import replayer.commands.main
from recorder import Recorder

from oracle.command_lines import assert_one_line, run
from small_worlds import Walkers


def test_a_tape_in_place_of_a_scenario_is_named_as_a_tape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Intact or with a damaged beginning; a file that is neither a tape nor a scenario is reported as invalid TOML."""
    monkeypatch.chdir(tmp_path)
    with Recorder("run.tape", Walkers()) as tape:
        tape.step([[0, 1]])
    Path("damaged.tape").write_bytes(b"xxxx" + Path("run.tape").read_bytes()[4:])
    Path("noise").write_bytes(b"\x89 is no text")

    for name in ("run.tape", "damaged.tape"):
        assert run(replayer.commands.main.main, f"check {name}") == 2
        assert_one_line(
            capsys.readouterr(), f"error: expected module:factory or a scenario, got the tape {name}; to verify"
        )
    assert run(replayer.commands.main.main, "check noise") == 2
    assert_one_line(capsys.readouterr(), "noise is not valid TOML")
