"""Two structures that are encoded alike are taken for the same, and no others."""

from __future__ import annotations

import pytest

from sim.adapters.capture.survey import Attribute, Layer, Structure, is_alike


def _structure(*attributes: Attribute) -> Structure:
    return Structure((Layer("game", attributes),))


SPEED = Attribute("speed", "cell", "f")
GRID = Attribute("grid", "array", ["<f8", [2, 3]])


def test_equal_structures_are_alike() -> None:
    assert is_alike(_structure(SPEED, GRID), _structure(SPEED, Attribute("grid", "array", ["<f8", [2, 3]])))


def test_attributes_that_are_not_saved_make_no_difference() -> None:
    drawn = Attribute("screen", "kept")
    assert _structure(SPEED, drawn) != _structure(SPEED)
    assert is_alike(_structure(SPEED, drawn), _structure(SPEED))


@pytest.mark.parametrize(
    "other",
    [
        _structure(SPEED),
        _structure(SPEED, GRID, Attribute("name", "rest")),
        _structure(Attribute("speed", "cell", "i"), GRID),
        _structure(Attribute("speed", "rest"), GRID),
        _structure(SPEED, Attribute("grid", "array", ["<f8", [3, 2]])),
        _structure(SPEED, Attribute("grid", "array", [">f8", [2, 3]])),
        _structure(SPEED, Attribute("board", "array", ["<f8", [2, 3]])),
        Structure((Layer("world", (SPEED, GRID)),)),
    ],
    ids=["one-less", "one-more", "letter", "category", "shape", "order", "name", "layer"],
)
def test_anything_else_makes_a_difference(other: Structure) -> None:
    assert not is_alike(_structure(SPEED, GRID), other)
