"""Write down what a simulation does, phase by phase and field by field: the truth that the laboratory is held against.

It shares nothing with the laboratory but the kernel's list of phases: the bytes of every field are kept as a digest.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from recorder import Recorder
from sim.kernel.simulation import as_simulation, restore, watched_phases
from sim.kernel.state import Snapshot

TICKS = 40
KEYFRAME_TICKS = 10
FOLDERS = {"sound": Path(__file__).parent / "sound", "faulty": Path(__file__).parent / "faulty"}

Digests = dict[str, str]  # By field.


@attrs.frozen
class Step:
    """What one step did.

    Attributes:
        phases: name and digests behind each; none for a simulation without phases.
        end: digests when it was over.
    """

    phases: list[tuple[str, Digests]]
    end: Digests


@attrs.frozen
class Truth:
    """Where two runs part: the tick, the fields that differ behind it, and the phase behind which one does first."""

    tick: int
    fields: set[str]
    phase: str | None


def digests(simulation: Any) -> Digests:
    """Of each field of a simulation's state, a table's whole capacity and the row counts included, as the arena has them."""
    state = simulation.state.snapshot()
    found = {}
    for name, slot in state.layout.slots.items():
        lies = state.arena[slot.offset : slot.offset + slot.size_bytes]
        found[name] = hashlib.blake2b(lies.tobytes(), digest_size=16).hexdigest()
    return found


def observe(simulation: Any) -> list[Step]:
    """From now on each step of the simulation is written down; the list grows with it."""
    steps: list[Step] = []
    inner = simulation.step

    def step(inputs: Any) -> None:
        phases: list[tuple[str, Digests]] = []
        if getattr(simulation, "phases", None):
            with watched_phases(simulation, lambda name: phases.append((name, digests(simulation)))):
                inner(inputs)
        else:
            inner(inputs)
        steps.append(Step(phases, digests(simulation)))

    simulation.step = step
    return steps


def record(
    path: Path, candidate: Any, inputs: Callable[[int], Any], ticks: int = TICKS
) -> tuple[list[Step], list[Snapshot]]:
    """Record a run; what its steps did, and the states of its keyframes."""
    simulation = as_simulation(candidate)
    blame = "phases" if hasattr(simulation, "phases") else "fields"
    steps, snapshots = observe(simulation), [simulation.state.snapshot()]
    with Recorder(path, simulation, keyframe_interval_ticks=KEYFRAME_TICKS, blame=blame, changes="scan") as recorder:
        for tick in range(1, ticks + 1):
            recorder.step(inputs(tick))
            if tick % KEYFRAME_TICKS == 0:
                snapshots.append(simulation.state.snapshot())
    return steps, snapshots


def replay(
    factory: Callable[[], Any], inputs: Callable[[int], Any], snapshots: Sequence[Snapshot] | None, ticks: int = TICKS
) -> list[Step]:
    """What the steps of fresh instances do that each start from a keyframe, or of one that starts from the beginning."""
    found: list[Step] = []
    starts: list[Snapshot | None] = list(snapshots[: ticks // KEYFRAME_TICKS]) if snapshots is not None else [None]
    for number, snapshot in enumerate(starts):
        simulation = as_simulation(factory())
        if snapshot is not None:
            restore(simulation, snapshot)
        steps = observe(simulation)
        for tick in range(
            number * KEYFRAME_TICKS + 1, (number + 1) * KEYFRAME_TICKS + 1 if snapshot is not None else ticks + 1
        ):
            simulation.step(inputs(tick))
        found += steps
    return found


def first_difference(recorded: Sequence[Step], replayed: Sequence[Step]) -> Truth | None:
    """Go through both runs and stop at the first tick behind which any field differs; None if none does."""
    for tick, (one, other) in enumerate(zip(recorded, replayed, strict=True), 1):
        if one.end != other.end:
            fields = {name for name in {*one.end, *other.end} if one.end.get(name) != other.end.get(name)}
            pairs = zip(one.phases, other.phases, strict=True)
            return Truth(tick, fields, next((mine[0] for mine, yours in pairs if mine != yours), None))
    return None


def load(version: str, module: str) -> Any:
    """A module of the zoo, executed anew as in a new process: its globals and caches are as at the beginning."""
    spec = importlib.util.spec_from_file_location(module, FOLDERS[version] / f"{module}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded  # Where the laboratory looks for globals.
    spec.loader.exec_module(loaded)
    return loaded


def main(folder: str, *names: str) -> None:
    """Record these faulty ones, each as module:class, in a process with another environment; truths beside the tapes."""
    for name in names:
        module, _, kind = name.partition(":")
        steps, _ = record(Path(folder) / f"{kind}.tape", getattr(load("faulty", module), kind)(), lambda _: None)
        plain = [[step.phases, step.end] for step in steps]
        (Path(folder) / f"{kind}.json").write_text(json.dumps(plain))


def read_steps(path: Path) -> list[Step]:
    """What main wrote."""
    plain = json.loads(path.read_text())
    return [Step([(name, found) for name, found in phases], end) for phases, end in plain]


if __name__ == "__main__":
    main(*sys.argv[1:])
