"""CHANGES blocks: the changes of consecutive ticks, with which a seek reaches a tick without a step.

Words of a field are its unsigned integers of 1, 2, 4 or 8 bytes, numbered from 0 (see sim.kernel.changes.tick_changes).
For each field that changed, a block holds the words of all its ticks as columns.

Payload: head_bytes u32 little-endian | head, MessagePack | bodies of the sections back to back.

Head, a map:
    first_tick, tick_count   of the ticks that the block covers
    layout                   hash_seed of the states' layout
    sections                 list of [field, encoding, word_bytes, count, same], count words in total; same is the number
                             of an earlier section with the same counts and numbers, or -1

Body of a section: the counts, the numbers, the words. Counts: the number of words of each tick, u32. Numbers: of the
words, u32, each as the difference from the number before, modulo 2**32; the first one from 0. If same refers to an earlier
section, the body has only the words. All are byte-shuffled: the first bytes of all, then the second bytes, and so on.

Encodings of the words:
    VALUES   the word after the tick
    STEPS    the difference from the word before the tick, modulo 2**(8 word_bytes), folded so that small differences of
             either sign are small numbers: 0, -1, 1, -2 are 0, 1, 2, 3

Invariants:
    1. Applied to the state at the tick before, all words of a tick give the state at that tick; words may repeat.
    2. Words of a tick do not depend on those of other ticks, except for STEPS, which add up.
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
from sim.kernel.changes.many_changes import has_steps
from sim.kernel.changes.tick_changes import (
    FieldSteps,
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
NUMBER_BYTES = 4
NO_SECTION = -1
MANY_WORDS = 1 << 20  # Eight megabytes: fewer are sorted in memory that does not matter.
_BELOW_FLOAT_WORDS = 8  # Smaller words are compared with their earlier values if a scan may name unchanged ones.


class WordForm(enum.IntEnum):
    """The encoding of a section's words."""

    VALUES = 0
    STEPS = 1


class ChangeEncoder:
    """Encodes consecutive ticks, beginning after a given state, as CHANGES payloads.

    STEPS are differences from earlier values. Where the changes do not hold them, it keeps those of all fields of
    integers.

    Attributes:
        before: all words of these fields at the last tick; None if all changes hold their earlier values.
    """

    def __init__(self, layout: Layout, arena: npt.NDArray[np.uint8] | None) -> None:
        """arena: of the state before the first tick; copied. None if all changes hold their earlier values."""
        self.layout = layout
        self.before: dict[str, Words] | None = None
        if arena is not None:
            words = flat_words(arena, layout)
            self.before = {name: own.copy() for name, own in words.items() if has_steps(layout.slots[name])}

    def restart(self, arena: npt.NDArray[np.uint8]) -> None:
        """Continue after another state of the same layout, in the memory at hand."""
        words = flat_words(arena, self.layout)
        for name, before in (self.before or {}).items():
            np.copyto(before, words[name])

    def encode(self, first_tick: int, ticks: Sequence[TickChanges]) -> memoryview:
        """Encode the next ticks."""
        by_field = [changes.steps_by_field(self.layout) for changes in ticks]
        exact = all(changes.is_exact for changes in ticks)
        sections: list[list[Any]] = []
        bodies: list[Any] = []
        written: list[Columns] = []
        for name, slot in self.layout.slots.items():
            if not any(name in fields for fields in by_field):
                continue
            columns, form = self._columns(slot, by_field, exact=exact)
            counts, numbers, words = columns
            same = _section_with_same_numbers(columns, written)
            sections.append([name, int(form), words.itemsize, len(words), same])
            if same == NO_SECTION:
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

    def _columns(self, slot: Slot, by_field: Sequence[FieldSteps], *, exact: bool) -> tuple[Columns, WordForm]:
        per_tick = [fields.get(slot.name) for fields in by_field]
        counts = np.array([0 if words is None else len(words[0]) for words in per_tick], np.uint32)
        numbers = np.concatenate([words[0] for words in per_tick if words is not None])
        values = np.concatenate([words[1] for words in per_tick if words is not None])
        steps = has_steps(slot)
        if not steps and (exact or values.itemsize == _BELOW_FLOAT_WORDS):
            return (counts, numbers, values), WordForm.VALUES
        if self.before is not None and slot.name in self.before:
            changed = _differences(self.before[slot.name], numbers, values)
        else:
            changed = np.concatenate([words[2] for words in per_tick if words is not None])
            np.subtract(values, changed, out=changed)
        if not exact and values.itemsize < _BELOW_FLOAT_WORDS:
            kept = changed != 0
            ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])[np.cumsum(counts)]
            counts = np.diff(ends, prepend=0).astype(np.uint32)
            numbers, values, changed = numbers[kept], values[kept], changed[kept]
        return (counts, numbers, folded(changed) if steps else values), WordForm(steps)


def _differences(before: Words, numbers: npt.NDArray[np.uint32], values: Words) -> Words:
    """See differences. If the words are many, they are of few ticks, and no word may occur twice."""
    if not len(numbers):
        return values
    are_different = len(numbers) >= MANY_WORDS and _are_different(numbers, len(before))
    return differences(before, numbers, values, ascending=are_different)


def differences(before: Words, numbers: Any, values: Words, *, ascending: bool) -> Words:
    """The difference of each word from its previous occurrence or, for the first one, from before. Updates before.

    ascending: no number occurs twice. Otherwise one sort takes the place of a lookup for each tick, since it lets other
    threads run. It takes several times the memory of the words.
    """
    if ascending:
        increase: Words = values - before[numbers]
        before[numbers] = values
        return increase
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
    result = np.empty_like(values)
    result[places] = latest - earlier
    return result


def _are_different(numbers: npt.NDArray[np.uint32], count: int) -> bool:
    """Return True if no number occurs twice. count: of the words of the field."""
    flags = np.zeros(count, np.bool_)
    flags[numbers] = True
    return int(np.count_nonzero(flags)) == len(numbers)


def _section_with_same_numbers(columns: Columns, written: Sequence[Columns]) -> int:
    """The number of an earlier section with the same counts and numbers, or NO_SECTION."""
    counts, numbers, _ = columns
    for section, (other_counts, other_numbers, _) in enumerate(written):
        if numbers is other_numbers or (
            len(numbers) == len(other_numbers)
            and np.array_equal(counts, other_counts)
            and np.array_equal(numbers, other_numbers)
        ):
            return section
    return NO_SECTION


# --- reading


@attrs.frozen(eq=False)
class LoggedWords:
    """The changes of one field in consecutive ticks.

    Attributes:
        field: its name.
        form: the encoding of the words.
        ends: (ticks + 1,) int64, the boundaries of each tick in the columns.
        numbers: (n,) int64, of the words in the field.
        words: (n,) unsigned.
    """

    field: str
    form: WordForm
    ends: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    words: Words


@attrs.frozen(eq=False)
class ChangeBlock:
    """The changes of consecutive ticks.

    Attributes:
        first_tick, last_tick: the range of ticks.
        layout: hash_seed of the layout of the states.
        fields: the changes, one entry per field.
        offset: of the block in its file, for messages.
    """

    first_tick: int
    last_tick: int
    layout: int
    fields: Sequence[LoggedWords]
    offset: int

    @property
    def size_bytes(self) -> int:
        """Size of the arrays in memory."""
        return sum(field.ends.nbytes + field.numbers.nbytes + field.words.nbytes for field in self.fields)

    def words_of(self, words: Mapping[str, Words], tick: int) -> dict[str, tuple[npt.NDArray[np.uint32], Words]]:
        """Numbers and values of the words that a tick changed, in recorded order; words: of the state at tick."""
        changed = {}
        for field in self.fields:
            begin, end = field.ends[tick - self.first_tick], field.ends[tick + 1 - self.first_tick]
            numbers = field.numbers[begin:end]
            changed[field.field] = numbers.astype(np.uint32), words[field.field][numbers]
        return changed

    def apply(self, words: Mapping[str, Words], first_tick: int, last_tick: int) -> None:
        """Change a state from the tick before first_tick to last_tick, in place. The block must cover both ticks.

        words: of the state, see flat_words. Raises CorruptError for words that the state does not have.
        """
        for field in self.fields:
            begin, end = field.ends[first_tick - self.first_tick], field.ends[last_tick + 1 - self.first_tick]
            numbers, flat = field.numbers[begin:end], words.get(field.field)
            if not len(numbers):
                continue
            if flat is None or flat.itemsize != field.words.itemsize or numbers.max() >= len(flat):
                raise CorruptError(self.offset, f"changes of words that field {field.field} does not have")
            if field.form is WordForm.STEPS:
                np.add.at(flat, numbers, field.words[begin:end])
            else:
                flat[numbers] = field.words[begin:end]  # If a number repeats, its last value counts.


def decode_changes(payload: bytes, first_tick: int, offset: int) -> ChangeBlock:
    """Decode a CHANGES block. first_tick: from its header. offset: of the block, for messages.

    Raises CorruptError if it is not a CHANGES block, or has a different first tick.
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
            raise ValueError("its head is incomplete")
    if first != first_tick or not 0 < count <= BLOCK_TICKS_MAX:
        raise ValueError(f"expected ticks from {first_tick} on, got {count} from {first} on")
    content = np.frombuffer(payload, np.uint8)
    place = _HEAD_SIZE.size + head_bytes
    fields: list[LoggedWords] = []

    def column(length: int, word_bytes: int) -> Words:
        nonlocal place
        begin, place = place, place + length * word_bytes
        if place > len(content):
            raise ValueError("it is shorter than its head states")
        return unshuffled(content[begin:place], word_bytes)

    for section in plain:
        match section:
            case [str(name), 0 | 1 as form, 1 | 2 | 4 | 8 as word_bytes, int(length), int(same)] if length >= 0:
                pass
            case _:
                raise ValueError("an entry that is not a section")
        if same == NO_SECTION:
            ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(column(count, NUMBER_BYTES), dtype=np.int64)])
            numbers = np.cumsum(column(length, NUMBER_BYTES), dtype=np.uint32).astype(np.int64)
        elif 0 <= same < len(fields):
            ends, numbers = fields[same].ends, fields[same].numbers
        else:
            raise ValueError("a section that refers to no earlier one")
        if ends[-1] != length or len(numbers) != length:
            raise ValueError(f"field {name}: expected {length} words, the counts of its ticks add up to {ends[-1]}")
        words = column(length, word_bytes)
        is_steps = WordForm(form) is WordForm.STEPS
        fields.append(LoggedWords(name, WordForm(form), ends, numbers, unfolded(words) if is_steps else words))
    if place != len(content):
        raise ValueError(f"{len(content)} bytes, but its sections end at byte {place}")
    return ChangeBlock(first, first + count - 1, layout, fields, offset)


def ensure_changes_fit(layout: Layout) -> None:
    """Raise ValueError for a layout whose changes do not fit into a block."""
    ensure_words_can_be_numbered(layout)
    widest = max((word_bytes_of(slot) for slot in layout.slots.values()), default=1)
    if layout.size_bytes // widest * (widest + NUMBER_BYTES) > KEYFRAME_RAW_BYTES_MAX:
        raise ValueError("the state is too large for a log of its changes")
