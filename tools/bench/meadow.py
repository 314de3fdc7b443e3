"""Measure the world meadow: ticks a second of its scenarios, recorded and not, and where the time of a step goes.

Recorded and unrecorded runs take turns, a slice of ticks each: a drift of the machine affects both equally. Phases
are timed in the unrecorded run, around each phase of the step. The first ticks are not counted: numba, if it
is installed, is imported in them and loads or compiles the functions for a large meadow.

    python tools/bench/meadow.py [--scenario NAME ...] [--ticks N] [--json FILE] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console
from rich.progress import track
from rich.table import Table

from recorder import Recorder
from sim.scenario.scenario_file import load_scenario, shipped_scenarios

SLICES = 10
TICKS = {"large": 120}  # Others: TICKS_USUAL.
TICKS_USUAL = 1500
UNCOUNTED_TICKS = 20


@attrs.define
class Result:
    """The measurements of one scenario.

    Attributes:
        name: name of the scenario.
        ticks: number of ticks measured in each of the two runs.
        plain_s, recorded_s: their durations.
        phases_s: durations by phase, in the plain run.
        tape_bytes: size of the recording, the share of the ticks that count.
    """

    name: str
    ticks: int
    plain_s: float = 0.0
    recorded_s: float = 0.0
    phases_s: dict[str, float] = attrs.field(factory=dict)
    tape_bytes: int = 0


def measure(name: str, ticks: int, folder: Path) -> Result:
    """Run a scenario twice, in turns: with a recorder, and without."""
    scenario = load_scenario(name)
    inputs_at = scenario.world.inputs(scenario.config)
    plain, recorded = (scenario.world.make(scenario.config) for _ in range(2))
    result = Result(name, ticks)
    path = folder / f"{name}.tape"
    size = max(1, ticks // SLICES)
    with Recorder(path, recorded) as tape:
        for tick in range(1, UNCOUNTED_TICKS + 1):
            plain.step(inputs_at(tick))
            tape.step(inputs_at(tick))
        end = UNCOUNTED_TICKS + ticks + 1
        for first in track(range(UNCOUNTED_TICKS + 1, end, size), description=name, transient=True):
            slice_of_ticks = range(first, min(first + size, end))
            start_s = time.perf_counter()
            for tick in slice_of_ticks:
                _step_timed(plain, inputs_at(tick), result.phases_s)
            middle_s = time.perf_counter()
            for tick in slice_of_ticks:
                tape.step(inputs_at(tick))
            result.plain_s += middle_s - start_s
            result.recorded_s += time.perf_counter() - middle_s
    assert plain.state.hash() == recorded.state.hash()
    result.tape_bytes = path.stat().st_size * ticks // (ticks + UNCOUNTED_TICKS)
    return result


def _step_timed(simulation: Any, inputs: Any, phases_s: dict[str, float]) -> None:
    for phase in simulation.phases:
        start_s = time.perf_counter()
        phase.run(inputs)
        phases_s[phase.name] = phases_s.get(phase.name, 0.0) + time.perf_counter() - start_s


def _is_meadow(name: str) -> bool:
    return load_scenario(name).world.name == "meadow"


def show(results: list[Result]) -> list[list[str]]:
    """The table's rows: heading first."""
    phases = list(dict.fromkeys(phase for one in results for phase in one.phases_s))  # Not all have sight.
    rows = [["scenario", "ticks", "ticks/s", "recorded", "bytes a tick", *(f"{phase}, ms" for phase in phases)]]
    for one in results:
        each = [f"{one.phases_s.get(phase, 0.0) / one.ticks * 1e3:.2f}" for phase in phases]
        speeds = [f"{one.ticks / one.plain_s:,.0f}", f"{one.ticks / one.recorded_s:,.0f}"]
        rows.append([one.name, f"{one.ticks:,}", *speeds, f"{one.tape_bytes / one.ticks:,.0f}", *each])
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", action="append", help="name or path; the default is all meadows that ship")
    parser.add_argument("--ticks", type=int)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.scenario or filter(_is_meadow, shipped_scenarios()):
            ticks = arguments.ticks or TICKS.get(name, TICKS_USUAL)
            results.append(measure(name, ticks, Path(folder)))
    heading, *rows = show(results)
    table = Table(*heading, title=f"meadow, CPython {platform.python_version()}")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps([attrs.asdict(one) for one in results], indent=1))
    if arguments.markdown:
        lines = ["| " + " | ".join(row) + " |" for row in (heading, ["---", *["--:"] * (len(heading) - 1)], *rows)]
        arguments.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
