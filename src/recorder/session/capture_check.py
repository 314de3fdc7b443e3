"""Prove what is recorded of a simulation that captures objects: take its state again before each keyframe.

A simulation without these optional members has no CaptureCheck, and costs nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Self

from recorder.format.limits import VALUE_DIGEST_BYTES
from sim.kernel.exactness import Level, level_of
from sim.kernel.hooks import CanRecapture, DefersKeyframes, HasValueDigest, hook
from sim.kernel.simulation import inner_of


class CaptureCheck:
    """Checks the state of one session.

    Attributes:
        each_tick: true to check at every tick, not only where a keyframe is due.
        fault_count: paths that differed, counted at each check.
        repaired: True if the state of the current tick differed from the objects: it needs a full keyframe.
        taken_ns: the time that the last check took.
    """

    def __init__(
        self, simulation: Any, notify: Callable[[str], None], path: str | os.PathLike[str], *, each_tick: bool
    ) -> None:
        """notify: shows a notice to the user at the next call. path: of the tape. each_tick: check at every tick."""
        recaptures, defers = hook(simulation, CanRecapture), hook(simulation, DefersKeyframes)
        self._recapture = recaptures.recapture if recaptures is not None else None
        self._defers = defers.keyframe_deferred if defers is not None else None
        self._notify = notify
        self._path = os.fspath(path)
        self.each_tick = each_tick
        self._named: set[str] = set()
        self.fault_count = 0
        self.repaired = False
        self.taken_ns = 0
        self._deferred: bool | None = None  # The answer at the current tick; None if it was not asked for.
        self._tick = -1  # Of what is known here.

    @classmethod
    def of(
        cls, simulation: Any, notify: Callable[[str], None], path: str | os.PathLike[str], *, each_tick: bool
    ) -> Self | None:
        """Make the check of a simulation; None if there is nothing to check."""
        made = cls(simulation, notify, path, each_tick=each_tick)
        return made if made._recapture is not None or made._defers is not None else None

    def before_hash(self, tick: int, *, is_due: bool) -> None:
        """Check the state of a tick before anything of it is recorded. is_due: a keyframe is to be taken.

        Raises any exception of the simulation.
        """
        self.at(tick)
        if self._recapture is None or not (self.each_tick or (is_due and not self.is_deferred())):
            return
        start_ns = time.perf_counter_ns()
        paths = self._recapture()
        self.taken_ns = time.perf_counter_ns() - start_ns
        if not paths:
            return
        self.repaired = True
        self.fault_count += len(paths)
        for name in paths:
            if name not in self._named:
                self._named.add(name)
                self._notify(
                    f"{self._path}: at tick {tick:,} the recorded state differed from {name} in the object. This is a "
                    "fault of the recorder, not of your code. The tape is right again from this tick on; ticks since "
                    "the keyframe before may not replay. Please report it with the type of this attribute"
                )

    def at(self, tick: int) -> None:
        """Forget what was found at another tick: most ticks are not checked."""
        if tick != self._tick:
            self._tick, self.repaired, self._deferred = tick, False, None

    def is_deferred(self) -> bool:
        """Return True if no keyframe may be taken at the current tick. The simulation is asked once."""
        if self._deferred is None:
            self._deferred = self._defers is not None and bool(self._defers())
        return self._deferred


def capture_again(simulation: Any) -> None:
    """Take the state at the start: the user may have changed the objects since the simulation was made of them."""
    recaptures = hook(simulation, CanRecapture)
    if recaptures is not None:
        recaptures.recapture()


def digest_maker(simulation: Any) -> Callable[[], bytes] | None:
    """Return a function for the digest of the values at a keyframe; None if the simulation has none.

    A canonical load changes values. Raises ValueError, when the digest is made, if it does not fit.
    """
    inner = inner_of(simulation)
    digests = hook(inner, HasValueDigest)
    if digests is None or level_of(simulation) is Level.CANONICAL:
        return None
    make: Callable[[], Any] = digests.value_digest  # Any: the user's own, checked here.

    def made() -> bytes:
        digest = make()
        if digest == b"":
            return b""  # There is nothing to compare at this tick.
        if not isinstance(digest, bytes) or not VALUE_DIGEST_BYTES[0] <= len(digest) <= VALUE_DIGEST_BYTES[1]:
            got = f"{len(digest)} bytes" if isinstance(digest, bytes) else type(digest).__name__
            raise ValueError(
                f"{type(inner).__name__}.value_digest(): expected bytes, {VALUE_DIGEST_BYTES[0]} to "
                f"{VALUE_DIGEST_BYTES[1]} of them, got {got}"
            )
        return digest

    return made
