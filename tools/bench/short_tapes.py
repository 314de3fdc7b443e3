"""Processor time to extract many short tapes, compared with a program that only makes the same steps.

Each way is a program of its own, measured with its start and with the processes that it starts, in turns: a drift of the
machine affects all equally.

    python tools/bench/short_tapes.py [--tapes N] [--ticks N] [--repeats N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import gymnasium
from extract import record_environment

import replayer

WORLD, ENVIRONMENT = "arms-race", "CartPole-v1"
STEPS_WORLD = """
import pickle, sys
from sim.kernel.registry import find_world
for name, config, ticks in pickle.load(open(sys.argv[1], "rb")):
    simulation = find_world(name).make(config)
    for inputs in ticks:
        simulation.step(inputs)
"""
STEPS_ENVIRONMENT = """
import gymnasium, pickle, sys
for name, actions in pickle.load(open(sys.argv[1], "rb")):
    env = gymnasium.make(name)
    env.reset(seed=1)
    for action in actions[1:]:
        env.reset() if action is None else env.step(action)
"""
SAMPLES = """
import replayer, sys
for batch in replayer.samples(sys.argv[1], batch=256, shuffle=False):
    pass
"""
EXTRACT = "import replayer, sys; replayer.extract(sys.argv[1], sys.argv[2])"


def record_worlds(folder: Path, tapes: int, ticks: int) -> list[Any]:
    """Tapes of the world with scores; returns name, configuration and inputs of each."""
    players = ["--player", "caterpillar=greedy", "--player", "beetle=random"]
    found = []
    for number in range(tapes):
        path = folder / f"{number:02}.tape"
        options = f"--ticks {ticks} --seed {number} -q --deterministic".split()
        subprocess.run([sys.executable, "-m", "recorder", "run", WORLD, *players, *options, "-o", path], check=True)
        with replayer.open(path) as run:
            world = run.tape.meta["world"]
            inputs = [run.tape.frame(tick).inputs for tick in range(1, run.last_tick + 1)]
            found.append((world["name"], dict(world["config"]), inputs))
    return found


def used_s(program: str, *arguments: str) -> float:
    """Processor time of a program and of those that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program, *arguments], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(folder: Path, kind: str, tapes: int, ticks: int, repeats: int) -> dict[str, float]:
    """Median seconds of processor time of each way."""
    own = folder / kind
    own.mkdir()
    recorded: list[Any]
    if kind == WORLD:
        recorded, steps = record_worlds(own, tapes, ticks), STEPS_WORLD
    else:
        names = [own / f"{number:02}.tape" for number in range(tapes)]
        recorded = [(kind, record_environment(name, kind, ticks)) for name in names]
        steps = STEPS_ENVIRONMENT
    inputs = folder / f"{kind}.pickle"
    inputs.write_bytes(pickle.dumps(recorded))
    used: dict[str, list[float]] = {"only steps": [], "samples": [], "extract": []}
    for number in range(repeats):
        used["only steps"].append(used_s(steps, str(inputs)))
        used["samples"].append(used_s(SAMPLES, str(own)))
        used["extract"].append(used_s(EXTRACT, str(own), str(folder / f"{kind}-{number}")))
    return {way: statistics.median(times) for way, times in used.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tapes", type=int, default=32)
    parser.add_argument("--ticks", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measures = (options.tapes, options.ticks, options.repeats)
        results = {kind: measure(Path(folder), kind, *measures) for kind in (WORLD, ENVIRONMENT)}
    print(f"| {options.tapes} tapes of {options.ticks} ticks | way | s of CPU | of only steps |\n|---|---|---|---|")
    for kind, ways in results.items():
        for way, seconds in ways.items():
            print(f"| {kind} | {way} | {seconds:.2f} | {seconds / ways['only steps']:.2f} |")
    print(f"\nload: {os.getloadavg()}, gymnasium {gymnasium.__version__}")
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
