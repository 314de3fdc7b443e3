"""``replay seek --picture`` and the maps of a state: what is drawn, and what is a list of places."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer.commands.main
from replayer import open as open_tape
from replayer.value_text import picture
from replayer.view.states.shown_layers import ShownLayers

from oracle.command_lines import assert_one_line, run

SIM = "--sim pasture:Pasture"


class Pasture:
    """An object with maps and with places of animals, which are rows of two and of three numbers."""

    def __init__(self) -> None:
        self.grass = np.arange(20 * 30, dtype=np.int32).reshape(20, 30)
        self.sheep = np.zeros((200, 2))
        self.cows = np.zeros((3, 40))
        self.well = np.zeros((2, 3))
        self.tick = 0

    def step(self) -> None:
        """All grass grows."""
        self.grass = self.grass * 2 % 601
        self.tick += 1

    def layers(self) -> dict[str, Any]:
        """A map that no field is."""
        return {"long grass": self.grass > 300}


class PlainPasture(Pasture):
    """The same without a map of its own."""

    layers = None  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def tape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three ticks, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setitem(sys.modules, "pasture", sys.modules[__name__])
    for name, kind in (("own.tape", Pasture), ("plain.tape", PlainPasture)):
        with recorder.record(kind(), name, trial_ms=0, quiet=True) as pasture:
            for _ in range(3):
                pasture.step()


def grass_at(tick: int) -> np.ndarray[Any, Any]:
    """By a plain loop."""
    pasture = Pasture()
    for _ in range(tick):
        pasture.step()
    return pasture.grass


def test_the_first_layer_is_drawn_without_a_field(capsys: pytest.CaptureFixture[str]) -> None:
    """That of layers(); without it, and without the simulation, the first field that is a map."""
    for line, name, drawn in (
        (f"own.tape --tick 2 {SIM}", "long grass", grass_at(2) > 300),
        ("plain.tape --tick 2 --sim pasture:PlainPasture", "PlainPasture.grass", grass_at(2)),
    ):
        assert run(replayer.commands.main.main, f"seek {line} --picture") == 0
        assert capsys.readouterr().out.endswith("\n".join([f"  layer {name}:", *picture(drawn, 80)]) + "\n")


@pytest.mark.parametrize("name", ["Pasture.grass", "grass"])
def test_a_drawn_field_has_no_numbers(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """By its name or its path; the map follows the line that describes it. Another field has its numbers."""
    assert run(replayer.commands.main.main, f"seek own.tape --tick 1 {SIM} --picture --field {name} --field well") == 0
    lines = capsys.readouterr().out.splitlines()
    drawn = picture(grass_at(1), 80)
    assert lines[-len(drawn) :] == drawn
    assert sum(line.startswith(f"  {name}") for line in lines) in (
        1,
        2,
    )  # The summary has a line of the attribute, too.
    assert not any(line.startswith("    [[") for line in lines)
    assert run(replayer.commands.main.main, f"seek own.tape --tick 1 {SIM} --picture --field tick") == 2
    assert_one_line(capsys.readouterr(), "--picture needs a field of two dimensions: tick has 0 dimensions")


def test_a_list_of_places_is_no_map() -> None:
    """Two or three columns of many rows are left out, in either order of axes; a small map of two rows is one."""
    with open_tape("plain.tape", PlainPasture) as tape:
        tape.seek(1)
        shown = ShownLayers(tape, PlainPasture, {1: tape.state.snapshot()}, can_simulate=True)
    assert shown.names == ["PlainPasture.grass", "PlainPasture.well"]
