"""Repeat a stretch of a live run with copies of the simulation, and find out what makes them part from it.

A copy is restored from the state that the live run had, in one of these ways: a fresh instance in surroundings as they
were before the run (module globals put back, caches empty), an instance that has run elsewhere in surroundings as the
live run left them, a fresh instance that is read between its steps, or one with other environment variables.

Invariant: after a trial the surroundings are as the live run left them.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import attrs

from recorder.exception_text import raised_text
from replayer.diagnose.hidden_state.ambient import INSTANCE, Ambient, set_child
from replayer.diagnose.hidden_state.ambient_diff import Candidate, find_candidates
from replayer.diagnose.hidden_state.object_walk import take_ambient
from replayer.diagnose.hidden_state.outside_sources import Answers, OutsideSources
from replayer.diagnose.hidden_state.report import ENVIRONMENT, FRESH, READ, USED, Suspect
from replayer.diagnose.hidden_state.roots import Roots
from replayer.diagnose.hidden_state.transplant import Transplant
from sim.kernel.hooks import CanEnd, EmitsEvents, HasTelemetry, hook, member_name
from sim.kernel.plain_data import decode_plain
from sim.kernel.simulation import Simulation, as_simulation, emits_unrequested_events, inner_of, restore
from sim.kernel.state import Snapshot

CANDIDATES_MAX = 16  # So many are tried one by one; each costs a repetition of the period.
CALL = "call"  # How the path of a source begins.

Factory = Callable[[], Any]


@attrs.frozen(eq=False)
class Period:
    """A stretch of the live run, with what is needed to repeat it.

    Attributes:
        start_tick, start: where it begins, and the state there.
        ambient: what was outside of the state there.
        after: the surroundings at its end.
        inputs: of each tick, encoded.
        hashes: after each tick.
        states: after each tick; empty where they would be too large.
        answers: what the steps asked of the world outside.
    """

    start_tick: int
    start: Snapshot
    ambient: Ambient
    after: Ambient
    inputs: list[bytes]
    hashes: list[int]
    states: list[Snapshot]
    answers: Answers


@attrs.frozen(eq=False)
class TrialOutcome:
    """How a copy got on.

    Attributes:
        bad_count: how many steps it had taken when it first differed, 0 if the restored state did; None if it never did.
        state: its own at that moment.
        note: what it raised, or what else changed its state.
        ambient: what was outside of its state before its first step; None if it did not get there.
    """

    bad_count: int | None
    state: Snapshot | None = None
    note: str | None = None
    ambient: Ambient | None = None


class Trials:
    """All that is done with copies."""

    def __init__(self, factory: Factory, roots: Roots, before: Ambient) -> None:
        """before: the surroundings before there was any simulation."""
        self._factory = factory
        self._roots = roots
        self._before = before
        self._sources = OutsideSources(roots)
        self._used: Simulation | None = None
        self.first: Period | None = None
        self.makes_others = False  # A second instance did not begin as the live one did.

    def run(
        self, period: Period, way: str, put_back: Sequence[Candidate] = (), only: Sequence[str] | None = None
    ) -> TrialOutcome:
        """Let a copy go through the period.

        put_back: what it gets from the live run. only: these readers are called, or these variables have other values.
        """
        told_again = frozenset(path[0][1] for one in put_back for path in one.paths if path[0][0] == CALL)
        kept = [period.ambient.objects.get(path) for one in put_back if one.kind == "cache" for path in one.paths]
        variables = (period.answers.variables if only is None else only) if way == ENVIRONMENT else ()
        if way == FRESH:
            self._before.put_back()
        try:
            with (
                self._fresh_caches(kept) if way == FRESH else nullcontext(),
                _other_variables(variables) if variables else nullcontext(),
            ):
                return self._run(period, way, put_back, told_again, only)
        finally:
            period.after.put_back()

    def _run(
        self,
        period: Period,
        way: str,
        put_back: Sequence[Candidate],
        told_again: frozenset[str],
        only: Sequence[str] | None,
    ) -> TrialOutcome:
        what, ambient, count = "making or loading it", None, 0
        try:
            with self._sources.moved(period.answers):
                copy = self._elsewhere(period) if way == USED else as_simulation(self._factory())
                if way == FRESH and period is self.first and copy.state.hash() != period.start.hash():
                    self.makes_others = True
                restore(copy, period.start)
            ambient = take_ambient(self._roots, copy)
            self._give(period, copy, ambient, put_back)
            if copy.state.hash() != period.start.hash():
                return TrialOutcome(0, copy.state.snapshot(), "loading the state changed it", ambient)
            what = "the step"
            with self._sources.moved(period.answers, told_again):
                for count, inputs in enumerate(period.inputs, 1):
                    changed = _read(copy, only) if way == READ else None
                    if changed is not None:
                        return TrialOutcome(count - 1, copy.state.snapshot(), f"{changed} changed the state", ambient)
                    copy.step(decode_plain(inputs))
                    if copy.state.hash() != period.hashes[count - 1]:
                        return TrialOutcome(count, copy.state.snapshot(), None, ambient)
        except Exception as error:  # noqa: BLE001 - a copy that lacks something may fail in any way; that is a finding
            return TrialOutcome(count, None, raised_text(what, error), ambient)
        return TrialOutcome(None, None, None, ambient)

    def _elsewhere(self, period: Period) -> Simulation:
        """The used instance, after some ticks of another part of the run."""
        first = self.first or period
        if self._used is None:
            self._used = as_simulation(self._factory())
        restore(self._used, first.start)
        for inputs in first.inputs[: len(first.inputs) // 2 + 1]:
            self._used.step(decode_plain(inputs))
        return self._used

    def _give(self, period: Period, copy: Simulation, ambient: Ambient, put_back: Sequence[Candidate]) -> None:
        around = [path for one in put_back for path in one.paths if path[0][0] not in (INSTANCE, CALL)]
        if around:
            period.ambient.put_back(around)
        transplant = Transplant(period.ambient, ambient, copy.state)
        for one in put_back:
            if one.kind != "alias":
                for path in one.paths:
                    if path[0][0] == INSTANCE:
                        transplant.give(path)
        for one in put_back:
            if one.kind == "alias":
                transplant.join(*one.paths)

    @contextmanager
    def _fresh_caches(self, kept: Sequence[Any]) -> Iterator[None]:
        """Let every lru_cache of the simulation's modules be empty for a while, but for those that are kept."""
        fresh: dict[int, Any] = {}
        places = [place for place in self._roots.caches() if not any(place[2] is one for one in kept)]
        for holder, name, cache in places:
            if id(cache) not in fresh:
                fresh[id(cache)] = functools.lru_cache(**cache.cache_parameters())(cache.__wrapped__)
            _set(holder, name, fresh[id(cache)])
        try:
            yield
        finally:
            for holder, name, cache in places:
                _set(holder, name, cache)

    # --- who was it?

    def suspects(self, period: Period, way: str, outcome: TrialOutcome) -> list[Suspect]:
        """Who makes the copy part from the live run, the best first; what turned out harmless is left out.

        Proved is what alone makes the hashes equal when it is put back; or, where several take part, what keeps them
        from being equal when all but it is put back.
        """
        candidates = self._candidates(period, outcome)
        tried = candidates[:CANDIDATES_MAX]
        alone = {id(one): self.run(period, way, [one]) for one in tried}
        proved = {key for key, result in alone.items() if result.bad_count is None}
        together = len(candidates) > 1 and not proved and self.run(period, way, candidates).bad_count is None
        if together:
            proved = {id(one) for one in tried if self._is_needed(period, way, outcome, candidates, one)}
        innocent = [one for one in tried if proved and id(one) not in proved]
        left = [one for one in candidates if id(one) not in proved and one not in innocent]
        left.sort(key=lambda one: id(one) not in alone or not _got_further(alone[id(one)], outcome))
        found = [_suspect(one, proved=True) for one in tried if id(one) in proved]
        return [*found, *(_suspect(one, proved=False) for one in left)]

    def _is_needed(
        self, period: Period, way: str, outcome: TrialOutcome, candidates: Sequence[Candidate], one: Candidate
    ) -> bool:
        without = self.run(period, way, [other for other in candidates if other is not one])
        if without.state is None and outcome.state is not None:
            return False  # Half of what belongs together was put back, and the step fell over it.
        return without.bad_count is not None

    def _candidates(self, period: Period, outcome: TrialOutcome) -> list[Candidate]:
        found = find_candidates(period.ambient, outcome.ambient) if outcome.ambient is not None else []
        for asked in period.answers.asked.values():
            times = len(asked.answers)
            detail = f"asked {times} time{'' if times == 1 else 's'} in {len(period.inputs)} ticks, at {asked.place}"
            found.append(Candidate(asked.name, asked.kind, detail, (((CALL, asked.name),),)))
        return found

    def guilty(self, period: Period, way: str, names: Sequence[str]) -> list[str]:
        """Which readings, or environment variables, alone make a copy part from the live run; all, if none alone does."""
        alone = [name for name in names if self.run(period, way, only=[name]).bad_count is not None]
        return alone or list(names)


def reader_names(simulation: Simulation) -> list[str]:
    """The methods of a simulation that only tell something, as it is now."""
    inner = inner_of(simulation)
    kinds = (HasTelemetry, EmitsEvents, CanEnd) if emits_unrequested_events(simulation) else (HasTelemetry, CanEnd)
    names = [member_name(kind) for kind in kinds if hook(inner, kind) is not None]
    return [*names, *(["save"] if callable(getattr(inner, "save", None)) else [])]


def _read(copy: Simulation, readers: Sequence[str] | None) -> str | None:
    """Read all that can be read, and name what changed the state."""
    before = copy.state.hash()
    for name in copy.state:
        copy.state.field_hash(name)
    copy.state.snapshot()
    for name in reader_names(copy) if readers is None else readers:
        getattr(inner_of(copy), name)()
        if copy.state.hash() != before:
            return f"{name}()"
    return None


@contextmanager
def _other_variables(variables: Iterable[str]) -> Iterator[None]:
    """Let environment variables have other values for a while."""
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
    """Another value of the same kind: the next number, or a longer text."""
    try:
        return str(int(value) + 1)
    except ValueError:
        return f"{value}-other"


def _set(holder: Any, name: str, value: Any) -> None:
    set_child(holder, ("class" if isinstance(holder, type) else "global", name), value)


def _suspect(candidate: Candidate, *, proved: bool) -> Suspect:
    return Suspect(candidate.name, candidate.kind, candidate.detail, proved)


def _got_further(outcome: TrialOutcome, before: TrialOutcome) -> bool:
    return (outcome.bad_count or 0) > (before.bad_count or 0)
