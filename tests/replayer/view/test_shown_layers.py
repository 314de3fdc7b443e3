"""The order of the maps that the page has to choose from: it opens with the first ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from replayer.view.worker.view_cursor import ViewCursor
from sim import Field, Schema, State

from small_worlds import record


class Biotope:
    """Small tables of numbers, and then maps."""

    def __init__(self) -> None:
        sides = {"room": (2, 3), "deaths": (5, 2), "grass": (24, 24), "water": (24, 24), "coarse": (12, 12)}
        self.state = State(Schema(*(Field(name, "f8", shape) for name, shape in sides.items())))

    def step(self, _: Any) -> None:
        self.state["grass"][0, 0] += 1


class Tables:
    """Small tables alone."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("room", "f8", (2, 3)), Field("deaths", "f8", (5, 2))))

    def step(self, _: Any) -> None:
        self.state["room"][0, 0] += 1


def test_maps_come_before_small_tables(tmp_path: Path) -> None:
    """A quarter of the cells is a coarse map; a hundredth is a table. The order is kept otherwise."""
    record(tmp_path / "biotope.tape", Biotope(), [None] * 3)
    record(tmp_path / "tables.tape", Tables(), [None] * 3)
    assert ViewCursor(tmp_path / "biotope.tape", Biotope).shown.names == ["grass", "water", "coarse", "room", "deaths"]
    assert ViewCursor(tmp_path / "tables.tape", Tables).shown.names == ["room", "deaths"]
