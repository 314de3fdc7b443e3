"""Everything that the next step reads is in the state: a run continues exactly from any snapshot in any instance."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import replayer
import sim.worlds.choreography
from replayer.timeline.verify import verify_tape
from sim.kernel.messages import Message
from sim.kernel.simulation import restore
from sim.scenario.scenario_file import SUFFIX
from sim.worlds.choreography import WORLD, Choreography
from sim.worlds.choreography.run.simulation import summarize

from oracle.protocols import REGISTERS, configs
from small_worlds import record

TICKS = 12
SHIPPED = sorted(Path(sim.worlds.choreography.__file__).parent.glob(f"scenarios/*{SUFFIX}"))
FIELDS = st.sampled_from(
    [
        None,
        {"kind": "mean_field", "beta": "1.5", "species": 3, "initial_state": ["0.5", "0.3", "0.2"], "step": "0.1"},
        {"kind": "hamiltonian", "k": 2, "mass": "1.5", "step": "0.1"},
        {"kind": "continuum", "coupling": "0.5", "step": "0.1"},
    ]
)
POLICIES = st.sampled_from(
    ["cooperative", "round_robin", "priority_aging", "priority_token_weighted", "progress_aware"]
)


def read(path: Path) -> dict[str, Any]:
    """Read a scenario as plain data."""
    import tomllib

    return tomllib.loads(path.read_text(encoding="utf-8"))


@st.composite
def full_configs(draw: st.DrawFn) -> dict[str, Any]:
    """Random protocols with sessions, schedulers and fields."""
    config = draw(configs(scheduled=draw(st.booleans())))
    field = draw(FIELDS)
    roles = config["protocol"]["roles"]
    if field is not None:
        lists = {"hamiltonian": ("positions", "momenta"), "continuum": ("fields",)}.get(field["kind"], ())
        decimals = st.lists(st.integers(-9, 9), min_size=len(roles), max_size=len(roles))
        config = {**config, "initial": [], "field": {**field, **{key: draw(decimals) for key in lists}}}
    scheduler = {"policy": draw(POLICIES), "concurrency": draw(st.integers(1, 5))}
    return {**config, "sessions": draw(st.integers(1, 2)), "scheduler": scheduler}


class Late:
    """A router that keeps each third message and delivers it two ticks later, if there is room."""

    def __init__(self, world: Choreography, kept: dict[int, Message]) -> None:
        self.world, self.kept = world, kept
        world.router = self.route

    def route(self, message: Message) -> Message | None:
        """Keep each third message."""
        if message.number % 3:
            return message
        self.kept[int(self.world.state["tick"]) + 2] = message
        return None

    def step(self) -> Any:
        """Deliver a late message, step, and return everything that is observable."""
        late = self.kept.pop(int(self.world.state["tick"]), None)
        if late is not None:
            self.world.deliver(late)
        self.world.step(None)
        world = self.world
        return world.events(), world.state.arena.tobytes(), world.telemetry(), world.ended(), world.buffered_count()


@pytest.mark.seldom(0.15)
@settings(deadline=None, max_examples=12)
@given(full_configs(), st.booleans())
def test_a_run_continues_exactly_from_any_snapshot(config: dict[str, Any], late: bool) -> None:  # noqa: FBT001
    """In a fresh instance and in a used one: the same events, bytes and figures at every later tick."""
    first = Choreography(config)
    run = Late(first, {})
    if not late:
        first.router = None
    seen, snapshots = [], []
    for _ in range(TICKS):
        snapshots.append((first.state.snapshot(), dict(run.kept)))
        seen.append(run.step())
    again = Choreography(config)
    repeated = Late(again, {})
    if not late:
        again.router = None
    assert [repeated.step() for _ in range(TICKS)] == seen  # A second run with the same seed.
    for tick, (snapshot, kept) in enumerate(snapshots):
        for world in (Choreography(config), again):
            restore(world, snapshot)
            assert world.events() == ()
            assert world.progress() == world.progress()
            continued = Late(world, dict(kept))
            if not late:
                world.router = None
            assert [continued.step() for _ in range(TICKS - tick)] == seen[tick:]


PRINTING = """
import json, sys
from sim.worlds.choreography import Choreography
for config in json.load(sys.stdin):
    world = Choreography(config)
    for _ in range(60):
        world.step(None)
        print(f"{world.state.hash():016x}", json.dumps(world.events()))
"""


def test_another_process_gives_the_same_bytes() -> None:
    """The processes have different hash seeds: no order of a set or dict of texts may matter."""
    import json

    configs_json = json.dumps([read(path) for path in SHIPPED])
    printed = [
        subprocess.run(
            [sys.executable, "-c", PRINTING],
            input=configs_json,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "4242")
    ]
    assert printed[0] == printed[1]
    assert printed[0].count("\n") == 60 * len(SHIPPED) > 100


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_scenario_is_recorded_verified_and_sought(path: Path, tmp_path: Path) -> None:
    """Another instance verifies the tape and seeks ticks in its middle."""
    config = read(path)
    assert (config["world"], config["name"]) == (WORLD.name, path.stem)
    tape_path = tmp_path / "run.tape"
    source = WORLD.inputs(config)
    live = record(tape_path, WORLD.make(config), [source(t) for t in range(1, 101)], keyframe_interval_ticks=16)
    report = verify_tape(tape_path, lambda: Choreography(config))
    assert (report.ok, report.verified_ticks) == (True, 101)
    with replayer.open(tape_path, lambda: Choreography(config)) as run:
        for tick in (0, 1, 37, 100, 36):
            run.seek(tick)
            assert run.state.arena.tobytes() == live[tick]
    world = WORLD.make(config)
    for _ in range(100):
        world.step(None)
    assert world.state.arena.tobytes() == live[100]
    figures = summarize(config, world.state.snapshot())
    assert list(figures)[:3] == ["roles", "messages", "productive steps"]
    assert figures["messages"].endswith("waiting")


def test_the_register_count_of_the_strategies() -> None:
    """The oracle reads the same registers as the world."""
    assert Choreography({"protocol": {"roles": ["A", "B"], "steps": [{"send": "x", "from": "A", "to": "B"}]},
                         "registers": REGISTERS}).state["roles.registers"].shape == (2, REGISTERS)  # fmt: skip
