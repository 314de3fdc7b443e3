"""Write a page of its own: some ticks of a tape as one file that a browser opens without a server.

The file has the scripts of the page, the encoded maps and points of each tick, compressed, and asks nothing of any host.
"""

from __future__ import annotations

import base64
import html
import json
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

import attrs

from replayer.view.states.frame_encoding import encode_head
from replayer.view.worker.page_jobs import ViewSelection
from replayer.view.worker.view_cursor import ViewCursor

MODULES = ("dom", "colours", "rings", "wire", "maps", "theme", "page_file")
UNPACKED_BYTES_MAX = 500_000_000  # A browser has all ticks in memory, twice for a moment.
START = "page_file"  # The module that begins.
BASE64_GROWTH = 4 / 3

_PLACE = re.compile(r"/\*\* (\w+) \*\*/")
_LENGTH = struct.Struct("<I")


class PageSizeError(ValueError):
    """The file would be larger than was allowed, or too large for a browser once it is unpacked."""

    def __init__(self, bytes_max: int, tick: int | None, *, unpacked: bool = False) -> None:
        """tick: the last one that there was room for; None if there was none."""
        fits = "not even one tick fits" if tick is None else f"it is full at tick {tick:,}"
        wanted = "fewer --ticks, a greater --every"
        super().__init__(
            f"the page would need more than {bytes_max / 1e6:g} MB of a browser's memory, {fits}: give {wanted} or one --layer"
            if unpacked
            else f"the page would be larger than {bytes_max / 1e6:g} MB, {fits}: give {wanted}, one --layer, or a greater --max-mb"
        )


@attrs.frozen
class PageRequest:
    """What is written.

    Attributes:
        ticks: in ascending order.
        layers: names of the layers, each of which the tape has; the page shows the first two at first.
        hidden: the kinds of points that are not shown at first.
        colours: the name of the colour map.
        own_scale: True if colours begin as those of each tick's own range.
        name: of the tape, as it is shown.
        bytes_max: the most that the file may have.
    """

    ticks: Sequence[int]
    layers: tuple[str, ...]
    hidden: tuple[str, ...]
    colours: str
    own_scale: bool
    name: str
    bytes_max: int


def write_page(cursor: ViewCursor, request: PageRequest, path: Path, on_progress: Callable[[float], None]) -> int:
    """Write the file and return its size in bytes. on_progress: gets the number of ticks that are done.

    Raises PageSizeError as soon as the file is too large, OSError, and as Timeline.seek does.
    """
    shell = _shell()
    room = request.bytes_max - len(shell)
    look, packer, packed = ViewSelection(request.layers), zlib.compressobj(9), bytearray()
    reached, unpacked_bytes = None, 0
    for done, tick in enumerate(request.ticks, start=1):
        snapshot, shown = cursor.state(tick)
        encoded = cursor.encode(snapshot, shown, look)
        layers = [layer for layer in encoded.layers.values() if layer]
        head = encode_head(0, 0, len(layers), 0, tick, encoded.shown, encoded.state_hash)
        message = b"".join([head, *layers, encoded.points])
        unpacked_bytes += _LENGTH.size + len(message)
        if unpacked_bytes > UNPACKED_BYTES_MAX:
            raise PageSizeError(UNPACKED_BYTES_MAX, reached, unpacked=True)
        packed += packer.compress(_LENGTH.pack(len(message)) + message) + packer.flush(zlib.Z_SYNC_FLUSH)
        if len(packed) * BASE64_GROWTH > room:
            raise PageSizeError(request.bytes_max, reached)
        reached = tick
        on_progress(done)
    packed += packer.flush()
    facts = attrs.asdict(request) | {
        "ticks": list(request.ticks),
        "known": cursor.shown.names,
        "points": cursor.shown.point_kinds,
    }
    parts = {"facts": _json(facts), "frames": base64.b64encode(packed).decode(), "title": html.escape(request.name)}
    content = _PLACE.sub(lambda match: parts[match[1]], shell).encode()
    if len(content) > request.bytes_max:
        raise PageSizeError(request.bytes_max, request.ticks[-2] if len(request.ticks) > 1 else None)
    path.write_bytes(content)
    return len(content)


def _shell() -> str:
    """The page with its styles and scripts, and the places for what is told of the tape."""
    folder = files("replayer.view") / "page"
    sources = {name: (folder / f"{name}.js").read_text(encoding="utf-8") for name in MODULES}
    # In a page without a server, a module is found by its name in a list of texts, not by an address.
    texts = {name: re.sub(r"from '/f/(\w+)\.js'", r"from '\1'", source) for name, source in sources.items()}
    modules = {
        name: f"data:text/javascript;base64,{base64.b64encode(text.encode()).decode()}" for name, text in texts.items()
    }
    parts = {
        "style": (folder / "style.css").read_text(encoding="utf-8"),
        "modules": json.dumps({"imports": modules}),
        "start": START,
    }
    template = (folder / "page_file.html").read_text(encoding="utf-8")
    return _PLACE.sub(lambda match: parts.get(match[1], match[0]), template)


def _json(facts: object) -> str:
    """JSON that ends no script, whatever names a tape has."""
    return json.dumps(facts).replace("<", "\\u003c")
