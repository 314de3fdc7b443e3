"""Repeat a period of a live run with copies of the simulation, and find out why they diverge from it.

A copy is restored from a state of the live run in one of these ways: a fresh instance in surroundings as they were
before the run (module globals restored, caches empty), an instance that has run elsewhere in surroundings as the live
run left them, a fresh instance that is read between its steps, or one with different environment variables.

Invariant: after a trial the surroundings are as the live run left them.
"""

from __future__ import annotations

import contextvars
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import attrs

from recorder.ambient.ambient import Ambient
from recorder.ambient.ambient_diff import Candidate, find_candidates
from recorder.ambient.object_walk import take_ambient
from recorder.ambient.roots import Roots, put_cache
from recorder.ambient.transplant import give_values, not_taken
from recorder.exception_text import comparable_error, raised_text
from replayer.desync.object_diff import are_equal
from replayer.diagnose.hidden_state.naming_lines import Line, lines_naming, lines_that_run
from replayer.diagnose.hidden_state.needed import needed_together
from replayer.diagnose.hidden_state.outside_sources import OutsideSources
from replayer.diagnose.hidden_state.periods import Period, TrialOutcome
from replayer.diagnose.hidden_state.readers import changed_by_reading
from replayer.diagnose.hidden_state.report import ENVIRONMENT, FRESH, READ, USED, Suspect
from replayer.playback.lost_on_load import lost_on_load
from sim.kernel.plain_data import decode_plain
from sim.kernel.simulation import Simulation, as_simulation, restore
from sim.kernel.state import Snapshot

CANDIDATES_MAX = 16  # Candidates tried one by one; each costs a repetition of the period.
VARYING_RUNS, EQUAL_RUNS = 6, 8  # A fair coin passes all of them once in 2**6, or 2**8 times.
CALL = "call"  # The first step of the path of a source.

Factory = Callable[[], Any]


class _ElsewhereError(Exception):
    """A step that the used instance runs elsewhere raised; the text tells it."""


class Trials:
    """Runs copies and judges the candidates."""

    def __init__(self, factory: Factory, roots: Roots, before: Ambient) -> None:
        """before: the surroundings before any simulation was made."""
        self._factory = factory
        self._roots = roots
        self._before = before
        self._context = contextvars.copy_context()
        self._sources = OutsideSources(roots)
        self._used: Simulation | None = None
        self.first: Period | None = None
        self.makes_unequal = False  # True if a second instance did not start like the live one.
        self._lines: dict[Line, None] | None = None  # Those that a copy runs, while they are watched.
        self.is_watching = True  # False: nothing is kept for comparison, since that changes the run.
        # True: what a copy held is not kept while it steps, as it was not in the run that is compared.
        self._lets_go = False

    def run(
        self, period: Period, way: str, put_back: Sequence[Candidate] = (), only: Sequence[str] | None = None
    ) -> TrialOutcome:
        """Let a copy run the period.

        put_back: the values that it gets from the live run. only: the readers to call, or the variables to change.
        """
        repeated = frozenset(path[0][1] for candidate in put_back for path in candidate.paths if path[0][0] == CALL)
        if repeated:
            # It may keep what it has read, as in a generator that it made with a seed from the system.
            self._used = None
        variables = (period.reads.variables if only is None else only) if way == ENVIRONMENT else ()
        context = self._context.copy() if way == FRESH else contextvars.copy_context()
        if way == FRESH:
            self._before.put_back()
        try:
            with (
                self._own_caches(are_empty=way == FRESH),
                _other_variables(variables) if variables else nullcontext(),
            ):
                return context.run(self._run, period, way, put_back, repeated, only)
        finally:
            period.after.put_back()

    def _run(
        self,
        period: Period,
        way: str,
        put_back: Sequence[Candidate],
        repeated: frozenset[str],
        only: Sequence[str] | None,
    ) -> TrialOutcome:
        action, ambient, count, unlike = "making or loading it", None, 0, frozenset[str]()
        given = [one for one in put_back if one.paths[0][0][0] != CALL]
        try:
            with self._sources.moved(period.reads):
                copy = self._elsewhere(period) if way == USED else as_simulation(self._factory())
                if way == FRESH and period is self.first and copy.state.hash() != period.start.hash():
                    self.makes_unequal = True
                restore(copy, period.start)
            ambient = take_ambient(self._roots, copy) if self.is_watching else None
            if ambient is not None and given:
                give_values(period.ambient, ambient, copy.state, given)
                unlike = not_taken(period.ambient, take_ambient(self._roots, copy), given)
                if self._lets_go:
                    ambient = None  # What it holds would live longer than in the run that is compared.
            if not _is_like(copy, period.start.hash(), period.start if given else None):
                return TrialOutcome(0, copy.state.snapshot(), "loading the state changed it", ambient)
            action = "the step"
            with self._sources.moved(period.reads, repeated) as unread:
                for count, inputs in enumerate(period.inputs, 1):
                    changed = changed_by_reading(copy, only) if way == READ else None
                    if changed is not None:
                        return TrialOutcome(count - 1, copy.state.snapshot(), f"{changed} changed the state", ambient)
                    with self._watched():
                        copy.step(decode_plain(inputs))
                    states = period.states if given else []
                    if not _is_like(copy, period.hashes[count - 1], states[count - 1] if states else None):
                        return TrialOutcome(count, copy.state.snapshot(), None, ambient, unlike | unread)
        except _ElsewhereError as error:
            self._used = None  # It stands amid a step.
            return TrialOutcome(0, None, str(error), is_elsewhere=True)
        except Exception as error:  # noqa: BLE001 - a copy that lacks a value may fail in any way: that is a finding
            return TrialOutcome(count, None, raised_text(action, error), ambient)
        return TrialOutcome(None, None, None, ambient)

    def is_disturbed(self, inputs: Sequence[bytes], period: Period) -> bool:
        """Return True if the live run is another one because it is watched: what is kept for comparison lives longer.

        Two runs that nothing watches then agree with each other, and neither with the live run nor with one more that is
        watched. inputs: of all its ticks.
        """
        hashes: list[int] = []
        for is_watched in (False, False, True):
            kept = []
            self._before.put_back()
            try:
                with self._own_caches():
                    again = as_simulation(self._factory())
                    for one in inputs:
                        if is_watched:
                            kept.append(take_ambient(self._roots, again))
                        again.step(decode_plain(one))
                    hashes.append(again.state.hash())
            except Exception:  # noqa: BLE001 - another instance in this process may fail in any way
                return False
            finally:
                period.after.put_back()
            if len(hashes) == 2 and (hashes[0] != hashes[1] or hashes[0] == period.hashes[-1]):
                return False
        return hashes[2] != hashes[0]

    def compared_later(self, inputs: Sequence[bytes], period: Period, way: str) -> list[Suspect]:
        """The suspects by the values of one more run up to a period, which goes no further: to keep them changes no step.

        inputs: of all ticks up to the period. Empty if that run is another one.
        """
        self._before.put_back()
        try:
            with self._own_caches():
                again = as_simulation(self._factory())
                for one in inputs:
                    again.step(decode_plain(one))
                known = attrs.evolve(period, ambient=take_ambient(self._roots, again))
        except Exception:  # noqa: BLE001 - another instance in this process may fail in any way
            return []
        finally:
            period.after.put_back()
        self.is_watching = self._lets_go = again.state.hash() == period.start.hash()
        try:
            outcome = self.run(known, way) if self.is_watching else None
            return [] if outcome is None or outcome.bad_count is None else self.suspects(known, way, outcome)[0]
        finally:
            self.is_watching = self._lets_go = False

    def lost(self, period: Period, way: str) -> str | None:
        """The field that a load() of the state at the start does not give back; None if none is known. way: of the copy."""
        if way == FRESH:
            self._before.put_back()
        try:
            with self._own_caches(are_empty=way == FRESH):
                copy = self._elsewhere(period) if way == USED else as_simulation(self._factory())
                restore(copy, period.start)
                return lost_on_load(copy)
        except Exception:  # noqa: BLE001 - of the user's code: the trial has told of it
            return None
        finally:
            period.after.put_back()

    def _elsewhere(self, period: Period) -> Simulation:
        """The used instance, after some ticks of a different part of the run."""
        first = self.first or period
        if self._used is None:
            self._used = as_simulation(self._factory())
        restore(self._used, first.start)
        for number, inputs in enumerate(first.inputs[: len(first.inputs) // 2 + 1], 1):
            try:
                self._used.step(decode_plain(inputs))
            except Exception as error:
                step = f"step {number} of those that it was to run elsewhere, restored at tick {first.start_tick},"
                raise _ElsewhereError(raised_text(step, error)) from error
        return self._used

    @contextmanager
    def _own_caches(self, *, are_empty: bool = True) -> Iterator[None]:
        """Put the caches of the simulation's modules back after the context, which may replace them.

        are_empty: it begins with empty ones in their place.
        """
        places = list(self._roots.caches())
        if are_empty:
            self._roots.empty_caches()
        try:
            yield
        finally:
            for place in places:
                put_cache(*place)

    def _watched(self) -> AbstractContextManager[None]:
        if self._lines is None:
            return nullcontext()
        files = (getattr(module, "__file__", None) for module in self._roots.modules.values())
        return lines_that_run(frozenset(file for file in files if file is not None), self._lines)

    def suspects(self, period: Period, way: str, outcome: TrialOutcome) -> tuple[list[Suspect], list[str]]:
        """The candidates that make the copy diverge, the most likely first, and the names of those without effect.

        A candidate is proved if restoring it alone makes the hashes equal. If none does that, several are proved together
        if restoring them does, and none of them can be left out; one of which that was not tried is a suspect. Where
        copies end in different ways, restoring it must make them equal each time: once may be chance.
        """
        candidates = self._candidates(period, outcome)
        tried = candidates[:CANDIDATES_MAX]
        alone = {id(candidate): self._alone(period, way, candidate) for candidate in tried}
        proved = {key for key, result in alone.items() if result.bad_count is None}
        together: list[Candidate] = []
        if len(candidates) > 1 and not proved and self.run(period, way, candidates).bad_count is None:
            together, untried = needed_together(
                candidates, CANDIDATES_MAX, lambda some: self.run(period, way, some).bad_count is None
            )
            proved = set(map(id, together)) - set(map(id, untried))
        if proved and self._varies(period, way, outcome):
            each_proved = [together] if together else [[one] for one in tried if id(one) in proved]
            kept = [ones for ones in each_proved if self._is_equal_each_time(period, way, ones)]
            proved &= {id(one) for ones in kept for one in ones}
        put_in = set(map(id, together)) if proved else set()
        harmless = [
            candidate
            for candidate in (candidates if put_in else tried)
            if id(candidate) not in proved | put_in
            and (proved or _has_no_effect(candidate, alone[id(candidate)], outcome))
        ]
        left = [candidate for candidate in candidates if id(candidate) not in proved and candidate not in harmless]
        left.sort(key=lambda candidate: id(candidate) not in alone or not _got_further(alone[id(candidate)], outcome))
        chosen = [*(one for one in candidates if id(one) in proved), *left]
        lines = self._lines_run(period, way) if chosen else {}
        suspects = [
            Suspect(
                one.name,
                one.kind,
                one.detail,
                proved=id(one) in proved,
                lines=() if _is_read(one) else lines_naming(one.name, lines),  # Of reads they are known.
                with_others=id(one) in proved and len(together) > 1,
            )
            for one in chosen
        ]
        return suspects, [candidate.name for candidate in harmless]

    def _lines_run(self, period: Period, way: str) -> dict[Line, None]:
        """The lines of the simulation's modules that a copy runs up to the step at which it diverges."""
        self._lines = {}
        self.run(period, way)
        lines, self._lines = self._lines, None
        return lines

    def _varies(self, period: Period, way: str, outcome: TrialOutcome) -> bool:
        """Return True if further copies do not all end as the first one: chance takes part, such as the order of threads."""
        ends = {end_of_trial(outcome)}
        for _ in range(VARYING_RUNS):
            ends.add(end_of_trial(self.run(period, way)))
        return len(ends) > 1

    def _is_equal_each_time(self, period: Period, way: str, put_back: Sequence[Candidate]) -> bool:
        return all(self.run(period, way, put_back).bad_count is None for _ in range(EQUAL_RUNS))

    def _alone(self, period: Period, way: str, candidate: Candidate) -> TrialOutcome:
        """The outcome of a copy that was given one candidate.

        What a step reads is given to another used instance, which must diverge without it.
        """
        if way == USED and _is_read(candidate):
            self._used = None
            if self.run(period, way).bad_count is None:
                return TrialOutcome(0, unlike=frozenset((candidate.name,)))
        return self.run(period, way, [candidate])

    def _candidates(self, period: Period, outcome: TrialOutcome) -> list[Candidate]:
        candidates = find_candidates(period.ambient, outcome.ambient) if outcome.ambient is not None else []
        for source in period.reads.sources.values():
            times = len(source.values)
            detail = (
                f"read {times} time{'' if times == 1 else 's'} in {len(period.inputs)} ticks, at {source.places_text()}"
            )
            candidates.append(Candidate(source.name, source.kind, detail, (((CALL, source.name),),)))
        return candidates

    def deciding(self, period: Period, way: str, names: Sequence[str]) -> list[str]:
        """The readers, or environment variables, that alone make a copy diverge; all, if none does alone."""
        alone = [name for name in names if self.run(period, way, only=[name]).bad_count is not None]
        return alone or list(names)


def _is_like(copy: Simulation, state_hash: int, state: Snapshot | None) -> bool:
    """Return True if a copy has a state: its hash, or, of a copy that was given values, the state itself, object by object."""
    is_equal = copy.state.hash() == state_hash
    return is_equal or (state is not None and are_equal(state, copy.state.snapshot()))


def end_of_trial(outcome: TrialOutcome) -> tuple[int | None, str | None, int | None]:
    """How a copy ended: when it first differed, with which note, and in which state."""
    return outcome.bad_count, comparable_error(outcome.note), None if outcome.state is None else outcome.state.hash()


@contextmanager
def _other_variables(variables: Iterable[str]) -> Iterator[None]:
    """Give environment variables different values in the context."""
    before = dict(os.environ)
    for name in variables:
        value = before.get(name)
        os.environ[name] = "1" if value is None else other_value(value)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def other_value(value: str) -> str:
    """A different value of the same kind: the next number, or a longer text."""
    try:
        return str(int(value) + 1)
    except ValueError:
        return f"{value}-other"


def _has_no_effect(candidate: Candidate, given: TrialOutcome, before: TrialOutcome) -> bool:
    """Return True if the copy got the live run's value, and diverged in the same way nevertheless."""
    if candidate.is_by_address or candidate.name in given.unlike or end_of_trial(given)[:2] != end_of_trial(before)[:2]:
        return False
    return given.state is not None and before.state is not None and given.state.hash() == before.state.hash()


def _is_read(candidate: Candidate) -> bool:
    return bool(candidate.paths) and candidate.paths[0][0][0] == CALL


def _got_further(outcome: TrialOutcome, before: TrialOutcome) -> bool:
    return (outcome.bad_count or 0) > (before.bad_count or 0)
