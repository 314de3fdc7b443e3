"""Record a batch of environments that JAX steps together, go to any step of it, and read one environment's episodes.

Gymnasium's vector of `phys2d/CartPole-v1` computes 32 poles in one call. The vector is one simulation with one tape. Needs
gymnasium, jax and flax.

Run it in an empty folder: python jax_batch.py
"""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import numpy as np

import recorder
import replayer

POLES, STEPS = 32, 60


def make_poles() -> Any:
    """Return the batch of environments."""
    return gymnasium.make_vec("phys2d/CartPole-v1", num_envs=POLES)


def main() -> None:
    """Record random pushes, seek, verify, and extract transitions."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    pushes = np.random.default_rng(1)
    poles = recorder.record(make_poles(), "poles.tape", quiet=True)
    seen, _ = poles.reset(seed=3)
    live = [np.asarray(seen)]
    for _ in range(STEPS):
        seen, *_ = poles.step(pushes.integers(0, 2, POLES))
        live.append(np.asarray(seen))
    poles.close()

    run = replayer.open("poles.tape", world=make_poles)
    for tick in (1, 17, STEPS):
        run.seek(tick)
        assert np.array_equal(np.asarray(run.simulation.last.observation), live[tick - 1])
    print(f"{POLES} poles, {STEPS} steps: each seek gives the observations of the live run")
    print(f"all ticks the same: {run.verify().ok}")

    rows = list(
        replayer.samples("poles.tape", world=make_poles, shuffle=False, columns=("env", "step", "obs", "terminated"))
    )
    ended = sum(bool(row["terminated"]) for row in rows)
    print(f"{len(rows)} transitions of single poles, {ended} of which fell")


if __name__ == "__main__":
    main()
