"""Prove that a simulation's state is all that its steps read, or name what else they read.

A live run is stopped every few ticks; its state is restored into a fresh instance and into one that has run elsewhere,
and both go on beside it with the same inputs. Where a hash differs, something outside of the state takes part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

import attrs

from recorder.errors import RecordingError, SimulationFailedError
from recorder.exception_text import raised_text
from replayer.desync.state_diff import compare_states
from replayer.diagnose.hidden_state.ambient import Ambient
from replayer.diagnose.hidden_state.ambient_diff import find_candidates
from replayer.diagnose.hidden_state.object_walk import take_ambient
from replayer.diagnose.hidden_state.outside_sources import Answers, OutsideSources
from replayer.diagnose.hidden_state.report import (
    ENVIRONMENT,
    FRESH,
    MARKS,
    READ,
    USED,
    Suspect,
    SyncFinding,
    SyncReport,
    report_lines,
)
from replayer.diagnose.hidden_state.roots import Roots
from replayer.diagnose.hidden_state.trials import Factory, Period, TrialOutcome, Trials, reader_names
from replayer.playback.make_simulation import UnfitSimulationError
from sim.kernel.changes.row_changes import AuditedChanges, UnmarkedWriteError
from sim.kernel.hooks import marks_its_writes
from sim.kernel.plain_data import encode_plain
from sim.kernel.simulation import ArenaOfSaved, as_simulation, end_of, inner_of
from sim.kernel.state import Snapshot

TICKS = 200
PERIOD_TICKS = 8
STATES_BYTES_MAX = 256 << 20  # Larger periods keep only hashes, so that a finding cannot say which rows differ.

Inputs = Callable[[int], Any] | Iterable[Any] | Mapping[int, Any] | None
Progress = Callable[[int, int], None]  # Ticks done, ticks in all.


class SyncTest:
    """A test of one simulation, run as often as one likes."""

    def __init__(
        self, factory: Factory, inputs: Inputs = None, *, ticks: int = TICKS, period_ticks: int = PERIOD_TICKS
    ) -> None:
        """factory: makes a simulation, again and again the same.

        inputs: from a tick (1 is the first) to what leads to it, or a mapping by tick, or all of them in their order,
        which then say how far the run goes at most; plain data.
        ticks: how far the live run goes, unless it ends before. period_ticks: how often it is stopped; every second
        period or so is a tick longer, so that what comes and goes with the ticks is met at all its moments.
        Raises ValueError for numbers below 1, TypeError if factory cannot be called or inputs are nothing of the kind.
        """
        if not callable(factory):
            raise TypeError(f"{type(factory).__name__} cannot be called: a class or a function that makes a simulation")
        if ticks < 1 or period_ticks < 1:
            raise ValueError(f"ticks={ticks}, period_ticks={period_ticks}: at least 1 was expected")
        self._factory = factory
        self._inputs_of: Callable[[int], Any]
        if inputs is None:
            self._inputs_of = lambda _: None
        elif callable(inputs):
            self._inputs_of = inputs
        elif isinstance(inputs, Mapping):
            self._inputs_of = inputs.get
        else:
            listed = list(islice(inputs, ticks))
            self._inputs_of = lambda tick: listed[tick - 1]
            ticks = len(listed)
        self._ticks = ticks
        self._period_ticks = period_ticks

    def run(self, progress: Progress | None = None) -> SyncReport:
        """Run it up to the first bad period and say what was found.

        Raises UnfitSimulationError if factory makes no simulation, SimulationFailedError if the live run raises, and
        TypeError, ValueError or OverflowError if inputs are no plain data.
        """
        run = _Run(self._factory)
        starts = [0]
        while starts[-1] < self._ticks:
            starts.append(min(self._ticks, _start(len(starts), self._period_ticks)))
        for start_tick, end_tick in pairwise(starts):
            inputs = [self._inputs_of(tick) for tick in range(start_tick + 1, end_tick + 1)]
            goes_on = run.check(start_tick, inputs)
            if progress is not None:
                progress(run.tick, self._ticks)
            if not goes_on:
                break
        return run.report()

    def assert_ok(self) -> SyncReport:
        """Run it; for tests. Raises AssertionError with the whole text if anything was found."""
        report = self.run()
        if not report.ok:
            name = getattr(self._factory, "__qualname__", repr(self._factory))
            raise AssertionError("\n".join(report_lines(name, report)))
        return report


def _start(number: int, period_ticks: int) -> int:
    """Where a period begins: about every period_ticks, at any remainder for any modulus in the long run."""
    return number if period_ticks == 1 else number * period_ticks + number * 618_034 // 1_000_000


class _Run:
    """One run of a test."""

    def __init__(self, factory: Factory) -> None:
        self._roots = Roots(factory)
        before = take_ambient(self._roots, None)
        try:
            self._live = as_simulation(_made(factory))
        except TypeError as error:
            raise UnfitSimulationError(str(error)) from error
        types = take_ambient(self._roots, self._live).types
        self._roots.add_types(types)
        for path, content in (found := take_ambient(self._roots, None)).contents.items():
            if path not in before.contents:  # Modules that only the instances led to.
                before.contents[path] = content
                before.objects[path] = found.objects.get(path)
        self._sources = OutsideSources(self._roots)
        self._trials = Trials(factory, self._roots, before)
        self._audit: AuditedChanges | None = None
        self._audited: Any = None
        self._whole = found.is_whole
        self._restores = 0
        self._findings: list[SyncFinding] = []
        self._moves: set[str] = set()  # Names of what moved in the live run.
        self._unrestored: dict[str, tuple[str, int]] = {}  # What copies found otherwise: kind, and where first.
        self._last: Ambient | None = None
        self.tick = 0

    def report(self) -> SyncReport:
        """What is known by now."""
        guilty = {suspect.name for finding in self._findings for suspect in finding.suspects}
        notes = [] if self._whole else ["there is more outside of the state than was looked at"]
        if self._trials.makes_others:
            notes.append("another instance does not begin as the live one did: making it depends on something else")
        return SyncReport(
            tick_count=self.tick,
            restore_count=self._restores,
            findings=sorted(self._findings, key=lambda finding: finding.tick),
            moves=[
                name
                for name, (kind, _) in self._unrestored.items()
                if name not in guilty and (name in self._moves or kind == "alias")
            ],
            notes=notes,
        )

    def check(self, start_tick: int, inputs: Sequence[Any]) -> bool:
        """Run one period live and repeat it in every way; say whether the run goes on."""
        period, ended = self._live_period(start_tick, inputs)
        self._trials.first = self._trials.first or period
        found = [finding for way in (FRESH, USED) if (finding := self._repeat(period, way)) is not None]
        if not found and reader_names(self._live):
            found = self._check_reading(period)
        if not found and period.answers.variables:
            found = self._check_environment(period)
        self._findings += found
        return not found and not ended

    # --- the live run

    def _live_period(self, start_tick: int, inputs: Sequence[Any]) -> tuple[Period, bool]:
        live = self._live
        start, ambient = live.state.snapshot(), take_ambient(self._roots, live)
        self._whole = self._whole and ambient.is_whole
        if self._last is not None:
            self._moves |= {candidate.name for candidate in find_candidates(self._last, ambient)}
        self._last = ambient
        answers, encoded, ended = Answers(), [], False
        hashes: list[int] = []
        states: list[Snapshot] = []
        with self._sources.counted(answers):
            for given in inputs:
                encoded.append(encode_plain(given))
                self._step(given)
                hashes.append(live.state.hash())
                if live.state.layout.size_bytes * len(inputs) <= STATES_BYTES_MAX:
                    states.append(live.state.snapshot())
                ended = self._has_ended()
                if ended:
                    break
        after = take_ambient(self._roots, None)
        return Period(start_tick, start, ambient, after, encoded, hashes, states, answers), ended

    def _step(self, given: Any) -> None:
        live = self._live
        if marks_its_writes(live) and not isinstance(live, ArenaOfSaved) and self._audited is not live.state:
            self._audit, self._audited = AuditedChanges(live.state), live.state
        if self._audit is not None:
            self._audit.reset(live.state.snapshot())
        try:
            live.step(given)
        except Exception as error:
            raise SimulationFailedError(self.tick + 1, raised_text("the step", error)) from error
        self.tick += 1
        if self._audit is None or self._audited is not live.state:
            return
        try:
            self._audit.changed_rows()
        except UnmarkedWriteError as error:
            owner = type(live).__qualname__
            suspect = Suspect(f"{owner}.step", "unmarked write", str(error), proved=True)
            self._findings.append(SyncFinding(self.tick, self.tick - 1, MARKS, None, None, [], [suspect]))
            self._audit.close()
            self._audit = None  # Once is enough; it would be the same at every tick.

    def _has_ended(self) -> bool:
        return end_of(self._live) is not None

    # --- the copies

    def _repeat(self, period: Period, way: str) -> SyncFinding | None:
        outcome = self._trials.run(period, way)
        self._restores += 1
        differing = find_candidates(period.ambient, outcome.ambient) if outcome.ambient is not None else []
        for one in differing:
            self._unrestored.setdefault(one.name, (one.kind, period.start_tick))
        if outcome.bad_count is None:
            return None
        suspects = [self._since(suspect) for suspect in self._trials.suspects(period, way, outcome)]
        return _finding(period, way, outcome, suspects)

    def _since(self, suspect: Suspect) -> Suspect:
        """A broken alias may show its effect long after the first load that broke it."""
        if suspect.kind != "alias":
            return suspect
        return attrs.evolve(suspect, detail=f"{suspect.detail}, seen first at tick {self._unrestored[suspect.name][1]}")

    def _check_reading(self, period: Period) -> list[SyncFinding]:
        outcome = self._trials.run(period, READ)
        self._restores += 1
        if outcome.bad_count is None:
            return []
        owner = type(inner_of(self._live)).__qualname__
        suspects = [
            Suspect(f"{owner}.{name}()", "reading", "the run goes on otherwise once it was called", proved=True)
            for name in self._trials.guilty(period, READ, reader_names(self._live))
        ]
        return [_finding(period, READ, outcome, suspects)]

    def _check_environment(self, period: Period) -> list[SyncFinding]:
        outcome, places = self._trials.run(period, ENVIRONMENT), period.answers.variables
        self._restores += 1
        if outcome.bad_count is None:
            return []
        suspects = [
            Suspect(
                f"os.environ[{name!r}]", "environment variable", f"read in the step, at {places[name]}", proved=True
            )
            for name in self._trials.guilty(period, ENVIRONMENT, list(places))
        ]
        return [_finding(period, ENVIRONMENT, outcome, suspects)]


def _made(factory: Factory) -> Any:
    try:
        return factory()
    except RecordingError:
        raise
    except Exception as error:
        raise UnfitSimulationError(raised_text("making the simulation", error)) from error


def _finding(period: Period, way: str, outcome: TrialOutcome, suspects: list[Suspect]) -> SyncFinding:
    count = outcome.bad_count
    assert count is not None
    live = period.start if count == 0 else period.states[count - 1] if period.states else None
    expected = period.start.hash() if count == 0 else period.hashes[count - 1]
    return SyncFinding(
        tick=period.start_tick + count,
        start_tick=period.start_tick,
        way=way,
        expected_hash=expected if outcome.state is not None else None,
        actual_hash=outcome.state.hash() if outcome.state is not None else None,
        differences=compare_states(live, outcome.state) if live is not None and outcome.state is not None else [],
        suspects=suspects,
        note=outcome.note,
    )
