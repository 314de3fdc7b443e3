"""What users wait for: the start of the commands, a verification, a seek, a step, a list of tapes.

Processor time of the processes and of those that they start, which other load on the machine affects least. What is
compared is measured in turns, and the median of the ratios counts. A verification is the whole command, less the same
command on a tape of one tick; the plain run is the same steps without a recorder. A step is what the simulation's thread
spends beyond the bare step.

    python tools/bench/felt.py [--only start verify ...] [--quick] [--json FILE] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import felt_worlds
import gymnasium
import msgpack
import numpy as np
import workloads
from tables import Row, hand_out

import recorder
import replayer
from recorder import Recorder
from replayer.tape.tape import Tape

HERE = Path(__file__).parent
# Without the variable that keeps Python from storing compiled modules: each start would compile them again.
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | {
    "PYTHONPATH": str(HERE)
}
REPLAY = [sys.executable, "-c", "from simulation_flight_recorder import replay; replay()"]


def process_s(command: list[Any], folder: Path) -> float:
    """The processor time of a command and its children, in seconds."""
    started = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    assert started.returncode == 0, command
    return usage.ru_utime + usage.ru_stime


def ratios(rounds: int, floor: Callable[[], float], *ways: Callable[[], float]) -> list[float]:
    """The median of each way divided by the floor, of the same round."""
    found: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds):
        base = floor()
        for way, values in zip(ways, found, strict=True):
            values.append(way() / base)
    return [statistics.median(values) for values in found]


def row(line: str, what: str, measured: float, unit: str, wanted: float) -> Row:
    """A line of the table."""
    return {
        "": line,
        "what": what,
        "measured": f"{measured:,.2f} {unit}",
        "wanted": f"≤ {wanted:g} {unit}",
        "met": "yes" if measured <= wanted else "**no**",
    }


def recorded(path: Path, simulation: Any, inputs: list[Any]) -> Path:
    """Record a run."""
    with Recorder(path, simulation, trial_ms=0) as run:
        for one in inputs:
            run.step(one)
    return path


def some_inputs(count: int) -> list[list[int]]:
    """Two numbers a tick."""
    drawn = random.Random(1)
    return [[drawn.randrange(1000) for _ in range(2)] for _ in range(count)]


def start(folder: Path, *, quick: bool) -> list[Row]:
    """The start of the commands, on a tape of the quiet meadow with 20 ticks."""
    run = [sys.executable, "-m", "recorder", "run", "quiet-meadow", "--ticks", "20", "-q", "-o", "small.tape"]
    subprocess.run(run, cwd=folder, check=True)
    words = {
        "--help": (["--help"], 0.5),
        "info": (["info", "small.tape"], 2),
        "seek": (["seek", "small.tape", "--tick", "10"], 2.5),
        "verify": (["verify", "small.tape"], 3.5),
    }
    ways = [partial(process_s, [*REPLAY, *one], folder) for one, _ in words.values()]
    for way in ways:
        way()  # So that all modules are compiled.
    measured = ratios(3 if quick else 7, lambda: process_s([sys.executable, "-c", "import numpy"], folder), *ways)
    unit = "× `import numpy`"
    return [
        row("V4", f"`replay {name}`", one, unit, wanted[1])
        for (name, wanted), one in zip(words.items(), measured, strict=True)
    ]


def cart_pole(env: Any, ticks: int) -> None:
    """Random actions in an environment, with its resets."""
    drawn = random.Random(2)
    env.reset(seed=0)
    for _ in range(ticks):
        _, _, terminated, truncated, _ = env.step(drawn.randrange(2))
        if terminated or truncated:
            env.reset()


def timed(run: Callable[[], object]) -> float:
    """The processor time of this process, in seconds."""
    begun = time.process_time()
    run()
    return time.process_time() - begun


def verify(folder: Path, *, quick: bool) -> list[Row]:
    """Verifications with one process at a time."""
    share = 0.1 if quick else 1.0
    rows = []
    for name, make, sim, ticks, wanted in (
        ("a toy of 7 µs", felt_worlds.Toy, "felt_worlds:Toy", int(50_000 * share), 2.3),
        ("S", felt_worlds.small_entities, "felt_worlds:small_entities", int(10_000 * share), 1.6),
        ("CartPole", None, None, int(20_000 * share), 2.5),
    ):
        paths = [folder / f"{name[:6].strip()}-{size}.tape" for size in (1, ticks)]
        for path, size in zip(paths, (1, ticks), strict=True):
            if make is not None:
                recorded(path, make(), some_inputs(size))
            else:
                with recorder.record(gymnasium.make("CartPole-v1"), path, trial_ms=0) as env:
                    cart_pole(env, size)
        option = ["--sim", sim] if sim is not None else []
        commands = [[*REPLAY, "verify", path, "-j", "1", *option] for path in paths]

        def plain(make: Any = make, ticks: int = ticks) -> float:
            if make is None:
                return timed(lambda: cart_pole(gymnasium.make("CartPole-v1"), ticks))
            simulation, inputs = make(), some_inputs(ticks)
            return timed(lambda: [simulation.step(one) for one in inputs])

        def beyond_start(commands: Any = commands) -> float:
            return process_s(commands[1], folder) - process_s(commands[0], folder)

        [measured] = ratios(1 if quick else 3, plain, beyond_start)
        rows.append(row("V1", f"`replay verify -j 1`, {name}", measured, "× the plain run", wanted))
    return rows


def run_steps(simulation: Any, count: int) -> None:
    """Step that many times."""
    for _ in range(count):
        simulation.step([1])


def seek(folder: Path, *, quick: bool) -> list[Row]:
    """Seeks to random ticks, keyframes every 300 ticks; beside them the bare steps from the keyframe on, in turns."""
    rows, interval = [], 300
    for name, wanted in (("S", 5.6), ("M", 28.0)):
        path = recorded(folder / f"seek-{name}.tape", workloads.Entities(name), [[1]] * 1200)
        drawn, times, shares, other = random.Random(3), [], [], workloads.Entities(name)
        with replayer.open(path, partial(workloads.Entities, name)) as run:
            run.seek(10)
            for _ in range(5 if quick else 21):
                tick = drawn.randrange(1, 1200)
                times.append(timed(partial(run.seek, tick)) * 1e3)
                shares.append(times[-1] / 1e3 / timed(partial(run_steps, other, max(1, tick % interval))))
        what = f"random seek, {name} ({statistics.median(shares):.2f} × the bare steps)"
        rows.append(row("V6", what, statistics.median(times), "ms", wanted))
    return rows


def step(folder: Path, *, quick: bool) -> list[Row]:
    """What Recorder.step adds to an empty step, and what large inputs add to that, beyond msgpack alone."""
    drawn, count = random.Random(4), 1_000 if quick else 10_000
    numbers = [drawn.randrange(10**6) for _ in range(300)]
    dicts = [{"unit": a, "x": b % 1000, "y": c % 1000} for a, b, c in zip(*[iter(numbers)] * 3, strict=True)]
    arrays = {"a": np.arange(100), "b": np.ones(50)}
    plain = {name: one.tobytes() for name, one in arrays.items()}
    pack = msgpack.Packer().pack

    def added(inputs: Any, number: int, ticks: int) -> float:
        """Microseconds a tick of the thread, once the journal has its first memory, two areas of 1 MiB. Its growth counts."""
        simulation = felt_worlds.Empty()
        with Recorder(folder / f"step-{number}.tape", simulation, trial_ms=0) as run:
            for _ in range(500 if inputs is None else 2_500):
                run.step(inputs)
            begun = time.thread_time()
            for _ in range(ticks):
                run.step(inputs)
            recorded_s = time.thread_time() - begun
        begun = time.thread_time()
        for _ in range(ticks):
            simulation.step(inputs)
        return (recorded_s - (time.thread_time() - begun)) / ticks * 1e6

    def packed(inputs: Any, ticks: int) -> float:
        begun = time.thread_time()
        for _ in range(ticks):
            pack(inputs)
        return (time.thread_time() - begun) / ticks * 1e6

    rounds, few = 3 if quick else 9, count // 2
    empty = [added(None, number, count) for number in range(rounds)]
    more = {
        name: statistics.median(
            added(inputs, 100 * place + number, few) - packed(alone, few) - empty[number] for number in range(rounds)
        )
        for place, (name, inputs, alone) in enumerate(
            (("100 dicts", dicts, dicts), ("two NumPy arrays", arrays, plain)), 1
        )
    }
    return [
        row("V8", "`Recorder.step` of an empty step", statistics.median(empty), "µs", 2.8),
        *(row("V8", f"inputs of {name}, beyond that and msgpack alone", one, "µs", 2) for name, one in more.items()),
    ]


def marks(folder: Path, *, quick: bool) -> list[Row]:
    """What a user pays a tick: the recorder and the simulation's marks, beyond the simulation without both.

    Marks are set inside of the step, so the bare step of the others is one that sets none.
    """
    rows, drawn, unit = [], random.Random(5), "µs a tick, marks included"
    for name in ("S", "M"):
        added = beyond_no_marks(folder, name, 100 if quick else 300, 1 if quick else 21, drawn)
        what = f'{name}, `changes="auto"` (marks {added["marks"]:.1f}, scan {added["scan"]:.1f})'
        best = min(added["marks"], added["scan"])  # Two equal ways differ by a tenth on a busy machine.
        rows.append(row("0", what, added["auto"], unit, round(best * 1.2, 1)))
    return [*rows, mark_call(quick=quick)]


def beyond_no_marks(folder: Path, name: str, ticks: int, rounds: int, drawn: random.Random) -> dict[str, float]:
    """Microseconds a tick of the process, the writer included, beyond the workload that sets no marks."""
    orders, recorders = workloads.many_orders(), {}
    bare = workloads.make(name, marks_writes=False)
    for way in ("auto", "marks", "scan"):
        path, simulation = folder / f"marks-{name}-{way}.tape", workloads.make(name)
        options: Any = {"changes": way, "trial_ms": 0, "between_steps": False, "sync": "never"}
        recorders[way] = Recorder(path, simulation, **options)
    times: dict[str, list[float]] = {way: [] for way in ("bare", *recorders)}

    def turn(way: str, first: int) -> None:
        step = bare.step if way == "bare" else recorders[way].step
        for tick in range(first, first + ticks):
            step(orders[tick % len(orders)])
        if way != "bare":
            recorders[way].flush()  # What the writer still has to do belongs to this turn.

    for number in range(rounds + 1):
        for way in drawn.sample(list(times), len(times)):
            taken = timed(partial(turn, way, number * ticks))
            if number:  # The first turn lays out memory.
                times[way].append(taken / ticks * 1e6)
    for recorder_ in recorders.values():
        recorder_.close()
    return {
        way: statistics.median(each - base for each, base in zip(times[way], times["bare"], strict=True))
        for way in recorders
    }


def mark_call(*, quick: bool) -> Row:
    """A call of State.mark with 47 row numbers, beside a store of them into a mask."""
    state = workloads.make("S").state
    state.attach_marks()
    numbers, mask = np.arange(0, 470, 10), np.zeros(500, np.bool_)
    count, turns = (1_000, 3) if quick else (20_000, 25)

    def stores() -> None:
        for _ in range(count):
            mask[numbers] = True

    def calls() -> None:
        for _ in range(count):
            state.mark("x", numbers)

    [measured] = ratios(turns, partial(timed, stores), partial(timed, calls))
    return row("0", "`State.mark` of 47 rows", measured, "× a store into a mask", 2)


def refresh(folder: Path, *, quick: bool) -> list[Row]:
    """Reading on in a tape that grew by 50 ticks."""
    rows = []
    for ticks in (1_000, 10_000 if quick else 1_000_000):
        path, times = folder / f"growing-{ticks}.tape", []
        with Recorder(path, felt_worlds.Empty(), trial_ms=0) as run:
            for _ in range(ticks):
                run.step([1, 2])
            with Tape(path) as tape:
                for _ in range(9):
                    for _ in range(50):
                        run.step([1, 2])
                    begun = time.thread_time()
                    tape.refresh()
                    times.append((time.thread_time() - begun) * 1e3)
        rows.append(row("V14", f"`refresh` of a tape of {ticks:,} ticks", statistics.median(times), "ms", 3))
    return rows


def listing(folder: Path, *, quick: bool) -> list[Row]:
    """A list of many tapes, each a file of its own."""
    rows, whole = [], recorded(folder / "one.tape", felt_worlds.Toy(), some_inputs(20))
    for count in (50,) if quick else (1_000, 10_000):
        tapes = folder / f"tapes-{count}"
        tapes.mkdir()
        for number in range(count):
            shutil.copy(whole, tapes / f"{number:05}.tape")
        empty = folder / "no-tapes"
        empty.mkdir(exist_ok=True)
        base = process_s([*REPLAY, "ls", empty], folder)
        measured = [(process_s([*REPLAY, "ls", tapes], folder) - base) / count * 1e3 for _ in range(2)]
        for look, one, wanted in zip(("first", "second"), measured, (2, 0.1), strict=True):
            rows.append(row("V5", f"`replay ls` of {count:,} tapes, {look} look", one, "ms a tape", wanted))
    return rows


GROUPS = {
    "start": start,
    "verify": verify,
    "seek": seek,
    "step": step,
    "marks": marks,
    "refresh": refresh,
    "ls": listing,
}


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--quick", action="store_true", help="few rounds and short tapes, to try this program")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--markdown", type=Path, help="write the section of the page to this file, too")
    options = parser.parse_args()
    rows: list[Row] = []
    for name in options.only:
        with tempfile.TemporaryDirectory() as folder:
            rows += GROUPS[name](Path(folder), quick=options.quick)
    hand_out("what users wait for", rows, options)


if __name__ == "__main__":
    main()
