"""Which ticks must still be readable after damage: an account of the blocks as they were before, by SPEC.md alone."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

import attrs

_HEADER = struct.Struct("<4sI8sQQQQIIIIBBHI")
_FILE_HEADER_BYTES, _BLOCK_HEADER_BYTES, _TRAILER_BYTES = 64, 72, 24
META, FRAMES, FULL, DELTA, END = 1, 2, 3, 4, 5


@attrs.frozen
class Block:
    """A block as it was before the first damage.

    Attributes:
        file: its file. start, end: its bytes there.
        kind, seq, first_tick, last_tick: what it holds.
        baseline: for a delta, how many blocks before it its full keyframe is.
    """

    file: str
    start: int
    end: int
    kind: int
    seq: int
    first_tick: int
    last_tick: int
    baseline: int


def blocks_of_file(file: Path) -> list[Block]:
    """The blocks of an undamaged file, up to its end or to a block that is not complete."""
    data, blocks, offset = file.read_bytes(), [], _FILE_HEADER_BYTES
    while True:
        tag = data[offset : offset + 4]
        if tag == b"\xf5END":
            offset += _TRAILER_BYTES
            continue
        if tag != b"\xf5BLK" or offset + _BLOCK_HEADER_BYTES > len(data):
            return blocks
        _, _, _, seq, _, _, first, count, stored, _, _, kind, _, _, baseline = _HEADER.unpack_from(data, offset)
        end = offset + _BLOCK_HEADER_BYTES + -(-stored // 8) * 8
        if end > len(data):
            return blocks
        blocks.append(Block(file.name, offset, end, kind, seq, first, first + max(count, 1) - 1, baseline))
        offset = end


class DamageAccount:
    """The blocks of a tape, and the bytes that were changed or cut off since."""

    def __init__(self, files: Iterable[Path]) -> None:
        self.blocks = [block for file in files for block in blocks_of_file(file)]
        self._hit: set[int] = set()

    def hit(self, file: str, start: int, end: int) -> None:
        """Bytes of a file were changed or cut off."""
        self._hit |= {
            number
            for number, block in enumerate(self.blocks)
            if block.file == file and block.start < end and start < block.end
        }

    @property
    def repeats_blocks(self) -> bool:
        """Whether a file holds blocks of the one before it again, which count in its place: it was begun after a failed sync."""
        frames = [(block.first_tick, block.file) for block in self.blocks if block.kind == FRAMES]
        return len({tick for tick, _ in frames}) < len(set(frames))

    def left(self) -> list[Block]:
        """The blocks that nothing has touched."""
        return [block for number, block in enumerate(self.blocks) if number not in self._hit]

    def readable(self) -> set[int]:
        """The ticks whose state follows from blocks that nothing has touched."""
        left = self.left()
        if not any(block.kind in {META, END} for block in left):
            return set()
        framed = {
            tick for block in left if block.kind == FRAMES for tick in range(block.first_tick, block.last_tick + 1)
        }
        fulls = {block.seq for block in left if block.kind == FULL}
        ticks: set[int] = set()
        for block in left:
            if block.kind == FULL or (block.kind == DELTA and block.seq - block.baseline in fulls):
                tick = block.first_tick
                while tick not in ticks:
                    ticks.add(tick)
                    if tick + 1 not in framed:
                        break
                    tick += 1
        return ticks

    def intact_prefix_end(self) -> int:
        """The last tick before the first touched block; -1 if there is none."""
        first = min(self._hit, default=len(self.blocks))
        return max(
            (block.last_tick for block in self.blocks[:first] if block.kind in {FRAMES, FULL, DELTA}), default=-1
        )
