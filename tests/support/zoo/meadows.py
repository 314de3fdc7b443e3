"""Meadows with a planted defect: edited lines of the world, and phases with additional writes."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import Any

import attrs

import sim.worlds
from sim.kernel.hooks import Phase
from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import Meadow

WORLDS = Path(sim.worlds.__path__[0])
SCENARIO = load_scenario("arms-race", seed=11)
SIDE = 16
CONFIG = {  # The scenario on a small grid: a step is fast even if each of its lines is traced.
    **SCENARIO.config,
    "grid": {"width": SIDE, "height": SIDE},
    "plants": [{"species": "oak", "count": 40}, {"species": "clover", "count": 40}],
    "swarms": [
        {"species": "caterpillar", "population": 10, "count": 3},
        {"species": "beetle", "population": 8, "count": 2},
    ],
    "inputs": [],
}


def inputs(tick: int) -> list[dict[str, Any]]:
    """A gust at tick 5 and a cull at tick 12."""
    gust = {"kind": "gust", "x": 4, "y": 4, "radius": 3, "east": 1 << 16, "south": 0}
    cull = {"kind": "cull", "species": 0, "x": SIDE // 2, "y": SIDE // 2, "radius": SIDE // 2, "percent": 33}
    return [gust] if tick == 5 else [cull] if tick == 12 else []


def sound() -> Meadow:
    """Make the meadow without a defect."""
    return SCENARIO.world.make(CONFIG)


@attrs.frozen
class Edit:
    """One line of the world, changed.

    Attributes:
        file: path of a file of the world.
        old, new: a part of the line that occurs in the file once, and its replacement.
    """

    file: str
    old: str
    new: str

    @property
    def line(self) -> int:
        """The number of the line."""
        text = (WORLDS / "meadow" / self.file).read_text(encoding="utf-8")
        assert text.count(self.old) == 1
        return text[: text.index(self.old)].count("\n") + 1

    def write(self, folder: Path) -> None:
        """Make a folder with the complete edited world, as ``replay explain --code`` takes it."""
        shutil.copytree(WORLDS, folder / "sim" / "worlds", ignore=shutil.ignore_patterns("__pycache__"))
        path = folder / "sim" / "worlds" / "meadow" / self.file
        path.write_text(path.read_text(encoding="utf-8").replace(self.old, self.new), encoding="utf-8")


def load(folder: Path) -> type[Meadow]:
    """Load the meadow of a different version of the worlds, in addition to the installed one."""
    mine = {name: module for name, module in sys.modules.items() if name.startswith("sim.worlds.meadow")}
    attribute = sim.worlds.meadow  # type: ignore[attr-defined]
    for name in mine:
        del sys.modules[name]
    sim.worlds.__path__.insert(0, str(folder / "sim" / "worlds"))
    try:
        other: type[Meadow] = importlib.import_module("sim.worlds.meadow").Meadow
    finally:
        del sim.worlds.__path__[0]
        for name in [name for name in sys.modules if name.startswith("sim.worlds.meadow")]:
            del sys.modules[name]
        sys.modules.update(mine)
        sim.worlds.meadow = attribute  # type: ignore[attr-defined]
    return other


class _Altered(Meadow):
    """A meadow with an additional action at the end of one phase."""

    altered = ""

    def __init__(self) -> None:
        super().__init__(CONFIG)
        self.phases = tuple(self._with_more(phase) for phase in self.phases)

    def _with_more(self, phase: Phase) -> Phase:
        def run(inputs: Any) -> None:
            phase.run(inputs)
            if phase.name == self.altered:
                self.do_more()

        return attrs.evolve(phase, run=run)

    def do_more(self) -> None:
        """Perform the additional action."""
        raise NotImplementedError


class Forgetful(_Altered):
    """Remembers when it last rained, outside the state."""

    altered = "lifecycle"

    def __init__(self) -> None:
        super().__init__()
        self._rain_ticks = 0

    def do_more(self) -> None:
        self._rain_ticks += 1
        row = 3
        energy = self.state["plants.energy"][row] + self._rain_ticks // 4  # HERE: Forgetful
        self.state.set("plants.energy", row, energy)


class Trampling(_Altered):
    """Swarms change the wind without marking it."""

    altered = "interaction"

    def do_more(self) -> None:
        if self.state["tick"] == 17:
            self.state["biotope.wind"][0, 5, 5] += 9  # HERE: Trampling


class Greening(_Altered):
    """The flow field writes a field of lifecycle."""

    altered = "flow_field"

    def do_more(self) -> None:
        if self.state["tick"] >= 16:
            self.state["births"][0] += 1  # HERE: Greening
            self.state.mark("births")
