"""The command ``replay check``: search for hidden state of a simulation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from recorder.conformance.contract_checks import SEEDS
from recorder.console.argument_types import Positive
from recorder.console.progress import progress_bar
from recorder.exit_codes import DIFFERS, SAME, UsageError
from recorder.factory_spec import load_factory
from recorder.runs.input_source import read_inputs, read_plain_inputs
from recorder.storage.os_errors import reading
from replayer.commands.arguments import ensure_states, looks_like_a_tape
from replayer.commands.check_adapter import check_adapted
from replayer.commands.options import Json
from replayer.diagnose.hidden_state.report import report_facts, report_lines
from replayer.diagnose.hidden_state.sync_test import PERIOD_TICKS, TICKS, SyncTest
from replayer.tape.tape import Tape
from sim.scenario.scenario_file import SUFFIX, load_scenario


def check(
    simulation: str,
    /,
    *,
    ticks: Positive = TICKS,
    period: Positive = PERIOD_TICKS,
    inputs: Annotated[Path | None, Parameter(name="--inputs")] = None,
    seeds: Positive = SEEDS,
    verbose: Annotated[bool, Parameter(negative="")] = False,
    as_json: Json = False,
) -> int:
    """Run a simulation, restore its states into other instances, and name the hidden state that they lack.

    Examples:
    replay check walkers:Walkers --ticks 500
    replay check quiet-meadow
    replay check envs:make_env              where make_env returns a Gymnasium environment

    Every few ticks the state is restored into a fresh instance and into one that has run elsewhere, and both continue
    with the same inputs. If they diverge from the live run, the differences outside the state are named as suspects. A
    suspect is proved if the hashes are equal once it is as in the live run.

    Exit code: 0 no hidden state seen, 1 hidden state, 2 the simulation does not exist, or it raises.

    Parameters
    ----------
    simulation
        module:factory, such as walkers:Walkers; or a scenario: a TOML file, or the name of one that ships.
    ticks
        The number of live ticks, unless the run ends before.
    period
        The ticks between two restores.
    inputs
        A file with a line of JSON for each tick that has inputs: {"tick": 5, "inputs": ...}. For your own simulation
        they may be anything, for a scenario they are lists. Other ticks get None, or the inputs that the scenario sends.
        Or a tape: its recorded inputs are used, up to its end.
    seeds
        For an environment, or any other subject of an adapter: the number of seeds to try. Each runs with random
        actions: twice, in a fresh process, loaded at random ticks into fresh and used instances, and recorded. Fewer
        than eight may miss rare faults.
    verbose
        Also name values that change outside the state without an observed effect.
    as_json
        Print one JSON object.
    """
    if inputs is None and _is_factory(simulation):
        adapted = check_adapted(simulation, _factory(simulation), ticks=ticks, seeds=seeds, as_json=as_json)
        if adapted is not None:
            return adapted
    taped = inputs is not None and looks_like_a_tape(inputs)
    if inputs is not None and taped:
        inputs_by_tick = _taped_inputs(inputs, ticks)
        ticks = min(ticks, max(inputs_by_tick, default=1))
    factory, inputs_of = _subject(simulation, inputs) if not taped else (_factory(simulation), inputs_by_tick.get)
    test = SyncTest(factory, inputs_of, ticks=ticks, period_ticks=period)
    with progress_bar("checking", ticks, quiet=as_json) as show:
        report = test.run(lambda done, _: show(done))
    if as_json:
        print(json.dumps({"simulation": simulation, **report_facts(report)}, indent=1))
    else:
        print("\n".join(report_lines(simulation, report, verbose=verbose)))
    return SAME if report.ok else DIFFERS


def _taped_inputs(path: Path, ticks: int) -> dict[int, Any]:
    """The inputs of the first ticks of a recording. Raises UsageError, RecordingError, OSError."""
    with reading(path), Tape(path) as tape:
        ensure_states(tape)
        if tape.first_tick > 0:
            raise UsageError(
                f"{path} begins at tick {tape.first_tick:,}: expected a tape with the inputs from tick 1 on"
            )
        return {tick: tape.frame(tick).inputs for tick in range(1, min(ticks, tape.last_tick) + 1)}


def _is_factory(simulation: str) -> bool:
    return ":" in simulation and not simulation.endswith(SUFFIX)


def _factory(simulation: str) -> Callable[[], Any]:
    """The factory of the simulation. Raises UsageError, ConfigError, OSError."""
    if _is_factory(simulation):
        try:
            return load_factory(simulation)
        except ValueError as error:
            raise UsageError(str(error)) from None
    if Path(simulation).is_file() and looks_like_a_tape(Path(simulation)):
        raise UsageError(
            f"expected module:factory or a scenario, got the tape {simulation}; to verify a tape, use replay verify"
        )
    scenario = _scenario(simulation)
    return lambda: scenario.world.make(scenario.config)


def _scenario(name: str) -> Any:
    try:
        return load_scenario(name)
    except FileNotFoundError as error:
        raise UsageError(f"{error}; name your own simulation as module:factory") from None


def _subject(simulation: str, inputs: Path | None) -> tuple[Callable[[], Any], Callable[[int], Any]]:
    """The factory to check, and the inputs of each tick. Raises UsageError, ConfigError, OSError."""
    factory = _factory(simulation)
    if _is_factory(simulation):
        return factory, (read_plain_inputs(inputs) if inputs is not None else {}).get
    scenario, inputs_by_tick = _scenario(simulation), read_inputs(inputs) if inputs is not None else {}
    scheduled = scenario.world.inputs(scenario.config)
    return factory, lambda tick: scheduled(tick) + inputs_by_tick.get(tick, [])
