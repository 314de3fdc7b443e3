"""MessagePack values with equal bytes next to each other: the heads of all values, then the bytes of numbers by place.

Little-endian:
    head_count u32 | counts of values with 1, 2, 4 and 8 bytes after their head, u32 each | text_bytes u32 | heads |
    of the values with 1 byte, this byte; of those with 2, first all first bytes, then all second ones; 4 and 8 likewise |
    the texts back to back

A number that is not in its head has 1 to 8 bytes after it, and so has the length of a long array or map. A text of up to
255 bytes, or binary, has a length there or in its head, and comes last. Other values (longer texts, extension types such as
arrays of NumPy) are not split.

Invariant: join_values(split_values(values)) is values.
"""

from __future__ import annotations

import struct

import numpy as np

from sim.kernel.marks import Bytes

_HEAD = struct.Struct("<6I")
WIDTHS = (1, 2, 4, 8)
_NUMBERS = {
    0xCA: 4,
    0xCB: 8,
    0xCC: 1,
    0xCD: 2,
    0xCE: 4,
    0xCF: 8,
    0xD0: 1,
    0xD1: 2,
    0xD2: 4,
    0xD3: 8,
    0xDC: 2,
    0xDD: 4,
    0xDE: 2,
    0xDF: 4,  # Arrays and maps.
}
_LENGTHS = (0xC4, 0xD9)  # Binary and texts, with a length of one byte.
_FIX_TEXTS = range(0xA0, 0xC0)  # With their length in the head.
_OTHERS = (0xC1, 0xC5, 0xC6, 0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8, 0xDA, 0xDB)
_WIDTH = [-1 if head in _OTHERS else 1 if head in _LENGTHS else _NUMBERS.get(head, 0) for head in range(256)]
_WIDTHS = np.array(_WIDTH, np.int64)
_FIX_TEXT_BYTES = np.array([head - 0xA0 if head in _FIX_TEXTS else 0 for head in range(256)], np.int64)


def split_values(values: bytes) -> list[bytes] | None:
    """The streams of values back to back; None if there is one of another kind. Joined, they are what join_values takes."""
    heads, numbers, texts = bytearray(), {width: bytearray() for width in WIDTHS}, bytearray()
    at, size = 0, len(values)
    while at < size:
        head = values[at]
        width = _WIDTH[head]
        if width < 0:
            return None
        heads.append(head)
        at += 1
        if width:
            numbers[width] += values[at : at + width]
        text_bytes = head - 0xA0 if head in _FIX_TEXTS else 0
        if head in _LENGTHS and at < size:
            text_bytes = values[at]
        at += width
        if text_bytes:
            texts += values[at : at + text_bytes]
            at += text_bytes
    if at != size or any(len(content) % width for width, content in numbers.items()):
        return None
    counts = [len(content) // width for width, content in numbers.items()]
    planes = [
        np.frombuffer(content, np.uint8).reshape(-1, width)[:, place].tobytes()
        for width, content in numbers.items()
        for place in range(width)
    ]
    return [_HEAD.pack(len(heads), *counts, len(texts)), bytes(heads), *planes, bytes(texts)]


def join_values(content: bytes, size_bytes: int) -> bytes:
    """Join streams to values, of size_bytes. Raises ValueError if they are not streams of that many bytes."""
    if len(content) < _HEAD.size:
        raise ValueError("streams of values without a head")
    head_count, *counts, text_bytes = _HEAD.unpack_from(content)
    planes_bytes = sum(width * count for width, count in zip(WIDTHS, counts, strict=True))
    if _HEAD.size + head_count + planes_bytes + text_bytes != len(content):
        raise ValueError(f"{len(content)} bytes of streams for {head_count} values")
    streams = np.frombuffer(content, np.uint8, offset=_HEAD.size)
    heads, streams = streams[:head_count], streams[head_count:]
    widths = _WIDTHS[heads]
    if (widths < 0).any() or any((widths == width).sum() != count for width, count in zip(WIDTHS, counts, strict=True)):
        raise ValueError("streams of values with other heads")
    texts = _FIX_TEXT_BYTES[heads]
    texts[np.isin(heads, _LENGTHS)] = streams[: counts[0]][np.isin(heads[widths == 1], _LENGTHS)]
    lengths = 1 + widths + texts
    starts = np.cumsum(lengths) - lengths
    if int(lengths.sum()) != size_bytes or int(texts.sum()) != text_bytes:
        raise ValueError(f"streams of values of {int(lengths.sum())} bytes, expected {size_bytes}")
    return _place(streams, heads, widths, texts, starts, size_bytes)


def _place(
    streams: Bytes,
    heads: Bytes,
    widths: np.typing.NDArray[np.int64],
    texts: np.typing.NDArray[np.int64],
    starts: np.typing.NDArray[np.int64],
    size_bytes: int,
) -> bytes:
    """Put the bytes of all streams to their places. texts: the length of each value's text."""
    values = np.empty(size_bytes, np.uint8)
    values[starts] = heads
    for width in WIDTHS:
        places = starts[widths == width] + 1
        for place in range(width):
            values[places + place] = streams[: len(places)]
            streams = streams[len(places) :]
    begins = starts + 1 + widths - (np.cumsum(texts) - texts)
    values[np.repeat(begins, texts) + np.arange(len(streams))] = streams
    return values.tobytes()
