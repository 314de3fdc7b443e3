"""Adapters are found by the package of an object's class, through entry points that other packages can add."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sim.adapters.interface.adapter_registry import NoAdapterError, adapter_for, adapter_named, adapter_names

PROGRAM = """
import sys, recorder
import toyland
env = recorder.record(toyland.Toy(), "toy.tape")
env.turn()
env.tape.close()
assert "gymnasium" not in sys.modules
import replayer
with replayer.open("toy.tape") as run:
    run.seek(1)
    print(run.simulation.toy.turns)
"""

TOYLAND = """
class Toy:
    turns = 0
"""

ADAPTER = """
import numpy as np
from sim.adapters import Adapter, Level, Part, Report
import toyland

class ToySimulation:
    level = Level.EXACT
    def __init__(self, toy, **_):
        self.toy = toy
    def step(self, inputs):
        self.toy.turns += inputs
    def save(self):
        return {"turns": np.int64(self.toy.turns)}
    def load(self, saved):
        self.toy.turns = int(saved["turns"])
    def report(self):
        return Report("toyland", "Toy", self.level, (Part("Toy", ("turns",)),))
    @property
    def adapter(self):
        return {"name": "toyland", "class": "toyland.Toy", "report": self.report().to_plain(), "subject": {}}

class Turner:
    def __init__(self, simulation, tape):
        self.tape = tape
    def turn(self):
        return self.tape.step(1)

ADAPTER = Adapter("toyland", ToySimulation, Turner, lambda _: toyland.Toy())
"""

MISSING = """
import sys

sys.modules["mujoco"] = None
from sim.adapters.interface.adapter_registry import NoAdapterError, adapter_named

for name in ("mujoco", "toyland"):
    try:
        adapter_named(name)
    except NoAdapterError as error:
        print(error)
"""


def test_a_foreign_package_provides_its_adapter(tmp_path: Path) -> None:
    """It is found by its entry point, records with one line, replays without output, and imports no other package."""
    (tmp_path / "toyland.py").write_text(TOYLAND)
    (tmp_path / "toyland_tapes.py").write_text(ADAPTER)
    meta = tmp_path / "toyland-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: toyland\nVersion: 1.0\n")
    (meta / "entry_points.txt").write_text("[sim.adapters]\ntoyland = toyland_tapes:ADAPTER\n")
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
    )  # fmt: skip

    tried, recording = finished.stderr.splitlines()
    assert tried.startswith(
        "not tried: step 1 with the inputs None (trial_inputs(seed) would give others) raised TypeError: "
    )
    assert (
        recording
        == "recording toy.tape: Toy: exact, untested: Toy captured; no attribute of these objects, and of what they hold, is left out"
    )
    assert finished.stdout == "1\n"


def test_an_unknown_adapter_is_refused() -> None:
    """The message names it and lists the installed adapters."""
    assert {"gymnasium", "plain_object"} <= set(adapter_names())
    assert adapter_for(3) is None
    with pytest.raises(NoAdapterError, match=r"no adapter named 'os' is installed; installed: .*gymnasium"):
        adapter_named("os")


def test_an_adapter_whose_package_is_missing_names_it(tmp_path: Path) -> None:
    """The message has the install command for our adapters; there is none for those of other packages."""
    meta = tmp_path / "toyland-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: toyland\nVersion: 1.0\n")
    (meta / "entry_points.txt").write_text("[sim.adapters]\ntoyland = toyland_tapes:ADAPTER\n")
    finished = subprocess.run(
        [sys.executable, "-c", MISSING], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
    )  # fmt: skip

    assert finished.stderr == ""
    ours, others = finished.stdout.splitlines()
    assert re.fullmatch(
        r"the adapter 'mujoco' needs the package 'mujoco', which is not installed: (uv )?pip install 'mujoco>=3\.2'",
        ours,
    )
    assert others == "the adapter 'toyland' needs the package 'toyland_tapes', which is not installed"
