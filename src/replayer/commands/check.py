"""The command ``replay check``: search for hidden state of a simulation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from cyclopts import Parameter

from recorder.conformance.contract_checks import SEEDS, Subject, simulation_from, takes_seed
from recorder.console.argument_types import LocalPath, Positive
from recorder.console.output import print_json
from recorder.console.progress import progress_bar
from recorder.errors import RecordingError
from recorder.exit_codes import DIFFERS, SAME, UsageError
from recorder.factory_spec import load_factory
from recorder.location.tape_location import Location
from recorder.runs.input_source import read_inputs, read_plain_inputs
from recorder.storage.os_errors import reading
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.commands.arguments import ensure_states, looks_like_a_tape
from replayer.commands.check_adapter import (
    LevelReport,
    check_adapted,
    check_level,
    level_facts,
    no_step_text,
    start_lines,
    trial_lines,
)
from replayer.commands.options import Json
from replayer.diagnose.hidden_state.report import SyncReport, report_facts, report_lines
from replayer.diagnose.hidden_state.sync_test import PERIOD_TICKS, TICKS, SyncTest
from replayer.playback.make_simulation import UnfitSimulationError
from replayer.tape.tape import Tape
from replayer.value_text import plain_text
from sim.adapters.as_recorded import as_recorded
from sim.adapters.interface.adapter_registry import NoAdapterError, NoStepError
from sim.kernel.hooks import SuggestsInputs, hook
from sim.kernel.simulation import inner_of
from sim.scenario.scenario_file import SUFFIX, load_scenario

TICKS_MIN = 50  # Of the shorter runs.


def check(
    simulation: str,
    /,
    *,
    ticks: Positive | None = None,
    period: Positive = PERIOD_TICKS,
    inputs: Annotated[LocalPath | None, Parameter(name="--inputs")] = None,
    seeds: Positive = SEEDS,
    seed_resets: Annotated[bool, Parameter(negative="")] = False,
    step: str | None = None,
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
    suspect is proved if the hashes are equal once it is as in the live run. Then shorter runs are tried, one for each
    seed, which also compare what the steps return.

    Exit code: 0 no hidden state seen, 1 hidden state, 2 the simulation does not exist, or it raises.

    Parameters
    ----------
    simulation
        module:factory, such as walkers:Walkers; or a scenario: a TOML file, or the name of one that ships.
    ticks
        The number of live ticks, unless the run ends before; by default 200, and with a tape all that it has.
    period
        The ticks between two restores.
    inputs
        A file with a line of JSON for each tick that has inputs: {"tick": 5, "inputs": ...}. For your own simulation
        they may be anything, for a scenario they are lists. Other ticks get None, or the inputs that the scenario sends.
        Or a tape: its recorded inputs are used, up to its end or up to --ticks.
    seeds
        The number of seeds to try. Each run is repeated, in a fresh process too, loaded at random ticks into fresh and
        used instances, and recorded. An environment, or any other subject of an adapter, gets random actions; a
        scenario, or a factory with the parameter seed, that seed; a simulation with trial_inputs(seed) those inputs. All
        others have one run. Fewer than eight may miss rare faults.
    seed_resets
        Pass a seed at each reset of an environment, not only at the first one.
    step
        The name of the method that makes a step, of an object of Python: --step advance. By default "step", or the one
        that the tape of --inputs names.
    verbose
        Also name values that change outside the state without an observed effect.
    as_json
        Print one JSON object.
    """
    if inputs is None and _is_factory(simulation):
        made, live_ticks = _factory(simulation), ticks or TICKS
        adapted = check_adapted(
            simulation, made, ticks=live_ticks, seeds=seeds, as_json=as_json, seeds_resets=seed_resets, step=step
        )
        if adapted is not None:
            return adapted
    factory, inputs_of, count, step = _subject(simulation, inputs, step, ticks)
    test = SyncTest(factory, inputs_of, ticks=count, period_ticks=period, puts_back=True)
    with progress_bar("checking", count, quiet=as_json) as show:
        report = test.run(lambda done, _: show(done))
    further = why_not = None
    if report.ok and inputs is None:
        further = _check_trajectories(simulation, count, seeds, as_json=as_json)
    elif report.ok:
        ignore = factory.ignored if isinstance(factory, _AdaptingFactory) else ()
        further, why_not = _check_given(simulation, inputs_of, step, count, ignore, as_json=as_json)
    tape = inputs if inputs is not None and looks_like_a_tape(inputs) else None
    _print(simulation, report, further, why_not, tape, verbose=verbose, as_json=as_json)
    return SAME if report.ok and (further is None or further.ok) else DIFFERS


def _print(
    simulation: str,
    report: SyncReport,
    further: LevelReport | None,
    why_not: str | None,
    tape: Path | None,
    *,
    verbose: bool,
    as_json: bool,
) -> None:
    """why_not: why no shorter run was compared; None if one was, or none was to follow. tape: with the inputs."""
    if as_json:
        trajectories: dict[str, Any] = {} if further is None else {"trajectories": level_facts(further)}
        trajectories |= {} if why_not is None else {"trajectories_not_run": why_not}
        print_json({"simulation": simulation, **report_facts(report), **trajectories})
    else:
        lines = report_lines(simulation, report, verbose=verbose)
        if further is not None and not further.ok:  # The first line is the result of all.
            first = f"{simulation}: NOT the same in each run: {_different_trials(further)}"
            lines = [first, f"  {lines[0].removeprefix(f'{simulation}: ')}", *lines[1:]]
        print_visible("\n".join(lines))
        if further is not None:
            explained = () if tape is None else (f"replay explain {quote(str(tape))} --sim {quote(simulation)}",)
            print_visible("\n".join(map(plain_text, _further_lines(further, *explained))))
        elif why_not is not None:
            print_visible(plain_text(f"  {why_not}"))


def _check_trajectories(simulation: str, ticks: int, seeds: int, *, as_json: bool) -> LevelReport:
    """Try shorter runs with other seeds, of a simulation whose first run showed nothing.

    Raises UsageError if one of them raises, ConfigError, OSError.
    """
    short = min(ticks, max(TICKS_MIN, ticks // 4))
    if _is_factory(simulation):
        factory = load_factory(simulation)
        has_seed = takes_seed(factory)
        subject = Subject(factory, None, ("", simulation), is_seeded=has_seed)
        varies = has_seed or hook(inner_of(subject.simulation()), SuggestsInputs) is not None
    else:
        subject, varies = _scenario_subject(simulation)
    count = seeds if varies else 1
    with progress_bar("checking", count, quiet=as_json) as show:
        return check_level(subject, subject.simulation(), short, count, show)


def _check_given(
    simulation: str,
    inputs_of: Callable[[int], Any],
    step: str | None,
    ticks: int,
    ignore: tuple[str, ...],
    *,
    as_json: bool,
) -> tuple[LevelReport | None, str | None]:
    """Try a shorter run with given inputs, in a fresh process too. Return its report, or why there is none."""

    def given(_: Any, __: int) -> Callable[[], Any]:
        numbers = itertools.count(1)
        return lambda: inputs_of(next(numbers))

    if _is_factory(simulation):
        subject = Subject(load_factory(simulation), given, ("", simulation), step=step, ignore=ignore)
    else:
        scenario = _scenario(simulation)
        subject = Subject(lambda: scenario.world.make(scenario.config), given, None)
    short = min(ticks, max(TICKS_MIN, ticks // 4))
    try:
        with progress_bar("checking", 1, quiet=as_json) as show:
            return check_level(subject, subject.simulation(), short, 1, show, is_recorded=True), None
    except (UsageError, RecordingError, TypeError, NoAdapterError) as error:
        return None, f"no run in a fresh process was compared: {' '.join(str(error).split())}"


def _scenario_subject(name: str) -> tuple[Subject, bool]:
    """A scenario's world with its scheduled inputs, and True if its configuration has a seed."""
    scenario = _scenario(name)
    config, has_seed = scenario.config, isinstance(scenario.config.get("seed"), int)
    scheduled = scenario.world.inputs(config)

    def make(seed: int = 0) -> Any:
        return scenario.world.make({**config, "seed": config["seed"] + seed} if has_seed else config)

    def inputs(_: Any, __: int) -> Callable[[], Any]:
        ticks = itertools.count(1)
        return lambda: scheduled(next(ticks))

    return Subject(make, inputs, None, is_seeded=True), has_seed


def _different_trials(further: LevelReport) -> str:
    return ", ".join(dict.fromkeys(violation.trial for violation in further.violations)) or "see below"


def _further_lines(further: LevelReport, *explained: str) -> list[str]:
    """explained: the command that explains what differs, if there is a tape."""
    number = further.seeds
    tried = f"{number} {'trajectory' if number == 1 else 'trajectories'} of {counted(further.ticks, 'tick')}"
    if further.ok:
        from_start = "" if further.start is None else " from one start"
        same = f"  {tried}{from_start}, repeated, loaded and recorded: the same states and results"
        return [same, *start_lines(further)]
    return [f"  {tried}: DIFFERENCES", *start_lines(further), *trial_lines(further, *explained)]


def _suggested_inputs(factory: Callable[[], Any]) -> Callable[[int], Any]:
    """The inputs that the simulation suggests for trials; None at each tick if it suggests none, or cannot be made."""
    try:
        suggests = hook(inner_of(factory()), SuggestsInputs)
    except Exception:  # noqa: BLE001 - the check itself makes it again, and reports the error
        suggests = None
    if suggests is None:
        return lambda _: None
    play = suggests.trial_inputs(0)
    return lambda _: play()


class _AdaptingFactory:
    """A factory of the user whose objects are adapted, if they are not simulations: as a tape states, or by themselves."""

    def __init__(self, factory: Callable[[], Any], step: str | None, meta: Mapping[str, Any]) -> None:
        """step: the name of the method that makes a step. meta: of the tape with the inputs; empty without one."""
        self.__wrapped__ = factory  # Roots looks for the user's modules there.
        self._step = step
        self._meta = meta

    @property
    def ignored(self) -> tuple[str, ...]:
        """The attributes that the tape leaves out, as its recording was asked to."""
        match self._meta.get("adapter"):
            case {"ignored": list(names)}:
                return tuple(name for name in names if isinstance(name, str))
        return ()

    def __call__(self) -> Any:
        """Make a simulation. Raises UnfitSimulationError for an object without this step, and what the factory raises."""
        made = self.__wrapped__()
        try:
            if self._step is None and self._meta.get("adapter"):
                return as_recorded(made, self._meta)
            return simulation_from(made, self._step)
        except NoStepError as error:
            raise UnfitSimulationError(no_step_text(error)) from None
        except (TypeError, NoAdapterError) as error:
            raise UnfitSimulationError(str(error)) from error


def _taped_inputs(path: Location, ticks: int | None) -> tuple[dict[int, Any], Mapping[str, Any]]:
    """The inputs of the first ticks of a recording, or of all, and its META. Raises UsageError, RecordingError, OSError."""
    with reading(path), Tape(path) as tape:
        ensure_states(tape)
        if tape.first_tick > 0:
            raise UsageError(
                f"{path} begins at tick {tape.first_tick:,}: expected a tape with the inputs from tick 1 on"
            )
        last = tape.last_tick if ticks is None else min(ticks, tape.last_tick)
        inputs = {tick: tape.frame(tick).inputs for tick in range(1, last + 1)}
        return inputs, tape.meta


def _taped_step(meta: Mapping[str, Any]) -> str | None:
    """The method that made a step of a recorded plain object; None for any other tape, and for "step"."""
    match meta.get("adapter"):
        case {"fields": {"step": str(name)}} if name != "step":
            return name
    return None


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


def _subject(
    simulation: str, inputs: Path | None, step: str | None, ticks: int | None
) -> tuple[Callable[[], Any], Callable[[int], Any], int, str | None]:
    """The factory to check, the inputs of each tick, the number of ticks, and the method that makes a step.

    Raises UsageError, ConfigError, OSError.
    """
    factory = _factory(simulation)
    if inputs is not None and looks_like_a_tape(inputs):
        taped, meta = _taped_inputs(inputs, ticks)
        if _is_factory(simulation):
            factory = _AdaptingFactory(factory, step, meta)
        return factory, taped.get, max(taped, default=1), step or _taped_step(meta)
    ticks = ticks or TICKS
    if _is_factory(simulation):
        if inputs is None:
            return factory, _suggested_inputs(factory), ticks, step
        return _AdaptingFactory(factory, step, {}), read_plain_inputs(inputs).get, ticks, step
    scenario, inputs_by_tick = _scenario(simulation), read_inputs(inputs) if inputs is not None else {}
    scheduled = scenario.world.inputs(scenario.config)
    return factory, lambda tick: scheduled(tick) + inputs_by_tick.get(tick, []), ticks, None
