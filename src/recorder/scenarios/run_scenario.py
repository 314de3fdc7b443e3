"""Run one scenario: with a tape or without, with checkpoints; what it came to.

There is one loop, for fresh runs and for those that go on from a checkpoint.
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
from recorder.session.session import exception_text
from sim.kernel.hooks import CanEnd, ReportsProgress, hook
from sim.kernel.messages import Event
from sim.kernel.registry import ConfigError
from sim.kernel.simulation import inner_of
from sim.kernel.state import State
from sim.scenario.config.identity import scenario_hash
from sim.scenario.config.scenario import Execution, ScenarioConfig, read_scenario_config
from sim.scenario.middleware.monitors import PropertyFunction
from sim.scenario.results.result import ScenarioResult, fold_events
from sim.scenario.scenario_file import load_scenario
from sim.scenario.scenario_simulation import ScenarioSimulation
from sim.scenario.thread_race import RacedInputs

InputsOf = Callable[[int, State], Any]  # From a tick, and the state before it, to the inputs that lead to it.
TICKS_BY_DEFAULT = 1000  # As for a world's file that says nothing.


def run(
    scenario: str | Path,
    *,
    seed: int | None = None,
    steps: int | None = None,
    players: Mapping[str, str] | None = None,
    tape: Path | None = None,
    artifacts: Path | None = None,
) -> ScenarioResult:
    """Run a scenario file, or one that ships, around its registered world.

    steps: samples, one before the first round and one behind each; by default what the scenario says. players: policies
    by player. tape: record the run there. artifacts: folder for checkpoints, ``artifacts`` by default.

    Raises FileNotFoundError, ConfigError, UnknownWorldError, UsageError; and as run_with_scenario.
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
    """Put a scenario around a simulation and run it; what it came to.

    simulation: at tick 0. scenario: what stands under ``scenario`` in a file. inputs: what the roles send; nothing
    without. start: a checkpoint of the same scenario to go on from; the result is then that of the rest, whose steps are
    numbered as in a whole run. settings: for the Recorder, see RecordingOptions. watch: called at each tick, the first one included; it must
    change nothing.

    Raises ConfigError for what the scenario cannot be, TypeError for what is no simulation, ValueError for a checkpoint
    that is not whole, of another scenario or behind the last step, OSError and RecordingError for tape and checkpoint. What the
    simulation itself raises ends the run and is in the result.
    """
    config = read_scenario_config(scenario)
    staged = ScenarioSimulation(simulation, config, scenario, functions)
    last_tick = _last_tick(config, steps)
    notes = {"ticks": last_tick, **(settings or {}).get("notes", {})}
    plan = _Plan(staged, config, last_tick, inputs, Checkpoints.of(config, artifacts, notes))
    tick = resume_checkpoint(start, staged) if start is not None else 0
    if tick > last_tick:
        raise ValueError(f"the checkpoint is of tick {tick}, behind the last one, {last_tick}")
    options = RecordingOptions(**{**(settings or {}), "notes": notes})
    recorder = begin_tape(tape, staged, start, options) if tape is not None else None
    return plan.run(tick, recorder, watch or (lambda *_: None))


def _last_tick(config: ScenarioConfig, steps: int | None) -> int:
    wanted = steps if steps is not None else config.steps
    if wanted is not None and wanted < 1:
        raise ConfigError("steps", f"at least 1 was expected, found {wanted}")
    return wanted - 1 if wanted is not None else TICKS_BY_DEFAULT


@attrs.define
class _Plan:
    staged: ScenarioSimulation
    config: ScenarioConfig
    last_tick: int
    inputs: InputsOf | None
    checkpoints: Checkpoints

    def run(
        self, tick: int, recorder: Recorder | None, watch: Callable[[int, ScenarioSimulation], None]
    ) -> ScenarioResult:
        """Run from tick to the last one, or until the world says that it has ended, or raises."""
        before = self.staged.violated if tick else ()
        events: list[tuple[int, Event]] = [(tick, event) for event in self.staged.events()]
        error: str | None = None
        watch(tick, self.staged)
        step = recorder.step if recorder is not None else self.staged.step
        ends = hook(self.staged, CanEnd)
        with ExitStack() as stack:
            if recorder is not None:
                stack.enter_context(recorder)
            inputs_at = stack.enter_context(raced_inputs(self.staged, self.inputs or (lambda *_: None)))
            while tick < self.last_tick and (ends is None or ends.ended() is None):
                given = inputs_at(tick + 1, self.staged.state)
                try:
                    step(given)
                except Exception as raised:  # noqa: BLE001 - the world's own mistake; the run is over, and says why.
                    error = exception_text(raised)
                    if recorder is not None:
                        recorder.close({"reason": "exception", "exception": error})
                    break
                tick += 1
                events += [(tick, event) for event in self.staged.events()]
                self.checkpoints.write_if_due(self.staged, tick)
                watch(tick, self.staged)
        return self._result(events, tick, before, error)

    def _result(
        self, events: list[tuple[int, Event]], tick: int, before: tuple[str, ...], error: str | None
    ) -> ScenarioResult:
        reports = hook(inner_of(self.staged.inner), ReportsProgress)
        return fold_events(
            events,
            name=self.config.name,
            scenario_hash=scenario_hash(self.staged),
            regime=self.config.execution.regime,
            seed=self.config.seed,
            steps=self.last_tick + 1,
            final_tick=tick,
            final_hash=f"{self.staged.state.hash():016x}",
            progress=reports.progress() if reports is not None else None,
            violated_before=before,
            checkpoints=tuple(str(one.path) for one in self.checkpoints.written),
            checkpoint_error=self.checkpoints.error,
            error=f"tick {tick + 1}: {error}" if error is not None else None,
        )


@contextmanager
def raced_inputs(simulation: Any, inputs: InputsOf) -> Iterator[InputsOf]:
    """What a run is fed with: of a world with messages on the threaded backend, the order in which roles are advanced.

    Raises UsageError, at the tick, for inputs besides.
    """
    execution = simulation.config.execution if isinstance(simulation, ScenarioSimulation) else Execution()
    world = inner_of(simulation.inner) if isinstance(simulation, ScenarioSimulation) else None
    if execution.backend != "threaded" or not hasattr(world, "router"):
        yield inputs
        return

    def raced(tick: int, state: State) -> dict[str, list[str]]:
        given = inputs(tick, state)
        if given is not None and not (isinstance(given, list | tuple | Mapping) and not given):
            raise UsageError(f"threads decide the order of a threaded run: it takes no inputs, found {str(given)[:80]}")
        return {"race": orders.order()}

    with RacedInputs(world, simulation.world_roles, execution) as orders:
        yield raced
