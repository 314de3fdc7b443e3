"""Record a branch of a tape to its end: with the parent's inputs or others, and compared with the parent."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from recorder.errors import CorruptError, DesyncError, MissingTickError, RecordingError, TornError
from recorder.exception_text import raised_text
from recorder.location.tape_location import Location
from recorder.reopen.branch_recorder import BranchRecorder
from replayer.branches.run_family import first_difference
from replayer.playback.make_simulation import Factory
from replayer.reshape.given_inputs import GivenInputs
from replayer.tape.copied_range import UnfitTapeError
from replayer.tape.tape import Tape
from replayer.timeline.timeline import Timeline
from sim.kernel.simulation import inner_of

Progress = Callable[[int, int], None]  # Steps done so far, steps in all.


@attrs.frozen(kw_only=True)
class BranchedInputs:
    """The inputs of a branch.

    Attributes:
        own: all inputs by tick, of a branch that takes none from its parent; None takes the parent's.
        instead: inputs by tick that replace those.
        source: where they come from, for messages.

    Calls of a plain object are read as JSON shows them; see sim.adapters.object_view.given_calls.
    """

    own: Mapping[int, Any] | None = None
    instead: Mapping[int, Any] = attrs.field(factory=dict)
    source: str = "inputs"


@attrs.frozen
class BranchReport:
    """A branch that was recorded.

    Attributes:
        path: of its tape.
        parent: the tape that it leaves.
        fork_tick: the last common tick.
        first_tick, last_tick: the ticks on its tape.
        first_different: the first tick with another state than the parent's; None if there is none.
        compared_to: the last tick for which both tapes have the hash of the state, from the fork on without a gap.
        size_bytes: of its tape.
    """

    path: Path
    parent: Location
    fork_tick: int
    first_tick: int
    last_tick: int
    first_different: int | None
    compared_to: int
    size_bytes: int

    @property
    def comparison(self) -> str | None:
        """Where it is the same as its parent, in words; None if no hash could be compared."""
        different = self.first_different
        if different is not None:
            before = f"the same to tick {different - 1:,}, " if different > self.fork_tick else ""
            return f"{before}first different at tick {different:,}"
        return f"the same as {self.parent} to tick {self.compared_to:,}" if self.compared_to > self.fork_tick else None


def branch_tape(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    at: int,
    inputs: BranchedInputs,
    *,
    until: int | None = None,
    parent_world: Factory | None = None,
    world: Factory | None = None,
    config: Mapping[str, Any] | None = None,
    standalone: bool = False,
    progress: Progress | None = None,
) -> BranchReport:
    """Leave a run at a tick, and record the branch up to the tick until, by default the parent's last one.

    parent_world: makes the simulation of the parent, world that of the branch; None makes the one that the tape names.
    config, standalone: see Timeline.branch.

    Raises UnfitTapeError, in one line, for inputs that do not fit, a simulation that raises, and a fork that cannot be
    reached with this code; and as Timeline.branch does. No tape is left then.
    """
    with Timeline(path, parent_world) as named:
        run = named.holder_of(at)
        while (above := run.holder_of(at)) is not run:
            run = above
        tick = run.absolute_tick(at)
        last = _last_tick(run, tick, until, inputs)
        try:
            branch = run.branch(target, tick, world=world, config=config, standalone=standalone)
        except DesyncError as error:
            raise UnfitTapeError(_why_not_reached(run.tape, tick, error)) from None
        try:
            _run(branch, last, inputs, GivenInputs(run.tape, inputs.source), progress)
            branch.close()
        except BaseException:
            branch.discard()
            raise
        with Tape(target) as made:
            different, compared_to = first_difference(run.tape, made, tick)
            first, last = made.first_tick, made.last_tick
    size_bytes = Path(target).stat().st_size
    return BranchReport(Path(target), run.tape.path, tick, first, last, different, compared_to, size_bytes)


def _last_tick(run: Timeline, tick: int, until: int | None, inputs: BranchedInputs) -> int:
    """The last tick of a branch; its inputs are known to be there. Raises UnfitTapeError."""
    last = run.last_tick if until is None else until
    if last <= tick:
        raise UnfitTapeError(f"the branch begins at tick {tick:,}: expected a later last tick, got {last:,}")
    given = {**(inputs.own or {}), **inputs.instead}
    outside = next((one for one in given if not tick < one <= last), None)
    if outside is not None:
        raise UnfitTapeError(f"{inputs.source}: tick {outside:,} is not one of the branch, {tick + 1:,} to {last:,}")
    if inputs.own is not None:
        return last
    for one in range(tick + 1, last + 1):
        if one in inputs.instead:
            continue
        try:
            run.tape.frame(one)
        except (MissingTickError, CorruptError, TornError) as error:
            raise UnfitTapeError(f"the inputs of tick {one:,} cannot be taken from the parent: {error}") from None
    return last


def _run(
    branch: BranchRecorder, last: int, inputs: BranchedInputs, given: GivenInputs, progress: Progress | None
) -> None:
    start, tick = branch.tick, -1
    by_tick = {**(inputs.own or {}), **inputs.instead}
    while branch.tick < last and branch.tick != tick:  # It stays where it is once the simulation has ended.
        tick = branch.tick
        instead = {}
        if tick + 1 in by_tick:
            instead[tick + 1] = given.read(tick + 1, by_tick[tick + 1], inner_of(branch.simulation))
        try:
            branch.run(tick + 1, inputs.own, instead=instead)
        except (RecordingError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - the user's step may raise anything
            what = f"{inputs.source}: " if instead else ""
            raise UnfitTapeError(
                f"{what}{raised_text(f'the step to tick {tick + 1:,} of the branch', error)}: no tape is written; "
                f"--until {tick} ends the branch before it"
            ) from None
        if progress is not None:
            progress(branch.tick - start, last - start)


def _why_not_reached(tape: Tape, tick: int, error: DesyncError) -> str:
    near = next(tape.keyframes_at_or_before(tick), None)
    where = f", or leave it at a keyframe, such as --at {near.tick}" if near is not None else ""
    return (
        f"tick {tick:,} cannot be reached with this code: it does not give the recorded state of tick {error.tick:,}; "
        f"name the simulation that was recorded with --parent-sim{where}"
    )
