"""Results of recorded scenarios: read from the tape, replayed in canonical order, compared with another run.

A result is folded from the events on the tape alone, and equals the result of the live run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from recorder.errors import MissingTickError
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory, UnfitSimulationError, make_simulation
from replayer.playback.rebuild_events import rebuild_events
from replayer.tape.completeness import planned_tick
from replayer.tape.stored_events import ticks_with_events_due
from replayer.tape.tape import Tape
from sim.kernel.hooks import ReportsProgress, hook
from sim.kernel.messages import Event
from sim.kernel.plain_data import decode_plain
from sim.kernel.simulation import SCENARIO_PREFIX, inner_of
from sim.scenario.config.identity import scenario_hash
from sim.scenario.config.scenario import Execution, ScenarioConfig, read_scenario_config
from sim.scenario.middleware.monitors import reported
from sim.scenario.results.compare import RunComparison, compare_runs
from sim.scenario.results.result import ScenarioResult, fold_events
from sim.scenario.results.run_profile import scheduler_profile
from sim.scenario.scenario_simulation import ScenarioSimulation

TickEvent = tuple[int, Event]


@attrs.frozen
class CanonicalReplay:
    """A recorded run, replayed from its beginning by one thread.

    Attributes:
        result: result of the replay.
        comparison: comparison of the recorded events with those of the replay.
        same_hash: True if both end in the same state.
    """

    result: ScenarioResult
    comparison: RunComparison
    same_hash: bool


def scenario_of(tape: Tape) -> ScenarioConfig:
    """The scenario that a tape was recorded with. Raises UnfitSimulationError if there was none."""
    plain = tape.meta.get("scenario")
    if not isinstance(plain, Mapping):
        raise UnfitSimulationError(f"{tape.path} was recorded without a scenario")
    return read_scenario_config(plain)


def scenario_result(tape: Tape, world: Factory | None = None) -> ScenarioResult:
    """The result of a recorded run. Events that are not on the tape are rebuilt, which requires world.

    world: makes the simulation, for a tape that names no registered world. Without one, a tape with all its events can
    still be read, and progress is None. Checkpoints are not on the tape. Raises UnfitSimulationError for a tape without
    a scenario, and as rebuild_events does.
    """
    config = scenario_of(tape)
    has_all_events = not tape.missing_event_ticks()
    events = tape.events() if has_all_events else rebuild_events(tape, world)
    return _fold(tape, config, events, *_facts_of_world(tape, world, config))


def _fold(
    tape: Tape, config: ScenarioConfig, events: Iterator[TickEvent], progress: Any, scheduler: Any
) -> ScenarioResult:
    return fold_events(
        events,
        name=config.name,
        scenario_hash=scenario_hash(tape.meta),
        regime=config.execution.regime,
        present_roles=config.roles if config.absent == "left_out" else None,
        seed=config.seed,
        steps=planned_tick(tape) + 1,
        final_tick=tape.last_tick,
        final_hash=f"{tape.state_hash(tape.last_tick):016x}",
        progress=progress,
        scheduler=scheduler,
        violated_before=_violated_before(tape, config),
        error=_error_of(tape),
    )


def _violated_before(tape: Tape, config: ScenarioConfig) -> tuple[str, ...]:
    """Properties violated before the first tick, read from its state, for a tape that begins after tick 0."""
    if tape.first_tick == 0:
        return ()
    packed = tape.snapshot(tape.keyframes[0])[f"{SCENARIO_PREFIX}properties"].tobytes()
    return reported(config.properties, decode_plain(packed))


def _error_of(tape: Tape) -> str | None:
    match tape.outcome:
        case {"exception": str(text)}:
            return f"tick {tape.last_tick + 1}: {text}"
    return None


def _facts_of_world(tape: Tape, world: Factory | None, config: ScenarioConfig) -> tuple[Any, Any]:
    """Progress in the last state, None if the world reports none, and the scheduler; both None without a simulation."""
    registered = isinstance(tape.meta.get("world"), Mapping)
    if world is None and not registered:
        return None, None
    cursor = Cursor(tape, make_simulation(tape, world))
    simulation = cursor.simulation
    inner = inner_of(simulation.inner) if isinstance(simulation, ScenarioSimulation) else None
    reports = hook(inner, ReportsProgress)
    if reports is not None:
        cursor.seek(tape.last_tick)
    progress = reports.progress() if reports is not None else None
    return progress, scheduler_profile(config.execution, inner, progress)


def run_canonical_replay(tape: Tape, world: Factory | None = None) -> CanonicalReplay:
    """Replay a recorded scenario from tick 0 in canonical order, with the recorded inputs.

    The recorded order of threads is not passed to the simulation: the replay tests that it makes no difference. No
    checkpoints are written. Raises MissingTickError if the tape does not begin at tick 0 or a frame is lost, and as
    make_simulation does.
    """
    config = scenario_of(tape)
    if tape.first_tick > 0:
        raise MissingTickError(0, "a canonical replay begins there, and the tape does not")
    simulation = make_simulation(tape, world)
    assert isinstance(simulation, ScenarioSimulation)
    replayed = _replay(tape, simulation, config)
    kept: list[TickEvent] = []
    comparison = compare_runs(
        rebuild_events(tape, world), _keep(replayed, kept), exact=config.execution.regime != "threaded_envelope_bounded"
    )
    final_hash = f"{simulation.state.hash():016x}"
    reports = hook(simulation.inner, ReportsProgress)
    progress = reports.progress() if reports is not None else None
    scheduler = scheduler_profile(Execution(), inner_of(simulation.inner), progress)
    result = _fold(tape, config, iter(kept), progress, scheduler)
    canonical = attrs.evolve(result, regime="canonical_exact", final_hash=final_hash)
    return CanonicalReplay(canonical, comparison, final_hash == result.final_hash)


def _replay(tape: Tape, simulation: ScenarioSimulation, config: ScenarioConfig) -> Iterator[TickEvent]:
    yield from ((0, event) for event in simulation.events())
    raced = config.execution.backend == "threaded"
    for tick in range(1, tape.last_tick + 1):
        inputs = tape.frame(tick).inputs
        if raced and isinstance(inputs, Mapping) and set(inputs) == {"race"}:
            inputs = None
        simulation.step(inputs)
        yield from ((tick, event) for event in simulation.events())


def _keep(events: Iterator[TickEvent], kept: list[TickEvent]) -> Iterator[TickEvent]:
    for event in events:
        kept.append(event)
        yield event


def compare_tapes(
    tape_a: Tape, tape_b: Tape, worlds: tuple[Factory | None, Factory | None] = (None, None)
) -> RunComparison:
    """Compare the events of two recorded runs in the ticks that common_ticks returns.

    Raises as rebuild_events does.
    """
    tapes = tape_a, tape_b
    regimes = {_regime(tape) for tape in tapes}
    first, last = common_ticks(*tapes)
    events_a, events_b = (rebuild_events(tape, world, first, last) for tape, world in zip(tapes, worlds, strict=True))
    return compare_runs(events_a, events_b, exact="threaded_envelope_bounded" not in regimes)


def common_ticks(tape_a: Tape, tape_b: Tape) -> tuple[int, int | None]:
    """The first and the last tick in which two runs can be compared: both tapes cover these ticks.

    The last tick is the end of a tape that was not closed. It is None if both were closed: a run that is longer than
    the other is a difference.
    """
    first = max(ticks_with_events_due(tape.recording)[0] for tape in (tape_a, tape_b))
    ends = [tape.last_tick for tape in (tape_a, tape_b) if not tape.sealed]
    return first, min(ends) if ends else None


def _regime(tape: Tape) -> str:
    return scenario_of(tape).execution.regime if tape.meta.get("scenario") is not None else "canonical_exact"
