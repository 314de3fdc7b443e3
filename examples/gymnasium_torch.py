"""Record a player of a Gymnasium environment, and train a PyTorch network from the tape to play as it does.

The rows come directly from the tape, in a shuffled order: no data set is written. Needs gymnasium and torch.

Run it in an empty folder: python gymnasium_torch.py
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

import recorder
from replayer.datasets import TapeDataset

Player = Callable[[Any], int]


def play(env: Any, seeds: range, player: Player) -> float:
    """Play an episode for each seed, and return the mean number of steps for which the pole stays up."""
    steps = 0
    for seed in seeds:
        seen, _ = env.reset(seed=seed)
        is_over = False
        while not is_over:
            seen, _, terminated, truncated, _ = env.step(player(seen))
            steps, is_over = steps + 1, terminated or truncated
    return steps / len(seeds)


def train(tape: Path, epochs: int) -> torch.nn.Module:
    """Return a network that was trained on the recorded observations and actions."""
    torch.manual_seed(1)
    torch.set_num_threads(1)  # More threads would only wait for each other in such a small network.
    network = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    data = TapeDataset(tape, batch=64, columns=("obs", "action"), seed=1)
    batches = [batch for epoch in range(epochs) for batch in shuffled(data, epoch)]
    for batch in batches:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(batch["obs"]), batch["action"]).backward()
        optimizer.step()
    return network


def shuffled(data: TapeDataset, epoch: int) -> torch.utils.data.DataLoader[Any]:
    """Return the batches of an epoch. The tape's states are proved by their hashes while they are read."""
    data.set_epoch(epoch)
    return torch.utils.data.DataLoader(data, batch_size=None)


def main() -> None:
    """Record, train, and play with the network in the environment itself."""
    chance = np.random.default_rng(1)
    env = recorder.record(gymnasium.make("CartPole-v1", max_episode_steps=100), "balance.tape", quiet=True)
    rule: Player = lambda seen: int(seen[2] + 0.5 * seen[3] > 0)  # noqa: E731 - push to where the pole falls
    recorded = play(env, range(12), lambda seen: rule(seen) if chance.random() < 0.9 else int(chance.integers(2)))
    env.close()

    network = train(Path("balance.tape"), epochs=2)

    with torch.no_grad(), gymnasium.make("CartPole-v1", max_episode_steps=100) as env:
        learnt = play(env, range(100, 110), lambda seen: int(network(torch.as_tensor(seen)).argmax()))
        guessed = play(env, range(100, 110), lambda _seen: int(chance.integers(2)))
    print(f"steps for which the pole stays up: recorded {recorded:.0f}, network {learnt:.0f}, by chance {guessed:.0f}")
    assert learnt > 2 * guessed


if __name__ == "__main__":
    main()
