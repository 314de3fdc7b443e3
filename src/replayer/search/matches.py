"""Find the ticks at which a condition holds.

Each state that a condition is asked about was re-simulated and has the recorded hash. A condition over telemetry, which
is on the tape, needs no step. Intervals are skipped only where a lookup proves that the condition cannot hold in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import attrs
import numpy as np

from recorder.errors import MissingTickError
from replayer.playback.sampled_states import Missing, Walker
from replayer.search.counted_cursor import CountedCursor
from replayer.search.expressions import Expression, parse_expression
from replayer.search.live_value import layers_of, property_text
from replayer.search.lookup.lookup import TapeLookup
from replayer.search.member import FindClass, loaded_classes
from replayer.search.names.value_names import ValueName
from replayer.search.neighbours import Neighbours, neighbours_of, no_such_value, unknown_name
from replayer.search.search_errors import ExpressionError, OtherKindError, UndefinedError
from replayer.search.state_values import (
    StateValues,
    figure_of,
    is_telemetry,
    is_tick,
)
from replayer.tape.fields import GRAPH_MARK
from replayer.tape.tape import Tape
from sim.kernel.simulation import subject_of
from sim.kernel.state import Snapshot, State

KEYFRAMES_ASKED = 16  # For a name that is in few states; each is read, and no step is simulated for it.
Which = Literal["all", "first", "last"]
Predicate = Callable[[Snapshot], Any]
Condition = str | Expression | Predicate
Progress = Callable[[int, int], None]  # Ticks decided so far, ticks in all.
MakeCursor = Callable[[], CountedCursor]


class UnprovedAnswerError(MissingTickError):
    """Ticks that could change the answer cannot be reached: it is not known."""


@attrs.frozen
class Matches:
    """The answer to "when does it hold?".

    Attributes:
        ticks: at which the condition holds, ascending; of "first" and "last" at most one.
        first_tick, last_tick: the range that was asked about.
        examined: the number of states that the condition was evaluated in.
        simulated: the number of steps run for that.
        intervals: the number of intervals, from keyframe to keyframe, that the answer is about.
        skipped_intervals: those of them that the tape's lookup file proves to hold no match: no step was run there.
        undefined: the number of states in which the condition had no value, as where there was nothing to reduce; it
            does not hold there.
        undefined_why: why it had none in the first of them; None if there is none.
        missing: ticks that could not be reached, and that could change the answer.
    """

    ticks: list[int]
    first_tick: int
    last_tick: int
    examined: int = 0
    simulated: int = 0
    intervals: int = 0
    skipped_intervals: int = 0
    undefined: int = 0
    undefined_why: str | None = None
    missing: list[Missing] = attrs.field(factory=list)

    @property
    def is_proved(self) -> bool:
        """False if a tick that could change the answer could not be reached."""
        return not self.missing

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The ticks as ranges, first and last."""
        runs: list[tuple[int, int]] = []
        for tick in self.ticks:
            if runs and runs[-1][1] == tick - 1:
                runs[-1] = (runs[-1][0], tick)
            else:
                runs.append((tick, tick))
        return runs

    def only(self) -> int | None:
        """The tick of "first" or "last"; None if there is none. Raises UnprovedAnswerError if that is not known."""
        if self.missing:
            one = self.missing[0]
            raise UnprovedAnswerError(one.first_tick, f"{one.why}; the condition may hold there", damaged=True)
        return self.ticks[0] if self.ticks else None


class Finder:
    """Asks one condition about the ticks of a tape."""

    def __init__(
        self, tape: Tape, make_cursor: MakeCursor, condition: Condition, lookup: TapeLookup | None = None
    ) -> None:
        """condition: an expression, or a function of a Snapshot. lookup: of the tape, to skip intervals.

        Raises ExpressionError for a text that is none.
        """
        self._tape, self._lookup = tape, lookup
        self._make_cursor = make_cursor
        self._condition = parse_expression(condition) if isinstance(condition, str) else condition
        self._names = self._condition.names if isinstance(self._condition, Expression) else frozenset[ValueName]()
        self._telemetry = _Telemetry(tape) if any(map(is_telemetry, self._names)) else None
        self._cursor: CountedCursor | None = None
        self._examined = self._undefined = self._intervals = self._skipped = 0
        self._undefined_why: str | None = None
        self._mismatches = 0  # States in which the condition cannot be asked of values of these kinds.
        self._asked, self._seen = set[ValueName](), set[ValueName]()
        self._neighbours: dict[ValueName, Neighbours] = {}
        self._known: dict[str, None] = {}  # Names in the states that were looked at first.
        self._find_class: FindClass | None = None

    def find(
        self, which: Which = "all", first: int | None = None, last: int | None = None, progress: Progress | None = None
    ) -> Matches:
        """Find all matches, the first or the last, from tick first to last, both included; by default all of the tape.

        Raises ExpressionError if a name is not there, or a value is no condition.
        """
        begin, end = self._tape.first_tick if first is None else first, self._tape.last_tick if last is None else last
        if self._is_on_the_tape():
            return self._by_telemetry(which, begin, end)
        self._ensure_names(begin, end)
        found, missing, done = [], [], 0
        for ticks in self._parts(begin, end, backwards=which == "last"):
            self._intervals += 1
            done += len(ticks)
            if self._is_ruled_out(ticks):
                self._skipped += 1
                continue
            in_part, lost = self._ask(ticks, stops=which == "first")
            if progress is not None:
                progress(done, end - begin + 1)
            if which == "last" and in_part:
                lost = [one for one in lost if one.last_tick > in_part[-1]]
            elif which == "first" and in_part:
                lost = [one for one in lost if one.first_tick < in_part[0]]
            found += in_part[-1:] if which == "last" else in_part
            missing += lost
            if found and which != "all":
                break
        return self._matches(found, begin, end, missing)

    def find_monotone(self, first: int | None = None, last: int | None = None) -> Matches:
        """The first match of a condition that stays true once it is: halve the keyframes, then walk one interval.

        The caller vouches that it stays true. If it does not, the answer may be a later tick, or none. Raises as find.
        """
        begin, end = self._tape.first_tick if first is None else first, self._tape.last_tick if last is None else last
        self._ensure_names(begin, end)
        parts = list(self._parts(begin, end, backwards=False))
        low, high = 0, len(parts) - 1  # The first match is in parts[low] at the earliest, in parts[high] at the latest.
        while low < high:
            middle = (low + high + 1) // 2
            found, missing = self._ask(parts[middle][:1], stops=True)
            if missing:
                return self._matches([], begin, end, missing)
            low, high = (low, middle - 1) if found else (middle, high)
        found, missing = self._ask(parts[low], stops=True)
        if not found and low + 1 < len(parts):  # It begins to hold exactly at the next keyframe.
            found, more = self._ask(parts[low + 1][:1], stops=True)
            missing += more
        return self._matches(found, begin, end, missing)

    def _matches(self, found: list[int], begin: int, end: int, missing: list[Missing]) -> Matches:
        """The answer. Raises ExpressionError if the condition could be asked nowhere, or a name of it is nowhere."""
        never = sorted(self._asked - self._seen, key=str)
        if never and not found and not missing and self._examined > end - begin:  # All of these ticks were looked at.
            raise ExpressionError(self._unknown(never[0], f" (ticks {begin:,} to {end:,})"))
        if self._mismatches and self._mismatches == self._examined and not self._skipped:
            raise ExpressionError(str(self._undefined_why))
        steps = self._cursor.steps if self._cursor is not None else 0
        counts = (self._examined, steps, self._intervals, self._skipped, self._undefined)
        return Matches(found, begin, end, *counts, self._undefined_why, missing)

    # --- states

    def _is_ruled_out(self, ticks: range) -> bool:
        """Return True if the lookup file proves that the condition holds at none of these ticks."""
        if self._lookup is None or not isinstance(self._condition, Expression):
            return False
        return self._lookup.rules_out(self._condition.tree, ticks)

    def _parts(self, begin: int, end: int, *, backwards: bool) -> Iterator[range]:
        """The range cut at keyframes, so that each part begins at one."""
        places = [place.tick for place in self._tape.keyframes if begin < place.tick <= end]
        starts = [begin, *dict.fromkeys(places)]
        parts = [range(start, stop) for start, stop in zip(starts, [*starts[1:], end + 1], strict=True)]
        return reversed(parts) if backwards else iter(parts)

    def _ask(self, ticks: range, *, stops: bool) -> tuple[list[int], list[Missing]]:
        """The ticks of a part at which the condition holds, and those that were not reached."""
        if self._cursor is None:
            self._cursor = self._make_cursor()
        walker, found = Walker(self._cursor), []
        for tick, _ in walker.samples(ticks):
            if self._holds(tick, self._cursor.state):
                found.append(tick)
                if stops:
                    break
        return found, walker.missing

    def _holds(self, tick: int, state: State) -> bool:
        self._examined += 1
        if not isinstance(self._condition, Expression):
            return self._function_holds(self._condition, state.snapshot())
        return self._evaluated(tick, self._values(tick, state))

    @staticmethod
    def _function_holds(condition: Callable[[Snapshot], Any], snapshot: Snapshot) -> bool:
        try:
            return bool(condition(snapshot))
        except AttributeError as error:
            if error.obj is snapshot:
                error.add_note(
                    "a function gets the fields of a state by name, as run.state has them, and no recorded objects: for values "
                    "inside objects write the condition as a text, such as 'len(units) > 12'"
                )
            raise

    def _evaluated(self, tick: int, values: Callable[[ValueName], Any]) -> bool:
        assert isinstance(self._condition, Expression)
        try:
            return self._condition.holds(values)
        except UndefinedError as error:
            if isinstance(error, OtherKindError):
                if not self._may_differ():
                    raise ExpressionError(f"{error} (tick {tick:,})") from None
                self._mismatches += 1
            self._undefined += 1
            self._undefined_why = self._undefined_why or f"{error} (tick {tick:,})"
            return False
        except ExpressionError as error:
            raise ExpressionError(f"{error} (tick {tick:,})") from None

    def _may_differ(self) -> bool:
        """Return True if values may be of other kinds at other ticks, as those of objects are; fields have one kind."""
        return self._cursor is not None and GRAPH_MARK in self._cursor.state.layout.slots

    def _values(self, tick: int, state: State) -> Callable[[ValueName], Any]:
        """The values of a state; notes which of them are asked for, and which are there."""
        values = self._state_values(tick, state)

        def noted(name: ValueName) -> Any:
            self._asked.add(name)
            value = values(name)
            self._seen.add(name)
            return value

        return noted

    def _state_values(self, tick: int, state: State) -> StateValues:
        assert self._cursor is not None
        if self._find_class is None:
            self._find_class = loaded_classes(layers_of(subject_of(self._cursor.simulation)))
        figures = self._telemetry.at(tick) if self._telemetry is not None else {}
        return StateValues(tick, state, figures, self._find_class)

    def _ensure_names(self, begin: int, end: int) -> None:
        """Raise ExpressionError for a name of which not even the first part is in the states that are looked at.

        These are the first one and those of keyframes; of objects, whose attributes may come and go, also the second and
        the last one. Of a name whose first part is there, the rest may be there at any tick.
        """
        if not self._names:
            return
        self._cursor = self._cursor or self._make_cursor()
        keyframes = [place.tick for place in self._tape.keyframes if begin <= place.tick <= end]
        spread = keyframes[:: max(1, len(keyframes) // KEYFRAMES_ASKED)]
        last = self._tape.keyframes[-1].tick
        unknown, looked = set(self._names), list[int]()
        for tick in dict.fromkeys((begin, last, *spread, min(begin + 1, end), end, self._tape.last_tick)):
            if looked and not self._may_differ() and tick != last:
                continue
            for reached, _ in Walker(self._cursor).samples([tick]):
                values = self._state_values(reached, self._cursor.state)
                unknown = {name for name in unknown if not self._begins(values, name)}
                self._known |= dict.fromkeys(values.names())
                self._note_neighbours(reached, values)
                looked.append(reached)
            if not unknown:
                return
        if unknown and self._known:
            where = f" ({', '.join(f'tick {tick:,}' for tick in looked[:4])}{', …' if len(looked) > 4 else ''})"
            raise ExpressionError(self._unknown(min(unknown, key=str), where))

    def _unknown(self, name: ValueName, where: str) -> str:
        """A line about a name that was not found. where: it was looked for."""
        told = property_text(subject_of(self._cursor.simulation), name) if self._cursor is not None else None
        return told or f"{no_such_value(name, list(self._known), self._neighbours.get(name))}{where}"

    def _note_neighbours(self, tick: int, values: StateValues) -> None:
        """Note what is next to the names that a state does not have, for a message."""
        for name in self._names:
            if not values.has(name) and name not in self._neighbours:
                found = neighbours_of(values.objects(), tick, name)
                if found is not None:
                    self._neighbours[name] = found

    def _begins(self, values: StateValues, name: ValueName) -> bool:
        """Return True if a state has a value of this name; of objects the value of its first part is enough."""
        if values.has(name):
            return True
        parts = range(1, len(name.steps)) if self._may_differ() else range(0)
        return any(values.has(ValueName(name.steps[:count])) for count in parts)

    # --- telemetry

    def _is_on_the_tape(self) -> bool:
        return bool(self._names) and all(is_telemetry(name) or is_tick(name) for name in self._names)

    def _by_telemetry(self, which: Which, begin: int, end: int) -> Matches:
        """Ask about the recorded figures; the ticks without figures are missing."""
        table = self._telemetry or _Telemetry(self._tape)
        ticks = range(begin, end + 1)
        unknown = [name for name in self._names if is_telemetry(name) and figure_of(name) not in table.columns]
        if unknown:
            raise ExpressionError(unknown_name(unknown[0], [f"telemetry.{name}" for name in table.columns]))
        found, missing = [], []
        for tick in reversed(ticks) if which == "last" else ticks:
            figures = table.at(tick)
            if not figures and self._telemetry is not None:
                missing.append(tick)
                continue
            self._examined += 1
            values = {name: tick if is_tick(name) else figures[figure_of(name)] for name in self._names}
            if self._evaluated(tick, values.__getitem__):
                found.append(tick)
                if which != "all":
                    break
        return self._matches(sorted(found), begin, end, _runs(sorted(missing)))


class _Telemetry:
    """The recorded figures of a tape, by tick."""

    def __init__(self, tape: Tape) -> None:
        self.columns = tape.telemetry()
        self._ticks = self.columns.get("tick", np.empty(0, np.int64))

    def at(self, tick: int) -> dict[str, Any]:
        """The figures of a tick; empty if there are none."""
        row = int(np.searchsorted(self._ticks, tick))
        if row == len(self._ticks) or self._ticks[row] != tick:
            return {}
        return {name: column[row].item() for name, column in self.columns.items()}


def _runs(ticks: list[int]) -> list[Missing]:
    """Ticks without figures as ranges."""
    missing: list[Missing] = []
    for tick in ticks:
        if missing and missing[-1].last_tick == tick - 1:
            missing[-1] = attrs.evolve(missing[-1], last_tick=tick)
        else:
            missing.append(Missing(tick, tick, "the tape has no telemetry of this tick"))
    return missing
