"""The payload of a CHANGES block for one tick that changed many words, in parts: see changes_block.py.

Neither the numbers of the words nor their shuffled bytes are ever completely in memory. They are made by chunks, once for
each byte of a number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from recorder.format.blocks.byte_shuffle import folded, shuffled
from recorder.format.blocks.changes_block import NO_SECTION, NUMBER_BYTES, ChangeEncoder, differences
from recorder.format.blocks.payload import Payload
from sim.kernel.changes.many_changes import CHUNK_WORDS, ManyChanges, ManyWords, Words, has_steps
from sim.kernel.plain_data import encode_plain
from sim.kernel.state import Bytes

_HEAD_SIZE = struct.Struct("<I")


def many_changes_payload(encoder: ChangeEncoder, tick: int, changes: ManyChanges) -> Payload:
    """The payload for the changes of the next tick of an encoder. Consumes them: their words become those of the block."""
    layout, before = encoder.layout, encoder.before
    sections: list[list[Any]] = []
    written: list[tuple[ManyWords, bool]] = []
    for name, slot in layout.slots.items():
        if name not in changes.fields:
            continue
        many = changes.fields[name]
        if has_steps(slot):
            _fold(many, None if many.is_difference or before is None else before[name])
        same = next((n for n, (other, _) in enumerate(written) if many.has_numbers_of(other)), NO_SECTION)
        sections.append([name, int(has_steps(slot)), many.words.itemsize, many.count, same])
        written.append((many, same == NO_SECTION))
    head = encode_plain({"first_tick": tick, "tick_count": 1, "layout": layout.hash_seed, "sections": sections})
    start = _HEAD_SIZE.pack(len(head)) + head

    def parts() -> Iterator[Bytes]:
        yield np.frombuffer(start, np.uint8)
        for many, has_numbers in written:
            if has_numbers:
                yield shuffled(np.array([many.count], np.uint32))
                yield from _number_planes(many)
            yield from _word_planes(many.words)

    sizes = (many.words.nbytes + has_numbers * NUMBER_BYTES * (1 + many.count) for many, has_numbers in written)
    return Payload(len(start) + sum(sizes), parts)


def _fold(many: ManyWords, before: Words | None) -> None:
    """Make the words of a field folded differences, in place. before: its words at the tick before, if they are values."""
    for begin, inside, place in many.chunks():
        words = many.words[place]
        if before is not None:
            words[:] = differences(before[begin:], inside, words, ascending=not many.listed)
        words[:] = folded(words)


def _number_planes(many: ManyWords) -> Iterator[Bytes]:
    """The shuffled differences of the numbers from the numbers before them."""
    largest = 0
    for plane in range(NUMBER_BYTES):
        last = np.uint32(0)
        for numbers in many.numbers():
            if plane and not largest >> 8 * plane:
                yield np.zeros(len(numbers), np.uint8)
                continue
            steps = np.diff(numbers, prepend=last)
            last = numbers[-1]
            largest = max(largest, int(steps.max()))
            yield np.ascontiguousarray(steps.view(np.uint8).reshape(-1, NUMBER_BYTES)[:, plane])


def _word_planes(words: Words) -> Iterator[Bytes]:
    """The shuffled words."""
    for plane in range(words.itemsize):
        for begin in range(0, len(words), CHUNK_WORDS):
            chunk = words[begin : begin + CHUNK_WORDS]
            yield np.ascontiguousarray(chunk.view(np.uint8).reshape(-1, words.itemsize)[:, plane])
