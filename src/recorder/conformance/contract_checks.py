"""Conformance trials of a simulation over many seeds, for SimulationContract and the command check.

The trials: the same seed twice; a fresh process with a different PYTHONHASHSEED; save and load at random ticks, into a
fresh instance and into a used one; a run with a recorder. States and what the steps return are compared. With few
seeds, a save that omits something rare passes: eight is the least number to trust.
"""

from __future__ import annotations

import inspect
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from recorder.adapted.first_trial import returned_names
from recorder.adapted.named_differences import named_differences
from recorder.exception_text import raised_text
from recorder.processes.isolated_fork import ForkedRun, NotIsolatedError, ensure_can_isolate, run_isolated
from recorder.session.recorder import Recorder
from recorder.trial.returned import Leaves, differing_leaves, leaves_of
from recorder.trial.trajectory import differing_fields
from sim.adapters.find_adapter import adapt
from sim.adapters.interface.adapter_registry import Adapter, adapter_for, adapter_named
from sim.kernel.exactness import Level, level_of
from sim.kernel.hooks import HasAdapter, SuggestsInputs, hook
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.simulation import ArenaOfSaved, SavedSimulation, Simulation, as_simulation, inner_of, restore
from sim.kernel.state import Snapshot

SEEDS = 8
TICKS = 200
LOADS = 6  # Random ticks of each seed at which a state is saved and loaded.
CONTROL_S = 120.0  # The time limit of the run that shows what differs anyway.
PATIENCE_S = 5.0  # With a copy that sleeps: it may wait for threads that it has not.
AHEAD_TICKS = 40  # Steps of an instance after a load.
KEYFRAME_TICKS = 16  # The recorder of the trial saves every so many ticks.

SAME_SEED, PROCESS, FRESH, USED, RECORDED = (
    "same seed twice", "fresh process", "save and load", "used instance", "recorder attached",
)  # fmt: skip

Inputs = Callable[[Simulation, int], Callable[[], Any]]  # Maps a simulation and a seed to a source of inputs.


def takes_seed(factory: Callable[..., Any]) -> bool:
    """Return True for a factory with a parameter seed."""
    try:
        return "seed" in inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return False


@attrs.frozen
class ConformanceViolation:
    """A trial that failed.

    Attributes:
        trial: its name: "same seed twice", "fresh process", "save and load", "used instance", "recorder attached".
        seed: the seed of the run.
        tick: the first divergent tick.
        from_tick: the tick whose state was loaded; 0 if none was.
        fields: names of the fields that differ at that tick; empty if only hashes are known.
        text: the difference in one sentence.
        returned: parts of what the step returned that differ.
        fresh_agree: True if fresh processes differ from this one, but not from each other.
    """

    trial: str
    seed: int
    tick: int
    from_tick: int
    fields: tuple[str, ...]
    text: str
    returned: tuple[str, ...] = ()
    fresh_agree: bool = False

    def __str__(self) -> str:
        where = f", loaded at tick {self.from_tick}" if self.from_tick else ""
        return f"{self.trial}, seed {self.seed}{where}: {self.text}"


@attrs.frozen(eq=False)
class ConformanceRun:
    """One live run.

    Attributes:
        seed: the seed of its inputs.
        inputs: the encoded inputs of each tick.
        hashes: the state hash of each tick, from tick 0.
        states: the state of each tick, from tick 0.
        results: what each step returned, as leaves.
        unstable: parts of the results that are not compared, since an equal run in a copy of the process differs in
            them: times of the day, for example. None if nothing that a step returns can be compared.
    """

    seed: int
    inputs: list[bytes]
    hashes: list[int]
    states: list[Snapshot]
    results: list[Leaves] = attrs.field(factory=list)
    unstable: frozenset[str] | None = None


@attrs.frozen(eq=False)
class Subject:
    """The simulation to check, and its inputs.

    Attributes:
        make: returns a simulation, always in the same state, or an object that has an adapter.
        inputs: makes the source of inputs; None for those that the simulation suggests, or the adapter's random player.
        location: (file, name) of make for another process; None skips that trial.
        is_seeded: call make with the seed of the run, as make(seed=...).
        seeds_resets: pass a seed at each reset that has none.
        step: the name of the method that makes a step, of a plain object; None for "step".
        ignore: names of attributes that no step reads, of an object that has an adapter.
        stuck: a copy of this process that waited, and so would all others.
    """

    make: Callable[..., Any]
    inputs: Inputs | None = None
    location: tuple[str, str] | None = None
    is_seeded: bool = False
    seeds_resets: bool = False
    step: str | None = None
    ignore: tuple[str, ...] = ()
    stuck: list[ForkedRun] = attrs.field(factory=list)

    def simulation(self, seed: int = 0) -> Simulation:
        """Make a new simulation. Raises TypeError, and any exception of make."""
        return simulation_from(self.made(seed), self.step, self.ignore)

    def made(self, seed: int) -> Any:
        """Call make for the run of a seed."""
        return self.make(seed=seed) if self.is_seeded else self.make()

    def player(self, simulation: Simulation, seed: int) -> Callable[[], Any]:
        """Return the source of inputs of a run."""
        suggests = hook(inner_of(simulation), SuggestsInputs)
        adapter = adapter_of_simulation(simulation)
        if self.inputs is not None:
            play = self.inputs(simulation, seed)
        elif suggests is not None:
            play = suggests.trial_inputs(seed)
        else:
            play = adapter.player(simulation, seed) if adapter is not None else lambda: None
        return play if not self.seeds_resets else _with_seeds(play, seed)

    def live(self, seed: int, ticks: int) -> ConformanceRun:
        """Run the simulation live, without a recorder."""
        control = self._control(seed, ticks)
        run = self._live(seed, ticks)
        if control is None:
            return run
        differing = (differing_leaves(*pair) for pair in zip(run.results, control, strict=False))
        return attrs.evolve(run, unstable=frozenset(path for paths in differing for path in paths))

    def _live(self, seed: int, ticks: int) -> ConformanceRun:
        simulation = self.simulation(seed)
        play = self.player(simulation, seed)
        names = returned_names(adapter_of_simulation(simulation))
        run = ConformanceRun(seed, [], [simulation.state.hash()], [simulation.state.snapshot()])
        for _ in range(ticks):
            encoded = encode_plain(play())
            result = simulation.step(decode_plain(encoded))  # type: ignore[func-returns-value]
            run.inputs.append(encoded)
            run.hashes.append(simulation.state.hash())
            run.states.append(simulation.state.snapshot())
            run.results.append(leaves_of(result, names))
        return run

    def _control(self, seed: int, ticks: int) -> list[Leaves] | None:
        """What the steps of an equal run return in a copy of this process; None if there can be none."""
        if self.stuck:
            return None
        try:
            ensure_can_isolate()
            ended = run_isolated(lambda send: send(self._live(seed, ticks).results), CONTROL_S, PATIENCE_S)
        except (NotIsolatedError, OSError):
            return None
        if ended.was_waiting:
            self.stuck.append(ended)
        return ended.messages[0] if ended.messages else None


def _with_seeds(play: Callable[[], Any], seed: int) -> Callable[[], Any]:
    """The same inputs, with a seed at each reset that has none."""
    generator = random.Random(seed)  # noqa: S311 - the seeds must be the same each time

    def play_with_seeds() -> Any:
        inputs = play()
        if isinstance(inputs, dict) and "reset" in inputs and inputs["reset"] is None:
            return {**inputs, "reset": generator.randrange(1 << 31)}
        return inputs

    return play_with_seeds


def simulation_from(made: Any, step: str | None = None, ignore: Sequence[str] = ()) -> Simulation:
    """Convert an object to a simulation, with an adapter if needed. Raises TypeError or NoAdapterError.

    step: the name of the method that makes a step, for a plain object with another name than "step". ignore: names of
    attributes that no step reads.
    """
    if step is not None or ignore:
        return as_simulation(adapt(made, step=step, ignore=ignore))
    # An object may have a state of its own, and an environment of PettingZoo a method of this name.
    is_simulation = hasattr(made, "step") and hasattr(made, "save") and hasattr(made, "load")
    try:
        return as_simulation(made)
    except TypeError:
        if is_simulation and adapter_for(made) is None:
            raise
        return as_simulation(adapt(made))


def adapter_of_simulation(simulation: Any) -> Adapter | None:
    """Return the adapter that made a simulation, or None."""
    adapted = hook(inner_of(simulation), HasAdapter)
    match adapted.adapter if adapted is not None else None:
        case {"name": str(name)}:
            return adapter_named(name)
    return None


def check_run(subject: Subject, run: ConformanceRun) -> list[ConformanceViolation]:
    """Return the violations of all trials on one run, except the trial in another process."""
    violations = [check_same_seed(subject, run), *check_loads(subject, run), check_recorder(subject, run)]
    return [violation for violation in violations if violation is not None]


def check_from_start(subject: Subject, run: ConformanceRun) -> list[ConformanceViolation]:
    """As check_run, for instances that begin differently: each is put into the state in which the run began."""

    def begun() -> Simulation:
        simulation = subject.simulation(run.seed)
        restore(simulation, run.states[0])
        return simulation

    try:
        begun()
    except Exception as error:  # noqa: BLE001 - any exception of a user's load is a violation
        return [ConformanceViolation(FRESH, run.seed, 0, 0, (), raised_text("the load", error))]
    started = attrs.evolve(subject, make=begun, is_seeded=False, step=None, ignore=())
    violations = [check_same_seed(started, run), *check_loads(subject, run), check_recorder(started, run)]
    return [violation for violation in violations if violation is not None]


def check_loads(subject: Subject, run: ConformanceRun) -> list[ConformanceViolation]:
    """Load the states of random ticks into fresh instances and into a used one, and continue the run."""
    ticks = len(run.inputs)
    generator = random.Random(run.seed)  # noqa: S311 - the ticks must be the same each time
    ticks_saved = sorted(generator.sample(range(1, ticks), min(LOADS, ticks - 1)))
    violations: list[ConformanceViolation | None] = []
    level = level_of(subject.simulation(run.seed))
    used: Simulation | None = None
    for tick in ticks_saved:
        reference = run if level is not Level.CANONICAL else _loaded_live(subject, run, tick)
        violations.append(check_load(subject.simulation(run.seed), reference, tick, FRESH))
        if used is None:
            used = subject.simulation(run.seed)
            play = subject.player(used, run.seed + 1_000_003)
            for _ in range(ticks // 2):
                used.step(decode_plain(encode_plain(play())))
        violations.append(check_load(used, reference, tick, USED))
    return [violation for violation in violations if violation is not None]


def check_same_seed(subject: Subject, run: ConformanceRun) -> ConformanceViolation | None:
    """Run the same inputs in another instance."""
    return _follow(subject.simulation(run.seed), run, 0, len(run.inputs), SAME_SEED)


def check_load(simulation: Simulation, run: ConformanceRun, tick: int, trial: str) -> ConformanceViolation | None:
    """Load the state of a tick and continue the run."""
    try:
        restore(simulation, run.states[tick])
    except Exception as error:  # noqa: BLE001 - any exception of a user's load is a violation
        return ConformanceViolation(trial, run.seed, tick, tick, (), raised_text("the load", error))
    return _follow(simulation, run, tick, min(len(run.inputs), tick + AHEAD_TICKS), trial)


def check_recorder(subject: Subject, run: ConformanceRun) -> ConformanceViolation | None:
    """Run the same inputs while recording, with many keyframes: being saved must not change a run."""
    if level_of(subject.simulation(run.seed)) is Level.CANONICAL:
        return (
            None  # Saves change a canonical simulation by design; the loads check that the change is always the same.
        )
    violation = _check_saves(subject, run)
    if violation is not None:
        return violation
    with tempfile.TemporaryDirectory() as folder:
        simulation = subject.simulation(run.seed)
        with Recorder(
            Path(folder) / "run.tape", simulation, keyframe_interval_ticks=KEYFRAME_TICKS, durability="none", trial_ms=0
        ) as tape:
            return _follow(tape.simulation, run, 0, len(run.inputs), RECORDED, tape.step)


def _check_saves(subject: Subject, run: ConformanceRun) -> ConformanceViolation | None:
    """Compare the run, which was saved at each tick, with one that is saved only at its end."""
    unsaved = subject.made(run.seed)
    if not isinstance(subject.simulation(run.seed), ArenaOfSaved) or not isinstance(unsaved, SavedSimulation):
        return None
    for encoded in run.inputs:
        unsaved.step(decode_plain(encoded))
    last = len(run.inputs)
    now = as_simulation(unsaved).state.snapshot()
    fields = differing_fields(run.states[last], now)
    named = named_differences(run.states[last], now, fields) if fields else ""
    text = f"state differs from that of a run that is never saved, at tick {last}: {named}"
    return ConformanceViolation(RECORDED, run.seed, last, 0, fields, text) if fields else None


def _loaded_live(subject: Subject, run: ConformanceRun, tick: int) -> ConformanceRun:
    """Repeat the run with its own state loaded at a tick, as a recorded canonical simulation does at keyframes."""
    simulation = subject.simulation(run.seed)
    for encoded in run.inputs[:tick]:
        simulation.step(decode_plain(encoded))
    restore(simulation, simulation.state.snapshot())
    hashes, states = [*run.hashes[: tick + 1]], [*run.states[: tick + 1]]
    for encoded in run.inputs[tick:]:
        simulation.step(decode_plain(encoded))
        hashes.append(simulation.state.hash())
        states.append(simulation.state.snapshot())
    return attrs.evolve(run, hashes=hashes, states=states)


def _follow(
    simulation: Simulation,
    run: ConformanceRun,
    start: int,
    end: int,
    trial: str,
    step: Callable[[Any], Any] | None = None,
) -> ConformanceViolation | None:
    """Continue with a run's inputs; return the violation at the first divergent tick."""
    loaded = start if trial in (FRESH, USED) else 0
    names = returned_names(adapter_of_simulation(simulation))
    for tick in range(start, end + 1):
        result: Any = None
        if tick > start:
            try:
                result = (step or simulation.step)(decode_plain(run.inputs[tick - 1]))
            except Exception as error:  # noqa: BLE001 - an incomplete state may fail in any way; that is a violation
                return ConformanceViolation(trial, run.seed, tick, loaded, (), raised_text("the step", error))
        if simulation.state.hash() != run.hashes[tick]:
            now = simulation.state.snapshot()
            fields = differing_fields(run.states[tick], now)
            named = named_differences(run.states[tick], now, fields)
            return ConformanceViolation(
                trial, run.seed, tick, loaded, fields, f"state differs from the live run at tick {tick}: {named}"
            )
        returned = returned_differently(run, tick, leaves_of(result, names)) if tick > start else ()
        if returned:
            text = f"step {tick} returned other values than in the live run: {', '.join(returned)}"
            return ConformanceViolation(trial, run.seed, tick, loaded, (), text, returned)
    return None


def returned_differently(run: ConformanceRun, tick: int, leaves: Leaves) -> tuple[str, ...]:
    """The parts of what a step returned that differ from the run."""
    if run.unstable is None:
        return ()
    return tuple(path for path in differing_leaves(run.results[tick - 1], leaves) if path not in run.unstable)
