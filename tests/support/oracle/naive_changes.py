"""CHANGES blocks as SPEC.md describes them, read one number at a time without code of the recorder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgpack

WORDS_OF = {0: "values", 1: "steps"}


def unwoven(content: bytes, word_bytes: int) -> list[int]:
    """Return the numbers of a shuffled array: first the first bytes of all, then the second bytes."""
    count = len(content) // word_bytes
    return [
        int.from_bytes(bytes(content[place * count + number] for place in range(word_bytes)), "little")
        for number in range(count)
    ]


def changes_of(payload: bytes) -> Iterator[tuple[int, str, int, int, str, int]]:
    """Yield tick, field, word_bytes, number of the word, kind and amount, tick by tick in each section."""
    head_bytes = int.from_bytes(payload[:4], "little")
    head = msgpack.unpackb(payload[4 : 4 + head_bytes])
    place = 4 + head_bytes
    places: list[Any] = []
    for field, encoding, word_bytes, count, same in head["sections"]:
        if same == -1:
            counts = unwoven(payload[place : place + 4 * head["tick_count"]], 4)
            place += 4 * head["tick_count"]
            distances = unwoven(payload[place : place + 4 * count], 4)
            place += 4 * count
        else:
            counts, distances = places[same]
        places.append((counts, distances))
        words = unwoven(payload[place : place + word_bytes * count], word_bytes)
        place += word_bytes * count
        number, rest = 0, iter(zip(distances, words, strict=True))
        for tick, of_tick in enumerate(counts, head["first_tick"]):
            for _ in range(of_tick):
                distance, word = next(rest)
                number = (number + distance) % 2**32
                if encoding == 1:
                    word = word // 2 if word % 2 == 0 else -(word + 1) // 2
                yield tick, field, word_bytes, number, WORDS_OF[encoding], word
        assert next(rest, None) is None
    assert place == len(payload)


def apply(arena: bytearray, layout: dict[str, Any], changes: Any) -> None:
    """Write the changes of one tick. layout: offsets by field."""
    for _, field, word_bytes, number, kind, word in changes:
        begin = layout[field] + number * word_bytes
        before = int.from_bytes(arena[begin : begin + word_bytes], "little") if kind == "steps" else 0
        arena[begin : begin + word_bytes] = ((before + word) % (1 << 8 * word_bytes)).to_bytes(word_bytes, "little")
