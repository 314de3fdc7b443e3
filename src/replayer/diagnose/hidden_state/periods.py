"""A period of a live run, and how a copy that repeats it ends."""

from __future__ import annotations

import attrs

from recorder.ambient.ambient import Ambient
from replayer.diagnose.hidden_state.outside_sources import OutsideReads
from sim.kernel.state import Snapshot


@attrs.frozen(eq=False)
class Period:
    """A period of the live run, with everything needed to repeat it.

    Attributes:
        start_tick, start: its first tick, and the state there.
        ambient: everything outside the state there.
        after: the surroundings at its end.
        inputs: of each tick, encoded.
        hashes: after each tick.
        states: after each tick; empty if they would be too large.
        reads: the steps' reads of outside sources.
    """

    start_tick: int
    start: Snapshot
    ambient: Ambient
    after: Ambient
    inputs: list[bytes]
    hashes: list[int]
    states: list[Snapshot]
    reads: OutsideReads


@attrs.frozen(eq=False)
class TrialOutcome:
    """The outcome of a copy's run.

    Attributes:
        bad_count: the number of its steps when it first differed, 0 if the restored state did; None if it never did.
        state: its state at that moment.
        note: the error that it raised, or the call that changed its state.
        ambient: everything outside its state before its first step; None if it did not get there.
        unlike: of the values that it was to get, the names of those that are still not as in the live run.
        is_elsewhere: True if it raised in a step that it ran elsewhere, before it was restored to the start of the period.
    """

    bad_count: int | None
    state: Snapshot | None = None
    note: str | None = None
    ambient: Ambient | None = None
    unlike: frozenset[str] = frozenset()
    is_elsewhere: bool = False
