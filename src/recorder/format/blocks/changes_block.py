"""CHANGES blocks: what each of some consecutive ticks changed in the state, so that a tick is reached without a step.

Words of a field are its unsigned integers of 1, 2, 4 or 8 bytes, numbered from 0 (see sim.kernel.changes.tick_changes). A block
holds, for each field that changed, the words of all its ticks as columns.

Payload: head_bytes u32 little-endian | head, MessagePack | bodies of the sections back to back.

Head, a map:
    first_tick, tick_count   of the ticks that the block tells of, all of them
    layout                   hash_seed of the layout that they are of
    sections                 list of [field, encoding, word_bytes, count, same], count words in all; same is the number
                             of an earlier section with the same counts and numbers, or -1

Body of a section: unless same says where they are, the number of words of each tick, u32, and the numbers of the words,
each the difference to the one before, the first one to 0, modulo 2**32, u32; then the words. All byte-shuffled: the
first bytes of all, then the second bytes of all, and so on.

Encodings of the words:
    VALUES   what the word is after the tick
    STEPS    by how much it is more than before the tick, modulo 2**(8 word_bytes), folded such that small differences of
             either sign are small numbers: 0, -1, 1, -2 are 0, 1, 2, 3

Invariants:
    1. Applied to the state at the tick before, all words of a tick give the state at that tick; words may repeat.
    2. Words of a tick do not depend on those of other ticks, but for STEPS, which add up.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from recorder.errors import CorruptError
from recorder.format.blocks.byte_shuffle import folded, shuffled, unfolded, unshuffled
from recorder.format.limits import BLOCK_TICKS_MAX, KEYFRAME_RAW_BYTES_MAX
from sim.kernel.changes.tick_changes import (
    FieldWords,
    TickChanges,
    Words,
    ensure_words_can_be_numbered,
    flat_words,
)
from sim.kernel.marks import word_bytes_of
from sim.kernel.plain_data import DECODE_ERRORS, decode_plain, encode_plain
from sim.kernel.schema import Layout, Slot

Columns = tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], Words]

_HEAD_SIZE = struct.Struct("<I")
_NUMBER_BYTES = 4
_NO_SECTION = -1
_BELOW_FLOAT_WORDS = 8  # Words of fewer bytes are compared with what they were, where a scan may name unchanged ones.


class WordForm(enum.IntEnum):
    """How a section holds its words."""

    VALUES = 0
    STEPS = 1


class ChangeEncoder:
    """Makes CHANGES payloads of consecutive ticks, beginning with the state that it was made with.

    Keeps what the words were, to write down steps.
    """

    def __init__(self, layout: Layout, arena: npt.NDArray[np.uint8]) -> None:
        """arena: of the state; copied."""
        self.layout = layout
        self._before = flat_words(arena.copy(), layout)

    def encode(self, first_tick: int, ticks: Sequence[TickChanges]) -> memoryview:
        """The payload for the next ticks."""
        by_field = [changes.by_field(self.layout) for changes in ticks]
        exact = all(changes.is_exact for changes in ticks)
        sections: list[list[Any]] = []
        bodies: list[Any] = []
        written: list[Columns] = []
        for name, slot in self.layout.slots.items():
            if not any(name in fields for fields in by_field):
                continue
            columns, form = self._columns(slot, by_field, exact=exact)
            counts, numbers, words = columns
            same = _same_places(columns, written)
            sections.append([name, int(form), words.itemsize, len(words), same])
            if same == _NO_SECTION:
                bodies += [shuffled(counts), shuffled(np.diff(numbers, prepend=np.uint32(0)))]
            bodies.append(shuffled(words))
            written.append(columns)
        head = encode_plain(
            {
                "first_tick": first_tick,
                "tick_count": len(ticks),
                "layout": self.layout.hash_seed,
                "sections": sections,
            }
        )
        parts = [np.frombuffer(part, np.uint8) for part in (_HEAD_SIZE.pack(len(head)), head)]
        return np.concatenate([*parts, *bodies]).data

    def _columns(self, slot: Slot, by_field: Sequence[FieldWords], *, exact: bool) -> tuple[Columns, WordForm]:
        given = [fields.get(slot.name) for fields in by_field]
        counts = np.array([0 if one is None else len(one[0]) for one in given], np.uint32)
        numbers = np.concatenate([one[0] for one in given if one is not None])
        values = np.concatenate([one[1] for one in given if one is not None])
        steps = slot.dtype.kind in "iu" and slot.dtype.itemsize > 1
        if not steps and (exact or values.itemsize == _BELOW_FLOAT_WORDS):
            return (counts, numbers, values), WordForm.VALUES
        differences = _differences(self._before[slot.name], numbers, values)
        if not exact and values.itemsize < _BELOW_FLOAT_WORDS:
            kept = differences != 0
            ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])[np.cumsum(counts)]
            counts = np.diff(ends, prepend=0).astype(np.uint32)
            numbers, values, differences = numbers[kept], values[kept], differences[kept]
        return (counts, numbers, folded(differences) if steps else values), WordForm(steps)


def _differences(before: Words, numbers: npt.NDArray[np.uint32], values: Words) -> Words:
    """By how much each word is more than the last time that it came up, or than before; before is brought up to date.

    One sort instead of one look-up a tick, since it lets other threads run.
    """
    if not len(numbers):
        return values
    order = np.sort((numbers.astype(np.uint64) << np.uint64(32)) | np.arange(len(numbers), dtype=np.uint64))
    places, in_order = order & np.uint64(0xFFFFFFFF), (order >> np.uint64(32)).astype(np.int64)
    latest = values[places]
    is_first = np.ones(len(numbers), np.bool_)
    np.not_equal(in_order[1:], in_order[:-1], out=is_first[1:])
    earlier = np.empty_like(latest)
    earlier[1:] = latest[:-1]
    earlier[is_first] = before[in_order[is_first]]
    is_last = np.roll(is_first, -1)
    before[in_order[is_last]] = latest[is_last]
    found = np.empty_like(values)
    found[places] = latest - earlier
    return found


def _same_places(columns: Columns, written: Sequence[Columns]) -> int:
    """The section that has words of the same numbers in the same ticks."""
    counts, numbers, _ = columns
    for place, (other_counts, other_numbers, _) in enumerate(written):
        if numbers is other_numbers or (
            len(numbers) == len(other_numbers)
            and np.array_equal(counts, other_counts)
            and np.array_equal(numbers, other_numbers)
        ):
            return place
    return _NO_SECTION


# --- reading


@attrs.frozen(eq=False)
class LoggedWords:
    """What consecutive ticks changed in one field.

    Attributes:
        field: its name.
        form: whether words are what they become, or by how much they change.
        ends: (ticks + 1,) int64, from where to where in the columns each tick is.
        numbers: (n,) int64, which words.
        words: (n,) unsigned.
    """

    field: str
    form: WordForm
    ends: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    words: Words


@attrs.frozen(eq=False)
class ChangeBlock:
    """What consecutive ticks changed.

    Attributes:
        first_tick, last_tick: which.
        layout: hash_seed of the layout of the states.
        fields: what changed, field by field.
        offset: where the block lies, for messages.
    """

    first_tick: int
    last_tick: int
    layout: int
    fields: Sequence[LoggedWords]
    offset: int

    @property
    def size_bytes(self) -> int:
        """Memory that it holds."""
        return sum(one.ends.nbytes + one.numbers.nbytes + one.words.nbytes for one in self.fields)

    def words_of(self, words: Mapping[str, Words], tick: int) -> dict[str, tuple[npt.NDArray[np.uint32], Words]]:
        """Numbers and values of the words that a tick has changed, as they were taken; words: of the state at tick."""
        found = {}
        for one in self.fields:
            begin, end = one.ends[tick - self.first_tick], one.ends[tick + 1 - self.first_tick]
            numbers = one.numbers[begin:end]
            found[one.field] = numbers.astype(np.uint32), words[one.field][numbers]
        return found

    def apply(self, words: Mapping[str, Words], first_tick: int, last_tick: int) -> None:
        """Take a state from the tick before first_tick to last_tick, both of which the block tells of.

        words: of the state, see flat_words. Raises CorruptError for words that are not there.
        """
        for one in self.fields:
            begin, end = one.ends[first_tick - self.first_tick], one.ends[last_tick + 1 - self.first_tick]
            numbers, flat = one.numbers[begin:end], words.get(one.field)
            if not len(numbers):
                continue
            if flat is None or flat.itemsize != one.words.itemsize or numbers.max() >= len(flat):
                raise CorruptError(self.offset, f"changes of words that field {one.field} does not have")
            if one.form is WordForm.STEPS:
                np.add.at(flat, numbers, one.words[begin:end])
            else:
                flat[numbers] = one.words[begin:end]  # Of a number that repeats the last one counts.


def decode_changes(payload: bytes, first_tick: int, offset: int) -> ChangeBlock:
    """What a CHANGES block says. first_tick: as in its header. offset: where it lies.

    Raises CorruptError if it is none, or one of other ticks.
    """
    try:
        return _decode(payload, first_tick, offset)
    except (struct.error, *DECODE_ERRORS) as error:
        raise CorruptError(offset, f"a CHANGES block that cannot be decoded: {error}") from None


def _decode(payload: bytes, first_tick: int, offset: int) -> ChangeBlock:
    (head_bytes,) = _HEAD_SIZE.unpack_from(payload)
    match decode_plain(payload[_HEAD_SIZE.size : _HEAD_SIZE.size + head_bytes]):
        case {"first_tick": int(first), "tick_count": int(count), "layout": int(layout), "sections": list(plain)}:
            pass
        case _:
            raise ValueError("its head is not whole")
    if first != first_tick or not 0 < count <= BLOCK_TICKS_MAX:
        raise ValueError("it does not say of which ticks it tells")
    content = np.frombuffer(payload, np.uint8)
    place = _HEAD_SIZE.size + head_bytes
    fields: list[LoggedWords] = []

    def column(length: int, word_bytes: int) -> Words:
        nonlocal place
        begin, place = place, place + length * word_bytes
        if place > len(content):
            raise ValueError("it is shorter than its head says")
        return unshuffled(content[begin:place], word_bytes)

    for one in plain:
        match one:
            case [str(name), 0 | 1 as form, 1 | 2 | 4 | 8 as word_bytes, int(length), int(same)] if length >= 0:
                pass
            case _:
                raise ValueError("an entry that is no section")
        if same == _NO_SECTION:
            ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(column(count, _NUMBER_BYTES), dtype=np.int64)])
            numbers = np.cumsum(column(length, _NUMBER_BYTES), dtype=np.uint32).astype(np.int64)
        elif 0 <= same < len(fields):
            ends, numbers = fields[same].ends, fields[same].numbers
        else:
            raise ValueError("a section that refers to none before it")
        if ends[-1] != length or len(numbers) != length:
            raise ValueError(f"field {name} has other words than those that are counted")
        words = column(length, word_bytes)
        is_steps = WordForm(form) is WordForm.STEPS
        fields.append(LoggedWords(name, WordForm(form), ends, numbers, unfolded(words) if is_steps else words))
    if place != len(content):
        raise ValueError(f"{len(content)} bytes, of which its sections take {place}")
    return ChangeBlock(first, first + count - 1, layout, fields, offset)


def ensure_changes_fit(layout: Layout) -> None:
    """Raise ValueError for a layout whose changes a block could not hold."""
    ensure_words_can_be_numbered(layout)
    widest = max((word_bytes_of(slot) for slot in layout.slots.values()), default=1)
    if layout.size_bytes // widest * (widest + _NUMBER_BYTES) > KEYFRAME_RAW_BYTES_MAX:
        raise ValueError("the state is too large for a log of its changes")
