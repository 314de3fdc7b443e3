"""The command ``record``: run a scenario and keep what happens."""

from __future__ import annotations

import itertools
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from recorder.console import INTERRUPTED, NotNegative, Positive, UsageError, bytes_text, progress_bar, run_app, version
from recorder.recorder import FULL_EVERY, KEYFRAME_INTERVAL_TICKS, Recorder
from recorder.settings import parse_sync
from sim.kernel.simulation import Simulation
from sim.scenario.load import Scenario, load_scenario, shipped_scenarios

RECORDINGS_FOLDER = "recordings"
PROGRESS_TICKS = 50  # The bar is told each so many ticks; telling it costs a microsecond or two.

app = App(
    name="record",
    help="Record a simulation: inputs and a state hash for every tick, keyframes now and then.\n\n"
    "Try:\n"
    "  record scenarios                 list the scenarios that ship\n"
    "  record run quiet-meadow          record one of them into recordings/\n"
    "  record run my.toml -o my.tape --ticks 10000 --seed 3",
    help_format="plaintext",
    version=version,
    suppress_keyboard_interrupt=False,
)


@app.command
def run(
    scenario: str,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    ticks: Positive | None = None,
    seed: NotNegative | None = None,
    keyframe_interval: Positive = KEYFRAME_INTERVAL_TICKS,
    full_every: Positive = FULL_EVERY,
    changes: Literal["auto", "marks", "scan", "audit"] = "auto",
    sync: str = "1s",
    deterministic: Annotated[bool, Parameter(negative="")] = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="")] = False,
) -> int:
    """Run a scenario and record it.

    Example: record run quiet-meadow -o meadow.tape --ticks 2000

    Parameters
    ----------
    scenario
        A scenario file (TOML), or the name of one that ships.
    output
        The tape to write; it must not exist. By default a new name in recordings/.
    ticks
        How many ticks to run; by default what the scenario says.
    seed
        Replaces the scenario's seed.
    keyframe_interval
        Ticks from one keyframe to the next: how far a seek re-simulates at most.
    full_every
        One keyframe in so many is full, the others are deltas.
    changes
        How deltas know what changed: marks, scan, or audit (both, failing where they disagree).
    sync
        When to force data to the disk: a time such as 1s, block, or never.
    deterministic
        Equal runs give equal bytes: no clock and no environment on the tape.
    quiet
        Print nothing but errors.
    """
    loaded = load_scenario(scenario, seed=seed)
    simulation = loaded.world.make(loaded.config)
    tick_count = ticks if ticks is not None else int(loaded.config.get("ticks", 1000))
    path = output if output is not None else _new_path(loaded.name)
    if path.exists():
        raise UsageError(f"{path} exists already: choose another name with -o")
    settings: dict[str, Any] = {
        "keyframe_interval_ticks": keyframe_interval,
        "full_every": full_every,
        "changes": changes,
        "sync": sync,
        "deterministic": deterministic,
    }
    recorder = _start(path, simulation, settings, make_folder=output is None)
    if not quiet:
        seed_text = loaded.config.get("seed", 0)
        print(f"recording {loaded.name} (world {loaded.world.name}, seed {seed_text}), {tick_count:,} ticks → {path}")
    start_s = time.perf_counter()
    interrupted = _run_ticks(recorder, loaded, tick_count, quiet=quiet)
    if not quiet:
        _print_summary(loaded, recorder, path, time.perf_counter() - start_s, interrupted=interrupted)
    return INTERRUPTED if interrupted else 0


def _start(path: Path, simulation: Simulation, settings: dict[str, Any], *, make_folder: bool) -> Recorder:
    """A recorder with these settings; nothing is written if one of them cannot be."""
    try:
        parse_sync(settings["sync"])
        if make_folder:
            path.parent.mkdir(exist_ok=True)
        return Recorder(path, simulation, **settings)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _run_ticks(recorder: Recorder, scenario: Scenario, tick_count: int, *, quiet: bool) -> bool:
    """Record the ticks of a scenario and seal the tape; whether the user interrupted it."""
    inputs_at = scenario.world.inputs(scenario.config)
    with recorder, progress_bar("recording", tick_count, quiet=quiet) as show:
        try:
            for tick in range(1, tick_count + 1):
                recorder.step(inputs_at(tick))
                if tick % PROGRESS_TICKS == 0:
                    show(tick)
        except KeyboardInterrupt:
            recorder.close({"reason": "interrupted"})
            return True
        recorder.close({"reason": "ticks", "ticks": tick_count})
    return False


def _print_summary(scenario: Scenario, recorder: Recorder, path: Path, seconds: float, *, interrupted: bool) -> None:
    statistics = recorder.statistics()
    tick, size_bytes = statistics.tick, path.stat().st_size
    state = recorder.simulation.state
    print(
        f"{'interrupted after ' if interrupted else ''}{tick:,} ticks in {seconds:.1f} s "
        f"({tick / seconds:,.0f} ticks a second), {bytes_text(size_bytes)} ({size_bytes / max(tick, 1):,.0f} bytes a tick), "
        f"{statistics.writer.full_count} full and {statistics.writer.delta_count} delta keyframes"
    )
    if not interrupted:  # An interrupted step leaves a state that is of no tick.
        for name, value in scenario.world.summarize(scenario.config, state.snapshot()).items():
            print(f"  {name}: {value}")
        print(f"  state hash: {state.hash():016x}")
    print(f"next: replay seek {path} --tick {tick // 2}    or: replay verify {path}")


def _new_path(name: str) -> Path:
    """The first free recordings/NAME-N.tape."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "recording"  # A name may hold slashes and spaces.
    number = 1
    while (path := Path(RECORDINGS_FOLDER) / f"{plain}-{number}.tape").exists():
        number += 1
    return path


@app.command
def scenarios() -> None:
    """List the scenarios that ship, with what their first comment says."""
    for name, file in shipped_scenarios().items():
        comment = itertools.takewhile(lambda line: line.startswith("#"), file.read_text(encoding="utf-8").splitlines())
        print(f"{name}: {' '.join(line.lstrip('# ') for line in comment)}")


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script ``record``."""
    sys.exit(run_app(app, arguments))
