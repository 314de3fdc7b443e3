"""Paint one tick as the page shows it: its maps side by side, points over them, their legend, and what it is."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping

import attrs
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from replayer.view.drawing.colour_maps import POINT_COLOURS, are_few, category, colours_of, table
from replayer.view.drawing.point_legend import PointLegend
from replayer.view.states.frame_encoding import PICTURE, EncodedTick
from replayer.view.states.page_json import page_text

GAP, LINE, TEXT = 10, 20, 13  # Pixels between maps, of a line of text, and of its letters.
TITLE_MAX = 60  # Characters.
BAR, BAR_DOWN = (96, 9), 3  # The size of a colour bar, and its distance from the top of its line.
SWATCH = 9  # The side of the square that shows the colour of nothing.
SCHEMES = {"light": ("#f6f7f8", "#16191d", "#e9ecef"), "dark": ("#14171a", "#e7eaee", "#0d0f11")}  # Page, text, map.

Picture = npt.NDArray[np.uint8]
Range = tuple[float, float]


@attrs.frozen
class DecodedLayer:
    """A layer of an EncodedTick.

    Attributes:
        kind, steps, range: as frame_encoding has them.
        codes: (height, width) or, of a picture, (height, width, 3).
    """

    kind: int
    steps: int
    range: Range
    codes: Picture


@attrs.frozen
class PaintOptions:
    """How ticks are painted.

    Attributes:
        colours: the name of a colour map.
        scheme: "light" or "dark".
        side: the least number of pixels of the longer side of a map.
        points: the kinds of points that are drawn: names by numbers.
        caption: in front of the tick.
    """

    colours: str
    scheme: str
    side: int
    points: Mapping[int, str]
    caption: str


def decode_layer(encoded: bytes) -> DecodedLayer | None:
    """A layer from its bytes; None for one that this tick lacks."""
    if not encoded:
        return None
    _, kind, steps, width, height, size, low, high = struct.unpack_from("<HBBIIIdd", encoded)
    shape = (height, width, 3) if kind == PICTURE else (height, width)
    return DecodedLayer(kind, steps, (low, high), np.frombuffer(encoded, np.uint8, size, 32).reshape(shape))


def decode_points(encoded: bytes) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """The number of each kind, and its points: (count, 3)."""
    at = 0
    while at < len(encoded):
        kind, count = struct.unpack_from("<II", encoded, at)
        yield kind, np.frombuffer(encoded, "<f4", count * 3, at + 8).reshape(count, 3)
        at += 8 + count * 12


class TickPainter:
    """Paints the ticks of one tape, all in one size.

    Attributes:
        ranges: of the colour scale of each layer.
    """

    def __init__(
        self, options: PaintOptions, ranges: Mapping[str, Range], largest: float, most: Mapping[int, int]
    ) -> None:
        """largest: the largest size among the points of all kinds and ticks. most: the most points of a kind at a tick."""
        self._options, self.ranges, self._largest = options, ranges, largest
        names = {kind: page_text(name, TITLE_MAX) for kind, name in options.points.items()}
        self._legend = PointLegend(names, most, largest)
        self._page, self._ink, self._ground = SCHEMES[options.scheme]
        self._font = ImageFont.load_default(TEXT)
        self._shapes: dict[str, tuple[int, int]] = {}
        self._steps: dict[str, int] = {}  # Of the last picture of each layer.
        self._all_ranges = dict(ranges)  # Those of all ticks, also where each tick has a scale of its own.
        self._titles_wide = 0  # Pixels; of the first tick, so that all have one size.

    def paint(self, tick: int, encoded: EncodedTick) -> Image.Image:
        """The picture of a tick, in RGB."""
        cards = [(name, self._map(name, encoded)) for name in encoded.layers]
        columns = math.ceil(math.sqrt(len(cards)))
        self._titles_wide = self._titles_wide or max((self._title_wide(name) for name, _ in cards), default=1)
        wide = max([image.width for _, image in cards] or [self._options.side])
        if columns > 1:  # Each title is above its own map.
            wide = max(wide, self._titles_wide)
        tall = max((image.height for _, image in cards), default=0)
        rows = math.ceil(len(cards) / max(1, columns))
        across = max(1, columns) * (wide + GAP) + GAP
        below = self._legend.height(self._font, across - 2 * GAP)
        size = (across, rows * (tall + LINE + GAP) + GAP + below + LINE)
        page = Image.new("RGB", (size[0] + size[0] % 2, size[1] + size[1] % 2), self._page)  # Videos have even sides.
        pen = ImageDraw.Draw(page)
        for number, (name, image) in enumerate(cards):
            x, y = GAP + number % columns * (wide + GAP), GAP + number // columns * (tall + LINE + GAP)
            self._draw_title(page, pen, (x, y), name, max(wide, self._titles_wide))
            page.paste(image, (x, y + LINE))
        counts = {kind: len(places) for kind, places in decode_points(encoded.points)}
        legend_at = GAP, page.height - LINE - 2 - below
        self._legend.draw(pen, legend_at, self._font, self._ink, counts, across - 2 * GAP)
        where = f"tick {tick:,}" if encoded.shown == tick else f"tick {tick:,}: keyframe {encoded.shown:,}"
        pen.text((GAP, page.height - LINE - 2), f"{self._options.caption}   {where}", self._ink, self._font)
        return page

    def _title(self, name: str) -> str:
        title = page_text(name, TITLE_MAX)
        low, high = self.ranges.get(name, (math.nan, math.nan))
        return title if math.isnan(low) else f"{title}   {low:.4g} … {high:.4g}"

    def _draw_title(
        self, page: Image.Image, pen: ImageDraw.ImageDraw, at: tuple[int, int], name: str, room: int
    ) -> None:
        """Draw the name of a map and its colour bar between the lowest and the highest value; as text if room is short."""
        x, y = at
        low, high = self.ranges.get(name, (math.nan, math.nan))
        if math.isnan(low) or self._title_wide(name) > room:
            pen.text(at, self._fitted(self._title(name), room), self._ink, self._font)
            return
        if self._are_few(name):
            self._draw_categories(pen, at, name)
            return
        for text in (page_text(name, TITLE_MAX), f"{low:.4g}"):
            pen.text((x, y), text, self._ink, self._font)
            x += self._width(text) + GAP
        if low == 0:  # Its cells have the colour of the ground, see colours_of.
            top = y + BAR_DOWN
            pen.rectangle((x, top, x + SWATCH - 1, top + SWATCH - 1), fill=self._ground, outline=self._ink)
            x += SWATCH + GAP // 2
        bar = table(self._options.colours)[None]
        page.paste(Image.fromarray(bar).resize(BAR, Image.Resampling.NEAREST), (x, y + BAR_DOWN))
        pen.text((x + BAR[0] + GAP, y), f"{high:.4g}", self._ink, self._font)

    def _draw_categories(self, pen: ImageDraw.ImageDraw, at: tuple[int, int], name: str) -> None:
        """Draw the name of a map, and a square of its colour before each whole number."""
        (x, y), (low, high) = at, self._all_ranges[name]
        pen.text((x, y), page_text(name, TITLE_MAX), self._ink, self._font)
        x += self._width(page_text(name, TITLE_MAX)) + GAP
        for value in range(int(low), int(high) + 1):
            fill = self._ground if value == low == 0 else category(value)
            pen.rectangle((x, y + BAR_DOWN, x + SWATCH - 1, y + BAR_DOWN + SWATCH - 1), fill=fill, outline=self._ink)
            pen.text((x + SWATCH + 3, y), str(value), self._ink, self._font)
            x += SWATCH + 3 + self._width(str(value)) + GAP

    def _title_wide(self, name: str) -> int:
        """The pixels of a title with its colour bar, or with its categories."""
        if self._are_few(name):
            low, high = self._all_ranges[name]
            numbers = sum(self._width(str(value)) + SWATCH + 3 + GAP for value in range(int(low), int(high) + 1))
            return self._width(page_text(name, TITLE_MAX)) + numbers
        bounds = [f"{value:.4g}" for value in self.ranges.get(name, ())]
        texts = [page_text(name, TITLE_MAX), *bounds]
        swatch = SWATCH + GAP // 2 if self.ranges.get(name, (math.nan,))[0] == 0 else 0
        return sum(self._width(text) + GAP for text in texts) - GAP + (BAR[0] + GAP + swatch if bounds else 0)

    def _are_few(self, name: str) -> bool:
        return name in self._steps and are_few(self._steps[name], self._all_ranges[name])

    def _ground_colour(self) -> Picture:
        return np.array([int(self._ground[at : at + 2], 16) for at in (1, 3, 5)], np.uint8)

    def _width(self, text: str) -> int:
        return math.ceil(self._font.getlength(text))

    def _fitted(self, title: str, wide: int) -> str:
        """The title, or its beginning if it would reach into the next one: its figures differ from tick to tick."""
        if self._width(title) <= wide:
            return title
        return next(
            (f"{title[:end]}…" for end in range(len(title), 0, -1) if self._width(f"{title[:end]}…") <= wide), ""
        )

    def _map(self, name: str, encoded: EncodedTick) -> Image.Image:
        layer = decode_layer(encoded.layers[name])
        if layer is None:  # It has the size that it had before.
            return Image.new("RGB", self._shapes.get(name, (self._options.side, self._options.side)), self._ground)
        height, width = layer.codes.shape[:2]
        cell = max(1, math.ceil(self._options.side / max(height, width)))
        self._shapes[name] = (width * cell, height * cell)
        if layer.kind == PICTURE:
            return Image.fromarray(layer.codes).resize(self._shapes[name], Image.Resampling.NEAREST)
        shown, self._steps[name] = self.ranges[name], layer.steps
        few = self._are_few(name)
        colours = colours_of(self._options.colours, layer.steps, layer.range, shown, self._ground_colour(), few=few)
        image = Image.fromarray(colours[layer.codes]).resize(self._shapes[name], Image.Resampling.NEAREST)
        if self._options.points:
            self._draw_points(image, encoded, cell)
        return image

    def _draw_points(self, image: Image.Image, encoded: EncodedTick, cell: int) -> None:
        """Rings: the value below stays seen, and their areas tell the sizes."""
        pen = ImageDraw.Draw(image)
        plain = max(2.2, min(cell * 0.4, 8.0))
        most = max(plain, min(cell * 1.5, 14.0))
        for kind, places in decode_points(encoded.points):
            if kind not in self._options.points:
                continue
            colour = POINT_COLOURS[kind % len(POINT_COLOURS)]
            for x, y, size in places[np.isfinite(places[:, :2]).all(axis=1)].tolist():
                share = size / self._largest if self._largest > 0 else 0.0
                radius = plain if math.isnan(size) else max(2.2, most * math.sqrt(max(0.0, min(1.0, share))))
                box = (x * cell - radius, y * cell - radius, x * cell + radius, y * cell + radius)
                pen.ellipse(box, outline="#000000", width=max(3, round(plain * 0.55)))
                pen.ellipse(
                    [box[0] + 1, box[1] + 1, box[2] - 1, box[3] - 1], outline=colour, width=max(1, round(plain * 0.34))
                )
