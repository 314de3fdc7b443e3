"""Record a Gymnasium environment in the save/load form, and go back to any of its steps.

The environment needs no change. ``save`` and ``load`` make it recordable: they name everything that the next step reads,
which is the physics, the random generator, and the counter of the TimeLimit wrapper.

Needs gymnasium. Run it in an empty folder: python gymnasium_cartpole.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import recorder
import replayer

WORD = (1 << 64) - 1


class CartPole:
    """CartPole-v1 in the save/load form: a step takes an action, and a finished episode restarts automatically."""

    def __init__(self, seed: int = 0) -> None:
        self.env = gymnasium.make("CartPole-v1")
        self.observation, _ = self.env.reset(seed=seed)
        self.reward, self.done, self.episodes = 0.0, False, 1

    def step(self, action: int) -> None:
        """Push the cart to the left (0) or to the right (1); after the end of an episode the action is ignored."""
        if self.done:
            self.observation, _ = self.env.reset()
            self.reward, self.done, self.episodes = 0.0, False, self.episodes + 1
            return
        self.observation, reward, terminated, truncated, _ = self.env.step(action)
        self.reward, self.done = float(reward), terminated or truncated

    def save(self) -> dict[str, Any]:
        """Return everything that the next step reads, and the last step's result."""
        inner: Any = self.env.unwrapped
        limit = self._time_limit()
        random = self.env.unwrapped.np_random.bit_generator.state
        words = [word for value in random["state"].values() for word in (value & WORD, value >> 64)]
        beyond = inner.steps_beyond_terminated
        return {
            "physics": np.array(inner.state, dtype=np.float64),
            "steps_beyond_terminated": np.int64(-1 if beyond is None else beyond),
            "elapsed_steps": np.int64(limit._elapsed_steps),  # noqa: SLF001 - the wrapper has no other way to read it
            "rng": np.array([*words, random["has_uint32"], random["uinteger"]], dtype=np.uint64),
            "observation": np.asarray(self.observation, dtype=np.float32),
            "reward": np.float64(self.reward),
            "done": np.bool_(self.done),
            "episodes": np.int64(self.episodes),
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Restore what save() returned, in a fresh instance or a used one."""
        inner: Any = self.env.unwrapped
        limit = self._time_limit()
        inner.state = saved["physics"].copy()
        beyond = int(saved["steps_beyond_terminated"])
        inner.steps_beyond_terminated = None if beyond < 0 else beyond
        limit._elapsed_steps = int(saved["elapsed_steps"])  # noqa: SLF001 - as in save
        words = [int(word) for word in saved["rng"]]
        inner.np_random.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": {"state": words[0] | words[1] << 64, "inc": words[2] | words[3] << 64},
            "has_uint32": words[4],
            "uinteger": words[5],
        }
        self.observation = saved["observation"].copy()
        self.reward, self.done, self.episodes = float(saved["reward"]), bool(saved["done"]), int(saved["episodes"])

    def _time_limit(self) -> Any:
        layer: Any = self.env
        while not isinstance(layer, gymnasium.wrappers.TimeLimit):
            layer = layer.env
        return layer


def main() -> None:
    """Record 2,000 random actions and go back to one of them."""
    actions = np.random.Generator(np.random.PCG64(1)).integers(0, 2, 2000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cartpole.tape"
        with recorder.Recorder(path, CartPole(seed=5)) as tape:
            for action in actions:
                tape.step(int(action))
        run = replayer.open(path, world=CartPole)
        report = run.seek(1234)
        print(f"step 1234: observation {run.state['observation']}, episode {run.state['episodes']}")
        print(f"from the keyframe at {report.keyframe_tick}, {report.simulated_ticks} steps re-simulated")
        print(
            f"all {len(run):,} states are the same: {run.verify().ok}; {path.stat().st_size / len(actions):.0f} bytes a step"
        )


if __name__ == "__main__":
    main()
