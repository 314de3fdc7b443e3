"""What gets no column is named, with the options that read it: those give the values that a plain loop has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer
import replayer.commands.main

from oracle.command_lines import run

SIM = f"--sim {__name__}:Fleet"
LEFT_OUT = "  no columns of cargo, name, ships: what is inside lists, dicts and objects is read by your own functions, "


class Ship:
    """A thing in a list."""

    def __init__(self, speed: int) -> None:
        """speed: of the ship."""
        self.speed = speed


class Fleet:
    """Ships in a list, cargo in a dict, a text, and a number that has a column."""

    def __init__(self) -> None:
        """Make two ships."""
        self.ships, self.cargo, self.name, self.turn = [Ship(3), Ship(5)], {"tea": 1}, "north", 0

    def step(self) -> None:
        """Speed up the first ship."""
        self.turn += 1
        self.ships[0].speed += self.turn


def names(fleet: Fleet) -> list[str]:  # noqa: ARG001 - the signature of such a function
    """One agent stands for the fleet."""
    return ["fleet"]


def speeds(fleet: Fleet, agent: str) -> np.ndarray:  # noqa: ARG001
    """The speed of each ship."""
    return np.array([ship.speed for ship in fleet.ships])


def nothing(fleet: Fleet) -> dict[str, Any]:  # noqa: ARG001
    """No action."""
    return {}


def test_what_gets_no_column_is_named_and_the_named_options_read_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    expected, fleet = [], Fleet()
    with recorder.record(fleet, tmp_path / "run.tape", quiet=True, trial_ms=0) as game:
        for _ in range(5):
            expected.append([ship.speed for ship in fleet.ships])
            game.step()
    assert run(replayer.commands.main.main, f"extract run.tape -o all {SIM}") == 0
    assert next(line for line in capsys.readouterr().err.splitlines() if "no columns" in line).startswith(LEFT_OUT)
    functions = " ".join(
        f"--agent-{one} {__name__}:{name}"
        for one, name in (("names", "names"), ("observation", "speeds"), ("actions", "nothing"))
    )
    assert run(replayer.commands.main.main, f"extract run.tape -o more {SIM} {functions}") == 0
    assert run(replayer.commands.main.main, f"extract run.tape -o one {SIM} --table states --field Fleet.turn") == 0
    assert "no columns" not in capsys.readouterr().err
    rows = replayer.Dataset("more").table("transitions").to_arrow().to_pylist()
    assert [row["obs"] for row in rows] == expected
