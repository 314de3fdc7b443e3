"""Stand at one sampled tick of a tape after the other, each proved by its recorded hash; what cannot be reached is noted.

Invariant: nothing is given of a state whose hash is not the recorded one.
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
    """Samples that could not be had.

    Attributes:
        first_tick, last_tick: of the samples.
        why: in words.
        is_desync: whether re-simulating gave another state than the run had, or failed.
    """

    first_tick: int
    last_tick: int
    why: str
    is_desync: bool = False


class Walker:
    """Goes along a tape from sample to sample."""

    def __init__(self, cursor: Cursor, on_step: OnStep | None = None) -> None:
        """on_step: called before each step that leads from one sample to the next; then no keyframe is a short cut."""
        self._cursor = cursor
        self._on_step = on_step
        self.missing: list[Missing] = []

    def samples(self, ticks: Iterable[int]) -> Iterator[tuple[int, bool]]:
        """Each tick that was reached, ascending, and whether all steps from the one before it were made."""
        before, dark_until = None, None
        for tick in ticks:
            if dark_until is not None and tick < dark_until:
                self._miss(tick, self.missing[-1].why, is_desync=self.missing[-1].is_desync)
                continue
            dark_until = None
            try:
                self._go(tick, whole=before is not None and self._on_step is not None)
                if self._cursor.difference() is not None:
                    raise _OtherStateError(f"desync: the state at tick {tick:,} is another one than the run had")
            except (CorruptError, TornError, MissingTickError) as error:
                self._miss(tick, str(error), is_desync=False)
            except SimulationFailedError as error:
                self._miss(tick, str(error), is_desync=True)
            except _OtherStateError as error:
                self._miss(tick, str(error), is_desync=True)
            else:
                yield tick, before is not None
                before = tick
                continue
            self._cursor.leave()
            before = None
            # All ticks up to the next keyframe would be sought from the same place, and lead to the same end.
            following = self._cursor.tape.keyframe_after(tick + 1)
            dark_until = following.tick if following is not None else tick + (1 << 62)

    def _go(self, tick: int, *, whole: bool) -> None:
        """Stand at tick."""
        cursor = self._cursor
        here = cursor.tick
        if not whole and here != tick - 1:  # Of one step a keyframe spares nothing.
            nearest = next(cursor.tape.keyframes_at_or_before(tick), None)
            if here is None or here > tick or (nearest is not None and nearest.tick > here):
                cursor.place_before(tick)
        while (here := cursor.tick) is not None and here < tick:
            if whole and self._on_step is not None:
                self._on_step(cursor.tape.frame(here + 1).inputs, cursor.state)
            cursor.advance()

    def _miss(self, tick: int, why: str, *, is_desync: bool) -> None:
        last = self.missing[-1] if self.missing else None
        if last is not None and last.why == why:
            self.missing[-1] = attrs.evolve(last, last_tick=tick)
        else:
            self.missing.append(Missing(tick, tick, why, is_desync))


class _OtherStateError(Exception):
    """A sampled state does not have the recorded hash."""
