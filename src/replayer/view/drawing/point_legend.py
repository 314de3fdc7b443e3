"""Lay out and draw the legend of points below the maps of a picture: a ring, the name and the count of each kind.

The places depend on the names and on the largest counts of all ticks, so that nothing moves in a film.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs
from PIL import ImageDraw, ImageFont

from replayer.view.drawing.colour_maps import POINT_COLOURS

LINE, RING, SPACE = 20, 11, 16  # Pixels: a line of text, the width of a ring, and between two entries.
RING_DOWN = 3  # From the top of the line.

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


@attrs.frozen
class PointLegend:
    """What the legend says, the same for all ticks of a file.

    Attributes:
        names: of the kinds that are drawn, by their numbers.
        most: the largest number of points of each kind at any tick; 0 for a kind that it lacks.
        largest: the largest size among all points; 0 if they have none.
    """

    names: Mapping[int, str]
    most: Mapping[int, int]
    largest: float

    def height(self, font: Font, room: int) -> int:
        """Pixels of the legend in a picture with this many pixels for it in a line; 0 without points."""
        return max((y for _, _, y in self._places(font, room)), default=-LINE) + LINE

    def draw(
        self, pen: ImageDraw.ImageDraw, at: tuple[int, int], font: Font, ink: str, counts: Mapping[int, int], room: int
    ) -> None:
        """Draw it with its upper left corner at a place. counts: of this tick, by kind."""
        for kind, x, y in self._places(font, room):
            left, top = at[0] + x, at[1] + y
            if kind is None:
                pen.text((left, top), self._size_text(), ink, font)
                continue
            ring = (left, top + RING_DOWN, left + RING - 1, top + RING_DOWN + RING - 1)
            pen.ellipse(ring, outline="#000000", width=4)
            pen.ellipse(
                (ring[0] + 1, ring[1] + 1, ring[2] - 1, ring[3] - 1),
                outline=POINT_COLOURS[kind % len(POINT_COLOURS)],
                width=2,
            )
            pen.text((left + RING + 4, top), f"{self.names[kind]}: {counts.get(kind, 0):,}", ink, font)

    def _size_text(self) -> str:
        return f"largest ring: {self.largest:.4g}"

    def _places(self, font: Font, room: int) -> list[tuple[int | None, int, int]]:
        """The place of each entry, as kind, x, y; the kind None is the text about sizes."""
        entries: list[tuple[int | None, int]] = [
            (kind, RING + 4 + math.ceil(font.getlength(f"{name}: {self.most.get(kind, 0):,}")))
            for kind, name in self.names.items()
        ]
        if entries and self.largest > 0:
            entries.append((None, math.ceil(font.getlength(self._size_text()))))
        places, x, y = [], 0, 0
        for kind, wide in entries:
            if x and x + wide > room:
                x, y = 0, y + LINE
            places.append((kind, x, y))
            x += wide + SPACE
        return places
