"""``replay check`` for adapters: test the declared level on many seeds, and name what breaks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from recorder.conformance.contract_checks import (
    FRESH,
    PATIENCE_S,
    PROCESS,
    RECORDED,
    SAME_SEED,
    USED,
    ConformanceRun,
    ConformanceViolation,
    Subject,
    adapter_of_simulation,
    check_from_start,
    check_run,
    simulation_from,
    takes_seed,
)
from recorder.conformance.fresh_processes import check_process
from recorder.console.output import print_json
from recorder.console.progress import progress_bar
from recorder.errors import RecordingError
from recorder.exception_text import raised_text
from recorder.exit_codes import DIFFERS, SAME, UsageError
from recorder.processes.isolated_fork import NotIsolatedError, ensure_can_isolate, run_isolated
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.diagnose.hidden_state.report import Suspect, SyncFinding, SyncReport, finding_lines
from replayer.diagnose.hidden_state.sync_test import SyncTest
from replayer.value_text import plain_text
from sim.adapters.interface.adapter_registry import NoStepError, NotCapturedError
from sim.adapters.plain_object.adapter import NAME as PLAIN_OBJECT
from sim.kernel.exactness import Level, level_of
from sim.kernel.hooks import SuggestsInputs, hook
from sim.kernel.plain_data import decode_plain
from sim.kernel.simulation import Simulation, inner_of, subject_of

_TRIALS = (SAME_SEED, PROCESS, FRESH, USED, RECORDED)
HIDDEN_TICKS = 60  # Of the search for hidden state where no trial shows a difference.
INPUTS_S = 60.0  # The time limit of the run that makes its inputs.
SHOWN = 3  # Findings of each trial.
_RECORDED_FIRST = "record a run; replay explain RUN.tape --sim module:factory"


@attrs.frozen(eq=False)
class LevelReport:
    """The result of a check.

    Attributes:
        level: the declared level.
        seeds, ticks: the numbers tried.
        violations: of all trials.
        suspects: the suspected hidden state, if any was found.
        hidden: hidden state that only the search next to a live run showed.
        line: the adapter's list of captured parts.
        start: of runs that a tape begins: how new instances differ before the first step; None if they do not.
        starts_alike: True if fresh processes do not differ from each other there; None if that was not tested.
        is_varied: False if no run got another seed or other inputs than the first one.
    """

    level: Level
    seeds: int
    ticks: int
    violations: list[ConformanceViolation]
    suspects: list[Suspect]
    line: str
    hidden: list[SyncFinding] = attrs.field(factory=list)
    is_varied: bool = True
    start: str | None = None
    starts_alike: bool | None = None

    @property
    def runs(self) -> str:
        """The number of runs in words."""
        return counted(self.seeds, "seed" if self.is_varied else "run")

    @property
    def ok(self) -> bool:
        """True if the level is kept."""
        return not self.violations and not self.hidden


def check_adapted(
    name: str,
    factory: Callable[[], Any],
    *,
    ticks: int,
    seeds: int,
    as_json: bool,
    seeds_resets: bool = False,
    step: str | None = None,
) -> int | None:
    """Check a simulation that an adapter makes, or that declares a level. Return the exit code; None for any other one.

    seeds_resets: pass a seed at each reset that has none. step: the name of the method that makes a step, of a plain
    object. Returns None as well if making it fails. Raises UsageError if it cannot be captured, if it has no such step,
    or if its live run raises.
    """
    is_seeded = takes_seed(factory)
    subject = Subject(factory, None, ("", name), seeds_resets=seeds_resets, step=step, is_seeded=is_seeded)
    try:
        simulation = simulation_from(factory(), step)
    except NoStepError as error:
        raise UsageError(f"{name}: {no_step_text(error)}") from None
    except NotCapturedError as error:
        raise UsageError(f"{name}: {error}") from None
    except Exception:  # noqa: BLE001 - the check of simulations reports the error
        return None
    try:
        level = level_of(simulation)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
    if adapter_of_simulation(simulation) is None and level is Level.EXACT:
        return None  # The stricter check applies: restored at every few ticks, it must continue as if it had not been.
    with progress_bar("checking", seeds, quiet=as_json) as show:
        # First: the trials leave modules and classes changed, alike for all instances that come later.
        hidden = _hidden_state(subject, ticks) if level is Level.EXACT else None
        report = check_level(subject, simulation, ticks, seeds, show)
        if hidden is not None:
            suspects = hidden.suspects or report.suspects
            report = attrs.evolve(report, suspects=suspects, hidden=hidden.findings if report.ok else [])
    if as_json:
        print_json({"simulation": name, **level_facts(report)})
    else:
        print_visible("\n".join(plain_text(line) for line in level_lines(name, report)))
    return SAME if report.ok else DIFFERS


def _hidden_state(subject: Subject, ticks: int) -> SyncReport | None:
    """Search for hidden state next to a live run; None if the inputs for one cannot be made in a copy of this process."""
    try:
        ensure_can_isolate()
        lived = run_isolated(lambda send: send(subject.live(0, min(ticks, HIDDEN_TICKS)).inputs), INPUTS_S, PATIENCE_S)
    except (NotIsolatedError, OSError):
        return None
    if not lived.messages:
        return None  # It raises, which the trials report; or it takes too long.
    inputs = {tick: decode_plain(encoded) for tick, encoded in enumerate(lived.messages[0], 1)}
    try:
        return SyncTest(_Made(subject), inputs, ticks=len(inputs), puts_back=True).run()
    except RecordingError:
        return None  # As above.


class _Made:
    """The factory of a subject's first seed."""

    def __init__(self, subject: Subject) -> None:
        self.__wrapped__ = subject.make  # The user's modules are searched from there.
        self._subject = subject

    def __call__(self) -> Simulation:
        return self._subject.simulation()


def no_step_text(error: NoStepError) -> str:
    """The message about a missing step, with the option of this command."""
    return f"{error} (here: --step {error.methods[0] if len(error.methods) == 1 else 'NAME'})"


def check_level(
    subject: Subject,
    simulation: Simulation,
    ticks: int,
    seeds: int,
    show: Callable[[int], None] = lambda _: None,
    *,
    is_recorded: bool = False,
) -> LevelReport:
    """Try the seeds, and search for suspects. simulation: one instance, for its level and report.

    is_recorded: a tape holds the start of a run, so that new instances may begin differently. Raises UsageError if a
    live run raises.
    """
    start: str | None = None
    runs: list[ConformanceRun] = []
    violations: list[ConformanceViolation] = []
    for seed in range(seeds):
        try:
            run = subject.live(seed, ticks)
        except Exception as error:  # noqa: BLE001 - a user's environment may raise anything
            raise UsageError(f"seed {seed}: {raised_text('the live run', error)}") from None
        runs.append(run)
        found = check_run(subject, run)
        begins = [one.text for one in found if one.tick == 0 and one.trial in (SAME_SEED, RECORDED)]
        if is_recorded and begins:
            start = start or begins[0].partition("at tick 0: ")[2]
            found = check_from_start(subject, run)
        violations += found
        show(seed + 1)
    try:
        of_processes = check_process(subject, runs)
    except RuntimeError as error:
        raise UsageError(str(error)) from None
    at_start = [one for one in of_processes if start is not None and one.tick == 0]
    violations += [one for one in of_processes if one not in at_start]
    suspects: list[Suspect] = []
    if violations:
        bad = next(run for run in runs if run.seed == violations[0].seed)
        inputs = {tick: decode_plain(encoded) for tick, encoded in enumerate(bad.inputs, 1)}
        suspects = SyncTest(lambda: subject.simulation(bad.seed), inputs, ticks=len(bad.inputs)).run().suspects
    inner = inner_of(simulation)
    line = type(inner).__qualname__
    if adapter_of_simulation(simulation) is not None:
        captured = inner.report()
        line = f"{captured.subject}: {captured.captured_line()}"  # The level is in the line above it.
    is_varied = subject.is_seeded or _varies_inputs(simulation)
    report = LevelReport(level_of(simulation), seeds, ticks, violations, suspects, line, is_varied=is_varied)
    starts_alike = None if subject.location is None else all(one.fresh_agree for one in at_start)
    return attrs.evolve(report, start=start, starts_alike=starts_alike)


def _varies_inputs(simulation: Simulation) -> bool:
    """Return False for an object that suggests no inputs of its own: each run makes the same calls."""
    adapter = adapter_of_simulation(simulation)
    is_plain = adapter is not None and adapter.name == PLAIN_OBJECT
    return not is_plain or hook(subject_of(simulation), SuggestsInputs) is not None


def cause_of(violation: ConformanceViolation) -> str:
    """What a violation shows, and possible causes that were not tested."""
    if violation.trial in (SAME_SEED, RECORDED) and violation.tick == 0:
        return (
            "two new instances differ at once; possible: a source without a seed, the time, what the first instance "
            "changed in a class or a module"
        )
    if violation.trial == SAME_SEED:
        return "a second instance diverges; possible: unseeded randomness, time, state outside the instance"
    if violation.fresh_agree:
        return "possible: earlier instances in this process, the arguments of the program, an order of texts that few hash seeds change"
    if violation.trial == PROCESS:
        return "possible: the order of sets or dicts of texts (PYTHONHASHSEED), time, unseeded randomness"
    if violation.trial == RECORDED:
        return "possible: being saved changes it (then declare level='canonical'), the time, unseeded randomness"
    if violation.trial == USED and violation.tick == violation.from_tick:
        return "a load does not replace all values of a used instance"
    if violation.returned and not violation.fields:
        return "what a step returns is computed from a value that is not saved, or not restored before the step"
    if violation.tick == violation.from_tick:
        return "the state after the load is not the saved one"
    return (
        "the next steps read what is not saved; possible: a random generator, an order, two names of one object, a time"
    )


def level_lines(name: str, report: LevelReport) -> list[str]:
    """Format a report for people."""
    tried = f"{report.runs} of {counted(report.ticks, 'tick')}"
    verdict = "kept" if report.ok else "NOT kept"
    return [f"{name}: level {report.level.value} {verdict} on {tried}", f"  {report.line}", *trial_lines(report)]


def start_lines(report: LevelReport) -> list[str]:
    """How new instances begin, where a tape holds the start of the run that is checked."""
    if report.start is None:
        return []
    lines = [
        f"  further instances start differently: {report.start}",
        "    here all were compared from one start: a recording holds its own, and a replay begins with it",
    ]
    if report.starts_alike is not None:
        apart = "start differently, too, and were not compared further"
        lines.append(
            f"    fresh processes {'start alike, and were compared with each other' if report.starts_alike else apart}"
        )
    return lines


def trial_lines(report: LevelReport, explained: str = _RECORDED_FIRST) -> list[str]:
    """Format the trials of a report: one line each, and their first violations."""
    lines: list[str] = []
    is_nondeterministic = any(violation.trial == SAME_SEED for violation in report.violations)
    for trial in _TRIALS:
        violations = [violation for violation in report.violations if violation.trial == trial]
        if not violations:
            is_apart = trial == PROCESS and report.starts_alike is False
            lines.append(f"  {trial}: {'not compared, since they start differently' if is_apart else 'the same'}")
            continue
        bad_seeds = len({violation.seed for violation in violations})
        is_own_cause = trial not in (RECORDED, PROCESS) or not is_nondeterministic
        cause = cause_of(violations[0]) if is_own_cause else "the run differs without this as well"
        lines.append(f"  {trial}: differs for {bad_seeds} of {report.runs}: {cause}")
        lines += [f"    {violation}" for violation in violations[:SHOWN]]
    for finding in report.hidden:
        lines.append(f"  {finding_lines(finding)[0]}")
    if report.suspects:
        lines.append("  suspects, most likely first:")
        lines += [f"    {suspect}" for suspect in report.suspects[:8]]
    elif not report.ok:
        lines.append(f"  next: {explained} looks for the line")
    return lines


def level_facts(report: LevelReport) -> dict[str, Any]:
    """Format a report for programs."""
    return {
        "ok": report.ok,
        "level": report.level.value,
        "seeds": report.seeds,
        "ticks": report.ticks,
        "captured": report.line,
        "start": report.start,
        "hidden": [str(finding) for finding in report.hidden],
        "violations": [{**attrs.asdict(violation), "cause": cause_of(violation)} for violation in report.violations],
        "suspects": [attrs.asdict(suspect) for suspect in report.suspects],
    }
