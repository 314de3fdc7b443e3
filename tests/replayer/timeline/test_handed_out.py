"""What a replay hands out may be stepped and changed by its user: the next seek is right all the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer
from recorder.errors import DesyncError
from sim.adapters import adapt, fields

from small_worlds import Herd, Saved, Walkers


class Game:
    """A plain object."""

    def __init__(self) -> None:
        self.x, self.random, self.seen = 0.0, random.Random(2), [0]
        self.grid = np.zeros(3)

    def step(self, inputs: Any) -> None:
        self.x += self.random.random() * (inputs or 1)
        self.grid[int(self.x) % 3] += self.x
        self.seen.append(int(self.x))


class Solver:
    """A warm start, which is not saved, makes the next step differ: a replay has to load where the run did."""

    level = "canonical"

    def __init__(self) -> None:
        self.x, self.warm = 0.5, 0.0

    def step(self, _: Any) -> None:
        self.x = 3.9 * self.x * (1 - self.x) + self.warm * 1e-3
        self.warm = self.x

    def save(self) -> dict[str, Any]:
        return {"x": np.array(self.x)}

    def load(self, saved: Any) -> None:
        self.x, self.warm = float(saved["x"]), 0.0


def environment() -> Any:
    return pytest.importorskip("gymnasium").make("CartPole-v1")


def record_environment(path: Path) -> None:
    env = recorder.record(environment(), path, quiet=True, keyframe_interval_ticks=20)
    env.reset(seed=3)
    for tick in range(100):
        if env.step(tick % 2)[2]:
            env.reset()
    env.close()


def record_world(make: Callable[[], Any], inputs: Any = None, **choices: Any) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        with recorder.Recorder(path, make(), keyframe_interval_ticks=20, durability="none", **choices) as tape:
            for _ in range(101):
                tape.step(inputs)

    return run


def record_game(path: Path) -> None:
    with recorder.record(Game(), path, quiet=True, keyframe_interval_ticks=20) as game:
        for tick in range(101):
            game.step(tick)


def play_environment(subject: Any) -> None:
    subject.reset(seed=99)
    subject.step(1)
    subject.unwrapped.state = None


def play_game(subject: Any) -> None:
    subject.step(3)
    subject.grid[:] = 5
    subject.seen.clear()
    subject.extra = 1


def play(subject: Any) -> None:
    for _ in range(3):
        subject.step(2 if isinstance(subject, Saved) else None)


KINDS: dict[str, tuple[Callable[[Path], None], Any, Callable[[Any], None]]] = {
    "gymnasium": (record_environment, environment, play_environment),
    "plain object": (record_game, Game, play_game),
    "save and load": (record_world(Saved, 2), Saved, play),
    "canonical": (record_world(Solver), Solver, play),
    "arena": (record_world(Walkers), Walkers, play),
    "marks": (record_world(Herd), Herd, play),
    "changes": (record_world(Walkers, mode="changes"), Walkers, play),
    "chained": (record_world(Herd, mode="changes", hashes="changes"), Herd, play),
}
WAYS = ("one forward", "one back", "again", "far", "not stepped")


def moves(way: str) -> Iterator[int]:
    ticks = {
        "one forward": range(30, 50),
        "one back": range(70, 50, -1),
        "again": [33, 33, 40, 40, 60, 60],
        "far": [90, 3, 55, 100, 0, 21, 20],
        "not stepped": [30, 31, 10, 11, 90],
    }
    yield from ticks[way]


@pytest.mark.sample(9)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_next_seek_is_right(kind: str, way: str, tmp_path: Path) -> None:
    """States and objects at each tick are those of an untouched replay."""
    record, make, touch = KINDS[kind]
    record(tmp_path / "run.tape")
    with (
        replayer.open(tmp_path / "run.tape", world=make) as run,
        replayer.open(tmp_path / "run.tape", world=make) as clean,
    ):
        for tick in moves(way):
            report = run.seek(tick)
            clean.seek(tick)
            assert report.state_hash == run.state.hash() == run.tape.state_hash(tick)
            assert shown(run.subject) == shown(clean.subject), tick
            if way != "not stepped":
                touch(run.subject)
        assert run.verify().ok


def shown(subject: Any) -> str:
    """What a user sees of the object."""
    if isinstance(subject, Game):
        return repr({**vars(subject), "random": subject.random.getstate()})
    if hasattr(subject, "unwrapped"):
        return repr((subject.unwrapped.state, subject._elapsed_steps))
    saved = subject.save() if hasattr(subject, "save") else {name: subject.state[name] for name in subject.state}
    return repr(saved)


def test_an_object_that_was_kept_is_restored_as_well(tmp_path: Path) -> None:
    """It may be stepped at any later time, not only between the access and the next seek."""
    record_game(tmp_path / "run.tape")
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        run.seek(10)
        game = run.subject
        for tick in range(11, 45):
            run.step()
            seen = list(game.seen)
            game.step(1)
            assert len(seen) == tick + 1


def test_the_simulation_itself_may_be_stepped(tmp_path: Path) -> None:
    record_game(tmp_path / "run.tape")
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        for tick in (10, 11, 12, 40, 39):
            run.seek(tick)
            run.simulation.step(7)
            run.simulation.state["Game.x"][()] = 1e9
        assert run.seek(13).tick == 13


def test_one_object_for_all(tmp_path: Path) -> None:
    """A factory that returns the same object each time: the timeline's two positions do not disturb each other."""
    record_game(tmp_path / "run.tape")
    game = Game()
    with replayer.open(tmp_path / "run.tape", world=lambda: game) as run:
        for tick in range(30, 40):
            run.seek(tick)
            assert run[tick + 3]["Game.x"] == run.at(tick + 3)["Game.x"]
            run.step()
            assert len(game.seen) == tick + 2


def test_a_desync_is_found_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restoring does not hide that the code has changed."""
    record_game(tmp_path / "run.tape")
    with replayer.open(tmp_path / "run.tape", world=lambda: adapt(Game(), fields())) as run:
        run.seek(30)
        run.subject.step(1)
        monkeypatch.setattr(Game, "step", lambda self, _: self.seen.append(1))
        with pytest.raises(DesyncError):
            run.seek(31)
