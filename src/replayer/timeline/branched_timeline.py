"""Other ways from a tick of a timeline: branches, which are tapes of their own."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from recorder.errors import CorruptError, TornError
from replayer.playback.make_simulation import Factory
from replayer.tape.tape import Tape
from sim.kernel.state import Snapshot

if TYPE_CHECKING:
    from recorder.recording_options import OptionArguments
    from recorder.reopen.branch_recorder import BranchRecorder
    from replayer.branches.begin_branch import Edit


class BranchedTimeline:
    """The other ways of a Timeline; the attributes below are the Timeline's."""

    tape: Tape
    _world: Factory | None
    _lock: threading.RLock

    def absolute_tick(self, tick: int) -> int:
        """See Timeline."""
        raise NotImplementedError

    def at(self, tick: int) -> Snapshot:
        """See Timeline."""
        raise NotImplementedError

    def holder_of(self, tick: int) -> BranchedTimeline:
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

    def _state_at(self, tick: int) -> Snapshot:
        """The state at a tick; that of a keyframe without a simulation. Raises as seek does."""
        place = self.tape.keyframe_at(tick)
        if place is not None:
            try:
                return self.tape.snapshot(place)
            except (CorruptError, TornError):
                pass  # An earlier one may lead there.
        return self.at(tick)
