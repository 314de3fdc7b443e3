"""A number that save() rounds is in the state, and comes back as another one: that is no hidden state."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

import replayer.commands.main
from recorder import Recorder

from oracle.command_lines import run

MODULE = """
import json


class Tank:
    def __init__(self, fuel):
        self.fuel, self.leak = fuel, 0.25

    def burn(self):
        if self.fuel > 3:
            return 1
        return self.spare()

    def spare(self):
        return 0


class Truck:
    def __init__(self):
        self.tanks, self.way = [Tank(9.5), Tank(3.0)], 0

    def step(self, inputs):
        for tank in self.tanks:
            self.way += tank.burn()

    def save(self):
        rest = [int(tank.fuel * 2) / 2 for tank in self.tanks]  # SAVED
        return json.dumps({"rest": rest, "way": self.way}).encode()

    def load(self, saved):
        values = json.loads(bytes(saved))
        self.way = values["way"]
        for tank, fuel in zip(self.tanks, values["rest"], strict=True):
            tank.fuel = fuel  # LOADED


class Steep(Truck):
    def __init__(self):
        super().__init__()
        self.tanks[1].fuel = 3.1


class Leaking(Truck):
    def step(self, inputs):
        for tank in self.tanks:
            self.way += int(tank.leak * 8)  # READ
            tank.leak *= 2

    def load(self, saved):
        super().load(saved)
        for tank in self.tanks:
            tank.leak = 0.125
"""


def _line(mark: str) -> int:
    return next(number for number, text in enumerate(MODULE.splitlines(), 1) if f"# {mark}" in text)


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("fuel_truck.py").write_text(MODULE)


def _record(name: str) -> None:
    with Recorder("run.tape", getattr(importlib.import_module("fuel_truck"), name)(), trial_ms=0) as tape:
        for _ in range(3):
            tape.step()


def test_the_line_of_save_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """With the path of the value, the line that reads it, and the line of load()."""
    _record("Steep")
    assert run(replayer.commands.main.main, "explain run.tape --sim fuel_truck:Steep") == 1
    printed = capsys.readouterr().out
    assert "cause: save() and load() do not bring back exactly what the step reads" in printed
    assert "self.fuel (tanks[1].fuel)" in printed
    assert "proved: put into B as A has it, B gives the state of A" in printed
    assert "hidden state" not in printed
    assert run(replayer.commands.main.main, "explain run.tape --json --tick 1 --sim fuel_truck:Steep") == 1
    cause = json.loads(capsys.readouterr().out)["cause"]
    assert (cause["line"], cause["loaded_at"]["line"]) == (_line("SAVED"), _line("LOADED"))
    assert cause["read_at"]["function"] == "Tank.burn"


def test_what_save_does_not_read_is_not_called_inexact(capsys: pytest.CaptureFixture[str]) -> None:
    """It is state that is not brought back, and the line that reads it is the one that is named."""
    _record("Leaking")
    assert run(replayer.commands.main.main, "explain run.tape --json --sim fuel_truck:Leaking") == 1
    cause = json.loads(capsys.readouterr().out)["cause"]
    assert (cause["kind"], cause["line"]) == ("outside", _line("READ"))
