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
from replayer.value_text import colour_picture, picture
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


class Camera(Pasture):
    """Its first map is a picture in colours, as environments observe them."""

    layers = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self.seen = np.zeros((16, 12, 3), np.uint8)
        self.seen[:, 6:] = (200, 100, 50)
        self.seen[8:, :6] = (0, 0, 250)

    def step(self) -> None:
        """The right half gets darker."""
        self.seen[:, 6:] -= 10


class PlainPasture(Pasture):
    """The same without a map of its own."""

    layers = None  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def tape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three ticks, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setitem(sys.modules, "pasture", sys.modules[__name__])
    for name, kind in (("own.tape", Pasture), ("plain.tape", PlainPasture), ("camera.tape", Camera)):
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


def test_plot_draws_the_maps_that_the_page_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of layers() first, then the fields that are maps; a layers() that raises is told."""
    assert run(replayer.commands.main.main, f"plot own.tape --tick 2 {SIM} -o own.svg") == 0
    assert capsys.readouterr().out == "own.svg\n"
    drawn = Path("own.svg").read_text()
    assert [name for name in ("long grass", "Pasture.grass", "Pasture.sheep") if f"<!-- {name} -->" in drawn] == [
        "long grass",
        "Pasture.grass",
    ]
    monkeypatch.setattr(Pasture, "layers", lambda _: {}["long grass"])
    assert run(replayer.commands.main.main, f"plot own.tape --tick 2 {SIM} -o torn.svg") == 0
    assert capsys.readouterr().err.startswith("note: layers() raised KeyError: 'long grass'")


def test_a_list_of_places_is_no_map() -> None:
    """Two or three columns of many rows are left out, in either order of axes; a small map of two rows is one."""
    with open_tape("plain.tape", PlainPasture) as tape:
        tape.seek(1)
        shown = ShownLayers(tape, PlainPasture, {1: tape.state.snapshot()}, can_simulate=True)
    assert shown.names == ["PlainPasture.grass", "PlainPasture.well"]


SEEK_CAMERA = "seek camera.tape --tick 2 --sim pasture:Camera --picture"


@pytest.mark.parametrize("field", ["", " --field seen"])
def test_a_picture_is_drawn_by_its_brightness(capsys: pytest.CaptureFixture[str], field: str) -> None:
    """Blue is darker than brown, as grey would show it, and a line says that colours are not shown."""
    assert run(replayer.commands.main.main, SEEK_CAMERA + field) == 0
    lines = capsys.readouterr().out.splitlines()
    top, bottom = " " * 6 + "█" * 6, "▒" * 6 + "█" * 6  # Brightness 0, 28.5 and 104.2: 1.09 of 4 shades, rounded up.
    assert lines[-8:] == [top] * 4 + [bottom] * 4
    assert lines[-9].startswith("  colours, drawn by their brightness")


def test_a_terminal_gets_the_colours(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pixels a character; not if NO_COLOR asks for none."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert run(replayer.commands.main.main, SEEK_CAMERA) == 0
    left, right = "\x1b[38;2;0;0;0;48;2;0;0;0m▀", "\x1b[38;2;180;80;30;48;2;180;80;30m▀"
    assert left * 6 + right * 6 + "\x1b[0m" in capsys.readouterr().out.splitlines()
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(replayer.commands.main.main, SEEK_CAMERA) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_pictures_of_odd_heights_and_pictures_that_are_too_wide() -> None:
    """The last row has no pixel below it; blocks have their mean colour."""
    red = np.zeros((3, 4, 4), np.uint8)
    red[:, ::2, 0] = 100
    assert colour_picture(red, 2) == [
        "\x1b[38;2;50;0;0;48;2;50;0;0m▀" * 2 + "\x1b[0m",
    ]
    assert colour_picture(red[:1], 4) == ["\x1b[38;2;100;0;0m▀\x1b[38;2;0;0;0m▀" * 2 + "\x1b[0m"]


def test_values_that_are_not_finite_have_a_mark_of_their_own() -> None:
    """Nothing is said of their size; the others keep their shades."""
    field = np.array([[np.nan, 0.0, 1.0, np.inf]] * 2)
    assert picture(field, 80) == ["? █?"]
    assert picture(np.full((2, 2), np.nan), 80) == ["??"]


def test_a_plot_shows_colours_without_a_scale() -> None:
    """A colour bar beside a picture would give its colours numbers that they have not."""
    drawing = pytest.importorskip("replayer.export.plot")
    layers = {"seen": Camera().seen, "grass": grass_at(1)}
    seen, grass = drawing.draw_layers(layers, "maps").axes
    assert (np.asarray(seen.images[0].get_array()) == Camera().seen).all()
    assert grass.get_title() == "grass"
    assert [len(axes.child_axes) for axes in (seen, grass)] == [0, 1]
