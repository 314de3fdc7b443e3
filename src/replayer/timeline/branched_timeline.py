"""Other ways from a tick of a timeline: branches, which are tapes of their own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Unpack

from recorder.errors import CorruptError, TornError
from recorder.format.recording.recording import Recording
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory, make_stepping
from replayer.playback.subject_type import SubjectT
from replayer.tape.tape import Tape
from sim.kernel.simulation import subject_of
from sim.kernel.state import Snapshot

if TYPE_CHECKING:
    from recorder.recording_options import OptionArguments
    from recorder.reopen.branch_recorder import BranchRecorder
    from replayer.branches.begin_branch import Edit
    from replayer.branches.fork import Fork, SimulationPool


class BranchedTimeline(Generic[SubjectT]):
    """The other ways of a Timeline; the attributes below are the Timeline's."""

    tape: Tape
    _world: Factory | None
    _lock: threading.RLock
    _forks: SimulationPool | None = None
    _fork_state: tuple[Recording, int, Snapshot] | None = None  # The last one that was left, for further forks there.

    def absolute_tick(self, tick: int) -> int:
        """See Timeline."""
        raise NotImplementedError

    def at(self, tick: int) -> Snapshot:
        """See Timeline."""
        raise NotImplementedError

    def _cursors(self) -> Iterator[Cursor]:
        raise NotImplementedError

    @property
    def tick(self) -> int | None:
        """See Timeline."""
        raise NotImplementedError

    def holder_of(self, tick: int) -> BranchedTimeline[SubjectT]:
        """See Timeline."""
        raise NotImplementedError

    def branch(
        self,
        path: str | os.PathLike[str],
        at: int,
        *,
        world: Factory | None = None,
        config: Mapping[str, Any] | None = None,
        edit: Edit | None = None,
        standalone: bool = False,
        **options: Unpack[OptionArguments],
    ) -> BranchRecorder:
        """Leave the run at a tick, and record another way from there; the timeline does not move.

        The returned recorder, a context manager, is at that tick: ``step`` it, use its ``object`` as you used what
        ``record`` returned, or let it ``run`` with the parent's inputs or others. Its tape counts on from this one's
        ticks, and begins with the state of the fork. The ticks before stay where they are: a seek there goes to this tape.

        path: the new tape. at: the last common tick; negative ticks count from the end. world: other code. config:
        parameters that replace those of a registered world. edit: a function that changes the recorded object at the
        fork. standalone: copy the ticks up to the fork. options: of the recording; by default those of this tape.

        Raises as begin_branch and seek do; nothing is written then.
        """
        from replayer.branches.begin_branch import BranchPlan, begin_branch  # noqa: PLC0415 - loads the recorder

        with self._lock:
            if (parent := self.holder_of(at)) is not self:
                arguments: dict[str, Any] = {"world": world, "config": config, "edit": edit, "standalone": standalone}
                return parent.branch(path, at, **arguments, **options)
            tick, chosen = self.absolute_tick(at), world
            if chosen is None and config is None:
                chosen = self._world
            plan = BranchPlan(world=chosen, config=config, edit=edit, standalone=standalone, options=options)
            return begin_branch(self.tape, tick, self._state_at(tick), path, plan)

    def fork(self, at: int | None = None, *, saves_each_step: bool = False) -> Fork[SubjectT]:
        """Leave the run at a tick in memory, for a search or a trial; neither the run nor the timeline is touched.

        at: the tick, by default that of the last seek; negative ticks count from the end. saves_each_step: take the state
        of objects after each step, as a recording does, not only when it is asked for: hashes are then those that a
        recording of the same steps has. Returns a Fork: step it, look at it, fork it again, and close it, so that the
        next fork can use its simulation. Raises as seek does, and UnknownWorldError for a tape whose simulation cannot
        step.
        """
        from replayer.branches.fork import Fork, SimulationPool  # noqa: PLC0415 - rarely asked

        with self._lock:
            known = self._fork_state
            is_known = at is None and known is not None and known[:2] == (self.tape.recording, self.tick)
            if is_known and known is not None and self._forks is not None:
                return Fork(self._forks, known[2], known[1], saves_each_step=saves_each_step)
            if at is None and self.tick is None:
                raise ValueError("the timeline is not at any tick: seek first, or fork(at=...)")
            tick = self.tick if at is None else at
            assert tick is not None
            if (holder := self.holder_of(tick)) is not self:
                return holder.fork(tick, saves_each_step=saves_each_step)
            tick = self.absolute_tick(tick)
            if self._forks is None:
                self._forks = SimulationPool(lambda: make_stepping(self.tape, self._world))
                for cursor in self._cursors():
                    self._forks.claim(subject_of(cursor.simulation))
            if self._fork_state is None or self._fork_state[:2] != (self.tape.recording, tick):
                self._fork_state = (self.tape.recording, tick, self._state_at(tick))
            return Fork(self._forks, self._fork_state[2], tick, saves_each_step=saves_each_step)

    def _state_at(self, tick: int) -> Snapshot:
        """The state at a tick; that of a keyframe without a simulation. Raises as seek does."""
        place = self.tape.keyframe_at(tick)
        if place is not None:
            try:
                return self.tape.snapshot(place)
            except (CorruptError, TornError):
                pass  # An earlier one may lead there.
        return self.at(tick)
