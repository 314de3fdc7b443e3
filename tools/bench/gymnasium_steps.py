"""The cost of recording per step of CartPole (target T8), compared with the environment alone and Minari's DataCollector.

All of them take turns, a few hundred steps at a time: other load on the machine affects all equally. The difference to
the environment alone counts. Prints a table and, with --json, writes the figures.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium

import recorder

STEPS = 300  # Of one turn.


def turn(env: Any, actions: list[int]) -> float:
    """Microseconds a step, resets included."""
    step = env.step
    start_s = time.perf_counter()
    for action in actions:
        _, _, terminated, truncated, _ = step(action)
        if terminated or truncated:
            env.reset()
    return (time.perf_counter() - start_s) / len(actions) * 1e6


def collector() -> Any:
    """Minari's, if it is installed with what it needs to collect; else None."""
    try:
        import jax.tree_util  # noqa: F401, PLC0415 - the collector imports it in its first step
        from minari import DataCollector  # noqa: PLC0415 - a peer that may be missing
    except ImportError:
        return None
    return DataCollector(gymnasium.make("CartPole-v1"), record_infos=False)


def folder_bytes(folder: Path, names: str) -> int:
    """Of the files of one name."""
    return sum(path.stat().st_size for path in folder.glob(names) if path.is_file())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    draws = random.Random(1)
    actions = [draws.randrange(2) for _ in range(STEPS)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made: dict[str, Callable[[], Any]] = {
            "CartPole alone": lambda: gymnasium.make("CartPole-v1"),
            "recorded (block)": lambda: recorder.record(
                gymnasium.make("CartPole-v1"), folder / "block.tape", quiet=True
            ),
            "recorded (tick)": lambda: recorder.record(
                gymnasium.make("CartPole-v1"), folder / "tick.tape", quiet=True, durability="tick"
            ),
            "recorded (fields)": lambda: recorder.record(
                gymnasium.make("CartPole-v1"), folder / "fields.tape", quiet=True, blame="fields"
            ),
            "Minari": collector,
        }
        envs = {label: env for label, make in made.items() if (env := make()) is not None}
        for env in envs.values():
            env.reset(seed=1)
            turn(env, actions * 4)
        times: dict[str, list[float]] = {label: [] for label in envs}
        for _ in range(options.turns):
            for label, env in envs.items():
                times[label].append(turn(env, actions))
        steps = {label: env.tape.tick for label, env in envs.items() if hasattr(env, "tape")}
        for env in envs.values():
            env.close()
        alone = times["CartPole alone"]
        figures = {}
        for label, found in times.items():
            added = [one - base for one, base in zip(found, alone, strict=True)]
            tapes = {"(block)": "block.tape", "(tick)": "tick.tape", "(fields)": "fields.tape"}
            tape = tapes.get(label.removeprefix("recorded "))
            figures[label] = {
                "step_us_min": min(found),
                "step_us_p50": statistics.median(found),
                "added_us_of_mins": min(found) - min(alone),
                "added_us_p50": statistics.median(added),
                "ratio_of_mins": min(found) / min(alone),
                "bytes_a_tick": folder_bytes(folder, tape) / steps[label] if tape else None,
            }
    print(f"{'':18}{'min us':>9}{'p50 us':>9}{'+min us':>9}{'+p50 us':>9}{'ratio':>8}{'B/tick':>8}")
    for label, one in figures.items():
        size = f"{one['bytes_a_tick']:.1f}" if one["bytes_a_tick"] else "-"
        print(
            f"{label:18}{one['step_us_min']:9.2f}{one['step_us_p50']:9.2f}{one['added_us_of_mins']:9.2f}"
            f"{one['added_us_p50']:9.2f}{one['ratio_of_mins']:8.2f}{size:>8}"
        )
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
