"""Visit sampled ticks of a tape one after the other, each verified by its recorded hash; list those not reached.

Invariant: a state whose hash is not the recorded one is never yielded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from recorder.errors import CorruptError, MissingTickError, SimulationFailedError, TornError
from replayer.playback.cursor import Cursor
from sim.kernel.registry import Readable

OnStep = Callable[[Any, Readable], None]  # The inputs of a step, and the state before it.


@attrs.frozen
class Missing:
    """A range of samples that were not reached.

    Attributes:
        first_tick, last_tick: ticks of the first and the last of these samples.
        why: the reason, for people.
        is_desync: True if re-simulating gave a state that differs from the recorded one, or failed.
    """

    first_tick: int
    last_tick: int
    why: str
    is_desync: bool = False


class Walker:
    """Moves a cursor along a tape from sample to sample."""

    def __init__(self, cursor: Cursor, on_step: OnStep | None = None) -> None:
        """Use a cursor.

        on_step: called before each step that leads from one sample to the next; keyframes are then no short cuts.
        """
        self._cursor = cursor
        self._on_step = on_step
        self.missing: list[Missing] = []

    def samples(self, ticks: Iterable[int]) -> Iterator[tuple[int, bool]]:
        """Yield each tick reached, ascending; the flag is True if all steps from the previous sample were run."""
        before, unreachable_until = None, None
        for tick in ticks:
            if unreachable_until is not None and tick < unreachable_until:
                self._miss(tick, self.missing[-1].why, is_desync=self.missing[-1].is_desync)
                continue
            unreachable_until = None
            try:
                self._go(tick, every_step=before is not None and self._on_step is not None)
                if self._cursor.difference() is not None and not self._take_recorded(tick):
                    raise _DifferentStateError(f"desync: the state at tick {tick:,} differs from the recorded one")
            except (CorruptError, TornError, MissingTickError) as error:
                self._miss(tick, str(error), is_desync=False)
            except SimulationFailedError as error:
                self._miss(tick, str(error), is_desync=True)
            except _DifferentStateError as error:
                self._miss(tick, str(error), is_desync=True)
            else:
                yield tick, before is not None
                before = tick
                continue
            self._cursor.leave()
            before = None
            # A seek to any tick before the next keyframe would start at the same state and fail in the same way.
            following = self._cursor.tape.keyframe_after(tick + 1)
            unreachable_until = following.tick if following is not None else tick + (1 << 62)

    def _go(self, tick: int, *, every_step: bool) -> None:
        """Move the cursor to tick. every_step: run all steps from the current tick, and call on_step before each."""
        cursor = self._cursor
        if cursor.steps_differ and self._take_recorded(tick):
            return
        current = cursor.tick
        if not every_step and current != tick - 1:  # A single step is as fast as loading a keyframe.
            nearest = next(cursor.tape.keyframes_at_or_before(tick), None)
            if current is None or current > tick or (nearest is not None and nearest.tick > current):
                cursor.place_before(tick)
        while (current := cursor.tick) is not None and current < tick:
            if every_step and self._on_step is not None:
                self._on_step(cursor.tape.frame(current + 1).inputs, cursor.state)
            cursor.advance()

    def _take_recorded(self, tick: int) -> bool:
        """Go to the recorded state of tick, if the tape has the changes of each tick, and no step is asked for."""
        return self._on_step is None and self._cursor.take_recorded(tick) is not None

    def _miss(self, tick: int, why: str, *, is_desync: bool) -> None:
        last = self.missing[-1] if self.missing else None
        if last is not None and last.why == why:
            self.missing[-1] = attrs.evolve(last, last_tick=tick)
        else:
            self.missing.append(Missing(tick, tick, why, is_desync))


class _DifferentStateError(Exception):
    """A sampled state does not have the recorded hash."""
