"""Two runs that have met again: the tick since which they differ in a few fields only, and if later steps read those.

That no step reads a field is tested, not proved for good: the steps up to the last tick are run again with other values in
it, and all other fields are compared at each tick.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from recorder.errors import SimulationFailedError
from replayer.diagnose.compare.spread import DifferenceSpread
from replayer.playback.cursor import Cursor
from sim.kernel.hooks import HasAdapter, hook
from sim.kernel.schema import COUNTS_FIELD, Field, Table
from sim.kernel.simulation import Simulation, inner_of
from sim.kernel.state import Snapshot, State

FEW_FIELDS = 3  # Runs that still differ in no more than these, counters apart, have met but for them.

Values = npt.NDArray[Any]
Progress = Callable[[int, int], None]


@attrs.frozen
class Meeting:
    """Two runs that differ in a few fields only.

    Attributes:
        since: from this tick on they differ in no other field.
        last_tick: the last tick that was compared.
        rows: the number of rows that differ at last_tick, by field.
        counters: those of the fields that their simulation declares to be counters.
    """

    since: int
    last_tick: int
    rows: dict[str, int]
    counters: tuple[str, ...]


@attrs.frozen
class ReadTrial:
    """The steps after a meeting, run with other values of one field.

    Attributes:
        field: its full name.
        first_tick, last_tick: of the steps.
        tried: the number of other values with which steps were run.
        read_at: the first tick at which another field differed, or whose step raised; None if none did.
        sign: the field that differed there, or what the step raised; None without read_at.
        not_tried: why no other values were tried; None if they were.
        as_recorded_from: with each of these values the field has the recorded one from this tick on; None if with one of
            them it differs to the end.
    """

    field: str
    first_tick: int
    last_tick: int
    tried: int
    read_at: int | None = None
    sign: str | None = None
    not_tried: str | None = None
    as_recorded_from: int | None = None


def declared_counters(simulation: Simulation) -> frozenset[str]:
    """Return the full names of the fields that a new simulation declares to be counters."""
    names: set[str] = set()
    for entry in simulation.state.layout.schema.entries:
        match entry:
            case Table(name=table):
                names |= {f"{table}.{column.name}" for column in entry.columns if column.counter}
            case Field(counter=True):
                names.add(entry.name)
    return frozenset(names)


def find_meeting(spread: DifferenceSpread, counters: Collection[str]) -> Meeting | None:
    """Return the tick since which two runs differ in a few fields only; None if at the last tick they differ in more.

    Few are FEW_FIELDS next to the counters, and if there are others, not as many as have differed at some tick.
    """
    if not spread.counts.size:
        return None
    last = {name: int(count) for name, count in zip(spread.fields, spread.counts[:, -1], strict=True) if count}
    others = [name for name in last if name not in counters]
    if not last or len(others) > FEW_FIELDS or (others and len(last) >= len(spread.fields)):
        return None
    apart = np.array([name not in last for name in spread.fields])
    differing = np.flatnonzero(spread.counts[apart].any(axis=0))
    since = spread.first_tick + (int(differing[-1]) + 1 if len(differing) else 0)
    return Meeting(since, spread.last_tick, last, tuple(name for name in last if name in counters))


def try_reads(
    meeting: Meeting, pair: tuple[Cursor, Cursor], make: Callable[[], Simulation], progress: Progress | None = None
) -> list[ReadTrial]:
    """Run the steps after a meeting with other values in each of its fields, where the two runs differ.

    pair: cursors of the two tapes; both are moved, and the second run is the one that is tried. make: makes another
    simulation for its tape. Raises RecordingError and MismatchError if a recorded state cannot be reached.
    """
    one, other = pair
    first, last = meeting.since, meeting.last_tick
    one.seek(first)
    other.seek(first)
    states = one.state.snapshot(), other.state.snapshot()
    repeats: bool | None = None
    trials: list[ReadTrial] = []
    for number, name in enumerate(meeting.rows):
        trial = _Trial(other, make, states[1], (first, last))
        why = _why_not(name, states, other.simulation, last - first)
        if why is None and repeats is None:
            repeats = trial.run(None, None).read_at is None
        if why is None and not repeats:
            why = "a simulation that is restored there does not repeat the steps"
        if why is not None:
            trials.append(ReadTrial(name, first + 1, last, 0, not_tried=why))
        else:
            differs = _differing(states[0][name], states[1][name])
            trials.append(_with_other_values(trial, name, _other_values(states[1][name], differs), (first + 1, last)))
        if progress is not None:
            progress(number + 1, len(meeting.rows))
    return trials


def _with_other_values(trial: _Trial, name: str, changed: Iterator[Values], ticks: tuple[int, int]) -> ReadTrial:
    tried, why, lasted = 0, "it has no other value to try", list[int | None]()
    for values in changed:
        outcome = trial.run(name, values)
        if outcome.not_loaded is not None:
            why = outcome.not_loaded
            continue
        tried += 1
        if outcome.read_at is not None:
            return ReadTrial(name, *ticks, tried, outcome.read_at, outcome.sign)
        lasted.append(outcome.as_recorded_from)
    if not tried:
        return ReadTrial(name, *ticks, 0, not_tried=why)
    known = [tick for tick in lasted if tick is not None]
    return ReadTrial(name, *ticks, tried, as_recorded_from=max(known) if len(known) == len(lasted) else None)


def _why_not(name: str, states: tuple[Snapshot, Snapshot], simulation: Simulation, steps: int) -> str | None:
    if not steps:
        return "the tapes have no later tick"
    if hook(inner_of(simulation), HasAdapter) is not None:
        return "it holds values of recorded objects"
    if name == COUNTS_FIELD or any(name not in state.layout.slots for state in states):
        return "the two runs have different fields or numbers of rows"
    left, right = (state[name] for state in states)
    if left.shape != right.shape or left.dtype != right.dtype:
        return "the two runs have different numbers of rows"
    if not _differing(left, right).any():
        return "it does not differ by value at the first of these ticks"
    return None


def _differing(left: Values, right: Values) -> npt.NDArray[np.bool_]:
    """Where two arrays differ by value; NaN is no other value than NaN."""
    both_nan = (left != left) & (right != right)  # noqa: PLR0124 - only NaN is not itself
    differs: npt.NDArray[np.bool_] = (left != right) & ~both_nan
    return differs


def _other_values(values: Values, differs: npt.NDArray[np.bool_]) -> Iterator[Values]:
    """Yield copies of a field with other values where it differs: one more, 97 more and half, or the negation of a bool.

    NaN counts as 0 there. Values far away are left out: a step may take a number for the length of a loop.
    """
    kind = values.dtype.type
    if kind is np.bool_:
        changes = [~values]
    else:
        numbers = np.where(values == values, values, kind(0))  # noqa: PLR0124 - only NaN is not itself
        with np.errstate(all="ignore"):
            half = numbers // kind(2) if values.dtype.kind in "iu" else numbers / kind(2)
            changes = [(numbers + kind(1)).astype(values.dtype), (numbers + kind(97)).astype(values.dtype), half]
    for change in changes:
        changed = np.where(differs, change, values).astype(values.dtype)
        if _differing(changed, values)[differs].all():
            yield changed


@attrs.frozen
class _Outcome:
    """What came of steps with other values; see ReadTrial.

    Attributes:
        not_loaded: why a state with these values could not be loaded: no step was run.
    """

    read_at: int | None = None
    sign: str | None = None
    not_loaded: str | None = None
    as_recorded_from: int | None = None


class _Trial:
    """Steps of one run with other values in one field, compared with the recorded ones."""

    def __init__(self, truth: Cursor, make: Callable[[], Simulation], state: Snapshot, ticks: tuple[int, int]) -> None:
        self._truth, self._make, self._state, self._ticks = truth, make, state, ticks

    def run(self, name: str | None, values: Values | None) -> _Outcome:
        """Run the steps, until another field differs or a step raises.

        name: the field that gets the values; None for a run with all values as they were.
        """
        first, last = self._ticks
        self._truth.seek(first)
        tried = Cursor(self._truth.tape, self._make())
        tried.compares = False
        try:
            not_loaded = self._load(tried, name, values)
            if not_loaded is not None:
                return _Outcome(not_loaded=not_loaded)
            as_recorded_from: int | None = None
            for tick in range(first + 1, last + 1):
                self._truth.advance()
                tried.advance()
                different = _other_difference(self._truth.state, tried.state, name)
                if different is not None:
                    return _Outcome(tick, different)
                if name is not None and not _same(self._truth.state[name], tried.state[name]):
                    as_recorded_from = None
                elif as_recorded_from is None:
                    as_recorded_from = tick
            return _Outcome(as_recorded_from=as_recorded_from)
        except SimulationFailedError as error:
            return _Outcome(error.tick, error.why or str(error))
        finally:
            tried.leave()

    def _load(self, tried: Cursor, name: str | None, values: Values | None) -> str | None:
        """Load the state with these values; return why it is not what the simulation has then. That is not a step's doing."""
        first = self._ticks[0]
        tried.put(first, self._state)
        if name is None or values is None:
            return None
        tried.state[name][...] = values
        tried.state.mark(name)
        try:
            tried.put(first, tried.state.snapshot())
        except SimulationFailedError as error:
            return f"a state with another value cannot be loaded: {error.why or error}"
        if not _same(tried.state[name], values):
            return "a load of the state sets it again"
        different = _other_difference(self._truth.state, tried.state, name)
        return None if different is None else f"a load of the state with another value changes {different}"


def _other_difference(one: State, other: State, name: str | None) -> str | None:
    """The first field, but for one, whose values differ."""
    for field in one:
        if field != name and not _same(one[field], other[field]):
            return field
    return None


def _same(one: Values, other: Values) -> bool:
    return one.shape == other.shape and one.tobytes() == other.tobytes()
