"""Both sides of a desync for the page: what the tape has recorded, and what the simulation does here."""

from __future__ import annotations

from typing import Literal

from recorder.errors import DesyncError
from recorder.format.recording.change_replay import ChangeLog
from recorder.location.tape_location import Location
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory
from replayer.view.worker.view_cursor import IsStale, ViewCursor, seldom
from sim.kernel.state import Snapshot

Role = Literal["recorded", "replayed"]


def make_cursor(
    path: Location, factory: Factory | None, role: Role | None, *, is_live: bool = False, with_parents: bool = False
) -> ViewCursor:
    """A cursor for one side of a desync, or for a tape. is_live, with_parents: see ViewCursor. Raises as ViewCursor does."""
    if role is None:
        return ViewCursor(path, factory, is_live=is_live, with_parents=with_parents)
    return {"recorded": RecordedCursor, "replayed": ReplayedCursor}[role](path, factory)


class RecordedCursor(ViewCursor):
    """The recorded states, as far as the tape has them.

    Up to the first tick that differs, the replay gives them, with the recorded hash. From there to the next keyframe only
    hashes are recorded, unless the tape has the changes of each tick: the last tick that agrees is shown in their place.
    """

    def __init__(self, path: Location, factory: Factory | None) -> None:
        """Raises as ViewCursor does."""
        self._first_bad: dict[int, int] = {}  # By the tick of the keyframe before.
        self._changes: ChangeLog | None = None
        super().__init__(path, factory)

    def walk(self, tick: int, is_stale: IsStale) -> bool:
        """Go to a tick, or to the last one that agrees before it; False if is_stale() became True on the way."""
        if self.run.tape.logs_changes:
            return True
        start = self.keyframe_before(tick)
        bad = self._first_bad.get(start)
        if bad is None or tick < bad:
            try:
                return super().walk(tick, is_stale)
            except DesyncError as error:
                bad = self._first_bad[start] = error.tick
        return super().walk(max(start, bad - 1), is_stale)

    def state(self, tick: int) -> tuple[Snapshot, int]:
        """The recorded state, and its tick."""
        if self.run.tape.logs_changes:
            if self._changes is None:
                self._changes = ChangeLog(self.run.tape.recording)
            reached = self._changes.reach(tick)
            if reached is not None:
                return reached.snapshot, tick
        if self.problem is not None:
            return super().state(tick)
        self.walk(tick, lambda: False)
        assert self.run.tick is not None
        return self.run.state.snapshot(), self.run.tick


class ReplayedCursor(ViewCursor):
    """The states that the simulation has here, from the keyframe before a tick on, whatever their hashes are.

    The state of a keyframe is that of the interval before it, so that both sides can be compared there.
    """

    def __init__(self, path: Location, factory: Factory | None) -> None:
        """Raises as ViewCursor does."""
        self._free: Cursor | None = None
        self._start: int | None = None  # The keyframe that the free cursor began at.
        super().__init__(path, factory)

    def is_at_hand(self, tick: int) -> bool:  # noqa: ARG002 - no keyframe is shown on the way
        """True: a keyframe of the tape is not a state of this side."""
        return True

    @property
    def tick(self) -> int | None:
        """Where the last walk has come to; None if it is at no tick."""
        return self._free.tick if self._free is not None else None

    def walk(self, tick: int, is_stale: IsStale) -> bool:
        """Step to a tick; False if is_stale() became True on the way. Raises SimulationFailedError if a step does."""
        if self.problem is not None:
            return True
        if self._free is None:
            self._free = Cursor(self.run.tape, self.run.another_simulation())
        free, before = self._free, max(self.run.first_tick, tick - 1)
        if self.keyframe_before(before) != self._start or free.tick is None or free.tick > tick:
            self._start = free.place_before(before)
        asked = seldom(is_stale)
        while free.tick is not None and free.tick < tick:
            if asked():
                return False
            free.advance()
        return True

    def state(self, tick: int) -> tuple[Snapshot, int]:
        """The state here at a tick, and the tick. Raises as walk does."""
        if self.problem is not None:
            return super().state(tick)
        self.walk(tick, lambda: False)
        assert self._free is not None
        return self._free.state.snapshot(), tick
