"""The changes of a tick that changed much of a large state: flags in place of numbers, and each changed word once.

A number takes as much memory as a word, and so does the value before. Where many words change, a flag for each word of a
field takes a sixty-fourth of it, and a field whose changes are stored as differences needs neither of the two values.
All work is done by chunks, whose copies stay in the processor's cache.

Invariants:
    1. As those of TickChanges. Numbers are in the order of the marks, or ascend: as in the other forms.
    2. The words are taken at once: they do not change with the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from sim.kernel.marks import comparable, word_bytes_of
from sim.kernel.schema import Layout, Slot

Words = npt.NDArray[np.unsignedinteger[Any]]
Numbers = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]
Marks = Mapping[str, Sequence[Numbers | None]]  # By field, the numbers of rows; None for all rows.
MakeRoom = Callable[[int], None]

MANY_WORDS = 1 << 21  # Of a tick, from which on the changes are kept in this form: sixteen megabytes of 8-byte words.
CHUNK_WORDS = 1 << 19  # A multiple of 8: a chunk has whole bytes of flags.


def has_steps(slot: Slot) -> bool:
    """Return True for integers of more than one byte: counters and positions change by little."""
    return slot.dtype.kind in "iu" and slot.dtype.itemsize > 1


@attrs.define(eq=False)
class ManyWords:
    """The changed words of one field.

    Attributes:
        bits: a bit for each word of the field, uint8; bit 0 of byte 0 is word 0. Empty if the words are listed.
        listed: their numbers in order, in parts, if they do not ascend; else empty.
        count: of the words that changed.
        words: (count,) their values after the tick or, if is_difference, these minus the values before it.
    """

    bits: npt.NDArray[np.uint8]
    listed: Sequence[Numbers]
    count: int
    words: Words
    is_difference: bool = False

    @property
    def memory_bytes(self) -> int:
        """Size of the arrays."""
        return self.bits.nbytes + self.words.nbytes + sum(part.nbytes for part in self.listed)

    def chunks(self) -> Iterator[tuple[int, npt.NDArray[np.intp], slice]]:
        """Yield chunks of the changed words: a word of the field, their numbers from there, their place in words."""
        place = 0
        for part in self.listed:
            for begin in range(0, len(part), CHUNK_WORDS):
                inside = part[begin : begin + CHUNK_WORDS].astype(np.intp)
                yield 0, inside, slice(place, place + len(inside))
                place += len(inside)
        for begin, flags in self.flags():
            inside = np.flatnonzero(flags)
            if len(inside):
                yield begin, inside, slice(place, place + len(inside))
                place += len(inside)

    def flags(self) -> Iterator[tuple[int, Flags]]:
        """Yield the flags by chunks, each with the number of its first word; the last may have up to 7 too many."""
        for begin in range(0, len(self.bits), CHUNK_WORDS // 8):
            chunk = np.unpackbits(self.bits[begin : begin + CHUNK_WORDS // 8], bitorder="little")
            yield 8 * begin, chunk.view(np.bool_)

    def numbers(self) -> Iterator[Numbers]:
        """Yield the numbers of the words, in order, by chunks."""
        for begin, inside, _ in self.chunks():
            yield inside.astype(np.uint32) + np.uint32(begin)

    def has_numbers_of(self, other: ManyWords) -> bool:
        """Return True if the numbers are those of the words of another field, in the same form."""
        if self.count != other.count or len(self.listed) != len(other.listed):
            return False
        short, long = sorted((self.bits, other.bits), key=len)
        return (
            np.array_equal(short, long[: len(short)])
            and not long[len(short) :].any()
            and all(map(np.array_equal, self.listed, other.listed))
        )


@attrs.frozen(eq=False)
class ManyChanges:
    """See TickChanges; the words of each field that changed."""

    fields: Mapping[str, ManyWords]
    is_exact = True

    @property
    def size_bytes(self) -> int:
        """See TickChanges."""
        return self.memory_bytes

    @property
    def memory_bytes(self) -> int:
        """See TickChanges."""
        return sum(words.memory_bytes for words in self.fields.values())

    def by_field(self, layout: Layout) -> dict[str, tuple[Numbers, Words]]:  # noqa: ARG002 - they are by field already
        """See TickChanges. Takes as much memory as this form is to save; only for values."""
        assert not any(words.is_difference for words in self.fields.values())
        return {name: (np.concatenate([*words.numbers()]), words.words) for name, words in self.fields.items()}

    def steps_by_field(self, layout: Layout) -> dict[str, tuple[Numbers, Words, Words | None]]:
        """See TickChanges and by_field."""
        return {name: (numbers, words, None) for name, (numbers, words) in self.by_field(layout).items()}


def compare_many(
    arena: npt.NDArray[np.uint8], before: npt.NDArray[np.uint8], layout: Layout, room: MakeRoom
) -> ManyChanges:
    """Find the words that differ between two arenas, and make before equal to arena.

    room: called with the size of the words before they are taken.
    """
    found = {name: _differing(*_both(arena, before, slot)) for name, slot in layout.slots.items() if slot.size_bytes}
    room(sum(count * word_bytes_of(layout.slots[name]) for name, (_, count) in found.items()))
    fields = {}
    for name, (bits, count) in found.items():
        if not count:
            continue
        slot = layout.slots[name]
        now, then = _both(arena, before, slot)
        taken = ManyWords(bits, (), count, np.empty(count, now.dtype), is_difference=has_steps(slot))
        for begin, inside, place in taken.chunks():
            chunk, old = now[begin : begin + CHUNK_WORDS], then[begin : begin + CHUNK_WORDS]
            chunk.take(inside, out=taken.words[place], mode="clip")  # Other modes copy out once more.
            if taken.is_difference:
                np.subtract(taken.words[place], old.take(inside), out=taken.words[place])
            np.copyto(old, chunk)
        fields[name] = taken
    return ManyChanges(fields)


def take_marked(arena: npt.NDArray[np.uint8], layout: Layout, marks: Marks, room: MakeRoom) -> ManyChanges:
    """Take the words of the marked rows, in the order of the marks; room as for compare_many."""
    found = {name: _marked(layout.slots[name], numbers) for name, numbers in marks.items()}
    room(sum(count * word_bytes_of(layout.slots[name]) for name, (_, _, count) in found.items()))
    fields = {}
    for name, (bits, listed, count) in found.items():
        if not count:
            continue
        now = comparable(arena, layout.slots[name]).reshape(-1)
        taken = ManyWords(bits, listed, count, np.empty(count, now.dtype))
        for begin, inside, place in taken.chunks():
            now[begin:].take(inside, out=taken.words[place], mode="clip")
        fields[name] = taken
    return ManyChanges(fields)


def _both(arena: npt.NDArray[np.uint8], before: npt.NDArray[np.uint8], slot: Slot) -> tuple[Words, Words]:
    return comparable(arena, slot).reshape(-1), comparable(before, slot).reshape(-1)


def _differing(now: Words, then: Words) -> tuple[npt.NDArray[np.uint8], int]:
    """A bit for each word that differs, and the number of these."""
    bits, count = np.empty(-(-len(now) // 8), np.uint8), 0
    memory = np.empty(min(CHUNK_WORDS, len(now)), np.bool_)
    for begin in range(0, len(now), CHUNK_WORDS):
        chunk = now[begin : begin + CHUNK_WORDS]
        differs = np.not_equal(chunk, then[begin : begin + CHUNK_WORDS], out=memory[: len(chunk)])
        count += int(np.count_nonzero(differs))
        bits[begin // 8 : (begin + CHUNK_WORDS) // 8] = np.packbits(differs, bitorder="little")
    return bits, count


def _marked(slot: Slot, marks: Sequence[Numbers | None]) -> tuple[npt.NDArray[np.uint8], Sequence[Numbers], int]:
    """The words of the marked rows: a bit for each or, if the rows do not ascend, their numbers; and how many."""
    per_row = slot.row_bytes // word_bytes_of(slot)
    rows = [numbers for numbers in marks if numbers is not None and len(numbers)]
    is_whole = any(numbers is None for numbers in marks)
    if not is_whole and not _ascend(rows):
        largest = max(int(numbers.max()) for numbers in rows)
        if largest >= slot.row_count:
            raise IndexError(f"field {slot.name}: expected marks of rows below {slot.row_count}, got {largest}")
        listed = [_words_of(numbers, per_row) for numbers in rows]
        return np.empty(0, np.uint8), listed, sum(map(len, listed))
    flags = np.full(slot.row_count, is_whole)
    for numbers in rows:
        flags[numbers] = True
    bits = np.packbits(flags if per_row == 1 else np.repeat(flags, per_row), bitorder="little")
    return bits, (), int(np.count_nonzero(flags)) * per_row


def _ascend(parts: Sequence[Numbers]) -> bool:
    """Return True if the numbers of all parts are strictly increasing."""
    last = -1
    for part in parts:
        for begin in range(0, len(part), CHUNK_WORDS):
            chunk = part[begin : begin + CHUNK_WORDS]
            if chunk[0] <= last or not (chunk[1:] > chunk[:-1]).all():
                return False
            last = int(chunk[-1])
    return True


def _words_of(rows: Numbers, per_row: int) -> Numbers:
    """The numbers of the words of rows."""
    if per_row == 1:
        return rows
    words = rows[:, None] * np.uint32(per_row) + np.arange(per_row, dtype=np.uint32)
    return words.reshape(-1).astype(np.uint32, copy=False)
