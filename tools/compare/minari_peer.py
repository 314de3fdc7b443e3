"""Minari, which keeps episodes of a Gymnasium environment; its default storage is HDF5.

A tick is a step of an environment: the inputs are the action, tick and hash the observation. The only place of Minari
for a state is the options of a reset. For that reason the ticks from one state to the next are an episode.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
from gymnasium import spaces
from history import INPUT_BYTES, Frame
from minari.dataset.minari_storage import MinariStorage
from peer import Peer, Reading, Sink

DATASET = "run-v0"
Observation = dict[str, np.ndarray]


class Playback(gymnasium.Env[Any, Any]):
    """An environment that observes the tick and the hash of next_frame; an episode is cut after episode_ticks."""

    def __init__(self, episode_ticks: int) -> None:
        word = np.iinfo(np.uint64)
        self.observation_space = spaces.Dict(
            {name: spaces.Box(0, word.max, (1,), np.uint64) for name in ("tick", "hash")}
        )
        self.action_space = spaces.Box(0, 255, (INPUT_BYTES,), np.uint8)
        self.episode_ticks = episode_ticks
        self.next_frame: Frame | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; the state is in the options."""
        super().reset(seed=seed, options=options)
        return observe_word(0, 0), {}

    def step(self, action: np.ndarray) -> tuple[Observation, float, bool, bool, dict[str, Any]]:  # noqa: ARG002
        """Return the observation of the next frame."""
        frame = self.next_frame
        assert frame is not None
        return observe_word(frame.tick, frame.state_hash), 0.0, False, frame.tick % self.episode_ticks == 0, {}


def observe_word(tick: int, state_hash: int) -> Observation:
    """An observation."""
    return {"tick": np.array([tick], np.uint64), "hash": np.array([state_hash], np.uint64)}


class MinariSink:
    """A data collector around an environment."""

    def __init__(self, folder: Path, state_every: int) -> None:
        os.environ["MINARI_DATASETS_PATH"] = str(folder)
        self.playback = Playback(state_every)
        self.collector = minari.DataCollector(self.playback)

    def put(self, frame: Frame) -> None:
        """Step; at a state, begin an episode."""
        if frame.state is not None:
            self.collector.reset(seed=0, options={"state": np.frombuffer(frame.state, np.int32)})
        self.playback.next_frame = frame
        self.collector.step(np.frombuffer(frame.inputs, np.uint8))

    def close(self) -> None:
        """Make the data set."""
        self.collector.create_dataset(
            DATASET, algorithm_name="none", author="none", author_email="none", code_permalink="none"
        )
        self.collector.close()


class Minari(Peer):
    """Minari with its default storage."""

    library = "minari"
    strength = (
        "The common way to share offline reinforcement-learning data, with spaces, seeds, metadata and a "
        "hub of data sets. It is made for finished data sets: until one is created, episodes are in a temporary folder."
    )
    rescue_how = "MinariStorage on the collector's temporary folder"
    thoroughness = "few"

    def create(self, folder: Path, state_every: int) -> Sink:  # noqa: D102
        return MinariSink(folder, state_every)

    def find_file(self, folder: Path) -> Path:  # noqa: D102
        return folder / DATASET / "data" / "main_data.hdf5"

    def read(self, folder: Path, reading: Reading, state_ticks: Sequence[int]) -> None:  # noqa: ARG002, D102
        dataset = minari.MinariDataset(self.find_file(folder).parent)
        self._take(dataset.storage, reading)

    def rescue(self, folder: Path, reading: Reading) -> None:  # noqa: D102
        (storage,) = folder.glob("tmp*")
        self._take(MinariStorage.read(storage), reading)

    @staticmethod
    def _take(storage: Any, reading: Reading) -> None:
        for episode in storage.get_episodes(range(storage.total_episodes)):
            reading.opened = True  # Not before: the data set itself opens by its metadata alone.
            observed = episode["observations"]
            ticks, hashes = observed["tick"][1:, 0], observed["hash"][1:, 0]
            for tick, state_hash, action in zip(ticks, hashes, episode["actions"], strict=True):
                reading.rows.append((int(tick), int(state_hash), action.tobytes()))
            (metadata,) = storage.get_episode_metadata([episode["id"]])
            reading.states.append((int(ticks[0]) - 1, metadata["options"]["state"].tobytes()))
