"""Gymnasium environments driven, recorded and continued, with the result of each call as bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import recorder
import replayer
from sim.adapters.capture.values import encode_value


def drive(env: Any, steps: int, seed: int) -> list[bytes]:
    """Make random actions, and resets when an episode is over; return the results of each call without its info."""
    observation, _ = env.reset(seed=seed)
    results = [encode_value([observation, 0.0, False, False])]
    env.action_space.seed(seed)
    while len(results) < steps:
        *result, _ = env.step(env.action_space.sample())
        results.append(encode_value(result))
        if result[2] or result[3]:
            observation, _ = env.reset()
            results.append(encode_value([observation, 0.0, False, False]))
    return results


def record_run(path: Path, env: Any, steps: int, seed: int, **settings: Any) -> list[bytes]:
    """Record a run, and return the results of each tick's call, from tick 1."""
    recorded = recorder.record(env, path, quiet=True, **settings)
    results = drive(recorded, steps, seed)
    recorded.close()
    return results


def last_result(simulation: Any) -> bytes:
    """The results of the last call, in the form of drive."""
    last = simulation.last
    return encode_value([last.observation, last.reward, last.terminated, last.truncated])


def continued(path: Path, ticks: list[int], ahead: int) -> str:
    """Seek to each tick, continue with the calls of the live environment, and digest all results."""
    digest = hashlib.sha256()
    with replayer.open(path) as run:
        for tick in ticks:
            run.seek(tick)
            simulation = run.simulation
            digest.update(last_result(simulation))
            for later in range(tick + 1, min(run.last_tick, tick + ahead) + 1):
                simulation.step(run.tape.frame(later).inputs)
                digest.update(last_result(simulation))
                assert simulation.state.hash() == run.tape.state_hash(later)
            run._cursor.leave()
    return digest.hexdigest()
