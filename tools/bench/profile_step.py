"""The cost of each stage of Recorder.step in µs: the workload S, in situ, right after the real step.

Each function that Recorder.step calls is wrapped in a timer and is one stage. The rest of the time inside of
Recorder.step is its own. A timer has a cost, too. A stage that does nothing measures it: the part inside of the timer is
subtracted from each stage, the part outside from the rest. Slices with and without timers take turns. The remaining error
of the timers shows in the sum of the stages compared with the untimed step. Next to each stage is its bare call, the work
that it can hardly avoid, measured at the same place in other slices: right after a real step.

    python tools/bench/profile_step.py [--workload S] [--mode events] [--ticks N] [--json FILE] [--markdown FILE] [--plot FOLDER]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import google_crc32c
import msgpack
import numpy as np
import tables
import workloads
import xxhash
from rich.console import Console
from rich.progress import track

from recorder import Recorder
from recorder.session.hot_path import step_recorder
from recorder.session.hot_path.tick_identity import TickHashChain
from recorder.session.keyframe_policy import KeyframePolicy
from recorder.session.outputs.tick_output import OutputCollector
from recorder.writer.journal import Journal
from sim import State
from sim.kernel.hashing import field_memory

SLICE_TICKS, TICKS, INTERVAL = 250, 12_000, 300
WARM_UP_SLICES = 6


@attrs.frozen
class Stage:
    """One function that Recorder.step calls.

    Attributes:
        what: a description.
        holder, name: the object on which the name is looked up, and the name.
        bare: a description of the bare call; empty if there is none.
    """

    what: str
    holder: Any
    name: str
    bare: str = ""


STEP = Stage("the simulation's step", workloads.Timed, "step")
STAGES = (
    STEP,
    Stage("inputs to MessagePack, with a round-trip check", step_recorder, "encode_inputs", "pack"),
    Stage("hash of the whole state", State, "hash", "hash"),
    Stage("what the tick changed (mode changes)", OutputCollector, "take"),
    Stage("hash of that, chained", TickHashChain, "identify"),
    Stage("16 bits of the hash of each field", State, "field_hashes", "fields"),
    Stage("the frame's bytes", step_recorder, "encode_frame"),
    Stage("the frame into the journal, with its checksum", Journal, "put", "store"),
    Stage("check if a segment or a keyframe is due", KeyframePolicy, "add_frame"),
)
REST = "the rest of Recorder.step, the frame to the writer's thread among it"
BARE = {
    "pack": "msgpack.Packer.pack of the inputs",
    "hash": "xxh3 of the arena",
    "fields": "xxh3 of each field, in one map",
    "store": "CRC32C and a store into memory",
    "append": "deque.append",
}


class Timers:
    """Wraps stages in timers, and unwraps them."""

    def __init__(self) -> None:
        self.spent_ns = [0] * len(STAGES)

    @contextmanager
    def on(self) -> Iterator[None]:
        """Time the stages inside of the block. Raises AttributeError if a stage is no longer called by that name."""
        known = [getattr(stage.holder, stage.name) for stage in STAGES]
        for number, (stage, function) in enumerate(zip(STAGES, known, strict=True)):
            setattr(stage.holder, stage.name, self.wrapped(number, function))
        try:
            yield
        finally:
            for stage, function in zip(STAGES, known, strict=True):
                setattr(stage.holder, stage.name, function)

    def wrapped(self, number: int, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that records the duration of this one."""
        spent, clock = self.spent_ns, time.perf_counter_ns

        def timed(*arguments: Any, **keywords: Any) -> Any:
            start = clock()
            result = function(*arguments, **keywords)
            spent[number] += clock() - start
            return result

        return timed


@attrs.frozen
class OwnCost:
    """The cost of a timer, in ns.

    Attributes:
        inside: the part counted in the stage.
        outside: the part counted in the rest.
    """

    inside: float
    outside: float


def own_cost(timers: Timers) -> OwnCost:
    """Measure it with a stage that does nothing, compared with the same call without a timer."""

    def nothing(*_: Any, **__: Any) -> None:
        return None

    timed, inside, whole, plain = timers.wrapped(0, nothing), [], [], []
    for _ in range(2000):
        timers.spent_ns[0] = 0
        start = time.perf_counter_ns()
        timed(1, 2)
        whole.append(time.perf_counter_ns() - start)
        inside.append(timers.spent_ns[0])
        start = time.perf_counter_ns()
        nothing(1, 2)
        plain.append(time.perf_counter_ns() - start)
    timers.spent_ns[0] = 0
    middle = statistics.median
    # The empty call is in the stage and in the plain call: only the rest is the cost of the timer.
    clock_ns = middle(_clock_ns() for _ in range(2000))
    call_ns = middle(plain) - clock_ns
    return OwnCost(middle(inside) - call_ns, middle(whole) - clock_ns - middle(inside))


def _clock_ns() -> int:
    start = time.perf_counter_ns()
    return time.perf_counter_ns() - start


@attrs.define
class Found:
    """The measurements.

    Attributes:
        stages: µs of each stage and of the rest, tick by tick, timers taken off.
        untimed: µs of Recorder.step beyond the simulation's step, in slices without timers.
        bare: µs of the bare calls.
    """

    stages: dict[str, list[float]] = attrs.field(factory=dict)
    untimed: list[float] = attrs.field(factory=list)
    bare: dict[str, list[float]] = attrs.field(factory=dict)


class Run:
    """One recording, in slices that are measured in one of three ways."""

    def __init__(self, folder: Path, workload: str, mode: Any) -> None:
        self.world = workloads.Timed(workloads.make(workload))
        self.tape = Recorder(folder / "run.tape", self.world, keyframe_interval_ticks=INTERVAL, mode=mode)
        self.tick_inputs = workloads.many_orders(8000)
        self.timers, self.found = Timers(), Found()
        self.found.stages = {what: [] for what in (*(stage.what for stage in STAGES), REST)}
        self.cost = own_cost(self.timers)
        self.packer, self.memory, self.deque = msgpack.Packer(), bytearray(1 << 16), deque[bytes](maxlen=1000)
        self.found.bare = {name: [] for name in BARE}

    def timed(self, *, keep: bool) -> None:
        """Run a slice with timers."""
        with self.timers.on():
            for _ in range(SLICE_TICKS):
                spent = self.timers.spent_ns
                spent[:] = [0] * len(spent)
                inputs = self.tick_inputs[(self.tape.tick + 1) % 8000]
                start = time.perf_counter_ns()
                self.tape.step(inputs)
                whole = time.perf_counter_ns() - start
                if keep and self.tape.tick % INTERVAL:
                    self._take(spent, whole)

    def _take(self, spent: list[int], whole: int) -> None:
        called = [number for number, ns in enumerate(spent) if ns]
        for number in called:
            self.found.stages[STAGES[number].what].append(max(0.0, spent[number] - self.cost.inside) / 1e3)
        rest = whole - sum(spent) - self.cost.outside * len(called)
        self.found.stages[REST].append(rest / 1e3)

    def untimed(self, *, keep: bool) -> None:
        """Run a slice without timers."""
        for _ in range(SLICE_TICKS):
            inputs = self.tick_inputs[(self.tape.tick + 1) % 8000]
            start = time.perf_counter_ns()
            self.tape.step(inputs)
            whole = time.perf_counter_ns() - start
            if keep and self.tape.tick % INTERVAL:
                self.found.untimed.append((whole - self.world.step_ns) / 1e3)

    def bare(self, *, keep: bool) -> None:
        """Run a slice of bare calls after real steps. These are not recorded: the tape continues with the state after."""
        encoded, state = b"", self.world.state
        fields = field_memory(state.layout, state.arena)  # The workload's state keeps its place.
        for number in range(SLICE_TICKS):
            self.world.step(None)
            arena, inputs = state.arena, self.tick_inputs[number]
            clock = time.perf_counter_ns
            at = [clock()]
            xxhash.xxh3_64_intdigest(arena.data)
            at.append(clock())
            b"".join(map(xxhash.xxh3_64_digest, fields))
            at.append(clock())
            encoded = self.packer.pack(inputs)
            at.append(clock())
            self.memory[: len(encoded)] = encoded
            google_crc32c.value(encoded)
            at.append(clock())
            self.deque.append(encoded)
            at.append(clock())
            if keep:
                took = np.diff(at) / 1e3 - self.clock_us
                for name, one in zip(("hash", "fields", "pack", "store", "append"), took.tolist(), strict=True):
                    self.found.bare[name].append(max(0.0, one))

    @property
    def clock_us(self) -> float:
        """The cost of reading the clock."""
        if not hasattr(self, "_clock_us"):
            self._clock_us = statistics.median(_clock_ns() for _ in range(2000)) / 1e3
        return self._clock_us


def measure(folder: Path, workload: str, mode: str, ticks: int) -> Found:
    """Measure all three ways, in turns; bare calls in a separate run."""
    run, other_folder = Run(folder, workload, mode), folder / "other"
    other_folder.mkdir()
    other = Run(other_folder, workload, mode)
    ways = [run.timed, run.untimed, other.bare]
    slices = max(3, ticks // SLICE_TICKS) + WARM_UP_SLICES
    for number in track(range(slices), "measuring", console=Console(stderr=True), transient=True):
        for way in ways[number % 3 :] + ways[: number % 3]:
            way(keep=number >= WARM_UP_SLICES)
    run.tape.close()
    other.tape.close()
    run.found.bare = other.found.bare
    return run.found


def rows_of(found: Found) -> list[tables.Row]:
    """Return the table: each stage except the simulation's own step."""
    rows: list[tables.Row] = []
    stages = {what: times for what, times in found.stages.items() if what != STEP.what and times}
    total = sum(statistics.median(times) for times in stages.values())
    kinds = {stage.what: stage.bare for stage in STAGES}
    for what, times in stages.items():
        p50, p99 = np.percentile(times, [50, 99]).tolist()
        bare = kinds.get(what, "")
        rows.append(
            {
                "stage": what,
                "µs p50": p50,
                "p99": p99,
                "share": f"{p50 / total:.0%}",
                "bare call, µs p50": statistics.median(found.bare[bare]) if bare else None,
                "bare call": BARE.get(bare, "–"),
            }
        )
    p50, p99 = np.percentile(found.untimed, [50, 99]).tolist()
    rows.append({"stage": "sum of the stages", "µs p50": total} | _blank())
    rows.append({"stage": "total beyond the step, without timers", "µs p50": p50} | _blank() | {"p99": p99})
    return rows


def _blank() -> tables.Row:
    return {"p99": None, "share": None, "bare call, µs p50": None, "bare call": None}


def plot(rows: list[tables.Row], folder: Path) -> None:
    """Draw a bar for each stage."""
    plt = tables.pyplot()
    stages = [row for row in reversed(rows) if row["share"] is not None]
    figure, axis = plt.subplots(figsize=(8, 0.34 * len(stages) + 0.8))
    for place, row in enumerate(stages):
        axis.barh(place, row["µs p50"], color=tables.OURS, height=0.6)
        bare = row["bare call, µs p50"]
        if bare is not None:
            axis.plot([bare, bare], [place - 0.36, place + 0.36], color="black", lw=1.5)
        end = max(row["µs p50"], bare or 0)
        axis.annotate(
            f"{tables.shown(row['µs p50'])} µs",
            (end, place),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
        )
    axis.set_yticks(range(len(stages)), [row["stage"] for row in stages])
    axis.set_xlabel("µs, p50; black: the bare call")
    axis.margins(x=0.12)
    axis.set_xlim(left=0)
    figure.tight_layout()
    tables.save_picture(figure, folder, "step-profile")
    plt.close(figure)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=("S", "M", "G", "L"), default="S")
    parser.add_argument("--mode", choices=("events", "changes"), default="events")
    parser.add_argument("--ticks", type=int, default=TICKS, help="ticks of each of the three ways")
    parser.add_argument("--quick", action="store_true", help="a sixth of the ticks")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    parser.add_argument("--plot", type=Path, help="write a picture into this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        rows = rows_of(
            measure(
                Path(folder), options.workload, options.mode, options.ticks // 6 if options.quick else options.ticks
            )
        )
    tables.hand_out(f"Recorder.step on the workload {options.workload}, mode {options.mode}", rows, options)
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
