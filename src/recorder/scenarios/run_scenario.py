"""Run one scenario, with or without a tape and checkpoints, and return its result.

One loop serves fresh runs and runs that continue from a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs

from recorder.exit_codes import UsageError
from recorder.recording_options import RecordingOptions
from recorder.runs.input_source import input_source_of
from recorder.scenarios.checkpoints import Checkpoint, Checkpoints, resume_checkpoint
from recorder.scenarios.start import begin_tape
from recorder.session.recorder import Recorder
from recorder.session.run_end import exception_text
from sim.kernel.hooks import CanEnd, ReportsProgress, hook
from sim.kernel.messages import Event
from sim.kernel.registry import ConfigError
from sim.kernel.simulation import inner_of
from sim.kernel.state import State
from sim.scenario.config.can_act import ensure_can_act, planned_last_tick
from sim.scenario.config.identity import scenario_hash
from sim.scenario.config.scenario import Execution, ScenarioConfig, read_scenario_config
from sim.scenario.middleware.monitors import PropertyFunction
from sim.scenario.results.result import ScenarioResult, fold_events
from sim.scenario.results.run_profile import scheduler_profile
from sim.scenario.scenario_file import load_scenario
from sim.scenario.scenario_simulation import ScenarioSimulation
from sim.scenario.thread_race import RacedInputs
from sim.scenario.wrap import with_input_form

InputsOf = Callable[[int, State], Any]  # Maps a tick, and the state before it, to the inputs of its step.
TICKS_BY_DEFAULT = 1000  # The default of a world's file.


def run(
    scenario: str | Path,
    *,
    seed: int | None = None,
    steps: int | None = None,
    players: Mapping[str, str] | None = None,
    tape: Path | None = None,
    artifacts: Path | None = None,
) -> ScenarioResult:
    """Run a scenario file, or a shipped scenario, around its registered world.

    steps: number of samples, one before the first round and one after each; by default that of the scenario. players:
    policies by player. tape: path of the tape. artifacts: folder for checkpoints, ``artifacts`` by default.

    Raises FileNotFoundError, ConfigError, UnknownWorldError, UsageError, and like run_with_scenario.
    """
    loaded = load_scenario(str(scenario), seed=seed)
    plain = loaded.provocation if loaded.provocation is not None else {"name": "scenario", "seed": 0}
    input_source = input_source_of(loaded.world, loaded.config, players=players, by_role=True)
    return run_with_scenario(
        loaded.world.make(loaded.config),
        plain,
        inputs=input_source.inputs,
        steps=steps if steps is not None else loaded.ticks + 1,
        tape=tape,
        artifacts=artifacts,
        functions=loaded.world.properties,
        settings={"notes": {"players": dict(players or {})}},
    )


def run_with_scenario(
    simulation: Any,
    scenario: Mapping[str, Any],
    *,
    inputs: InputsOf | None = None,
    steps: int | None = None,
    tape: Path | None = None,
    artifacts: Path | None = None,
    functions: Mapping[str, PropertyFunction] | None = None,
    start: Checkpoint | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    watch: Callable[[int, ScenarioSimulation], None] | None = None,
) -> ScenarioResult:
    """Wrap a simulation in a scenario, run it, and return the result.

    simulation: at tick 0. scenario: the table ``scenario`` of a file. inputs: the inputs of the roles; None for none.
    start: a checkpoint of the same scenario to continue from; the result then covers the remaining steps, numbered as
    in a complete run. settings: for the Recorder, see RecordingOptions. watch: called at each tick, including the first;
    it must not change anything.

    Raises ConfigError for an invalid scenario, TypeError if simulation is not a simulation, ValueError for a checkpoint
    that is incomplete, of a different scenario or after the last step, OSError and RecordingError for tape and
    checkpoint. An exception of the simulation ends the run and is part of the result.
    """
    scenario = with_input_form(simulation, scenario)
    config = read_scenario_config(scenario)
    wrapped = ScenarioSimulation(simulation, config, scenario, functions)
    ensure_can_act(wrapped, planned_last_tick(wrapped, steps))
    last_tick = _last_tick(config, steps)
    notes = {"ticks": last_tick, **(settings or {}).get("notes", {})}
    plan = _Plan(wrapped, config, last_tick, inputs, Checkpoints.of(config, artifacts, notes))
    tick = resume_checkpoint(start, wrapped) if start is not None else 0
    if tick > last_tick:
        raise ValueError(f"the checkpoint is of tick {tick}, after the last tick, {last_tick}")
    options = RecordingOptions.of({**(settings or {}), "notes": notes})  # type: ignore[typeddict-item]
    recorder = begin_tape(tape, wrapped, start, options) if tape is not None else None
    return plan.run(tick, recorder, watch or (lambda *_: None))


def _last_tick(config: ScenarioConfig, steps: int | None) -> int:
    count = steps if steps is not None else config.steps
    if count is not None and count < 1:
        raise ConfigError("steps", f"expected at least 1, got {count}")
    return count - 1 if count is not None else TICKS_BY_DEFAULT


@attrs.define
class _Plan:
    wrapped: ScenarioSimulation
    config: ScenarioConfig
    last_tick: int
    inputs: InputsOf | None
    checkpoints: Checkpoints

    def run(
        self, tick: int, recorder: Recorder | None, watch: Callable[[int, ScenarioSimulation], None]
    ) -> ScenarioResult:
        """Run from tick to the last one, or until the world ends the run or raises."""
        before = self.wrapped.violated if tick else ()
        events: list[tuple[int, Event]] = [(tick, event) for event in self.wrapped.events()]
        error: str | None = None
        watch(tick, self.wrapped)
        step = recorder.step if recorder is not None else self.wrapped.step
        ends = hook(self.wrapped, CanEnd)
        with ExitStack() as stack:
            if recorder is not None:
                stack.enter_context(recorder)
            inputs_at = stack.enter_context(raced_inputs(self.wrapped, self.inputs or (lambda *_: None)))
            while tick < self.last_tick and (ends is None or ends.ended() is None):
                step_inputs = inputs_at(tick + 1, self.wrapped.state)
                try:
                    step(step_inputs)
                except Exception as raised:  # noqa: BLE001 - an error of the world ends the run; the result holds it.
                    error = exception_text(raised)
                    if recorder is not None:
                        recorder.close({"reason": "exception", "exception": error})
                    break
                tick += 1
                events += [(tick, event) for event in self.wrapped.events()]
                self.checkpoints.write_if_due(self.wrapped, tick)
                watch(tick, self.wrapped)
        return self._result(events, tick, before, error)

    def _result(
        self, events: list[tuple[int, Event]], tick: int, before: tuple[str, ...], error: str | None
    ) -> ScenarioResult:
        world = inner_of(self.wrapped.inner)
        reports = hook(world, ReportsProgress)
        progress = reports.progress() if reports is not None else None
        return fold_events(
            events,
            name=self.config.name,
            scenario_hash=scenario_hash(self.wrapped),
            regime=self.config.execution.regime,
            present_roles=self.config.roles if self.config.absent == "left_out" else None,
            seed=self.config.seed,
            steps=self.last_tick + 1,
            final_tick=tick,
            final_hash=f"{self.wrapped.state.hash():016x}",
            progress=progress,
            scheduler=scheduler_profile(self.config.execution, world, progress),
            violated_before=before,
            checkpoints=tuple(str(checkpoint.path) for checkpoint in self.checkpoints.written),
            checkpoint_error=self.checkpoints.error,
            error=f"tick {tick + 1}: {error}" if error is not None else None,
        )


@contextmanager
def raced_inputs(simulation: Any, inputs: InputsOf) -> Iterator[InputsOf]:
    """Give the source of inputs of a run; on the threaded backend the order in which threads advance the roles.

    On the threaded backend, a step with other inputs raises UsageError.
    """
    execution = simulation.config.execution if isinstance(simulation, ScenarioSimulation) else Execution()
    world = inner_of(simulation.inner) if isinstance(simulation, ScenarioSimulation) else None
    if execution.backend != "threaded" or not hasattr(world, "router"):
        yield inputs
        return

    def raced(tick: int, state: State) -> dict[str, list[str]]:
        unused = inputs(tick, state)
        if unused is not None and not (isinstance(unused, list | tuple | Mapping) and not unused):
            raise UsageError(f"a threaded run takes no inputs, its threads decide the order; got {str(unused)[:80]}")
        return {"race": races.order()}

    with RacedInputs(world, simulation.world_roles, execution) as races:
        yield raced
