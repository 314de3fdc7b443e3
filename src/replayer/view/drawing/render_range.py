"""Render a range of ticks: simulate it once, keep what is shown in a temporary file, then paint with one scale for all.

So the colours of a video can be compared from its first picture to its last, and no state is made twice.
"""

from __future__ import annotations

import math
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import attrs
import numpy as np
from PIL import Image

from replayer.view.drawing.picture_files import write_pictures
from replayer.view.drawing.tick_pictures import (
    PaintOptions,
    Range,
    TickPainter,
    decode_layer,
    decode_points,
)
from replayer.view.states.frame_encoding import PICTURE, EncodedTick
from replayer.view.worker.page_jobs import ViewSelection
from replayer.view.worker.view_cursor import ViewCursor
from sim.kernel.plain_data import decode_plain, encode_plain

_SIZE = struct.Struct("<Q")

OnProgress = Callable[[float], None]


@attrs.frozen
class RenderRequest:
    """What is rendered.

    Attributes:
        ticks: in their order.
        layers: names of the layers; each is one that the tape has.
        own_scale: True gives each tick the range of its own values.
        fps: pictures a second.
        paint: see PaintOptions.
    """

    ticks: Sequence[int]
    layers: tuple[str, ...]
    own_scale: bool
    fps: float
    paint: PaintOptions


def render(cursor: ViewCursor, request: RenderRequest, path: Path, suffix: str, on_progress: OnProgress) -> None:
    """Write a file. on_progress: gets the number of ticks that are done, each counted as a half when it is simulated.

    Raises as Timeline.seek does, ImportError if the package for videos is not installed, OSError.
    """
    look = ViewSelection(request.layers)
    ranges: dict[str, Range] = {}
    largest, most = 0.0, dict.fromkeys(request.paint.points, 0)
    with tempfile.TemporaryFile() as spool:
        for done, tick in enumerate(request.ticks, start=1):
            encoded = cursor.encode(*cursor.state(tick), look)
            ranges = _grown(ranges, encoded)
            largest = max(largest, _largest(encoded))
            most |= {kind: max(most.get(kind, 0), len(points)) for kind, points in decode_points(encoded.points)}
            _put(spool, tick, encoded)
            on_progress(done / 2)
        spool.seek(0)
        painter = TickPainter(request.paint, ranges, largest, most)
        painted = _paint_all(spool, request, painter, ranges, on_progress)
        write_pictures(path, suffix, painted, request.fps)


def _paint_all(
    spool: IO[bytes],
    request: RenderRequest,
    painter: TickPainter,
    ranges: dict[str, Range],
    on_progress: OnProgress,
) -> Iterator[Image.Image]:
    for done in range(1, len(request.ticks) + 1):
        tick, encoded = _take(spool)
        if request.own_scale:
            painter.ranges = ranges | _grown({}, encoded)
        yield painter.paint(tick, encoded)
        on_progress((len(request.ticks) + done) / 2)


def _put(spool: IO[bytes], tick: int, encoded: EncodedTick) -> None:
    content = encode_plain([tick, encoded.shown, dict(encoded.layers), encoded.points])
    spool.write(_SIZE.pack(len(content)) + content)


def _take(spool: IO[bytes]) -> tuple[int, EncodedTick]:
    (size,) = _SIZE.unpack(spool.read(_SIZE.size))
    tick, shown, layers, points = decode_plain(spool.read(size))
    return tick, EncodedTick(shown, 0, layers, points, {})


def _grown(ranges: dict[str, Range], encoded: EncodedTick) -> dict[str, Range]:
    """The ranges, with the values of one more tick."""
    found = dict(ranges)
    for name, content in encoded.layers.items():
        layer = decode_layer(content)
        if layer is not None and layer.kind != PICTURE:
            low, high = found.get(name, (math.inf, -math.inf))
            found[name] = (min(low, layer.range[0]), max(high, layer.range[1]))
    return found


def _largest(encoded: EncodedTick) -> float:
    """The largest size among the points of all kinds, 0 without any: their rings have one scale."""
    sizes = [points[:, 2][np.isfinite(points[:, 2])] for _, points in decode_points(encoded.points)]
    return max((float(known.max()) for known in sizes if known.size), default=0.0)
