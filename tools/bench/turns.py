"""Ways of doing the same work, each in a separate process, that take turns: a slice of ticks each, round after round.

Other load on the machine, and its speed at the moment, affect all of them equally. No way is affected by another's memory
or threads. A turn ends when the process is at rest: no process works during the turn of another.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import attrs
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

REST_S_MAX = 10.0  # To wait for the threads of a process, after its turn.


class Runner(Protocol):
    """One way, in its process.

    Attributes:
        step_ns: duration of the simulation's own step in the last tick.
    """

    step_ns: int

    def tick(self, tick: int) -> None:
        """Step and record."""

    def after(self, tick: int) -> None:
        """Do the unmeasured work of the tick."""

    def is_keyframe(self, tick: int) -> bool:
        """True if the state was written in that tick."""

    def finish(self) -> dict[str, Any]:
        """Close everything; return further figures for the table."""


Make = Callable[[Path], Runner]


@attrs.define
class Taken:
    """The costs of one way.

    Attributes:
        beyond_us: cost beyond the step of each tick without a keyframe.
        keyframe_us: cost beyond the step of each tick with one.
        whole_us: cost of each tick, including the step.
        ticks: number of ticks, including those for warming up.
        figures: the result of finish.
        problem: the reason of a failure, else empty.
    """

    beyond_us: list[float] = attrs.field(factory=list)
    keyframe_us: list[float] = attrs.field(factory=list)
    whole_us: list[float] = attrs.field(factory=list)
    ticks: int = 0
    figures: dict[str, Any] = attrs.field(factory=dict)
    problem: str = ""


@attrs.frozen
class TurnPlan:
    """The rules for turns.

    Attributes:
        slice_ticks: most ticks of one turn.
        slice_s: most seconds of one turn: slow ways have fewer ticks, but their full share of the time.
        rounds: number of turns of each way.
        warm_up: further rounds before these that do not count: they pay for first accesses to memory and files.
        bytes_max: a way whose files are larger than that stops.
    """

    slice_ticks: int
    rounds: int
    slice_s: float = 60.0
    warm_up: int = 1
    bytes_max: int = 2 << 30


def take_turns(makes: Mapping[str, Make], plan: TurnPlan, title: str, *, seed: int = 1) -> dict[str, Taken]:
    """Run all ways; a failed way has a problem in its result."""
    context = multiprocessing.get_context("spawn")
    order = random.Random(seed)
    taken = {name: Taken() for name in makes}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, _progress() as progress:
        bar = progress.add_task(title, total=len(makes) * (plan.rounds + plan.warm_up + 1))
        children = {}
        for number, (name, make) in enumerate(makes.items()):
            ours, theirs = context.Pipe()
            place = Path(folder) / str(number)
            place.mkdir()
            process = context.Process(target=_serve, args=(theirs, make, place, plan), daemon=True)
            process.start()
            theirs.close()
            children[name] = (process, ours)
        for name, (_, pipe) in children.items():
            _hear(pipe, taken[name])
        for number in range(plan.rounds + plan.warm_up):
            names = list(children)
            order.shuffle(names)
            for name in names:
                _let_run(children[name][1], taken[name], counts=number >= plan.warm_up)
                progress.advance(bar)
        for name, (process, pipe) in children.items():
            if not taken[name].problem:
                pipe.send(False)
                taken[name].figures |= _hear(pipe, taken[name])
            process.join()
            progress.advance(bar)
    return taken


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _let_run(pipe: Connection, taken: Taken, *, counts: bool) -> None:
    if taken.problem:
        return
    pipe.send(True)
    report = _hear(pipe, taken)
    if not report:
        return
    taken.ticks += len(report["whole_us"])
    if counts:
        taken.beyond_us += report["beyond_us"]
        taken.keyframe_us += report["keyframe_us"]
        taken.whole_us += report["whole_us"]


def _hear(pipe: Connection, taken: Taken) -> dict[str, Any]:
    try:
        report: dict[str, Any] = pipe.recv()
    except EOFError:
        report = {"problem": "its process ended"}
    taken.problem = report.pop("problem", "")
    return report


# --- in the child


def _serve(pipe: Connection, make: Make, folder: Path, plan: TurnPlan) -> None:
    try:
        before = rss_bytes()
        runner, tick = make(folder), 0
        pipe.send({})
        while pipe.recv():
            report: dict[str, list[float]] = {"beyond_us": [], "keyframe_us": [], "whole_us": []}
            if folder_bytes(folder) <= plan.bytes_max:
                tick = _run_slice(runner, tick, plan, report)
                rest()
            pipe.send(report)
        start = time.perf_counter()
        figures = runner.finish()
        figures.setdefault("close_s", time.perf_counter() - start)
        pipe.send(figures | {"before_bytes": before})
    except BaseException as error:  # noqa: BLE001 - reported in the table, by the name of the way
        traceback.print_exc()
        pipe.send({"problem": f"{type(error).__name__}: {error}"})


def _run_slice(runner: Runner, tick: int, plan: TurnPlan, report: dict[str, list[float]]) -> int:
    deadline = time.perf_counter_ns() + int(plan.slice_s * 1e9)
    beyond, keyframes, whole = report["beyond_us"], report["keyframe_us"], report["whole_us"]
    for _ in range(plan.slice_ticks):
        tick += 1
        start = time.perf_counter_ns()
        runner.tick(tick)
        end = time.perf_counter_ns()
        whole.append((end - start) / 1e3)
        (keyframes if runner.is_keyframe(tick) else beyond).append((end - start - runner.step_ns) / 1e3)
        runner.after(tick)
        if end > deadline:
            break
    return tick


def rest() -> None:
    """Wait until the other threads of this process are idle."""
    deadline = time.monotonic() + REST_S_MAX
    while time.monotonic() < deadline:
        used_s = time.process_time()
        time.sleep(0.02)
        if time.process_time() - used_s < 0.002:
            return


def rss_bytes(what: str = "VmRSS") -> int:
    """Memory of this process; "VmHWM" is its maximum so far. 0 if the system does not report it."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(what)), 0)


def folder_bytes(folder: Path) -> int:
    """Total size of all files in a folder."""
    return sum((Path(at) / name).stat().st_size for at, _, names in os.walk(folder) for name in names)
