"""Read the sections on a tape that others kept beside the state: at any tick, and as changes."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping
from typing import Any

from recorder.errors import CorruptError, MissingTickError, TornError
from recorder.format.blocks.aux_block import AuxChange, AuxOfTicks, apply, decode_aux, difference, encode_aux
from recorder.format.blocks.block import BlockKind
from recorder.format.limits import AUX_PAYLOAD_BYTES_MAX
from recorder.format.recording.change_replay import blocks_of
from recorder.format.recording.recording import Recording
from recorder.format.segments.block_location import TICK_MAX, OptionalBlock
from sim.kernel.plain_data import DECODE_ERRORS, decode_plain

_DECODED_MAX = 16  # Blocks that are kept decoded, for ticks that are read one after the other.
_KEPT_BYTES_MAX = 4 << 20  # Larger blocks are decoded again.


class StoredSections:
    """The sections of each tick: ``tape.aux[tick]`` is a dict of plain data by name.

    They are those that ``aux=`` gave while the tape was recorded. No state depends on them, and no hash covers them.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._blocks = blocks_of(recording, BlockKind.AUX)
        self._starts = [block.entry.first_tick for block in self._blocks]
        self._decoded: dict[int, AuxOfTicks | None] = {}

    def __bool__(self) -> bool:
        """True if the tape has sections of any tick."""
        return bool(self._blocks)

    def __getitem__(self, tick: int) -> dict[str, Any]:
        """The sections at a tick, by name. Raises MissingTickError if they are not on the tape."""
        found = self._at(tick)
        if found is None:
            raise MissingTickError(tick, "its sections (aux=) are not on the tape")
        try:
            return {name: decode_plain(value) for name, value in found.items()}
        except DECODE_ERRORS as error:
            raise MissingTickError(tick, f"its sections (aux=) cannot be decoded: {error}", damaged=True) from None

    def encoded_at(self, tick: int) -> Mapping[str, bytes] | None:
        """The sections at a tick as encoded plain data, by name; None if they are not on the tape."""
        return self._at(tick)

    def get(self, tick: int) -> dict[str, Any] | None:
        """The sections at a tick; None if they are not on the tape."""
        try:
            return self[tick]
        except MissingTickError:
            return None

    def names(self) -> list[str]:
        """The names of all sections, in the order of their first ticks. Reads all blocks."""
        return list(dict.fromkeys(name for change in self.changes() for name in change.sections))

    def changes(self, first: int = 0, last: int = TICK_MAX) -> Iterator[AuxChange]:
        """The changes of these ticks, ascending; the first one has all sections. Values are encoded plain data."""
        for _, _, whole, changes, _ in self._runs(first, last):
            for number, change in enumerate(changes):
                if change.sections or change.gone or (whole and not number):
                    yield change

    def missing_ticks(self, first: int, last: int) -> list[tuple[int, int]]:
        """Ranges of ticks, first and last, whose sections are not on the tape."""
        missing, next_tick = [], first
        for start, end, *_ in self._runs(first, last):
            if start > next_tick:
                missing.append((next_tick, start - 1))
            next_tick = end + 1
        return [*missing, (next_tick, last)] if next_tick <= last else missing

    def payloads(self, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        """Blocks for a copy of these ticks: the first tick and the payload of each."""
        for start, end, whole, changes, before in self._runs(first, last):
            yield start, encode_aux(start, end - start + 1, changes, before, whole=whole)

    def _at(self, tick: int) -> Mapping[str, bytes] | None:
        number = bisect.bisect_right(self._starts, tick) - 1
        begin = self._whole_before(number)
        if begin is None:
            return None
        sections: dict[str, bytes] = {}
        covered = tick
        for index in range(begin, number + 1):
            block = self._block(index)
            if block is None or (index > begin and not block.is_whole and block.first_tick > covered + 1):
                return None
            sections = {} if block.is_whole else sections
            for at, changed, gone in block.changes:
                if at > tick:
                    break
                try:
                    sections = apply(sections, changed, gone)
                except ValueError:
                    return None
            covered = block.last_tick
        return sections if tick <= covered else None

    def _whole_before(self, number: int) -> int | None:
        """The last block up to this one that needs no other one."""
        for index in range(number, -1, -1):
            block = self._block(index)
            if block is None:
                return None
            if block.is_whole:
                return index
        return None

    def _runs(self, first: int, last: int) -> Iterator[tuple[int, int, bool, list[AuxChange], Mapping[str, bytes]]]:
        """The blocks with these ticks: first and last tick, whole or not, the changes, and the sections before them."""
        begin = self._whole_before(bisect.bisect_right(self._starts, first) - 1) or 0
        sections: dict[str, bytes] | None = None
        covered, done = -1, first - 1
        has_run = False
        for index in range(begin, len(self._blocks)):
            block = self._block(index)
            if block is None or block.first_tick > last:
                sections = None if block is None else sections
                continue
            if block.is_whole:
                sections = {}
            elif sections is None or block.first_tick > covered + 1:
                sections = None
                continue
            low, high = max(block.first_tick, done + 1), min(block.last_tick, last)
            whole = not has_run or low > done + 1
            changes: list[AuxChange] = []
            before: Mapping[str, bytes] | None = None
            for tick, changed, gone in block.changes:
                if tick > high:
                    break
                try:
                    after = apply(sections, changed, gone)
                except ValueError:
                    sections = None
                    break
                if tick > low or (tick == low and not whole):
                    before = sections if before is None else before
                    changes.append(difference(tick, sections, after))
                sections = after
            if sections is None:
                continue
            covered = block.last_tick
            if low > high:
                continue
            before = sections if before is None else before
            if whole:
                changes.insert(0, AuxChange(low, before, []))
            yield low, high, whole, changes, before
            done, has_run = high, True

    def _block(self, index: int) -> AuxOfTicks | None:
        """A block; None if it cannot be read."""
        if index in self._decoded:
            return self._decoded[index]
        decoded, size_bytes = _read(self._blocks[index])
        if size_bytes <= _KEPT_BYTES_MAX:
            if len(self._decoded) >= _DECODED_MAX:
                del self._decoded[next(iter(self._decoded))]
            self._decoded[index] = decoded
        return decoded


def _read(block: OptionalBlock) -> tuple[AuxOfTicks | None, int]:
    """A block, None if it cannot be read, and the size of its payload."""
    try:
        payload = block.payload(AUX_PAYLOAD_BYTES_MAX)
        return decode_aux(payload, block.entry.first_tick, block.entry.offset), len(payload)
    except (CorruptError, TornError):
        return None, 0
