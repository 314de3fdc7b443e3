"""The first tick that a damaged tape once had, as its seals and the headers of its blocks state.

Its last tick is Tape.last_tick, which seals and headers count for, too.
"""

from __future__ import annotations

from recorder.format.blocks.block import BlockKind
from replayer.tape.tape import Tape


def first_recorded_tick(tape: Tape) -> int:
    """The tick before the first recorded frame, even if no state can be reached there. Raises as Tape.first_tick does."""
    seals = [segment.contents.seal for segment in tape.segments]
    firsts = [seal.first_tick for seal in seals if seal is not None and seal.frame_count]
    for segment in tape.segments:
        firsts += [entry.first_tick - 1 for entry in segment.contents.entries if entry.kind == BlockKind.FRAMES]
    return max(0, min([tape.first_tick, *firsts]))
