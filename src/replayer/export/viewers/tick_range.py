"""The data of a viewer export: a range of a tape's ticks, with sampled states, each verified by its hash.

Reads only the requested data, tick by tick: memory does not grow with the tape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import numpy.typing as npt

from recorder.errors import CorruptError, MissingTickError, RecordingError, TornError
from recorder.exit_codes import CORRUPT, DIFFERS, INCOMPLETE, UsageError
from recorder.format.blocks.events_block import Event
from recorder.format.blocks.frame import Frame
from recorder.format.segments.block_location import KeyframeLocation
from replayer.desync.object_diff import MALFORMED, note_malformed, objects_in
from replayer.export.viewers.object_values import PATHS_MAX, Value, values_of
from replayer.export.viewers.user_hooks import UserHooks, shown_subject
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory, make_stepping
from replayer.playback.rebuild_events import rebuild_events
from replayer.playback.sampled_states import Missing, Walker
from replayer.search.watched_value import no_such_path
from replayer.status import worst_code
from replayer.tape.completeness import losses
from replayer.tape.fields import ensure_fields, shown_slots, world_of
from replayer.tape.tape import Tape
from replayer.value_text import tick_range
from sim.kernel.simulation import Simulation
from sim.kernel.state import Snapshot

if TYPE_CHECKING:
    from sim.adapters.object_view.object_tree import ObjectTree

STATE_BYTES_MAX = 256 << 20  # All states together, if no spacing is requested: viewers handle this size easily.

Arrays = Mapping[str, npt.NDArray[Any]]
OnProgress = Callable[[int], None]  # Called with the number of ticks done.


@attrs.frozen
class TickRangeRequest:
    """The data to export from a tape.

    Attributes:
        first, last: ticks of the range, both included; negative ones count from the end, None is the tape's own.
        every: ticks from one state to the next; None chooses a spacing that keeps all states below STATE_BYTES_MAX.
        fields: names of fields, or paths of values of captured objects; empty selects all but blobs and those of a
            scenario.
        keyframes: only the states of keyframes, for which no simulation is needed.
        with_rebuilt_events: rebuild the events that are not on the tape.
    """

    first: int | None = None
    last: int | None = None
    every: int | None = None
    fields: Sequence[str] = ()
    keyframes: bool = False
    with_rebuilt_events: bool = False


class TickRange:
    """A range of a tape, with the data that a request selects."""

    def __init__(self, tape: Tape, factory: Factory | None, request: TickRangeRequest) -> None:
        """Check the request and make the simulation.

        Raises MissingTickError for ticks that are not on the tape, UsageError for an unknown field, and as
        make_simulation does, unless only the states of keyframes are requested.
        """
        self.tape, self.request = tape, request
        self._factory = factory
        self.first = _absolute(tape, request.first, tape.first_tick)
        self.last = _absolute(tape, request.last, tape.last_tick)
        if self.first > self.last:
            raise MissingTickError(self.first, f"the range ends at tick {self.last}, before it begins")
        self._simulation = None if request.keyframes else make_stepping(tape, factory)
        # The world draws maps and points of its own states only: of a simulation that was made from the tape's META.
        is_from_meta = self._simulation is not None and factory is None
        self._world = world_of(tape) if is_from_meta else None
        self._config: Mapping[str, Any] = tape.meta["world"]["config"] if self._world is not None else {}
        self._notes: list[str] = []  # Of what is not in the file although the tape is intact.
        self._hooks = self._own_hooks()
        self.missing: list[Missing] = []
        self.problems: list[str] = []
        self._undecoded: list[int] = []  # First and last tick whose inputs cannot be decoded.
        self._tree_of: tuple[Snapshot, ObjectTree | None] | None = None
        self._has_more_values = False
        self.every, self.state_count = 1, 0  # Ticks from one state to the next; states yielded so far.
        self.ticks = self._ticks()

    @property
    def draws_itself(self) -> bool:
        """True if the world draws its maps: fields of two dimensions are no maps then."""
        return self._world is not None and self._world.layers is not None and not self.request.fields

    def _own_hooks(self) -> UserHooks | None:
        """The user's own methods that return maps and points; None if only fields are exported, or the world draws."""
        if self._simulation is None or self.request.fields or self.draws_itself:
            return None
        copy = make_stepping(self.tape, self._factory)
        hooks = UserHooks(copy, self.tape.first_tick)
        if not {"layers", "points"} & set(hooks.names):
            return None
        if shown_subject(copy) is shown_subject(self._simulation):  # A method would move the run itself.
            self._notes.append(
                "what layers() and points() return is not in the file: the factory returns one object each time"
            )
            return None
        return hooks

    def _ticks(self) -> Sequence[int]:
        """The ticks of the requested states."""
        if self.request.keyframes:
            ticks = sorted({place.tick for place in self.tape.keyframes})
            return [tick for tick in ticks if self.first <= tick <= self.last]
        self.every = self.request.every or self._spacing()
        return range(self.first, self.last + 1, self.every)

    def _spacing(self) -> int:
        """The default number of ticks from one state to the next, from the size of a keyframe's state."""
        for place in self.tape.keyframes:
            try:
                snapshot = self.tape.snapshot(place)
            except (CorruptError, TornError):
                continue
            shown = [self.fields(snapshot), self.layers(place.tick, snapshot)]
            size = sum(array.nbytes for arrays in shown for array in arrays.values())
            size += sum(
                value.nbytes if isinstance(value, np.ndarray) else 64 for value in self.values(snapshot).values()
            )
            return max(1, -(-size * (self.last - self.first + 1) // STATE_BYTES_MAX))
        return 1

    # --- single ticks

    def states(self, on_progress: OnProgress) -> Iterator[tuple[int, Snapshot]]:
        """Yield the states at self.ticks, ascending; unreachable ones are added to missing. Raises as __init__ does."""
        reached = self._states_of_keyframes() if self._simulation is None else self._simulated(self._simulation)
        checked = False
        for tick, snapshot in reached:
            if not checked:
                self._ensure_known(tick, snapshot)
                checked = True
            self.state_count += 1
            yield tick, snapshot
            on_progress(tick - self.first + 1)

    def _ensure_known(self, tick: int, snapshot: Snapshot) -> None:
        """Raise UsageError for a requested name that is neither a field nor the path of a value."""
        tree = self._objects(snapshot)
        unknown = [name for name in self.request.fields if tree is None or tree.find(name) is None]
        if tree is not None and (strange := [name for name in unknown if name not in list(snapshot)]):
            raise UsageError(no_such_path(tree, tick, strange[0]))
        ensure_fields(snapshot, unknown)

    def _simulated(self, simulation: Simulation) -> Iterator[tuple[int, Snapshot]]:
        cursor = Cursor(self.tape, simulation)
        walker = Walker(cursor)
        self.missing = walker.missing
        for tick, _ in walker.samples(self.ticks):
            yield tick, cursor.state.snapshot()

    def _states_of_keyframes(self) -> Iterator[tuple[int, Snapshot]]:
        for tick in self.ticks:
            place = self.tape.keyframe_at(tick)
            if place is None:  # Reading other keyframes has shown that the index is wrong.
                self.missing.append(Missing(tick, tick, "its keyframe is not where the index says"))
                continue
            try:
                snapshot = self.tape.snapshot(place)
            except (CorruptError, TornError) as error:
                self.missing.append(Missing(tick, tick, str(error)))
                continue
            yield tick, snapshot

    def fields(self, snapshot: Snapshot) -> Arrays:
        """The requested fields by name; rows in use only. Without a request, those of captured objects are left out."""
        names = [name for name in self.request.fields if name in list(snapshot)]
        if self.request.fields:
            return {name: snapshot[name] for name in names}
        tree = self._objects(snapshot)
        shown = [slot.name for slot in shown_slots(snapshot.layout)]
        return {name: snapshot[name] for name in shown if tree is None or name not in tree.fields}

    def values(self, snapshot: Snapshot) -> Mapping[str, Value]:
        """The requested values of captured objects by path; at most PATHS_MAX of them without a request."""
        paths = [name for name in self.request.fields if name not in list(snapshot)]
        tree = self._objects(snapshot)
        if tree is None or (self.request.fields and not paths):
            return {}
        found = values_of(tree, paths)
        try:
            values = dict(found if paths else islice(found, PATHS_MAX))
            self._has_more_values = self._has_more_values or (not paths and next(found, None) is not None)
        except MALFORMED as error:
            note_malformed(error)
            return {}
        return values

    def _objects(self, snapshot: Snapshot) -> ObjectTree | None:
        """The captured objects of a state, read once."""
        if self._tree_of is None or self._tree_of[0] is not snapshot:
            self._tree_of = (snapshot, objects_in(snapshot))
        return self._tree_of[1]

    def layers(self, tick: int, snapshot: Snapshot) -> Arrays:
        """Maps of a state, (height, width), by name: those of the world, or of the user's own method.

        They are empty if fields are requested by name.
        """
        if self.draws_itself and self._world is not None and self._world.layers is not None:
            return self._world.layers(self._config, snapshot)
        return self._hooks.layers(tick, snapshot) if self._hooks is not None else {}

    def points(self, tick: int, snapshot: Snapshot) -> Mapping[str, npt.NDArray[np.float64]]:
        """Positions on these maps, (count, 2), by kind: those of the world, or of the user's own method.

        They are empty if fields are requested by name.
        """
        if self._world is not None and self._world.points is not None and not self.request.fields:
            points = self._world.points(self._config, snapshot)
        else:
            points = self._hooks.points(tick, snapshot) if self._hooks is not None else {}
        return {kind: places[:, :2] for kind, places in points.items()}

    # --- all ticks of the range

    def frames(self) -> Iterator[Frame]:
        """Readable frames, ascending."""
        for run in self.tape.recording.runs(max(self.first, self.tape.first_tick + 1), self.last):
            yield from run.frames

    def inputs(self, frame: Frame) -> Any:
        """The inputs of the step to this frame's tick; None if they cannot be decoded, which losses then reports."""
        try:
            return frame.inputs
        except CorruptError:
            self._undecoded = [*self._undecoded[:1], frame.tick]
            return None

    def keyframes(self) -> Iterator[KeyframeLocation]:
        """Keyframes in the range."""
        return (place for place in self.tape.keyframes if self.first <= place.tick <= self.last)

    def telemetry(self) -> Arrays:
        """Columns of equal length, "tick" first; empty if there are none."""
        columns = self.tape.telemetry()
        inside = (columns["tick"] >= self.first) & (columns["tick"] <= self.last)
        return {name: values[inside] for name, values in columns.items()} if inside.any() else {}

    def events(self) -> Iterator[tuple[int, Event]]:
        """Events on the tape, and rebuilt ones if requested; a failure is added to problems."""
        if not self.request.with_rebuilt_events:
            yield from self.tape.events(self.first, self.last)
            return
        tick = self.first
        try:
            for tick, event in rebuild_events(self.tape, self._factory, self.first, self.last):
                yield tick, event
        except RecordingError as error:
            self.problems.append(f"the events of {tick_range(tick, self.last)}: {error}")

    # --- losses

    def losses(self) -> tuple[list[str], int]:
        """Lines about missing data, and the exit code; complete after the last state and event."""
        lines, code = losses(self.tape, with_events=False)
        if not self.request.with_rebuilt_events and self.tape.has_events:
            lost = [(a, b) for a, b in self.tape.missing_event_ticks() if a <= self.last and b >= self.first]
            self.problems += [f"no events for {tick_range(max(a, self.first), min(b, self.last))}" for a, b in lost]
        if self._undecoded:
            ticks = tick_range(self._undecoded[0], self._undecoded[-1])
            lines, code = [*lines, f"inputs that cannot be decoded, within {ticks}"], worst_code([code, CORRUPT])
        lines += [f"no state for {tick_range(gap.first_tick, gap.last_tick)}: {gap.why}" for gap in self.missing]
        lines += [*self.problems, *self._notes]
        own = self._hooks.problems.values() if self._hooks is not None else ()
        lines += [f"at tick {tick:,} and perhaps others, not in the file: {why}" for tick, why in own]
        if self._has_more_values:
            lines.append(f"the first {PATHS_MAX:,} values of each state are in the file; --field names others")
        codes = [code, *(DIFFERS if gap.is_desync else INCOMPLETE for gap in self.missing)]
        return list(dict.fromkeys(lines)), worst_code([*codes, *(INCOMPLETE for _ in self.problems)])


def _absolute(tape: Tape, tick: int | None, default: int) -> int:
    if tick is None:
        return default
    absolute = tick + tape.last_tick + 1 if tick < 0 else tick
    if not tape.first_tick <= absolute <= tape.last_tick:
        raise MissingTickError(tick, f"the tape has ticks {tape.first_tick} to {tape.last_tick}")
    return absolute
