"""Ways of doing the same work, each in a process of its own, that take turns: a slice of ticks each, round after round.

What else the machine does, and how fast it is just now, meets all of them alike; and none meets what another one has
left in memory, or its threads. A turn ends when the process is at rest, so no process works during the turn of another.
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
        step_ns: what the simulation's own step took in the last tick.
    """

    step_ns: int

    def tick(self, tick: int) -> None:
        """Step and record."""

    def after(self, tick: int) -> None:
        """Do what the tick calls for but is not measured."""

    def is_keyframe(self, tick: int) -> bool:
        """Whether the state was written then."""

    def finish(self) -> dict[str, Any]:
        """Close everything; more figures, for the table."""


Make = Callable[[Path], Runner]


@attrs.define
class Taken:
    """What one way cost.

    Attributes:
        beyond_us: of each tick without a keyframe, beyond the step.
        keyframe_us: of those with one.
        whole_us: of each tick, the step included.
        ticks: that were run, those for warming up included.
        figures: from finish.
        problem: why it failed, else empty.
    """

    beyond_us: list[float] = attrs.field(factory=list)
    keyframe_us: list[float] = attrs.field(factory=list)
    whole_us: list[float] = attrs.field(factory=list)
    ticks: int = 0
    figures: dict[str, Any] = attrs.field(factory=dict)
    problem: str = ""


@attrs.frozen
class Course:
    """How turns are taken.

    Attributes:
        slice_ticks: of one turn, at most.
        slice_s: a turn ends after that, too: slow ways have fewer ticks, but their full share of the time.
        rounds: how often each has its turn.
        warm_up: so many rounds more, before, do not count: first touches of memory and files are not what a run costs.
        bytes_max: a way whose files are larger than that stops.
    """

    slice_ticks: int
    rounds: int
    slice_s: float = 60.0
    warm_up: int = 1
    bytes_max: int = 2 << 30


def take_turns(makes: Mapping[str, Make], course: Course, title: str, *, seed: int = 1) -> dict[str, Taken]:
    """Let all of them run; a way that fails is told by its problem."""
    context = multiprocessing.get_context("spawn")
    order = random.Random(seed)
    taken = {name: Taken() for name in makes}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, _progress() as progress:
        bar = progress.add_task(title, total=len(makes) * (course.rounds + course.warm_up + 1))
        children = {}
        for number, (name, make) in enumerate(makes.items()):
            ours, theirs = context.Pipe()
            place = Path(folder) / str(number)
            place.mkdir()
            process = context.Process(target=_serve, args=(theirs, make, place, course), daemon=True)
            process.start()
            theirs.close()
            children[name] = (process, ours)
        for name, (_, pipe) in children.items():
            _hear(pipe, taken[name])
        for number in range(course.rounds + course.warm_up):
            names = list(children)
            order.shuffle(names)
            for name in names:
                _let_run(children[name][1], taken[name], counts=number >= course.warm_up)
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
    told = _hear(pipe, taken)
    if not told:
        return
    taken.ticks += len(told["whole_us"])
    if counts:
        taken.beyond_us += told["beyond_us"]
        taken.keyframe_us += told["keyframe_us"]
        taken.whole_us += told["whole_us"]


def _hear(pipe: Connection, taken: Taken) -> dict[str, Any]:
    try:
        told: dict[str, Any] = pipe.recv()
    except EOFError:
        told = {"problem": "its process ended"}
    taken.problem = told.pop("problem", "")
    return told


# --- in the child


def _serve(pipe: Connection, make: Make, folder: Path, course: Course) -> None:
    try:
        before = rss_bytes()
        runner, tick = make(folder), 0
        pipe.send({})
        while pipe.recv():
            told: dict[str, list[float]] = {"beyond_us": [], "keyframe_us": [], "whole_us": []}
            if folder_bytes(folder) <= course.bytes_max:
                tick = _run_slice(runner, tick, course, told)
                rest()
            pipe.send(told)
        start = time.perf_counter()
        figures = runner.finish()
        figures.setdefault("close_s", time.perf_counter() - start)
        pipe.send(figures | {"before_bytes": before})
    except BaseException as error:  # noqa: BLE001 - told in the table, by the name of the way
        traceback.print_exc()
        pipe.send({"problem": f"{type(error).__name__}: {error}"})


def _run_slice(runner: Runner, tick: int, course: Course, told: dict[str, list[float]]) -> int:
    deadline = time.perf_counter_ns() + int(course.slice_s * 1e9)
    beyond, keyframes, whole = told["beyond_us"], told["keyframe_us"], told["whole_us"]
    for _ in range(course.slice_ticks):
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
    """Wait until the other threads of this process have nothing more to do."""
    deadline = time.monotonic() + REST_S_MAX
    while time.monotonic() < deadline:
        used_s = time.process_time()
        time.sleep(0.02)
        if time.process_time() - used_s < 0.002:
            return


def rss_bytes(what: str = "VmRSS") -> int:
    """Memory of this process; "VmHWM" is the most that it ever had. 0 where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(what)), 0)


def folder_bytes(folder: Path) -> int:
    """Of all files in it."""
    return sum((Path(at) / name).stat().st_size for at, _, names in os.walk(folder) for name in names)
