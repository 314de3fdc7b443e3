"""Try an adapted simulation before it is recorded, print the result in one line, and refuse what is proved inexact."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import attrs

from recorder.adapted.named_differences import differing_paths
from recorder.adapted.other_interpreter import continue_elsewhere
from recorder.errors import RecordingWarning
from recorder.recording_options import RecordingOptions
from recorder.trial.own_simulation import player_of
from recorder.trial.trial import try_simulation
from recorder.trial.trial_report import ELSEWHERE, HAPPENED, TrialFinding, TrialReport
from sim.adapters.interface.adapter_registry import Adapter, NotCapturedError
from sim.adapters.plain_object.adapter import PlainObjectSimulation
from sim.kernel.exactness import Level, level_of
from sim.kernel.hooks import HasAdapter, hook
from sim.kernel.simulation import as_simulation
from sim.user_warning import warn_user

ELSEWHERE_MS = 2000  # A new interpreter takes a second or two to import what it needs.
# The names of what a step returns, by adapter.
_RETURNED = {
    "gymnasium": ("the observation", "the reward", "terminated", "truncated", "info"),
    "pettingzoo": ("the observations", "the rewards", "the terminations", "the truncations", "the infos"),
}


def try_first(
    simulation: Any, adapter: Adapter, options: RecordingOptions, command: str, *, quiet: bool, later_steps: int = 0
) -> TrialReport | None:
    """Try the simulation for trial_ms, and print one line on stderr unless quiet; None if the options disable it.

    command: see check_command. later_steps: the number of recorded steps after which it is tried with their inputs; 0 if that is not planned.

    Raises NotCapturedError if a test shows that a step reads a value that is not saved. Warns with a RecordingWarning
    of a difference without a known cause, or at the level inputs_only; if quiet, also if there was no time to try
    anything.
    """
    if not is_tried(simulation, options):
        return None
    adapted = hook(simulation, HasAdapter)
    described = adapted.adapter if adapted is not None else {}
    subject = described.get("subject")

    def make_twin() -> Any:
        rebuilt = adapter.rebuild(subject) if isinstance(subject, dict) else None
        if rebuilt is None:
            return None
        ignored = tuple(described.get("ignored", ()))
        return as_simulation(adapter.adapt(rebuilt, level=level_of(simulation), ignore=ignored, pickler=None))

    report = try_simulation(
        as_simulation(simulation),
        options.trial_ms,
        player=player_of(simulation) or adapter.player,
        make_twin=make_twin if isinstance(subject, dict) else None,
        names=returned_names(adapter),
        name_fields=differing_paths,
    )
    if options.trial_ms >= ELSEWHERE_MS and isinstance(subject, dict):
        report = _elsewhere(report, described, level_of(simulation), returned_names(adapter))
    if needs_arguments(simulation):
        report = attrs.evolve(report, given="with None as the argument")
    report = report.with_command(command)
    _refuse_or_warn(simulation, report)
    if not quiet:
        print(_first_line(simulation, report, later_steps), file=sys.stderr)
    elif report.is_late:
        warn_user(f"{report.line()} (trial_ms=0 records it without this trial)", RecordingWarning)
    return report


def is_tried(simulation: Any, options: RecordingOptions) -> bool:
    """Return True for a simulation that is tried when it is recorded with these options."""
    return bool(options.trial_ms) and options.mode != "changes" and not _writes_files(simulation)


def needs_arguments(simulation: Any) -> bool:
    """Return True for an object whose step needs arguments that no one knows before the first call."""
    return isinstance(simulation, PlainObjectSimulation) and simulation.needs_arguments


def _first_line(simulation: Any, report: TrialReport, later_steps: int) -> str:
    if not later_steps:
        return report.line(is_warned=True)
    if not report.is_tested:
        step = simulation.method.key
        return f"not tried yet: {step} needs arguments; it is tried with those of the first {later_steps} steps"
    return f"{report.line(is_warned=True)}; it is tried again with the arguments of the first {later_steps} steps"


def _elsewhere(report: TrialReport, described: Mapping[str, Any], level: Level, names: tuple[str, ...]) -> TrialReport:
    """The report, with a trial in another interpreter if nothing was found so far."""
    if report.run is None or report.findings:
        return report
    was_tried, different = continue_elsewhere(described, level.value, report.run, names)
    findings = (TrialFinding(ELSEWHERE, f"{HAPPENED[ELSEWHERE]}: {different}"),) if different is not None else ()
    return attrs.evolve(report, findings=findings, is_elsewhere=was_tried)


def returned_names(adapter: Adapter | None) -> tuple[str, ...]:
    """The names of what a step returns, in a tuple; empty if they are not known."""
    return _RETURNED.get(adapter.name, ()) if adapter is not None else ()


OF_THE_PROCESS = {"random (random generator)", "np.random (random generator)"}
OWN_GENERATOR = "Draw from a generator that the recorded object keeps, such as random.Random(seed) or numpy.random.default_rng(seed)"


def _refuse_or_warn(simulation: Any, report: TrialReport) -> None:
    level = level_of(simulation)
    for finding in report.findings:
        remedy = OWN_GENERATOR if finding.causes and set(finding.causes) <= OF_THE_PROCESS else "Save it"
        remedy += ', or record the state of each tick: mode="changes"; trial_ms=0 tries nothing: such a recording may not replay exactly'
        if finding.causes and finding.kind != "order" and level is not Level.INPUTS_ONLY:
            raise NotCapturedError(f"{finding}. {remedy}")
        warn_user(f"{finding} (trial_ms=0 records without this trial)", RecordingWarning)


def _writes_files(simulation: Any) -> bool:
    """Return True for an environment inside a wrapper that writes pictures to files, which a trial may not do."""
    report = getattr(simulation, "report", None)
    return report is not None and any(part.name == "RecordVideo" for part in report().parts)
