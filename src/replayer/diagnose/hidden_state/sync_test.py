"""Test that a simulation's steps read nothing but its state, or name the hidden state that they read.

A live run is stopped every few ticks. Its state is restored into a fresh instance and into one that has run elsewhere,
and both continue with the same inputs. If a hash differs, something outside the state takes part in the step.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

import attrs

from recorder.ambient.ambient import Ambient
from recorder.ambient.ambient_diff import find_candidates
from recorder.ambient.object_walk import take_ambient
from recorder.ambient.outside.own_code import OwnCode
from recorder.ambient.roots import Roots
from recorder.errors import SimulationFailedError
from recorder.exception_text import raised_text
from recorder.processes.fork_call import in_a_copy
from replayer.desync.state_diff import compare_states
from replayer.diagnose.hidden_state.dependences import dependences
from replayer.diagnose.hidden_state.iterated_sets import with_iterated_sets
from replayer.diagnose.hidden_state.outside_sources import OutsideReads, OutsideSources
from replayer.diagnose.hidden_state.periods import Period, TrialOutcome
from replayer.diagnose.hidden_state.readers import reader_names
from replayer.diagnose.hidden_state.report import (
    ENVIRONMENT,
    FRESH,
    MARKS,
    READ,
    USED,
    Repeats,
    Suspect,
    SyncFinding,
    SyncReport,
    report_lines,
)
from replayer.diagnose.hidden_state.trials import Factory, Trials, end_of_trial
from replayer.playback.make_simulation import UnfitSimulationError, made_by
from sim.kernel.changes.row_changes import AuditedChanges, UnmarkedWriteError
from sim.kernel.hooks import marks_its_writes
from sim.kernel.plain_data import encode_plain
from sim.kernel.simulation import ArenaOfSaved, as_simulation, end_of, inner_of
from sim.kernel.state import Snapshot

TICKS = 200
PERIOD_TICKS = 8
REPEATS = 3  # Of a divergence whose cause was not proved.
STATES_BYTES_MAX = 256 << 20  # Larger periods keep only hashes: a finding then cannot name rows.

_DISTURBED = (
    "the run differs if values outside the state are kept for comparison, as it can with weak references and finalizers: "
    "none were kept"
)
_COMPARED_LATER = "; what is named is of a further run, up to the restore"

Inputs = Callable[[int], Any] | Iterable[Any] | Mapping[int, Any] | None
Progress = Callable[[int, int], None]  # Ticks done, total number of ticks.


class SyncTest:
    """A test for hidden state of one simulation; it can run several times.

    Examples:
        >>> report = replayer.SyncTest(Walkers, inputs=lambda tick: tick % 3, ticks=60).assert_ok()
    """

    def __init__(
        self,
        factory: Factory,
        inputs: Inputs = None,
        *,
        ticks: int = TICKS,
        period_ticks: int = PERIOD_TICKS,
        puts_back: bool = False,
    ) -> None:
        """factory: makes a simulation, an equal one at each call.

        inputs: plain data: a function of the tick (1 is the first), a mapping by tick, or all of them in order; the
        run then has at most that many ticks.
        ticks: the length of the live run, unless it ends before. period_ticks: the ticks between two stops; about every
        second period is a tick longer, to stop at all moments of periodic behaviour.
        puts_back: leave modules and classes as they were before; by default, as the live run left them.
        Raises ValueError for numbers below 1, TypeError if factory cannot be called or inputs are of a different type.
        """
        if not callable(factory):
            raise TypeError(
                f"expected a class or a function that makes a simulation, got {type(factory).__name__}, which cannot be called"
            )
        if ticks < 1 or period_ticks < 1:
            raise ValueError(f"expected numbers of at least 1, got ticks={ticks}, period_ticks={period_ticks}")
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
        self._puts_back = puts_back

    def run(self, progress: Progress | None = None, *, limit_s: float = math.inf) -> SyncReport:
        """Run up to the first bad period, or until limit_s seconds have passed, and report the findings.

        Raises UnfitSimulationError if factory does not make a simulation, SimulationFailedError if the live run
        raises, and TypeError, ValueError or OverflowError if inputs are not plain data.
        """
        run = self._run(progress, limit_s, is_watching=True)
        if run.is_disturbed:
            run = self._run(progress, limit_s, is_watching=False)
        return run.report()

    def _run(self, progress: Progress | None, limit_s: float, *, is_watching: bool) -> _Run:
        run = _Run(self._factory, is_watching=is_watching)
        starts, started_s = [0], time.monotonic()
        while starts[-1] < self._ticks:
            starts.append(min(self._ticks, _start(len(starts), self._period_ticks)))
        for start_tick, end_tick in pairwise(starts):
            inputs = [self._inputs_of(tick) for tick in range(start_tick + 1, end_tick + 1)]
            continues = run.check(start_tick, inputs)
            if progress is not None:
                progress(run.tick, self._ticks)
            if not continues or time.monotonic() - started_s > limit_s:
                break
        if self._puts_back:
            run.put_back()
        return run

    def assert_ok(self) -> SyncReport:
        """Run the test. Raises AssertionError with the complete report if anything was found."""
        report = self.run()
        if not report.ok:
            name = getattr(self._factory, "__qualname__", repr(self._factory))
            raise AssertionError("\n".join(report_lines(name, report)))
        return report


def _start(number: int, period_ticks: int) -> int:
    """The start of a period: about every period_ticks, in the long run at any remainder for any modulus."""
    return number if period_ticks == 1 else number * period_ticks + number * 618_034 // 1_000_000


_ATTRIBUTE = "attribute"
_ORDER_OF = "order of "  # At the beginning of a kind: the members are as they were.


class _Run:
    """One run of a test."""

    def __init__(self, factory: Factory, *, is_watching: bool) -> None:
        self._threads = set(threading.enumerate())  # Those that the simulation did not start.
        self._roots = Roots(factory)
        before = self._before = take_ambient(self._roots, None)
        try:
            self._live = as_simulation(made_by(factory))
        except TypeError as error:
            raise UnfitSimulationError(str(error)) from error
        types = take_ambient(self._roots, self._live).types
        self._roots.add_types(types)
        before.add_contents(surroundings := take_ambient(self._roots, None))
        self._sources = OutsideSources(self._roots)
        self._trials = Trials(factory, self._roots, before)
        self._trials.is_watching = is_watching
        self._audit: AuditedChanges | None = None
        self._audited: Any = None
        self._is_complete = surroundings.is_complete
        self._restores = 0
        self._findings: list[SyncFinding] = []
        self._notes: dict[str, None] = {}  # Each once.
        self._moves: set[str] = set()  # Names of values that changed in the live run.
        self._unrestored: dict[str, tuple[str, int]] = {}  # Values that differed in copies: kind, and first tick.
        self._last: Ambient | None = None
        self._all_inputs: list[bytes] = []
        self.is_disturbed = False
        self._is_named = False  # True if suspects were found by a further run.
        self.tick = 0

    def put_back(self) -> None:
        """Leave modules and classes as they were before the run."""
        self._before.put_back()

    def report(self) -> SyncReport:
        """The report on the ticks run so far."""
        suspected = {suspect.name for finding in self._findings for suspect in finding.suspects}
        notes = [] if self._is_complete else ["there is more outside the state than was inspected"]
        notes += self._notes
        if self._trials.makes_unequal:
            notes.append("a second instance does not start like the live one: making it depends on something else")
        if not self._trials.is_watching:
            notes.append(f"{_DISTURBED}{_COMPARED_LATER if self._is_named else ''}")
        unnoticed = {
            name: kind
            for name, (kind, _) in self._unrestored.items()
            if name not in suspected and (name in self._moves or kind == "alias")
        }
        return SyncReport(
            tick_count=self.tick,
            restore_count=self._restores,
            findings=sorted(self._findings, key=lambda finding: finding.tick),
            moves=[name for name, kind in unnoticed.items() if not kind.startswith(_ORDER_OF)],
            orders=[name for name, kind in unnoticed.items() if kind.startswith(_ORDER_OF)],
            notes=notes,
        )

    def check(self, start_tick: int, inputs: Sequence[Any]) -> bool:
        """Run one period live and repeat it in every way. Return True if the run continues."""
        period, ended = self._live_period(start_tick, inputs)
        self._trials.first = self._trials.first or period
        findings: list[SyncFinding] = []
        for way in (FRESH, USED):
            findings += self._repeat(period, way, is_known=bool(findings))
        if self.is_disturbed:
            return False
        if not findings and reader_names(self._live):
            findings = self._check_reading(period)
        if not findings and period.reads.variables:
            findings = self._check_environment(period)
        self._findings += with_iterated_sets(findings, self._live, period)
        return not findings and not ended and not self.is_disturbed

    # --- the live run

    def _live_period(self, start_tick: int, inputs: Sequence[Any]) -> tuple[Period, bool]:
        live = self._live
        start, ambient = live.state.snapshot(), Ambient()
        if self._trials.is_watching:
            ambient = take_ambient(self._roots, live)
            self._is_complete = self._is_complete and ambient.is_complete
            if self._last is not None:
                self._moves |= {candidate.name for candidate in find_candidates(self._last, ambient)}
            self._last = ambient
        reads, encoded, ended = OutsideReads(), [], False
        hashes: list[int] = []
        states: list[Snapshot] = []
        with self._sources.counted(reads):
            for tick_inputs in inputs:
                encoded.append(encode_plain(tick_inputs))
                self._step(tick_inputs)
                hashes.append(live.state.hash())
                if live.state.layout.size_bytes * len(inputs) <= STATES_BYTES_MAX:
                    states.append(live.state.snapshot())
                ended = self._has_ended()
                if ended:
                    break
        after = take_ambient(self._roots, None)
        self._all_inputs += encoded
        return Period(start_tick, start, ambient, after, encoded, hashes, states, reads), ended

    def _step(self, inputs: Any) -> None:
        live = self._live
        if marks_its_writes(live) and not isinstance(live, ArenaOfSaved) and self._audited is not live.state:
            self._audit, self._audited = AuditedChanges(live.state), live.state
        if self._audit is not None:
            self._audit.reset(live.state.snapshot())
        try:
            live.step(inputs)
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
            self._audit = None  # Once is enough: every tick would be reported.

    def _has_ended(self) -> bool:
        return end_of(self._live) is not None

    # --- the copies

    def _repeat(self, period: Period, way: str, *, is_known: bool) -> list[SyncFinding]:
        """The finding of one way, if it diverges. is_known: another one does; a used instance that cannot run then is told no more."""
        outcome = self._trials.run(period, way)
        self._restores += 1
        differing = find_candidates(period.ambient, outcome.ambient) if outcome.ambient is not None else []
        for candidate in differing:
            self._unrestored.setdefault(candidate.name, (candidate.kind, period.start_tick))
        if outcome.bad_count is None or (outcome.is_elsewhere and is_known) or self._disturbs(period):
            return []
        suspects, without_effect = self._trials.suspects(period, way, outcome)
        if not self._trials.is_watching:
            suspects = self._trials.compared_later(self._all_inputs[: period.start_tick], period, way) or suspects
            self._is_named = self._is_named or bool(suspects)
        if not any(suspect.proved for suspect in suspects):
            ends = lambda: end_of_trial(self._trials.run(period, way))  # noqa: E731 - it is short
            # Where such a dependence decides, no value that is put back makes the run equal, whether it takes part or not.
            suspects = dependences(ends, OwnCode(self._live)) or suspects
        if running := self._running_threads():  # What one of them changes meanwhile differs as well, and is not hidden.
            suspects = [attrs.evolve(one, proved=one.proved and one.kind != _ATTRIBUTE) for one in suspects]
            self._notes[f"threads run between the steps, such as {running[0]}: they may change values at any time"] = (
                None
            )
        finding = _finding(period, way, outcome, [self._since(suspect) for suspect in suspects])
        if way == FRESH and not any(suspect.proved for suspect in suspects):
            finding = attrs.evolve(finding, repeats=self._repeated(period, outcome))
        lost = self._trials.lost(period, way)
        without_effect = without_effect if not suspects else []
        is_compared = self._trials.is_watching and outcome.ambient is not None
        return [attrs.evolve(finding, lost=lost, without_effect=without_effect, is_compared=is_compared)]

    def _running_threads(self) -> list[str]:
        """The names of threads that the simulation started, but for those of pools, which wait for work."""
        running = [thread.name for thread in threading.enumerate() if thread not in self._threads]
        return sorted(name for name in running if not name.startswith("ThreadPoolExecutor"))

    def _repeated(self, period: Period, outcome: TrialOutcome) -> Repeats | None:
        """Let further fresh copies run the period from the same start, with the same surroundings.

        None if they agree with each other, and not with the outcome: that run was called from elsewhere in the stack.
        """
        outcomes = [self._trials.run(period, FRESH) for _ in range(REPEATS)]
        self._restores += REPEATS
        ends = {end_of_trial(one) for one in outcomes}
        if len(ends) == 1 and end_of_trial(outcome) not in ends:
            return None
        return Repeats(len(outcomes) + 1, len(ends | {end_of_trial(outcome)}))

    def _disturbs(self, period: Period) -> bool:
        """Return True if the live run differs because it is watched: what diverges from it then shows nothing."""
        self.is_disturbed = self._trials.is_watching and self._trials.is_disturbed(self._all_inputs, period)
        return self.is_disturbed

    def _since(self, suspect: Suspect) -> Suspect:
        """Add the tick to an alias: its effect may show long after the first load that broke it."""
        if suspect.kind != "alias":
            return suspect
        _, tick = self._unrestored.get(suspect.name, ("", None))
        return suspect if tick is None else attrs.evolve(suspect, detail=f"{suspect.detail}, first seen at tick {tick}")

    def _check_reading(self, period: Period) -> list[SyncFinding]:
        outcome = self._trials.run(period, READ)
        self._restores += 1
        if outcome.bad_count is None or self._disturbs(period):
            return []
        owner = type(inner_of(self._live)).__qualname__
        suspects = [
            Suspect(f"{owner}.{name}()", "reading", "the run diverges after it was called", proved=True)
            for name in self._trials.deciding(period, READ, reader_names(self._live))
        ]
        return [_finding(period, READ, outcome, suspects)]

    def _check_environment(self, period: Period) -> list[SyncFinding]:
        places = period.reads.variables
        try:  # With another value a step may do anything, such as end the process.
            in_a_copy(lambda: {"bad": self._trials.run(period, ENVIRONMENT).bad_count})
        except RuntimeError as error:
            self._notes[f"environment variables that steps read were not changed: {error}"] = None
            return []
        outcome = self._trials.run(period, ENVIRONMENT)
        self._restores += 1
        if outcome.bad_count is None:
            return []
        suspects = [
            Suspect(
                f"os.environ[{name!r}]", "environment variable", f"read in the step, at {places[name]}", proved=True
            )
            for name in self._trials.deciding(period, ENVIRONMENT, list(places))
        ]
        return [_finding(period, ENVIRONMENT, outcome, suspects)]


def _finding(period: Period, way: str, outcome: TrialOutcome, suspects: list[Suspect]) -> SyncFinding:
    count = outcome.bad_count
    assert count is not None
    live = period.start if count == 0 else period.states[count - 1] if period.states else None
    expected = period.start.hash() if count == 0 else period.hashes[count - 1]
    states = None if live is None or outcome.state is None else (live, outcome.state)
    return SyncFinding(
        tick=period.start_tick + count,
        start_tick=period.start_tick,
        way=way,
        expected_hash=expected if outcome.state is not None else None,
        actual_hash=outcome.state.hash() if outcome.state is not None else None,
        differences=compare_states(*states) if states is not None else [],
        suspects=suspects,
        note=outcome.note,
        states=states,
    )
