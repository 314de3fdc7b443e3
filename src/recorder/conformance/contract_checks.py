"""What a simulation promises whoever records it, tried on many seeds: the trials behind SimulationContract and check.

Same seed twice, a fresh process with another PYTHONHASHSEED, save and load at random ticks into a fresh instance and
into a used one, a recorder beside it. With few seeds a save that forgets something rare looks exact: eight are the least
to be trusted.
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
AHEAD_TICKS = 40  # How far a loaded one goes on.
KEYFRAME_TICKS = 16  # A recorder beside it saves so often.

SAME_SEED, PROCESS, FRESH, USED, RECORDED = (
    "same seed twice", "fresh process", "save and load", "used instance", "recorder beside it",
)  # fmt: skip

Inputs = Callable[[Simulation, int], Callable[[], Any]]  # From a simulation and a seed to what gives its next inputs.


@attrs.frozen
class ConformanceViolation:
    """A promise that was not kept.

    Attributes:
        trial: which: "same seed twice", "fresh process", "save and load", "used instance", "recorder beside it".
        seed: of the run.
        tick: the first where the state was another one.
        from_tick: where the state was loaded; 0 if it was not.
        fields: names of the fields that differ there, where both states are at hand.
        text: in a sentence.
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
        seed: of its inputs.
        inputs: of each tick, encoded.
        hashes: of each tick, from tick 0.
        states: of each tick.
    """

    seed: int
    inputs: list[bytes]
    hashes: list[int]
    states: list[Snapshot]


@attrs.frozen(eq=False)
class Subject:
    """What is tried.

    Attributes:
        make: makes a simulation, always the same, or something that an adapter is for.
        inputs: what gives the inputs; None for the adapter's own random player.
        place: (file, name) where another process finds make; None leaves that trial out.
    """

    make: Callable[[], Any]
    inputs: Inputs | None = None
    place: tuple[str, str] | None = None

    def simulation(self) -> Simulation:
        """A new one. Raises TypeError, and what making it raises."""
        return simulation_from(self.make())

    def player(self, simulation: Simulation, seed: int) -> Callable[[], Any]:
        """What gives the inputs of a run."""
        if self.inputs is not None:
            return self.inputs(simulation, seed)
        adapter = adapter_of_simulation(simulation)
        return adapter.player(simulation, seed) if adapter is not None else lambda: None

    def live(self, seed: int, ticks: int) -> ConformanceRun:
        """Run it live."""
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
    """What was made as a simulation, by an adapter if it is none by itself. Raises TypeError or NoAdapterError."""
    is_one = hasattr(made, "step") and (hasattr(made, "state") or (hasattr(made, "save") and hasattr(made, "load")))
    try:
        return as_simulation(made)
    except TypeError:
        if is_one and adapter_for(made) is None:  # PettingZoo's environments have a method named state.
            raise
        return as_simulation(adapt(made))


def adapter_of_simulation(simulation: Any) -> Adapter | None:
    """The adapter that has made a simulation, if one has."""
    found = hook(inner_of(simulation), HasAdapter)
    match found.adapter if found is not None else None:
        case {"name": str(name)}:
            return adapter_named(name)
    return None


def check_run(subject: Subject, run: ConformanceRun) -> list[ConformanceViolation]:
    """Try everything on one run, but for the other process; what was not kept."""
    found = [check_same_seed(subject, run), *check_loads(subject, run), check_recorder(subject, run)]
    return [one for one in found if one is not None]


def check_loads(subject: Subject, run: ConformanceRun) -> list[ConformanceViolation]:
    """Load the states of random ticks into fresh instances and into a used one, and go on."""
    ticks = len(run.inputs)
    chosen = random.Random(run.seed)  # noqa: S311 - the ticks are to be the same each time
    ticks_saved = sorted(chosen.sample(range(1, ticks), min(LOADS, ticks - 1)))
    found: list[ConformanceViolation | None] = []
    level = level_of(subject.simulation())
    used: Simulation | None = None
    for tick in ticks_saved:
        reference = run if level is not Level.CANONICAL else _loaded_live(subject, run, tick)
        found.append(check_load(subject.simulation(), reference, tick, FRESH))
        if used is None:
            used = subject.simulation()
            play = subject.player(used, run.seed + 1_000_003)
            for _ in range(ticks // 2):
                used.step(decode_plain(encode_plain(play())))
        found.append(check_load(used, reference, tick, USED))
    return [one for one in found if one is not None]


def check_same_seed(subject: Subject, run: ConformanceRun) -> ConformanceViolation | None:
    """The same inputs into another instance."""
    return _follow(subject.simulation(), run, 0, len(run.inputs), SAME_SEED)


def check_load(simulation: Simulation, run: ConformanceRun, tick: int, trial: str) -> ConformanceViolation | None:
    """Load the state of a tick and go on."""
    try:
        restore(simulation, run.states[tick])
    except Exception as error:  # noqa: BLE001 - whatever a load of a user's raises is the finding
        return ConformanceViolation(trial, run.seed, tick, tick, (), raised_text("the load", error))
    return _follow(simulation, run, tick, min(len(run.inputs), tick + AHEAD_TICKS), trial)


def check_recorder(subject: Subject, run: ConformanceRun) -> ConformanceViolation | None:
    """The same inputs while it is recorded, with many keyframes: being saved must not change a run."""
    if level_of(subject.simulation()) is Level.CANONICAL:
        return None  # There it does, and says so; that it is always the same change is what the loads show.
    moved = _moved_by_saves(subject, run)
    if moved is not None:
        return moved
    with tempfile.TemporaryDirectory() as folder:
        simulation = subject.simulation()
        with Recorder(
            Path(folder) / "run.tape", simulation, keyframe_interval_ticks=KEYFRAME_TICKS, durability="none"
        ) as tape:
            return _follow(tape.simulation, run, 0, len(run.inputs), RECORDED, tape.step)


def _moved_by_saves(subject: Subject, run: ConformanceRun) -> ConformanceViolation | None:
    """Compare the run, which was saved at each tick, with one that is saved only at its end."""
    alone = subject.make()
    if not isinstance(subject.simulation(), ArenaOfSaved) or not isinstance(alone, SavedSimulation):
        return None
    for encoded in run.inputs:
        alone.step(decode_plain(encoded))
    last = len(run.inputs)
    fields = _differing(run.states[last], as_simulation(alone).state.snapshot())
    text = f"at tick {last} {', '.join(fields)} is not what it is in a run that is never saved"
    return ConformanceViolation(RECORDED, run.seed, last, 0, fields, text) if fields else None


def check_process(subject: Subject, runs: Sequence[ConformanceRun]) -> list[ConformanceViolation]:
    """The same inputs in a fresh process whose sets and dicts of texts have another order.

    Raises RuntimeError if that process cannot make the simulation.
    """
    if subject.place is None:
        return []
    told = msgpack.packb({"place": subject.place, "path": sys.path, "runs": [run.inputs for run in runs]})
    seed = "0" if os.environ.get("PYTHONHASHSEED") != "0" else "1"
    variables = {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = start_python(module_program("recorder.conformance.contract_process"), environment=variables)
    finished = finish(process, told)
    if finished.exit_code:
        raise RuntimeError(f"another process cannot run it: {finished.last_words or finished.exit_code}")
    found = []
    for run, hashes in zip(runs, msgpack.unpackb(finished.output), strict=True):
        pairs = zip(run.hashes, hashes, strict=True)
        bad = next((tick for tick, (mine, other) in enumerate(pairs) if mine != other), None)
        if bad is not None:
            text = (
                f"the state of tick {bad} is another one there: it depends on the order of a set, on time or on chance"
            )
            found.append(ConformanceViolation(PROCESS, run.seed, bad, 0, (), text))
    return found


def _loaded_live(subject: Subject, run: ConformanceRun, tick: int) -> ConformanceRun:
    """The run with its own state loaded at a tick, as a canonical simulation's live run does at keyframes."""
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
    """Go on with a run's inputs; the first tick with another state."""
    loaded = start if trial in (FRESH, USED) else 0
    for tick in range(start, end + 1):
        if tick > start:
            try:
                (step or simulation.step)(decode_plain(run.inputs[tick - 1]))
            except Exception as error:  # noqa: BLE001 - what lacks something may fail in any way; that is the finding
                return ConformanceViolation(trial, run.seed, tick, loaded, (), raised_text("the step", error))
        if simulation.state.hash() != run.hashes[tick]:
            fields = _differing(run.states[tick], simulation.state.snapshot())
            named = ", ".join(fields) or "the layout of the state"
            return ConformanceViolation(
                trial, run.seed, tick, loaded, fields, f"at tick {tick} {named} is not what it was"
            )
    return None


def _differing(one: Snapshot, other: Snapshot) -> tuple[str, ...]:
    names = [*one, *(name for name in other if name not in one.layout.slots)]
    return tuple(
        name
        for name in names
        if name not in one.layout.slots
        or name not in other.layout.slots
        or one[name].tobytes() != other[name].tobytes()
    )
