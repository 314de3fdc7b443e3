"""Record runs of a shipped scenario, and train a small network to predict a player's inputs from its view.

The policy greedy plays the caterpillars of arms-race. It sees the meadow through fog. Its decisions are read directly from
the tapes: the food around a swarm, and the direction in which the swarm was sent. A network of a few hundred numbers
learns to choose that direction. It is tested on runs that it never saw, and compared with a guess that needs no view: the
frequencies of the directions in the runs for training.

Needs torch. Run it in an empty folder: python learn_from_recordings.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader

import recorder
from replayer.datasets import TapeDataset
from sim.scenario import load_scenario

PLAYER, POLICY = "caterpillar", "greedy"
DIRECTIONS = 5  # Stay, east, south, west, north.
HELD_OUT = 0.3  # The share of the runs, not of the rows: rows of one run are much alike.
FULL_CELL = 20 * 65536  # Much food for one cell, in the units of the state.


@attrs.frozen
class Learnt:
    """The results on held-out runs: cross-entropy in nats, and the share of correct decisions.

    Attributes:
        loss, right: those of the network.
        baseline_loss, baseline_right: those of the frequencies in the runs for training.
        decisions: the number of decisions in the runs for training, and in the held-out runs.
    """

    loss: float
    right: float
    baseline_loss: float
    baseline_right: float
    decisions: tuple[int, int]


def record_run(path: Path, seed: int, ticks: int) -> None:
    """Record a run as `record run arms-race --player caterpillar=greedy` does."""
    scenario = load_scenario("arms-race", seed=seed)
    world = scenario.world
    assert world.play is not None
    scripted, play = world.inputs(scenario.config), world.play(scenario.config, PLAYER, POLICY)
    with recorder.Recorder(path, scenario.make(), durability="none") as tape:
        for tick in range(1, ticks + 1):
            tape.step([*scripted(tick), *play(tick, tape.simulation.state)])


def read_decisions(folder: Path, workers: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return all decisions in the runs of a folder: the food around each swarm, (n, 3 × 3), and the direction, (n)."""
    data = TapeDataset(
        folder,
        observations="fog",
        actions=("steer",),
        agents=PLAYER,
        columns=("obs.food", "obs.swarm_x", "obs.swarm_y", "action.steer"),
        batch=64,
        jobs=max(1, workers),
    )
    views, choices = [], []
    for batch in DataLoader(data, batch_size=None, num_workers=workers):
        for row, (xs, ys) in enumerate(zip(batch["obs.swarm_x"], batch["obs.swarm_y"], strict=True)):
            if len(xs):
                views.append(around(batch["obs.food"][row].numpy(), xs.numpy(), ys.numpy()))
                # -1 means no input: the swarm stays.
                choices.append(batch["action.steer"][row][ys, xs].clamp(min=0).long())
    return torch.from_numpy(np.concatenate(views)), torch.cat(choices)


def around(food: npt.NDArray[Any], xs: npt.NDArray[Any], ys: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the food in the 3 × 3 cells around each position; cells outside of the meadow are -1."""
    padded = np.pad(food / FULL_CELL, 1, constant_values=-1.0)
    cells = [padded[ys + dy, xs + dx] for dy in range(3) for dx in range(3)]
    views: npt.NDArray[Any] = np.stack(cells, axis=1).astype(np.float32)
    return views


def train(views: torch.Tensor, choices: torch.Tensor, steps: int) -> torch.nn.Module:
    """Return a network that was trained on `steps` batches of the decisions."""
    torch.manual_seed(1)
    torch.set_num_threads(1)  # More threads would only wait for each other in such a small network.
    model = torch.nn.Sequential(torch.nn.Linear(9, 48), torch.nn.ReLU(), torch.nn.Linear(48, DIRECTIONS))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        rows = torch.randint(len(views), (256,))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(views[rows]), choices[rows]).backward()
        optimizer.step()
    return model


def learn(folder: Path, runs: int = 7, ticks: int = 150, workers: int = 2, steps: int = 1500) -> Learnt:
    """Record, read, train, and test on the held-out runs."""
    trained = runs - max(1, round(HELD_OUT * runs))
    for seed in range(1, runs + 1):
        path = folder / ("train" if seed <= trained else "test") / f"run-{seed}.tape"
        path.parent.mkdir(exist_ok=True)
        record_run(path, seed, ticks)
    views, choices = read_decisions(folder / "train", workers)
    held_views, held_choices = read_decisions(folder / "test", workers)
    model = train(views, choices, steps)
    # Each count is one higher than the data: otherwise a direction that training never saw would have an infinite loss.
    frequencies = (torch.bincount(choices, minlength=DIRECTIONS) + 1) / (len(choices) + DIRECTIONS)
    with torch.no_grad():
        guesses = model(held_views)
        return Learnt(
            float(torch.nn.functional.cross_entropy(guesses, held_choices)),
            float((guesses.argmax(dim=1) == held_choices).double().mean()),
            float(-frequencies.log()[held_choices].mean()),
            float((held_choices == frequencies.argmax()).double().mean()),
            (len(choices), len(held_choices)),
        )


def main() -> None:
    """Learn from seven runs, in less than a minute."""
    with tempfile.TemporaryDirectory() as folder:
        learnt = learn(Path(folder))
    trained, held_out = learnt.decisions
    print(f"{trained:,} decisions of {PLAYER}={POLICY} for training, {held_out:,} in held-out runs")
    print(f"network:     loss {learnt.loss:.3f}, {learnt.right:.0%} right")
    print(f"frequencies: loss {learnt.baseline_loss:.3f}, {learnt.baseline_right:.0%} right")


if __name__ == "__main__":
    main()
