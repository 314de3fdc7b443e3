"""Go to any tick of a recording: the main class of the replayer.

A timeline has a cursor that ``seek``, ``step`` and ``step_back`` move, and a second, internal one for reading by index.
Reading another tick does not move the first cursor.
"""

from __future__ import annotations

import operator
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

import attrs

from recorder.errors import (
    DesyncError,
    MissingEpisodeError,
    MissingTickError,
    RecordingError,
    SimulationFailedError,
)
from replayer.branches.parent_run import find_parent_of, parent_of
from replayer.html_renderers import RenderedAsHtml
from replayer.playback.cursor import Arrival, Cancelled, Cursor, MismatchError, Progress
from replayer.playback.make_simulation import Factory, make_simulation
from replayer.playback.near_states import NEAR_BYTES_MAX
from replayer.playback.subject_type import SubjectT
from replayer.tape.environment_calls import EnvironmentCall, call_at
from replayer.tape.episodes import Episode, find_episodes
from replayer.tape.tape import Mode, Tape
from replayer.timeline.asked_timeline import AskedTimeline
from replayer.timeline.branched_timeline import BranchedTimeline
from replayer.timeline.shown_page import ShownAsPage
from replayer.timeline.snapshots import Snapshots, from_tick
from sim.closed_on_exit import ClosedOnExit
from sim.kernel.simulation import Simulation, inner_of, subject_of
from sim.kernel.state import Snapshot, State

if TYPE_CHECKING:
    from replayer.timeline.verify import VerificationReport


@attrs.frozen
class SeekReport(RenderedAsHtml):
    """The result of a seek.

    Attributes:
        tick: the timeline's tick after the seek.
        state_hash: hash of the state there, equal to the recorded one; shown in hexadecimal.
        keyframe_tick: tick of the state that the seek started from: a keyframe, or a state in memory.
        simulated_ticks: steps run from there.
        applied_ticks: ticks whose recorded changes were applied instead of a step.
        milliseconds: total duration.
    """

    tick: int
    state_hash: int = attrs.field(repr=lambda state_hash: f"0x{state_hash:016x}")
    keyframe_tick: int
    simulated_ticks: int
    milliseconds: float
    applied_ticks: int = 0


class Timeline(AskedTimeline, BranchedTimeline[SubjectT], RenderedAsHtml, ShownAsPage, ClosedOnExit):
    """A recording with access to the state of every tick; a context manager.

    ``run[tick]`` is the Snapshot at a tick, ``run[a:b:c]`` a lazy sequence of snapshots; negative ticks count from the
    end. ``len(run)`` is the number of ticks, the first one included. Several threads may read
    by ``run[tick]``, ``at`` and ``seek``: they wait for each other. ``state`` and ``simulation`` are at the tick of the
    last seek, of any thread.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        world: Factory | None = None,
        *,
        dump_folder: str | os.PathLike[str] | None = None,
        mode: Mode = "salvage",
        memory_bytes: int | None = None,
        near_bytes: int = NEAR_BYTES_MAX,
    ) -> None:
        """Open a tape; the simulation is made when it is first needed.

        world: makes the simulation, called without arguments; not needed for a registered world.
        dump_folder: folder for dumps of desyncs; None writes none. mode, memory_bytes: the response to
        damage, and the memory for one state, see Tape. near_bytes: for states near the last seek, all together. Raises as Tape does.
        """
        self.tape = Tape(path, mode, memory_bytes=memory_bytes)
        self._world = world
        self._options: dict[str, Any] = {"dump_folder": dump_folder, "mode": mode, "memory_bytes": memory_bytes}
        self._options["near_bytes"] = self._near_bytes = near_bytes
        self._parent: Timeline[SubjectT] | None = None  # Of a branch, once a tick before its first one was asked for.
        self._is_in_parent = False  # The last seek went there.
        self._dump_folder = None if dump_folder is None else Path(dump_folder)
        self._cursor: Cursor | None = None
        self._reader: Cursor | None = None
        self._was_handed_out = False  # The user has the simulation, and may step it at any time.
        self._episodes: list[Episode] | None = None
        self.last_seek: SeekReport | None = None
        self._lock = threading.RLock()  # Cursors and the tape's readers are used by one thread at a time.

    # --- the current tick

    @property
    def tick(self) -> int | None:
        """The tick of ``state``; None before the first seek."""
        if self._parent is not None and self._is_in_parent:
            return self._parent.tick
        return self._cursor.tick if self._cursor is not None else None

    @property
    def state(self) -> State:
        """The state at ``tick``. Raises ValueError before the first seek."""
        if self._parent is not None and self._is_in_parent:
            return self._parent.state
        if self._cursor is None or self._cursor.tick is None:
            raise ValueError("the timeline is not at any tick: seek first")
        return self._cursor.state

    @property
    def aux(self) -> dict[str, Any]:
        """The sections at ``tick`` that others kept beside the state, by name; empty if the tape has none there."""
        return (self.tape.aux.get(self.tick) if self.tick is not None else None) or {}

    @property
    def first_tick(self) -> int:
        """The first tick whose state is available."""
        return self.tape.first_tick

    @property
    def last_tick(self) -> int:
        """The last tick on the tape."""
        return self.tape.last_tick

    @property
    def subject(self) -> SubjectT:
        """The recorded object, in the state of ``tick``: the environment, the object, the model, or your simulation.

        Do with it what you like: that does not move the timeline, and the next seek restores it. Raises ValueError
        before the first seek.
        """
        return cast("SubjectT", subject_of(self._handed_out()))

    @property
    def simulation(self) -> Any:
        """The simulation of the subject, as its adapter made it; without an adapter, the same as ``subject``.

        Raises ValueError before the first seek.
        """
        return inner_of(self._handed_out())

    def _handed_out(self) -> Simulation:
        if self._parent is not None and self._is_in_parent:
            return self._parent._handed_out()  # noqa: SLF001 - a timeline as this one
        if self._cursor is None or self._cursor.tick is None:
            raise ValueError("the timeline is not at any tick: seek first")
        self._was_handed_out = True
        return self._cursor.simulation

    @property
    def episodes(self) -> list[Episode]:
        """The episodes on the tape, found by their resets; empty if there are none."""
        if self._episodes is None:
            self._episodes = find_episodes(self.tape)
        return self._episodes

    def call(self, tick: int) -> EnvironmentCall:
        """The decoded call of an environment that led to a tick; negative ticks count from the end.

        Nothing is simulated, and the timeline does not move. Raises ValueError for a tape of anything but a Gymnasium
        or PettingZoo environment, MissingTickError for a tick without a call, CorruptError for a damaged one.
        """
        return call_at(self.tape, self.absolute_tick(tick))

    def __len__(self) -> int:
        return self.last_tick - self.first_tick + 1

    def __repr__(self) -> str:
        try:
            ticks = f"ticks {self.first_tick} to {self.last_tick}"
        except (RecordingError, OSError):
            ticks = "no tick is available"
        where = f", at tick {self.tick}" if self.tick is not None else ""
        return f"<Timeline of {self.tape.path}: {ticks}{where}>"

    # --- moving

    def seek(
        self,
        tick: int | None = None,
        progress: Progress | None = None,
        *,
        episode: int | None = None,
        step: int | None = None,
        cancelled: Cancelled | None = None,
    ) -> SeekReport:
        """Go to a tick; negative ones count from the end, -1 is the last.

        episode, step: instead of a tick, the index of an episode and the number of actions after its reset; both from
        0, negative ones count from the end; step 0 is the reset.
        progress: called at intervals with the number of ticks simulated and the total.
        cancelled: asked before each step; once it returns True, no further step is run. The timeline is then at the tick
            that was reached, and the next seek continues from there. A load, and changes that are applied in place of
            steps, are not interrupted.

        Raises:
            SeekCancelledError: cancelled() returned True.
            TypeError: neither a tick nor an episode is given, or both.
            MissingTickError: the tick, the episode or the step is not on the tape, or damage makes it unreachable.
            DesyncError: re-simulating gave a state that differs from the recorded one; names the first such tick after
                the keyframe that the seek started from (verify finds the first of the complete tape).
            UnknownWorldError and others: as make_simulation raises.
            SimulationFailedError: the simulation raised; its exception is the cause.
        """
        start_s = time.perf_counter()
        with self._lock:
            wanted = self._target(tick, episode, step)
            if (parent := self.holder_of(wanted)) is not self:
                self.last_seek = parent.seek(wanted, progress, cancelled=cancelled)
                self._is_in_parent = True
                return self.last_seek
            target = self.absolute_tick(wanted)
            self._is_in_parent = False
            if self._cursor is None:
                self._cursor = self._make_cursor()
            arrival = self._go(self._cursor, target, progress, cancelled)
            milliseconds = (time.perf_counter() - start_s) * 1e3
            self.last_seek = report = SeekReport(
                arrival.tick,
                arrival.state_hash,
                arrival.keyframe_tick,
                arrival.simulated_ticks,
                milliseconds,
                arrival.applied_ticks,
            )
        return report

    def step(self) -> SeekReport:
        """Go one tick forward. Raises as seek does."""
        with self._lock:
            return self.seek(self._current_tick() + 1)

    def step_back(self) -> SeekReport:
        """Go one tick back. Raises as seek does."""
        with self._lock:
            if (
                self._current_tick() <= self.first_tick and not self._has_parent()
            ):  # Below it after a ring has dropped ticks, and a refresh.
                raise MissingTickError(self.first_tick - 1, f"the tape begins at tick {self.first_tick}")
            return self.seek(self._current_tick() - 1)

    def _cursors(self) -> Iterator[Cursor]:
        return (cursor for cursor in (self._cursor, self._reader) if cursor is not None)

    def _has_parent(self) -> bool:
        return parent_of(self.tape.meta) is not None and self._current_tick() > 0

    def _current_tick(self) -> int:
        if self.tick is None:
            raise ValueError("the timeline is not at any tick: seek first")
        return self.tick

    # --- reading without moving

    def at(self, tick: int) -> Snapshot:
        """A copy of the state at a tick; the timeline does not move. Raises as seek does."""
        with self._lock:
            if (parent := self.holder_of(tick)) is not self:
                return parent.at(tick)
            target = self.absolute_tick(tick)
            if self._reader is None:
                self._reader = self._make_cursor()
            self._go(self._reader, target)
            return self._reader.state.snapshot()

    def holder_of(self, tick: int) -> Timeline[SubjectT]:
        """The timeline that holds a tick: this one, or that of the parent for a tick before the first one of a branch.

        Raises MissingTickError if the parent is missing or was changed.
        """
        parent = parent_of(self.tape.meta)
        if parent is None or not 0 <= operator.index(tick) < min(self.first_tick, parent.tick + 1):
            return self
        if self._parent is None:
            found = find_parent_of(self.tape, tick)
            self._parent = Timeline(found, self._world, **self._options)
        return self._parent

    @overload
    def __getitem__(self, ticks: int) -> Snapshot: ...
    @overload
    def __getitem__(self, ticks: slice) -> Snapshots: ...
    def __getitem__(self, ticks: int | slice) -> Snapshot | Snapshots:
        if isinstance(ticks, slice):
            return Snapshots(self.at, from_tick(self.first_tick, range(self.last_tick + 1)[ticks]))
        return self.at(ticks)

    def __iter__(self) -> Iterator[Snapshot]:
        return iter(self[:])

    def another_simulation(self) -> Simulation:
        """A further simulation of this tape, in any state, which the timeline does not move.

        If the user's factory returns one object each time, the next seek restores it. Raises as make_simulation does.
        """
        return self._make_cursor().simulation

    # --- checking

    def verify(self, jobs: int = 1, progress: Progress | None = None) -> VerificationReport:
        """Re-simulate every interval and compare every hash; parameters and result as in verify.verify_tape."""
        from replayer.timeline.verify import verify_tape  # noqa: PLC0415 - it opens timelines itself

        return verify_tape(self.tape.path, self._world, jobs=jobs, progress=progress, dump_folder=self._dump_folder)

    # --- inside

    def _make_cursor(self) -> Cursor:
        made = Cursor(self.tape, make_simulation(self.tape, self._world), self._near_bytes)
        other = self._cursor or self._reader
        if other is not None and subject_of(other.simulation) is subject_of(made.simulation):
            self._was_handed_out = True  # The user's factory returns one object: each cursor moves it.
        return made

    def _target(self, tick: int | None, episode: int | None, step: int | None) -> int:
        """The tick that the arguments of seek select."""
        if episode is None:
            if tick is None or step is not None:
                raise TypeError("seek takes a tick, or an episode and a step: give one of the two")
            return tick
        if tick is not None:
            raise TypeError("seek takes a tick, or an episode and a step, not both: leave one out")
        episodes, number = self.episodes, operator.index(episode)
        if not -len(episodes) <= number < len(episodes):
            available = f"episodes 0 to {len(episodes) - 1}" if len(episodes) > 1 else "episode 0 alone"
            available = available if episodes else "no episodes"
            raise MissingEpisodeError(self.first_tick, f"there is no episode {number}: the tape has {available}")
        return episodes[number].tick_of(operator.index(step or 0))

    def absolute_tick(self, tick: int) -> int:
        """A tick that counts from the end as one that counts from the start. Raises TypeError, MissingTickError."""
        tick = operator.index(tick)  # Raises TypeError for a float or a text.
        first, last = self.first_tick, self.last_tick
        absolute = tick + last + 1 if tick < 0 else tick
        if not first <= absolute <= last:
            raise MissingTickError(tick, f"the tape has ticks {first} to {last}")
        return absolute

    def _go(
        self, cursor: Cursor, tick: int, progress: Progress | None = None, cancelled: Cancelled | None = None
    ) -> Arrival:
        try:
            if self._was_handed_out:
                cursor.reclaim()
            return cursor.seek(tick, progress, cancelled)
        except MismatchError as mismatch:
            if (arrival := cursor.take_recorded(tick, tells=True)) is not None:
                return arrival
            raise self.desync(mismatch, cursor) from None
        except (MemoryError, OSError, KeyboardInterrupt):
            self._forget(cursor)
            raise
        except SimulationFailedError as error:
            if isinstance(error.__cause__, MemoryError):
                self._forget(cursor)
            raise

    def _forget(self, cursor: Cursor) -> None:
        """Make a new simulation for the next call: this one may be restored or stepped by half, which no check tells."""
        if cursor is self._cursor:
            self._cursor = None
        else:
            self._reader = None

    def desync(self, mismatch: MismatchError, cursor: Cursor | None = None) -> DesyncError:
        """Find the first divergent tick up to the tick of the mismatch, which cursor met, and write a dump of it."""
        from replayer.desync.dump.dump import keep_dump  # noqa: PLC0415 - a seek that arrives does not need it
        from replayer.timeline.divergence.first_divergence import first_divergence  # noqa: PLC0415

        finding = first_divergence(cursor or self._make_cursor(), self._world, mismatch)
        path, finding = keep_dump(self._dump_folder, self.tape, finding)
        return DesyncError(finding.tick, finding.expected_hash, finding.actual_hash, path, finding)

    def close(self) -> None:
        """Close the tape, and that of the parent."""
        self.tape.close()
        if self._parent is not None:
            self._parent.close()
