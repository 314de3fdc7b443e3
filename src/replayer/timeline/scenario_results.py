"""What a recorded scenario came to, from its tape; run again in the canonical way; compared with another one.

The events on the tape are the whole source: what is put together from them is what the live run gave.
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
from sim.kernel.simulation import SCENARIO_PREFIX
from sim.scenario.config.identity import scenario_hash
from sim.scenario.config.scenario import ScenarioConfig, read_scenario_config
from sim.scenario.middleware.monitors import reported
from sim.scenario.results.compare import RunComparison, compare_runs
from sim.scenario.results.result import ScenarioResult, fold_events
from sim.scenario.scenario_simulation import ScenarioSimulation

Told = tuple[int, Event]


@attrs.frozen
class CanonicalReplay:
    """A recorded run, made once more from its beginning by one thread.

    Attributes:
        result: of the new run.
        comparison: of the recorded events with the new ones.
        same_hash: whether both end in the same state.
    """

    result: ScenarioResult
    comparison: RunComparison
    same_hash: bool


def scenario_of(tape: Tape) -> ScenarioConfig:
    """The scenario that a tape was recorded with. Raises UnfitSimulationError if there was none."""
    plain = tape.meta.get("scenario")
    if not isinstance(plain, Mapping):
        raise UnfitSimulationError(f"{tape.path} was recorded without a scenario around its simulation")
    return read_scenario_config(plain)


def scenario_result(tape: Tape, world: Factory | None = None) -> ScenarioResult:
    """The result of a recorded run. Events that are not on the tape are made again, for which world is needed.

    world: makes the simulation, for a tape that names no registered world; without one, a tape whose events are whole
    is read by itself, and progress is None. Checkpoints are not on the tape. Raises UnfitSimulationError for a tape
    without a scenario, and as rebuild_events does.
    """
    config = scenario_of(tape)
    is_whole = not tape.missing_event_ticks()
    events = tape.events() if is_whole else rebuild_events(tape, world)
    return _fold(tape, config, events, _progress(tape, world))


def _fold(tape: Tape, config: ScenarioConfig, events: Iterator[Told], progress: Any) -> ScenarioResult:
    return fold_events(
        events,
        name=config.name,
        scenario_hash=scenario_hash(tape.meta),
        regime=config.execution.regime,
        seed=config.seed,
        steps=planned_tick(tape) + 1,
        final_tick=tape.last_tick,
        final_hash=f"{tape.state_hash(tape.last_tick):016x}",
        progress=progress,
        violated_before=_violated_before(tape, config),
        error=_error_of(tape),
    )


def _violated_before(tape: Tape, config: ScenarioConfig) -> tuple[str, ...]:
    """What the state at the first tick knows of, where the tape does not begin with the run."""
    if tape.first_tick == 0:
        return ()
    packed = tape.snapshot(tape.keyframes[0])[f"{SCENARIO_PREFIX}properties"].tobytes()
    return reported(config.properties, decode_plain(packed))


def _error_of(tape: Tape) -> str | None:
    match tape.outcome:
        case {"exception": str(text)}:
            return f"tick {tape.last_tick + 1}: {text}"
    return None


def _progress(tape: Tape, world: Factory | None) -> Any:
    """Of the last state, if the simulation can be had, and has any."""
    registered = isinstance(tape.meta.get("world"), Mapping)
    if world is None and not registered:
        return None
    cursor = Cursor(tape, make_simulation(tape, world))
    reports = hook(getattr(cursor.simulation, "inner", None), ReportsProgress)
    if reports is None:
        return None
    cursor.seek(tape.last_tick)
    return reports.progress()


def run_canonical_replay(tape: Tape, world: Factory | None = None) -> CanonicalReplay:
    """Run a recorded scenario again from tick 0, in canonical order, with the inputs that were recorded.

    The order in which threads came in is not given: that is what this is the test of. No checkpoints are written.
    Raises MissingTickError if the tape does not begin at tick 0 or a frame is lost, and as make_simulation does.
    """
    config = scenario_of(tape)
    if tape.first_tick > 0:
        raise MissingTickError(0, "a canonical replay begins there, and the tape does not")
    simulation = make_simulation(tape, world)
    assert isinstance(simulation, ScenarioSimulation)
    again = _events_again(tape, simulation, config)
    told: list[Told] = []
    comparison = compare_runs(
        rebuild_events(tape, world), _kept(again, told), exact=config.execution.regime != "threaded_envelope_bounded"
    )
    final_hash = f"{simulation.state.hash():016x}"
    reports = hook(simulation.inner, ReportsProgress)
    result = _fold(tape, config, iter(told), reports.progress() if reports is not None else None)
    canonical = attrs.evolve(result, regime="canonical_exact", final_hash=final_hash)
    return CanonicalReplay(canonical, comparison, final_hash == result.final_hash)


def _events_again(tape: Tape, simulation: ScenarioSimulation, config: ScenarioConfig) -> Iterator[Told]:
    yield from ((0, event) for event in simulation.events())
    raced = config.execution.backend == "threaded"
    for tick in range(1, tape.last_tick + 1):
        inputs = tape.frame(tick).inputs
        if raced and isinstance(inputs, Mapping) and set(inputs) == {"race"}:
            inputs = None
        simulation.step(inputs)
        yield from ((tick, event) for event in simulation.events())


def _kept(events: Iterator[Told], told: list[Told]) -> Iterator[Told]:
    for one in events:
        told.append(one)
        yield one


def compare_tapes(
    one: Tape, other: Tape, worlds: tuple[Factory | None, Factory | None] = (None, None)
) -> RunComparison:
    """Compare the events of two recorded runs, one after the other, of the ticks that common_ticks gives.

    Raises as rebuild_events does.
    """
    regimes = {_regime(tape) for tape in (one, other)}
    first, last = common_ticks(one, other)
    left, right = (rebuild_events(tape, world, first, last) for tape, world in zip((one, other), worlds, strict=True))
    return compare_runs(left, right, exact="threaded_envelope_bounded" not in regimes)


def common_ticks(one: Tape, other: Tape) -> tuple[int, int | None]:
    """Of which ticks two runs can be compared: from where both tapes tell of the run, up to where one was cut off.

    None is no such limit: of two tapes that were closed, one run may have gone on for longer, which is a difference.
    """
    first = max(ticks_with_events_due(tape.recording)[0] for tape in (one, other))
    ends = [tape.last_tick for tape in (one, other) if not tape.sealed]
    return first, min(ends) if ends else None


def _regime(tape: Tape) -> str:
    return scenario_of(tape).execution.regime if tape.meta.get("scenario") is not None else "canonical_exact"
