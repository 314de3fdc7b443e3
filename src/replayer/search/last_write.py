"""Find the step that changed a value last before a tick: a watchpoint in reverse.

The intervals between keyframes are simulated one by one, the last first, and the value is compared after each step.
Keyframes alone prove nothing: a value may change and come back between two of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from recorder.errors import CorruptError, RecordingError, TornError
from replayer.playback.sampled_states import Missing, Walker
from replayer.search.counted_cursor import CountedCursor
from replayer.search.live_value import property_text
from replayer.search.lookup.interval_facts import ChangedRows
from replayer.search.lookup.lookup import TapeLookup
from replayer.search.lookup.unchanged_value import Steps
from replayer.search.names.value_names import ValueName
from replayer.search.neighbours import Neighbours, neighbours_of, no_such_value
from replayer.search.search_errors import ExpressionError
from replayer.search.state_values import StateValues
from replayer.search.watched_value import ABSENT, AskedValue, are_same
from replayer.search.written_line import WrittenLine, find_line
from replayer.tape.tape import Tape
from sim.kernel.schema import Layout
from sim.kernel.simulation import subject_of, watched_phases
from sim.kernel.state import Snapshot

Progress = Callable[[int, int], None]  # Ticks looked at so far, ticks in all.


@attrs.frozen
class LastWrite:
    """The last change of a value at or before a tick.

    Attributes:
        value: the name of the value.
        tick: the tick whose step changed it; None if no step after the first tick did.
        before, after: the value before that step and after it; ABSENT where there is none. Without a change, both are
            the value of the first tick.
        phase: the phase that changed it; None if none did, or the simulation has none that can be watched.
        line: the source line that changed it; None if that was not asked for or is not known, see line_note.
        line_note: why there is no line.
        inputs: the inputs of that tick.
        simulated: the number of steps run to find it.
        intervals: the number of intervals, from keyframe to keyframe, that were asked, the last one first.
        skipped_intervals: those of them that lookups show not to have changed the value: no step was run there.
        skipped_by_marks: those of them of which only the marks of the simulation say so, and equal values at both ends.
        missing: ticks after the answer that could not be reached: a later change may be among them.
    """

    value: str
    tick: int | None
    before: Any
    after: Any
    phase: str | None = None
    line: WrittenLine | None = None
    line_note: str | None = None
    inputs: Any = None
    simulated: int = 0
    intervals: int = 0
    skipped_intervals: int = 0
    skipped_by_marks: int = 0
    missing: list[Missing] = attrs.field(factory=list)

    @property
    def is_proved(self) -> bool:
        """False if a later change may be among ticks that could not be reached, or is ruled out by marks only."""
        return not self.missing and not self.skipped_by_marks


class WriteSearch:
    """Finds changes of one value, each time further back."""

    def __init__(
        self,
        tape: Tape,
        make_cursor: Callable[[], CountedCursor],
        watched: AskedValue,
        lookup: TapeLookup | None = None,
    ) -> None:
        """lookup: of the tape, to skip intervals."""
        self._tape, self._lookup = tape, lookup
        self._cursor = make_cursor()
        self._watched = watched
        self._layouts: dict[int, Layout] = {}

    def last(self, tick: int, progress: Progress | None = None, *, wants_line: bool = True) -> LastWrite:
        """The last change in the steps up to tick, included.

        Raises ExpressionError if there is no such value at tick nor at the first tick, MissingTickError if tick cannot be reached.
        """
        start = self._cursor.steps
        self._ensure_exists(tick)
        stop, missing, skipped, by_marks = tick, list[Missing](), 0, 0
        for number, begin in enumerate(self._starts(tick)):
            is_shown = self._is_unchanged(begin, stop)
            if is_shown or self._is_unmarked(begin, stop):
                stop, skipped, by_marks = begin, skipped + 1, by_marks + (not is_shown)
                continue
            change, lost = self._last_in(begin, stop)
            missing += [one for one in lost if change is None or one.last_tick > change[0]]
            if progress is not None:
                progress(tick - begin, tick - self._tape.first_tick)
            if change is not None:
                found = self._described(*change, wants_line=wants_line)
                steps = self._cursor.steps - start
                return attrs.evolve(
                    found,
                    simulated=steps,
                    intervals=number + 1,
                    skipped_intervals=skipped,
                    skipped_by_marks=by_marks,
                    missing=missing,
                )
            stop = begin
        value = self._value_at(self._tape.first_tick)
        steps, count = self._cursor.steps - start, len(self._starts(tick))
        return LastWrite(
            str(self._watched),
            None,
            value,
            value,
            simulated=steps,
            intervals=count,
            skipped_intervals=skipped,
            skipped_by_marks=by_marks,
            missing=missing,
        )

    def _is_unchanged(self, begin: int, stop: int) -> bool:
        """Return True if the lookup file, or the change log, shows that the steps after begin, up to stop, kept the value."""
        if self._lookup is None:
            return False
        if self._keep(self._lookup.changed_rows(begin + 1, stop), begin):
            return True
        is_path = not self._watched.row and self._watched.entity is None
        if is_path and self._lookup.keeps_path(str(self._watched.name), begin + 1, stop):
            return True
        return self._lookup.logged.is_proof and self._is_unlogged(begin, stop)

    def _is_unmarked(self, begin: int, stop: int) -> bool:
        """Return True if these steps have not marked the value as written, and it is equal at both ends of them.

        A change log with chained hashes has what was marked.
        """
        if self._lookup is None:
            return False
        is_unmarked = self._keep(self._lookup.written_rows(begin + 1, stop), begin) or (
            not self._lookup.logged.is_proof and self._is_unlogged(begin, stop)
        )
        return is_unmarked and self._has_equal_ends(begin, stop)

    def _is_unlogged(self, begin: int, stop: int) -> bool:
        """Return True if the change log does not have the value, and leads to what is recorded of each tick.

        The step to a state with another layout is in no log: the value is compared at both ends.
        """
        assert self._lookup is not None
        logged = self._lookup.logged
        if not logged:
            return False
        rows, last = self._logged_rows(begin, stop), stop
        if not rows:
            first, end = self._keyframe(begin), self._keyframe(stop)
            if first is None or end is None or first.layout.hash_seed == end.layout.hash_seed:
                return False
            if not are_same(self._watched.read(begin, first), self._watched.read(stop, end)):
                return False
            rows, last = self._logged_rows(begin, stop - 1), stop - 1
        return last == begin or (self._keep(rows, begin) and logged.is_right(begin, last))

    def _logged_rows(self, begin: int, stop: int) -> list[ChangedRows]:
        """The rows that the change log has for the steps after begin, up to stop."""
        assert self._lookup is not None
        logged = self._lookup.logged
        found = logged.changed_rows(begin + 1, stop, self._layouts)
        if not found:
            self._keyframe(begin)  # Its layout may be one that was not met yet.
            found = logged.changed_rows(begin + 1, stop, self._layouts)
        return found

    def _keep(self, changed: list[ChangedRows], begin: int) -> bool:
        """Return True if steps after begin that changed these rows have left the value as it was."""
        watched = self._watched
        if not changed or any(one.layout is None for one in changed):
            return False
        is_known = all(one.layout in self._layouts for one in changed)
        before = None if is_known and watched.entity is None else self._keyframe(begin)
        steps = Steps(changed, self._layouts)
        if watched.entity is None or watched.id_column is None:
            return steps.keep(watched.name, watched.row)
        if before is None:
            return False
        place = watched.place_in(begin, before)
        return steps.keep_entity(watched.name, watched.id_column, None if place is None else place[0])

    def _has_equal_ends(self, begin: int, stop: int) -> bool:
        """Return True if the value is equal at both ends of steps that, by their marks, have not written it.

        If it is not, a write has no mark: the marks of this tape are not used any more.
        """
        assert self._lookup is not None
        first, last = self._keyframe(begin), self._keyframe(stop)
        if first is None or last is None:
            return False
        if are_same(self._watched.read(begin, first), self._watched.read(stop, last)):
            return True
        self._lookup.distrust_marks(
            f"{self._tape.path}: {self._watched} differs at ticks {begin:,} and {stop:,}, and no step marked it as written"
        )
        return False

    def _keyframe(self, tick: int) -> Snapshot | None:
        """The state of a keyframe, whose layout is known from then on; None if it cannot be read."""
        place = self._tape.keyframe_at(tick)
        try:
            snapshot = None if place is None else self._tape.snapshot(place)
        except (CorruptError, TornError):
            return None
        if snapshot is not None:
            self._layouts[snapshot.layout.hash_seed] = snapshot.layout
        return snapshot

    def _ensure_exists(self, tick: int) -> None:
        """Raise ExpressionError for a name that neither the state of tick nor the first one has."""
        names = {name for name in (self._watched.name, self._watched.id_column) if name is not None}
        known: list[str] = []
        near: dict[ValueName, Neighbours | None] = {}
        for reached in (tick, self._tape.first_tick):
            self._cursor.seek(reached)
            values = StateValues(reached, self._cursor.state, {})
            self._layouts[self._cursor.state.layout.hash_seed] = self._cursor.state.layout
            self._watched.read(reached, self._cursor.state)  # Raises ExpressionError for a row that no array has.
            known = known or list(values.names())
            names = {name for name in names if not values.has(name)}
            near = {name: near.get(name) or neighbours_of(values.objects(), reached, name) for name in names}
            if not names:
                return
        told = property_text(subject_of(self._cursor.simulation), self._watched.name)
        if told is not None:
            raise ExpressionError(told)
        ticks = f"tick {tick:,}, tick {self._tape.first_tick:,}"
        name = min(names, key=str)
        raise ExpressionError(f"{no_such_value(name, known, near[name])} ({ticks})")

    def _starts(self, tick: int) -> list[int]:
        """The ticks of the keyframes before tick, the last first."""
        places = [place.tick for place in self._tape.keyframes if place.tick < tick]
        return list(dict.fromkeys(reversed(places)))

    def _last_in(self, begin: int, stop: int) -> tuple[tuple[int, Any, Any] | None, list[Missing]]:
        """The last change in the steps from begin to stop, as tick, value before and after; and ticks not reached."""
        walker = Walker(self._cursor)
        change: tuple[int, Any, Any] | None = None
        before, last_tick = ABSENT, None
        for tick, _ in walker.samples(range(begin, stop + 1)):
            value = self._watched.read(tick, self._cursor.state)
            if last_tick == tick - 1 and not are_same(before, value):
                change = (tick, before, value)
            before, last_tick = value, tick
        return change, walker.missing

    def _value_at(self, tick: int) -> Any:
        self._cursor.seek(tick)
        return self._watched.read(tick, self._cursor.state)

    def _described(self, tick: int, before: Any, after: Any, *, wants_line: bool) -> LastWrite:
        """The change with its phase, its line and the inputs of its tick."""
        self._cursor.seek(tick - 1)
        start = self._cursor.state.snapshot()
        frame = self._tape.frame(tick)
        line, note = None, None
        if wants_line:
            line, note = find_line(self._cursor.simulation, frame.inputs, tick, self._watched, before, after)
        phase = self._phase(tick, start)
        return LastWrite(str(self._watched), tick, before, after, phase, line, note, frame.inputs)

    def _phase(self, tick: int, start: Snapshot) -> str | None:
        """The phase that changed the value last; None if the step changed it outside of its phases, or has none."""
        reading = self._watched.read(tick, start)
        last: str | None = None

        def look(phase: str | None) -> None:
            nonlocal reading, last
            now = self._watched.read(tick, self._cursor.state)
            if not are_same(reading, now):
                last = phase
            reading = now

        try:
            with watched_phases(self._cursor.simulation, look, lambda _: look(None)):
                self._cursor.advance()
            look(None)
        except (TypeError, RecordingError):  # It has no phases, or they cannot be replaced.
            return None
        finally:
            self._cursor.leave()
        return last
