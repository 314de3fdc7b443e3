"""The world on a tape: seeks, verification, write contracts and the checks of a simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import recorder
import replayer
from recorder.testing import SimulationContract
from replayer.diagnose import guarded
from replayer.timeline.verify import verify_tape
from sim.worlds.organisms import WORLD, Organisms
from sim.worlds.organisms.simulation import layers, picture, summarize

CONFIG: dict[str, Any] = {
    "world": "organisms",
    "seed": 3,
    "organisms_max": 25,
    "seed_bank_max": 10,
    "mutation": 9,
    "inflow": 300,
    "inputs": [{"kind": "inject", "tick": 8, "every": 9, "program": "eat inc copy divide", "count": 2}],
}


class TestOrganismsContract(SimulationContract):
    """The checks for implementers."""

    seeds, ticks = 1, 30

    def make(self) -> Organisms:
        return Organisms(CONFIG)


def test_a_tape_is_sought_and_verified(tmp_path: Path) -> None:
    world, inputs_at, hashes = Organisms(CONFIG), WORLD.inputs(CONFIG), {}
    with recorder.Recorder(tmp_path / "a.tape", world, keyframe_interval_ticks=10) as tape:
        for tick in range(1, 41):
            tape.step(inputs_at(tick))
            hashes[tick] = world.state.hash()
    assert verify_tape(tmp_path / "a.tape").ok
    with replayer.open(tmp_path / "a.tape") as run:
        for tick in (40, 7, 23):
            assert run.seek(tick).state_hash == hashes[tick]


def test_the_layout_never_changes() -> None:
    """Neither table grows, so that the hash of a state is that of its content alone."""
    world = Organisms({**CONFIG, "bite": 60})
    layout = world.state.layout
    for tick in range(1, 30):
        world.step([*WORLD.inputs(CONFIG)(tick), {"kind": "inject", "program": "eat eat eat eat", "count": 40}])
    assert world.state.layout is layout


def test_phases_write_what_they_declare() -> None:
    world = Organisms(CONFIG)
    with guarded(world) as held:
        for tick in range(1, 21):
            held.step(WORLD.inputs(CONFIG)(tick))


def test_what_is_shown_of_a_state() -> None:
    world = Organisms({**CONFIG, "organisms_min": 3})
    snapshot = world.state.snapshot()
    shown = picture(snapshot)
    assert shown.shape == (25, 64)
    assert shown[0, :12].tolist() == [13, 11, 11, 11, 13, 11, 11, 11, 13, 12, 8, 10]
    assert np.unique(shown[0, 12:]).tolist() == np.unique(shown[3:]).tolist() == [-1]
    assert {name: layer.shape for name, layer in layers(CONFIG, snapshot).items()} == {
        "genomes": (25, 64), "seed bank": (10, 64),
    }  # fmt: skip
    assert (layers(CONFIG, snapshot)["genomes"] == shown + 1).all()  # No operation has the colour of no operation.
    lines = summarize(CONFIG, snapshot)
    assert lines["organisms"] == "3 of 1 species, in generations up to 0"
    assert lines["energy"] == "360 in organisms, 300 in the pool"
    assert lines["most frequent"].endswith("3 of them: eat copy copy copy eat copy copy copy eat divide jback read")
