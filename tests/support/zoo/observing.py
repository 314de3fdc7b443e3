"""Record digests of every field after every phase of a simulation: the truth that explain's findings are compared with.

It shares only the kernel's list of phases with explain.
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
    """The digests of one step.

    Attributes:
        phases: name of each phase and digests after it; empty for a simulation without phases.
        end: digests after the step.
    """

    phases: list[tuple[str, Digests]]
    end: Digests


@attrs.frozen
class Truth:
    """The first divergence of two runs: the tick, the fields that differ after it, and the first divergent phase."""

    tick: int
    fields: set[str]
    phase: str | None


def digests(simulation: Any) -> Digests:
    """Return the digest of each field of the state in the arena, including free rows of tables and row counts."""
    state = simulation.state.snapshot()
    by_field = {}
    for name, slot in state.layout.slots.items():
        content = state.arena[slot.offset : slot.offset + slot.size_bytes]
        by_field[name] = hashlib.blake2b(content.tobytes(), digest_size=16).hexdigest()
    return by_field


def observe(simulation: Any) -> list[Step]:
    """Record each further step of the simulation in the returned list."""
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
    """Record a run; return the digests of its steps, and the states of its keyframes."""
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
    """Return the steps of fresh instances that each start from a keyframe, or of one instance from tick 0."""
    replayed: list[Step] = []
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
        replayed += steps
    return replayed


def first_difference(recorded: Sequence[Step], replayed: Sequence[Step]) -> Truth | None:
    """Return the first divergence of two runs; None if there is none."""
    for tick, (one, other) in enumerate(zip(recorded, replayed, strict=True), 1):
        if one.end != other.end:
            fields = {name for name in {*one.end, *other.end} if one.end.get(name) != other.end.get(name)}
            pairs = zip(one.phases, other.phases, strict=True)
            return Truth(tick, fields, next((mine[0] for mine, yours in pairs if mine != yours), None))
    return None


def load(version: str, module: str) -> Any:
    """Execute a module of the zoo again, as in a new process: with fresh globals and caches."""
    spec = importlib.util.spec_from_file_location(module, FOLDERS[version] / f"{module}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded  # explain reads globals there.
    spec.loader.exec_module(loaded)
    return loaded


def main(folder: str, *names: str) -> None:
    """Record faulty simulations, each given as module:class, in a process with a different environment; write the truths."""
    for name in names:
        module, _, kind = name.partition(":")
        steps, _ = record(Path(folder) / f"{kind}.tape", getattr(load("faulty", module), kind)(), lambda _: None)
        plain = [[step.phases, step.end] for step in steps]
        (Path(folder) / f"{kind}.json").write_text(json.dumps(plain))


def read_steps(path: Path) -> list[Step]:
    """Read the steps that main wrote."""
    plain = json.loads(path.read_text())
    return [Step([(name, digest) for name, digest in phases], end) for phases, end in plain]


if __name__ == "__main__":
    main(*sys.argv[1:])
