"""The ticks that a damaged tape once had, as its seals and the headers of its blocks state."""

from __future__ import annotations

from recorder.format.blocks.block import BlockKind
from replayer.tape.tape import Tape


def recorded_ticks(tape: Tape) -> tuple[int, int]:
    """The tick before the first recorded frame, and the last recorded tick, even if no state can be reached there.

    Raises as Tape.first_tick does.
    """
    seals = [segment.contents.seal for segment in tape.segments]
    ranges = [(seal.first_tick, seal.last_tick) for seal in seals if seal is not None and seal.frame_count]
    for segment in tape.segments:
        entries = [entry for entry in segment.contents.entries if entry.kind == BlockKind.FRAMES]
        ranges += [(entry.first_tick - 1, entry.first_tick + entry.tick_count - 1) for entry in entries]
    firsts, lasts = zip((tape.first_tick, tape.last_tick), *ranges, strict=True)
    return max(0, min(firsts)), max(lasts)
