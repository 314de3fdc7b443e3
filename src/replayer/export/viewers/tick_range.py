"""What goes through a door: a range of a tape's ticks, with the states of some of them, each proved by its hash.

Reads only what is asked for, tick by tick, so that memory does not grow with the tape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from recorder.errors import CorruptError, MissingTickError, RecordingError, TornError
from recorder.exit_codes import CORRUPT, DIFFERS, INCOMPLETE
from recorder.format.blocks.events_block import Event
from recorder.format.blocks.frame import Frame
from recorder.format.segments.block_location import KeyframeLocation
from replayer.playback.cursor import Cursor
from replayer.playback.inert_simulation import StatesOnly
from replayer.playback.make_simulation import Factory, make_simulation
from replayer.playback.rebuild_events import rebuild_events
from replayer.playback.sampled_states import Missing, Walker
from replayer.status import worst_code
from replayer.tape.completeness import losses
from replayer.tape.fields import ensure_fields, shown_slots, world_of
from replayer.tape.tape import Tape
from replayer.value_text import tick_range
from sim.kernel.registry import UnknownWorldError
from sim.kernel.simulation import Simulation, inner_of
from sim.kernel.state import Snapshot

STATE_BYTES_MAX = 256 << 20  # Without a word about how many states, so many bytes of them: what a viewer takes at ease.

Arrays = Mapping[str, npt.NDArray[Any]]
Tell = Callable[[int], None]  # How many samples are done.


@attrs.frozen
class TickRangeRequest:
    """What is wanted of a tape.

    Attributes:
        first, last: tick of the range, both included; negative ones count from the end, None is the tape's own.
        every: so many ticks from one state to the next; None is as many as keep the states below STATE_BYTES_MAX.
        fields: whose; all but blobs and a scenario's own, if there are none.
        keyframes: only the states of keyframes, for which no simulation is needed.
        events_again: events that are not on the tape are made again.
    """

    first: int | None = None
    last: int | None = None
    every: int | None = None
    fields: Sequence[str] = ()
    keyframes: bool = False
    events_again: bool = False


class TickRange:
    """A tape, and what is wanted of it."""

    def __init__(self, tape: Tape, factory: Factory | None, wanted: TickRangeRequest) -> None:
        """Look at what there is.

        Raises MissingTickError for ticks that are not on the tape, UsageError for a field that there is not, and as
        make_simulation does, unless only the states of keyframes are wanted.
        """
        self.tape, self.wanted = tape, wanted
        self._factory = factory
        self.first = _absolute(tape, wanted.first, tape.first_tick)
        self.last = _absolute(tape, wanted.last, tape.last_tick)
        if self.first > self.last:
            raise MissingTickError(self.first, f"the range ends at tick {self.last}, before it begins")
        self._simulation = None if wanted.keyframes else _made(tape, factory)
        # What a world shows, it shows of its own states: those of a simulation that was made from the tape's own words.
        is_its_own = self._simulation is not None and factory is None
        self._world = world_of(tape) if is_its_own else None
        self._config: Mapping[str, Any] = tape.meta["world"]["config"] if self._world is not None else {}
        self.missing: list[Missing] = []
        self.problems: list[str] = []
        self._undecoded: list[int] = []  # First and last tick whose inputs cannot be decoded.
        self.every, self.given = 1, 0  # Ticks from one state to the next; states that could be had.
        self.ticks = self._ticks()

    def _ticks(self) -> Sequence[int]:
        """Of the states that are wanted."""
        if self.wanted.keyframes:
            ticks = sorted({place.tick for place in self.tape.keyframes})
            return [tick for tick in ticks if self.first <= tick <= self.last]
        self.every = self.wanted.every or self._spacing()
        return range(self.first, self.last + 1, self.every)

    def _spacing(self) -> int:
        """How many ticks from one state to the next, if nobody says; by the size of a keyframe's state."""
        for place in self.tape.keyframes:
            try:
                snapshot = self.tape.snapshot(place)
            except (CorruptError, TornError):
                continue
            shown = [self.fields(snapshot), self.layers(snapshot)]
            size = sum(array.nbytes for arrays in shown for array in arrays.values())
            return max(1, -(-size * (self.last - self.first + 1) // STATE_BYTES_MAX))
        return 1

    # --- of single ticks

    def states(self, tell: Tell) -> Iterator[tuple[int, Snapshot]]:
        """The states at self.ticks that can be had, ascending; what is missing is noted. Raises as Source does."""
        found = self._states_of_keyframes() if self._simulation is None else self._simulated(self._simulation)
        checked = False
        for tick, snapshot in found:
            if not checked:
                ensure_fields(snapshot, list(self.wanted.fields))
                checked = True
            self.given += 1
            yield tick, snapshot
            tell(tick - self.first + 1)

    def _simulated(self, simulation: Simulation) -> Iterator[tuple[int, Snapshot]]:
        cursor = Cursor(self.tape, simulation)
        walker = Walker(cursor)
        self.missing = walker.missing
        for tick, _ in walker.samples(self.ticks):
            yield tick, cursor.state.snapshot()

    def _states_of_keyframes(self) -> Iterator[tuple[int, Snapshot]]:
        for tick in self.ticks:
            place = self.tape.keyframe_at(tick)
            if place is None:  # Reading others has shown that the index lies.
                self.missing.append(Missing(tick, tick, "its keyframe is not where the index says"))
                continue
            try:
                snapshot = self.tape.snapshot(place)
            except (CorruptError, TornError) as error:
                self.missing.append(Missing(tick, tick, str(error)))
                continue
            yield tick, snapshot

    def fields(self, snapshot: Snapshot) -> Arrays:
        """The fields that are wanted, by name; live rows only."""
        names = [name for name in self.wanted.fields if name in list(snapshot)]
        if self.wanted.fields and not names:
            return {}
        return {name: snapshot[name] for name in names or (slot.name for slot in shown_slots(snapshot.layout))}

    def layers(self, snapshot: Snapshot) -> Arrays:
        """What the world shows as maps, (height, width), by name; nothing if only some fields are wanted."""
        if self._world is None or self._world.layers is None or self.wanted.fields:
            return {}
        return self._world.layers(self._config, snapshot)

    def points(self, snapshot: Snapshot) -> Mapping[str, npt.NDArray[np.float64]]:
        """Where things are on these maps, (count, 2), by kind; nothing if only some fields are wanted."""
        if self._world is None or self._world.points is None or self.wanted.fields:
            return {}
        return self._world.points(self._config, snapshot)

    # --- of all ticks of the range

    def frames(self) -> Iterator[Frame]:
        """Those that can be read, ascending."""
        for run in self.tape.recording.runs(max(self.first, self.tape.first_tick + 1), self.last):
            yield from run.frames

    def inputs(self, frame: Frame) -> Any:
        """What the step to this frame's tick was fed with; None, which is noted, if it cannot be decoded."""
        try:
            return frame.inputs
        except CorruptError:
            self._undecoded = [*self._undecoded[:1], frame.tick]
            return None

    def keyframes(self) -> Iterator[KeyframeLocation]:
        """Those in the range."""
        return (place for place in self.tape.keyframes if self.first <= place.tick <= self.last)

    def telemetry(self) -> Arrays:
        """Columns of equal length, "tick" first; empty if there are none."""
        columns = self.tape.telemetry()
        inside = (columns["tick"] >= self.first) & (columns["tick"] <= self.last)
        return {name: values[inside] for name, values in columns.items()} if inside.any() else {}

    def events(self) -> Iterator[tuple[int, Event]]:
        """Those on the tape, and the others, too, if they are to be made again; what cannot be had is noted."""
        if not self.wanted.events_again:
            yield from self.tape.events(self.first, self.last)
            return
        tick = self.first
        try:
            for tick, event in rebuild_events(self.tape, self._factory, self.first, self.last):
                yield tick, event
        except RecordingError as error:
            self.problems.append(f"the events of {tick_range(tick, self.last)}: {error}")

    # --- in the end

    def losses(self) -> tuple[list[str], int]:
        """What of the tape could not be had, in lines for people, and the exit code that this gives."""
        lines, code = losses(self.tape, with_events=False)
        if not self.wanted.events_again and self.tape.has_events:
            lost = [(a, b) for a, b in self.tape.missing_event_ticks() if a <= self.last and b >= self.first]
            self.problems += [f"no events of {tick_range(max(a, self.first), min(b, self.last))}" for a, b in lost]
        if self._undecoded:
            ticks = tick_range(self._undecoded[0], self._undecoded[-1])
            lines, code = [*lines, f"inputs that cannot be decoded, within {ticks}"], worst_code([code, CORRUPT])
        lines += [f"no state of {tick_range(one.first_tick, one.last_tick)}: {one.why}" for one in self.missing]
        lines += self.problems
        codes = [code, *(DIFFERS if one.is_desync else INCOMPLETE for one in self.missing)]
        return list(dict.fromkeys(lines)), worst_code([*codes, *(INCOMPLETE for _ in self.problems)])


def _absolute(tape: Tape, tick: int | None, otherwise: int) -> int:
    if tick is None:
        return otherwise
    wanted = tick + tape.last_tick + 1 if tick < 0 else tick
    if not tape.first_tick <= wanted <= tape.last_tick:
        raise MissingTickError(tick, f"the tape has ticks {tape.first_tick} to {tape.last_tick}")
    return wanted


def _made(tape: Tape, factory: Factory | None) -> Simulation:
    simulation = make_simulation(tape, factory)
    stands_in = inner_of(simulation)
    if isinstance(stands_in, StatesOnly):
        raise UnknownWorldError(stands_in.why)
    return simulation
