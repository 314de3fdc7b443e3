"""The changes of each single tick, as words of the fields, found by marks, by a scan, or by both.

A word is an element of ``comparable``: an unsigned integer of 1, 2, 4 or 8 bytes, numbered from the first word of its
field. Taking the changes costs the simulation's thread a copy of the changed words or, for a scan, one comparison of
the arena with its copy of one tick before. All other work is done by the writer.

Invariants:
    1. Every word that a tick has changed is taken. Unchanged words may be taken too, with their present value.
    2. Nothing is taken across two layouts: the consumer is notified, and starts again with a complete state.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs
import numpy as np
import numpy.typing as npt

from sim.kernel.changes.many_changes import MANY_WORDS, MakeRoom, compare_many, take_marked
from sim.kernel.changes.row_changes import UnmarkedWriteError
from sim.kernel.marks import comparable, word_bytes_of
from sim.kernel.schema import Layout
from sim.kernel.state import State

Words = npt.NDArray[np.unsignedinteger[Any]]
Numbers = npt.NDArray[np.uint32]
FieldWords = Mapping[str, tuple[Numbers, Words]]
FieldSteps = Mapping[str, tuple[Numbers, Words, Words | None]]

WORDS_MAX = 1 << 32  # Words of a field are numbered by 32 bits.
ARENA_WORD_BYTES = 8
CHUNK_WORDS = 1 << 19  # Four megabytes are compared at a time: what differs is looked up while it is in the cache.


class TickChanges(Protocol):
    """The changes of one tick."""

    @property
    def size_bytes(self) -> int:
        """The size of the words and their numbers."""

    @property
    def memory_bytes(self) -> int:
        """The size of the memory that the changes take."""

    @property
    def is_exact(self) -> bool:
        """True if an unchanged word is included only because it was marked."""

    def by_field(self, layout: Layout) -> FieldWords:
        """Numbers and values of the words, by field; numbers may repeat."""

    def steps_by_field(self, layout: Layout) -> FieldSteps:
        """Numbers, values, and the values one tick before; None for these if the source does not know them."""


@attrs.frozen(eq=False)
class MarkedWords:
    """The words that were marked in a tick."""

    fields: FieldWords
    is_exact = True

    @property
    def size_bytes(self) -> int:
        """See TickChanges."""
        return sum(numbers.nbytes + values.nbytes for numbers, values in self.fields.values())

    memory_bytes = size_bytes

    def by_field(self, layout: Layout) -> FieldWords:  # noqa: ARG002 - they are by field already
        """See TickChanges."""
        return self.fields

    def steps_by_field(self, layout: Layout) -> FieldSteps:  # noqa: ARG002
        """See TickChanges: marks do not know the values before."""
        return {name: (numbers, values, None) for name, (numbers, values) in self.fields.items()}


@attrs.frozen(eq=False)
class ArenaWords:
    """The words of 8 bytes of an arena that a scan found.

    Attributes:
        numbers: (n,) of the words in the arena, strictly increasing.
        values, earlier: (n,) after the tick, and before it.
    """

    numbers: npt.NDArray[np.int64]
    values: npt.NDArray[np.uint64]
    earlier: npt.NDArray[np.uint64]
    is_exact = False

    @property
    def size_bytes(self) -> int:
        """See TickChanges. Without the earlier values, which go into no block: blocks are cut by this size."""
        return self.numbers.nbytes + self.values.nbytes

    @property
    def memory_bytes(self) -> int:
        """See TickChanges."""
        return self.size_bytes + self.earlier.nbytes

    def by_field(self, layout: Layout) -> FieldWords:
        """See TickChanges; for a field of smaller words, also the words that share eight bytes with a changed word."""
        return {name: (numbers, values) for name, (numbers, values, _) in self.steps_by_field(layout).items()}

    def steps_by_field(self, layout: Layout) -> FieldSteps:
        """See TickChanges and by_field."""
        slots = list(layout.slots.values())  # In the order of the arena.
        starts = np.array([slot.offset // ARENA_WORD_BYTES for slot in slots], np.int64)
        bounds = [*np.searchsorted(self.numbers, starts).tolist(), len(self.numbers)]
        steps: dict[str, tuple[Numbers, Words, Words | None]] = {}
        for slot, start, begin, end in zip(slots, starts.tolist(), bounds[:-1], bounds[1:], strict=True):
            if begin == end:
                continue
            word_bytes = word_bytes_of(slot)
            share = ARENA_WORD_BYTES // word_bytes
            numbers = (self.numbers[begin:end] - start) * share
            if share > 1:
                numbers = (numbers[:, None] + np.arange(share)).reshape(-1)
            values, earlier = (words[begin:end].view(f"<u{word_bytes}") for words in (self.values, self.earlier))
            # Not the padding after the field. Numbers ascend, so the words inside are the first ones.
            inside = int(np.searchsorted(numbers, slot.size_bytes // word_bytes))
            steps[slot.name] = numbers[:inside].astype(np.uint32), values[:inside], earlier[:inside]
        return steps


def flat_words(arena: npt.NDArray[np.uint8], layout: Layout) -> dict[str, Words]:
    """All words of each field, one axis: views of the arena."""
    return {name: comparable(arena, slot).reshape(-1) for name, slot in layout.slots.items() if slot.size_bytes}


def ensure_words_can_be_numbered(layout: Layout) -> None:
    """Raise ValueError for a field with more words than can be numbered."""
    for slot in layout.slots.values():
        if slot.size_bytes // word_bytes_of(slot) > WORDS_MAX:
            raise ValueError(
                f"field {slot.name}: expected at most {WORDS_MAX:,} words, whose changes can be numbered, "
                f"got {slot.size_bytes // word_bytes_of(slot):,}"
            )


def no_room(size_bytes: int) -> None:
    """Make no room for the changes of a tick: there is enough."""


class TickSource(Protocol):
    """The changes of each tick for one consumer.

    Attributes:
        make_room: called with the size of many changed words before they are taken; the consumer sets it.
    """

    make_room: MakeRoom

    @property
    def knows_earlier(self) -> bool:
        """True if the changes hold the values one tick before, so that no one else has to keep them."""

    def take(self, state: State) -> TickChanges | None:
        """The changes since the last call; None if the state or layout is a different one: call reset first."""

    def reset(self, state: State) -> None:
        """Start again with a state of which the consumer has a complete copy."""

    def close(self) -> None:
        """Stop tracking."""


class MarkedTicks:
    """The changes that the simulation marks."""

    knows_earlier = False

    def __init__(self, state: State, many_words: int | None = None) -> None:
        """many_words: of one tick, which are taken as ManyChanges; by default MANY_WORDS."""
        self.make_room: MakeRoom = no_room
        self._many_words = MANY_WORDS if many_words is None else many_words
        self._state = state
        self._marked: dict[str, list[Any]] = {}
        self._marked_rows = 0  # By numbers.
        self._is_stale = True
        self.reset(state)
        state.attach(self)  # Last: what could not be made must not hear of later marks.

    # --- notifications from State

    def mark(self, name: str, rows: Any) -> None:
        """Note that rows of a field were written; None means all. Copied, since a step may reuse the array."""
        numbers = None
        if rows is not None:
            numbers = np.asarray(rows).astype(np.uint32).reshape(-1)
            self._marked_rows += len(numbers)
        self._marked.setdefault(name, []).append(numbers)

    def mark_everything(self) -> None:
        """Note that all rows of all fields were written."""
        self._marked = {name: [None] for name in self._words}

    def replace_layout(self, layout: Layout) -> None:  # noqa: ARG002 - reset reads it
        """Note that the state has a different layout."""
        self._is_stale = True

    # --- TickSource

    def take(self, state: State) -> TickChanges | None:
        """See TickSource."""
        marked, self._marked = self._marked, {}
        row_count, self._marked_rows = self._marked_rows, 0
        if self._is_stale or state is not self._state:
            return None
        if row_count >= self._many_words:
            return self._take_many(state, marked)
        count = 0
        fields: dict[str, tuple[Numbers, Words]] = {}
        for name, marks in marked.items():
            if name not in self._words:
                continue  # A field of no bytes.
            words, words_per_row = self._words[name]
            numbers = marks[0] if len(marks) == 1 else _joined(marks)
            count += len(words) if numbers is None else len(numbers) * words_per_row
            if count >= self._many_words:
                return self._take_many(state, marked)
            if numbers is None:
                fields[name] = np.arange(len(words), dtype=np.uint32), words.copy()
                continue
            if words_per_row > 1:
                numbers = (numbers[:, None] * np.uint32(words_per_row) + _first(words_per_row)).reshape(-1)
            fields[name] = numbers, words.take(numbers)
        return MarkedWords(fields)

    def _take_many(self, state: State, marked: Mapping[str, list[Any]]) -> TickChanges:
        own = {name: marks for name, marks in marked.items() if name in self._words}
        return take_marked(state.arena, state.layout, own, self.make_room)

    def reset(self, state: State) -> None:
        """See TickSource."""
        if state is not self._state:
            self._state.detach(self)
            self._state = state
            state.attach(self)
        slots = state.layout.slots
        self._words = {
            name: (words, slots[name].row_bytes // words.itemsize)
            for name, words in flat_words(state.arena, state.layout).items()
        }
        self._marked, self._marked_rows, self._is_stale = {}, 0, False

    def close(self) -> None:
        """See TickSource."""
        self._state.detach(self)


def _joined(marks: list[Any]) -> Any:
    return None if any(rows is None for rows in marks) else np.concatenate(marks)


@functools.cache
def _first(count: int) -> Numbers:
    return np.arange(count, dtype=np.uint32)


class ScannedTicks:
    """The changes that a comparison with the arena of one tick before finds."""

    knows_earlier = True

    def __init__(self, state: State, many_words: int | None = None) -> None:
        """many_words: see MarkedTicks."""
        self.make_room: MakeRoom = no_room
        self._many_words = MANY_WORDS if many_words is None else many_words
        self._before, self._differs = np.empty(0, np.uint64), np.empty(CHUNK_WORDS, np.bool_)
        self.reset(state)

    def take(self, state: State) -> TickChanges | None:
        """See TickSource."""
        if state.arena is not self._arena:
            return None
        words, before, parts, count = self._words, self._before, [], 0
        for begin in range(0, max(1, len(words)), CHUNK_WORDS):
            part = words[begin : begin + CHUNK_WORDS]
            differs = np.not_equal(part, before[begin : begin + CHUNK_WORDS], out=self._differs[: len(part)])
            parts.append(np.flatnonzero(differs))
            parts[-1] += begin
            count += len(parts[-1])
            if count >= self._many_words:
                parts.clear()
                return compare_many(state.arena, before.view(np.uint8), state.layout, self.make_room)
        return self._take_words(parts[0] if len(parts) == 1 else np.concatenate(parts))

    def _take_words(self, numbers: npt.NDArray[np.int64]) -> ArenaWords:
        """The words that differ, as they are and as they were at the last call."""
        values, earlier = self._words.take(numbers), self._before.take(numbers)
        self._before[numbers] = values
        return ArenaWords(numbers, values, earlier)

    def reset(self, state: State) -> None:
        """See TickSource."""
        words = state.arena.view(np.uint64)
        if len(self._before) != len(words):  # Fresh memory costs more than the copy.
            self._before = np.empty_like(words)
        self._arena, self._words = state.arena, words
        np.copyto(self._before, words)

    def before(self) -> npt.NDArray[np.uint8]:
        """A copy of the arena as it was at the last call."""
        return self._before.view(np.uint8).copy()

    def close(self) -> None:
        """See TickSource."""
        self._before = np.empty(0, np.uint64)


class AuditedTicks:
    """Marks, checked against a scan at every tick."""

    knows_earlier = False

    def __init__(self, state: State) -> None:
        self.make_room: MakeRoom = no_room
        never = WORDS_MAX * len(state.layout.slots)  # It needs the numbers of all words, however many.
        self._marked, self._scanned = MarkedTicks(state, never), ScannedTicks(state, never)

    def take(self, state: State) -> TickChanges | None:
        """See TickSource. Raises UnmarkedWriteError if the scan finds a change without a mark."""
        before = self._scanned.before()
        marked, scanned = self._marked.take(state), self._scanned.take(state)
        if marked is None or scanned is None:
            return None
        marked_words = marked.by_field(state.layout)
        for name, (numbers, values) in scanned.by_field(state.layout).items():
            slot = state.layout.slots[name]
            old = comparable(before, slot).reshape(-1)[numbers]
            changed = numbers[values != old]
            missed = np.setdiff1d(changed, marked_words[name][0] if name in marked_words else np.zeros(0, np.uint32))
            if len(missed):
                rows = np.unique(missed.astype(np.int64) * word_bytes_of(slot) // slot.row_bytes)
                raise UnmarkedWriteError(name, rows)
        return marked

    def reset(self, state: State) -> None:
        """See TickSource."""
        self._marked.reset(state)
        self._scanned.reset(state)

    def close(self) -> None:
        """See TickSource."""
        self._marked.close()


TICK_SOURCES: Mapping[str, Callable[[State], TickSource]] = {
    "marks": MarkedTicks,
    "scan": ScannedTicks,
    "audit": AuditedTicks,
}
