"""Conformance trials of a simulation over many seeds, for SimulationContract and the command check.

The trials: the same seed twice; a fresh process with a different PYTHONHASHSEED; save and load at random ticks, into a
fresh instance and into a used one; a run with a recorder. With few seeds, a save that omits something rare passes:
eight is the least number to trust.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import msgpack

from recorder.exception_text import raised_text
from recorder.processes.interpreter import finish, module_program, start_python
from recorder.session.recorder import Recorder
from sim.adapters.find_adapter import adapt
from sim.adapters.interface.adapter_registry import Adapter, adapter_for, adapter_named
from sim.kernel.exactness import Level, level_of
from sim.kernel.hooks import HasAdapter, hook
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.simulation import ArenaOfSaved, SavedSimulation, Simulation, as_simulation, inner_of, restore
from sim.kernel.state import Snapshot

SEEDS = 8
TICKS = 200
LOADS = 6  # Random ticks of each seed at which a state is saved and loaded.
AHEAD_TICKS = 40  # Steps of an instance after a load.
KEYFRAME_TICKS = 16  # The recorder of the trial saves every so many ticks.

SAME_SEED, PROCESS, FRESH, USED, RECORDED = (
    "same seed twice", "fresh process", "save and load", "used instance", "recorder attached",
)  # fmt: skip

Inputs = Callable[[Simulation, int], Callable[[], Any]]  # Maps a simulation and a seed to a source of inputs.


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
    """

    trial: str
    seed: int
    tick: int
    from_tick: int
    fields: tuple[str, ...]
    text: str

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
    """

    seed: int
    inputs: list[bytes]
    hashes: list[int]
    states: list[Snapshot]


@attrs.frozen(eq=False)
class Subject:
    """The simulation to check, and its inputs.

    Attributes:
        make: returns a simulation, always in the same state, or an object that has an adapter.
        inputs: makes the source of inputs; None for the random player of the adapter.
        location: (file, name) of make for another process; None skips that trial.
    """

    make: Callable[[], Any]
    inputs: Inputs | None = None
    location: tuple[str, str] | None = None

    def simulation(self) -> Simulation:
        """Make a new simulation. Raises TypeError, and any exception of make."""
        return simulation_from(self.make())

    def player(self, simulation: Simulation, seed: int) -> Callable[[], Any]:
        """Return the source of inputs of a run."""
        if self.inputs is not None:
            return self.inputs(simulation, seed)
        adapter = adapter_of_simulation(simulation)
        return adapter.player(simulation, seed) if adapter is not None else lambda: None

    def live(self, seed: int, ticks: int) -> ConformanceRun:
        """Run the simulation live, without a recorder."""
        simulation = self.simulation()
        play = self.player(simulation, seed)
        run = ConformanceRun(seed, [], [simulation.state.hash()], [simulation.state.snapshot()])
        for _ in range(ticks):
            encoded = encode_plain(play())
            simulation.step(decode_plain(encoded))
            run.inputs.append(encoded)
            run.hashes.append(simulation.state.hash())
            run.states.append(simulation.state.snapshot())
        return run


def simulation_from(made: Any) -> Simulation:
    """Convert an object to a simulation, with an adapter if needed. Raises TypeError or NoAdapterError."""
    is_simulation = hasattr(made, "step") and (
        hasattr(made, "state") or (hasattr(made, "save") and hasattr(made, "load"))
    )
    try:
        return as_simulation(made)
    except TypeError:
        if is_simulation and adapter_for(made) is None:  # PettingZoo's environments have a method named state.
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


def check_loads(subject: Subject, run: ConformanceRun) -> list[ConformanceViolation]:
    """Load the states of random ticks into fresh instances and into a used one, and continue the run."""
    ticks = len(run.inputs)
    generator = random.Random(run.seed)  # noqa: S311 - the ticks must be the same each time
    ticks_saved = sorted(generator.sample(range(1, ticks), min(LOADS, ticks - 1)))
    violations: list[ConformanceViolation | None] = []
    level = level_of(subject.simulation())
    used: Simulation | None = None
    for tick in ticks_saved:
        reference = run if level is not Level.CANONICAL else _loaded_live(subject, run, tick)
        violations.append(check_load(subject.simulation(), reference, tick, FRESH))
        if used is None:
            used = subject.simulation()
            play = subject.player(used, run.seed + 1_000_003)
            for _ in range(ticks // 2):
                used.step(decode_plain(encode_plain(play())))
        violations.append(check_load(used, reference, tick, USED))
    return [violation for violation in violations if violation is not None]


def check_same_seed(subject: Subject, run: ConformanceRun) -> ConformanceViolation | None:
    """Run the same inputs in another instance."""
    return _follow(subject.simulation(), run, 0, len(run.inputs), SAME_SEED)


def check_load(simulation: Simulation, run: ConformanceRun, tick: int, trial: str) -> ConformanceViolation | None:
    """Load the state of a tick and continue the run."""
    try:
        restore(simulation, run.states[tick])
    except Exception as error:  # noqa: BLE001 - any exception of a user's load is a violation
        return ConformanceViolation(trial, run.seed, tick, tick, (), raised_text("the load", error))
    return _follow(simulation, run, tick, min(len(run.inputs), tick + AHEAD_TICKS), trial)


def check_recorder(subject: Subject, run: ConformanceRun) -> ConformanceViolation | None:
    """Run the same inputs while recording, with many keyframes: being saved must not change a run."""
    if level_of(subject.simulation()) is Level.CANONICAL:
        return (
            None  # Saves change a canonical simulation by design; the loads check that the change is always the same.
        )
    violation = _check_saves(subject, run)
    if violation is not None:
        return violation
    with tempfile.TemporaryDirectory() as folder:
        simulation = subject.simulation()
        with Recorder(
            Path(folder) / "run.tape", simulation, keyframe_interval_ticks=KEYFRAME_TICKS, durability="none"
        ) as tape:
            return _follow(tape.simulation, run, 0, len(run.inputs), RECORDED, tape.step)


def _check_saves(subject: Subject, run: ConformanceRun) -> ConformanceViolation | None:
    """Compare the run, which was saved at each tick, with one that is saved only at its end."""
    unsaved = subject.make()
    if not isinstance(subject.simulation(), ArenaOfSaved) or not isinstance(unsaved, SavedSimulation):
        return None
    for encoded in run.inputs:
        unsaved.step(decode_plain(encoded))
    last = len(run.inputs)
    fields = _differing(run.states[last], as_simulation(unsaved).state.snapshot())
    text = f"state differs from that of a run that is never saved, at tick {last}: {', '.join(fields)}"
    return ConformanceViolation(RECORDED, run.seed, last, 0, fields, text) if fields else None


def check_process(subject: Subject, runs: Sequence[ConformanceRun]) -> list[ConformanceViolation]:
    """Run the same inputs in a fresh process, with a different hash seed and so a different order of sets.

    Raises RuntimeError if that process cannot run the simulation.
    """
    if subject.location is None:
        return []
    request = msgpack.packb({"location": subject.location, "path": sys.path, "runs": [run.inputs for run in runs]})
    seed = "0" if os.environ.get("PYTHONHASHSEED") != "0" else "1"
    variables = {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = start_python(module_program("recorder.conformance.contract_process"), environment=variables)
    finished = finish(process, request)
    if finished.exit_code:
        raise RuntimeError(f"the simulation cannot run in another process: {finished.last_words or finished.exit_code}")
    violations = []
    for run, hashes in zip(runs, msgpack.unpackb(finished.output), strict=True):
        pairs = zip(run.hashes, hashes, strict=True)
        divergent = next((tick for tick, (expected, actual) in enumerate(pairs) if expected != actual), None)
        if divergent is not None:
            text = (
                f"state differs in another process at tick {divergent}: "
                "it depends on the order of a set, on time or on chance"
            )
            violations.append(ConformanceViolation(PROCESS, run.seed, divergent, 0, (), text))
    return violations


def _loaded_live(subject: Subject, run: ConformanceRun, tick: int) -> ConformanceRun:
    """Repeat the run with its own state loaded at a tick, as a recorded canonical simulation does at keyframes."""
    simulation = subject.simulation()
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
    for tick in range(start, end + 1):
        if tick > start:
            try:
                (step or simulation.step)(decode_plain(run.inputs[tick - 1]))
            except Exception as error:  # noqa: BLE001 - an incomplete state may fail in any way; that is a violation
                return ConformanceViolation(trial, run.seed, tick, loaded, (), raised_text("the step", error))
        if simulation.state.hash() != run.hashes[tick]:
            fields = _differing(run.states[tick], simulation.state.snapshot())
            named = ", ".join(fields) or "the layout of the state"
            return ConformanceViolation(
                trial, run.seed, tick, loaded, fields, f"state differs from the live run at tick {tick}: {named}"
            )
    return None


def _differing(expected: Snapshot, actual: Snapshot) -> tuple[str, ...]:
    names = [*expected, *(name for name in actual if name not in expected.layout.slots)]
    return tuple(
        name
        for name in names
        if name not in expected.layout.slots
        or name not in actual.layout.slots
        or expected[name].tobytes() != actual[name].tobytes()
    )
