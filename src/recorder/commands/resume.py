"""The command ``record resume``: continue a recording."""

from __future__ import annotations

import attrs

from recorder.commands.options import Inputs, Quiet, Sim
from recorder.commands.resume_plan import plan_for
from recorder.commands.run_common import notes_of, run_watched, simulation_of
from recorder.commands.violation_report import report_violations, say_violations
from recorder.console.argument_types import LocalPath, Positive
from recorder.console.output import say
from recorder.console.progress import progress_bar
from recorder.exit_codes import UsageError
from recorder.reopen.resume import resume as resume_tape
from recorder.scenarios.violation_watch import ViolationWatch
from recorder.session.recorder import Recorder
from recorder.text import counted, shown_path
from sim.kernel.registry import find_world
from sim.scenario.scenario_file import FOREIGN, Scenario
from sim.waiting_notice import silence_notices


def resume(
    tape: LocalPath,
    /,
    *,
    ticks: Positive | None = None,
    sim: Sim = None,
    inputs: Inputs = None,
    quiet: Quiet = False,
) -> int:
    """Continue a recording after a crash, a kill or a power cut, or beyond its last tick.

    Example: record resume meadow.tape

    The state of the last recorded tick is restored and checked by its hash. The
    run then continues in the same tape. Half-written bytes at the end are kept in
    a file next to the tape. A recording that had reached its last tick but was not
    sealed is sealed.

    Parameters
    ----------
    tape
        The tape: the name of its first file.
    ticks
        The last tick to record; by default the one that the recording was started with.
    quiet
        Print nothing but errors.
    """
    silence_notices(when=quiet)
    plan = plan_for(tape, ticks, sim, inputs)
    with progress_bar("restoring", 1, quiet=quiet) as show:
        try:
            simulation = simulation_of(sim) if sim is not None else None
            recorder = resume_tape(tape, simulation, progress=lambda done, total: show(done / total))
        except TypeError as error:  # This simulation is not the one that was recorded.
            raise UsageError(f"{tape}: {error}") from None
    resumed = recorder.resumed
    if not quiet and resumed is not None:
        say(
            f"{tape}: at tick {resumed.tick:,}, restored from the keyframe at tick {resumed.keyframe_tick:,}"
            + (f", {counted(resumed.journal_ticks, 'tick')} from the journal" if resumed.journal_ticks else "")
            + (f", half-written bytes kept in {shown_path(resumed.torn_file)}" if resumed.torn_file else "")
        )
    violations = ViolationWatch(notes_of(plan.last_tick, plan.players, inputs))
    code = run_watched(recorder, plan.input_source, plan.last_tick, violations, quiet=quiet)
    if code:
        say_violations(violations)
        return code
    return report_violations(violations, tape, _recorded(recorder, sim), plan.players, plan.input_source, quiet=quiet)


def _recorded(recorder: Recorder, sim: str | None) -> Scenario:
    """Return the scenario of a tape, as its file would have given it."""
    provocation = recorder.meta.get("scenario")
    name = str((provocation or {}).get("name", "scenario"))
    match recorder.meta.get("world"):
        case {"name": str(world), "config": dict(config)}:
            return Scenario(name, find_world(world), config, provocation)
    return Scenario(name, attrs.evolve(FOREIGN, make=lambda _: simulation_of(str(sim))), {}, provocation)
