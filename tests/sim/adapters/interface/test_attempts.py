"""Steps that raise, in programs that go on: what was tried is a tick, and every later tick is right.

A plain run of the same calls stands next to each recorded one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from recorder.errors import DesyncError, SimulationFailedError

from small_worlds import Walkers


class IllegalMoveError(Exception):
    """Raised by the games below."""


class Board:
    """Refuses moves, some of them only after they have changed something."""

    def __init__(self) -> None:
        self.cells = [0] * 9
        self.moves = 0
        self.draws = random.Random(3)
        self.refused: list[str] = []

    def step(self, cell: int, *, value: int = 1) -> int:
        if not 0 <= cell < 9:
            raise IllegalMoveError(f"no cell {cell}")  # Nothing has changed.
        self.moves += 1
        roll = self.draws.randrange(6)
        if self.cells[cell]:
            self.refused.append(f"{cell}")
            raise IllegalMoveError(f"cell {cell} is taken")  # The counter and the generator have moved.
        self.cells[cell] = value + roll
        if all(self.cells):
            self.cells = [0] * 9
        return roll


def image(board: Any) -> Any:
    return list(board.cells), board.moves, board.draws.getstate(), list(board.refused)


@pytest.mark.seldom(0.15)
def test_a_loop_that_catches_invalid_moves_is_recorded_completely(tmp_path: Path) -> None:
    """Attempts that changed nothing, and attempts that changed something, are ticks with their exception."""
    plain, source = Board(), random.Random(1)
    live, raised = [image(plain)], {}
    with recorder.record(Board(), tmp_path / "run.tape", quiet=True, keyframe_interval_ticks=7) as board:
        for tick in range(1, 120):
            cell = source.randrange(-2, 11)
            results: list[Any] = []
            for one in (board, plain):
                try:
                    results.append(one.step(cell, value=tick))
                except IllegalMoveError as error:
                    results.append(str(error))
            assert results[0] == results[1]
            if type(results[0]) is str:
                raised[tick] = results[0]
            live.append(image(plain))
        assert 20 < len(raised) < 100
    with replayer.open(tmp_path / "run.tape", world=Board) as run:
        assert run.verify().ok
        assert run.last_tick == 119
        for tick in (*range(119, -1, -11), *range(0, 120, 3)):
            run.seek(tick)
            assert image(run.subject) == live[tick], tick
        for tick in range(1, 120):
            inputs = run.tape.frame(tick).inputs
            assert (inputs.get("raised") == "IllegalMoveError") == (tick in raised)
            if tick in raised:
                assert inputs["message"] == raised[tick]
                assert inputs["inputs"]["step()"][1] == {"value": tick}


def test_the_exception_is_the_objects_own(tmp_path: Path) -> None:
    """The same exception, with its traceback into the step, and without a hint of the recorder's own errors."""
    with recorder.record(Board(), tmp_path / "run.tape", quiet=True) as board:
        with pytest.raises(IllegalMoveError, match="no cell 20") as caught:
            board.step(20)
        assert caught.traceback[-1].name == "step"
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        assert not getattr(caught.value, "__notes__", [])
        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            board.step(value=3)  # Python itself refuses this call: it is no tick.
        assert board.tape.tick == 1


class Moody(Board):
    """Raises in the recorded run, and not in the replay, or the other way round."""

    raises = True

    def step(self, cell: int, *, value: int = 1) -> int:
        if Moody.raises:
            raise IllegalMoveError("in a bad mood")
        return 0


@pytest.mark.parametrize("raises", [True, False])
def test_a_replay_that_raises_elsewhere_is_no_silent_match(
    raises: bool,  # noqa: FBT001 - a case
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even if the state is the same."""
    monkeypatch.setattr(Moody, "raises", raises)
    with recorder.record(Moody(), tmp_path / "run.tape", quiet=True) as moody:
        try:
            moody.step(1)
        except IllegalMoveError:
            assert raises
    monkeypatch.setattr(Moody, "raises", not raises)
    why = (
        r"expected the step to raise IllegalMoveError \(in a bad mood\), as it did"
        if raises
        else "raised IllegalMoveError"
    )
    with replayer.open(tmp_path / "run.tape", world=Moody) as run:
        run.seek(0)
        with pytest.raises(SimulationFailedError, match=why):
            run.seek(1)


class Endless:
    """Raises what no replay can repeat."""

    def __init__(self) -> None:
        self.depth = 0

    def step(self, kind: str) -> None:
        self.depth += 1
        if kind == "recursion":
            self.step(kind)
        if kind == "interrupt":
            raise KeyboardInterrupt
        if kind == "lock":
            self.lock = iter(self.__dict__)
            raise ValueError("with a state that cannot be saved")


@pytest.mark.parametrize(
    ("kind", "error"), [("recursion", RecursionError), ("interrupt", KeyboardInterrupt), ("lock", ValueError)]
)
def test_what_cannot_be_repeated_or_saved_ends_the_recording(kind: str, error: Any, tmp_path: Path) -> None:
    """The tape then ends at the tick before, and says so at the next step."""
    endless = recorder.record(Endless(), tmp_path / "run.tape", quiet=True)
    endless.step("")
    with pytest.raises(error) as raised:
        endless.step(kind)
    if kind == "lock":
        [note] = raised.value.__notes__
        assert note.startswith(
            "the recording ends before this step: what appeared in a step cannot be saved: Endless.lock"
        )
        del endless.subject.lock
    with pytest.raises(SimulationFailedError):
        endless.step("")
    endless.close()
    with replayer.open(tmp_path / "run.tape", world=Endless) as run:
        assert run.verify().ok
        assert run.last_tick == 1


def test_a_simulation_that_does_not_record_attempts_ends_as_before(tmp_path: Path) -> None:
    with recorder.Recorder(tmp_path / "run.tape", Walkers()) as tape:
        tape.step(None)
        with pytest.raises(IndexError):
            tape.step([[99, 1]])
        with pytest.raises(SimulationFailedError):
            tape.step(None)
    with replayer.open(tmp_path / "run.tape", world=Walkers) as run:
        assert run.verify().ok
        assert run.last_tick == 1


# --- environments


def environment(kind: str) -> Callable[[], Any]:
    gymnasium = pytest.importorskip("gymnasium")

    class Maze(gymnasium.Env):  # type: ignore[misc,name-defined]
        """Refuses walls after it has drawn a number."""

        observation_space = gymnasium.spaces.Discrete(8)
        action_space = gymnasium.spaces.Discrete(5)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self.place, self.tries = 3, 0
            if options:
                self.place = 7
                raise IllegalMoveError("no options")
            return self.place, {}

        def step(self, action: int) -> Any:
            self.tries += 1
            gust = int(self.np_random.integers(0, 3))
            place = self.place + int(action) - 2
            if not 0 <= place < 8:
                raise IllegalMoveError(f"a wall at {place}")
            self.place = (place + gust) % 8
            return self.place, float(gust), self.tries > 12, False, {}

    return {
        "bare": Maze,
        "wrapped": lambda: gymnasium.wrappers.TimeLimit(Maze(), 10),
        "cart pole": lambda: gymnasium.make("CartPole-v1"),
    }[kind]


@pytest.mark.sample(2)
@pytest.mark.parametrize("level", ["exact", "inputs_only"])
@pytest.mark.parametrize("kind", ["bare", "wrapped", "cart pole"])
@pytest.mark.seldom(0.15)
def test_invalid_actions_of_an_environment(kind: str, level: str, tmp_path: Path) -> None:
    """Caught, with steps or a reset after them: results, episodes and every tick are those of a plain run."""
    make = environment(kind)
    source = random.Random(5)

    def drive(env: Any) -> list[Any]:
        source.seed(5)
        results: list[Any] = [env.reset(seed=3)]
        for number in range(150):
            try:
                if number % 40 == 39 and kind != "cart pole":
                    results.append(env.reset(options={"bad": True}))
                action = source.randrange(5) if kind != "cart pole" else source.choice([0, 1, 1, 0, 7])
                results.append(env.step(action))
                if results[-1][2] or results[-1][3]:
                    results.append(env.reset())
            except (IllegalMoveError, AssertionError) as error:
                results.append(str(error))
                if number % 3 == 0:
                    results.append(env.reset())
        return [repr(result) for result in results]

    alone = drive(make())
    env = recorder.record(make(), tmp_path / "run.tape", quiet=True, keyframe_interval_ticks=20, level=level)
    assert drive(env) == alone
    env.close()
    assert any("wall" in one or "invalid" in one for one in alone)
    with replayer.open(tmp_path / "run.tape", world=make) as run:
        assert run.last_tick == len(alone)
        assert run.verify().ok
        for tick in (140, 3, 77, 78, len(alone), 1):
            run.seek(tick)
            inputs = run.tape.frame(tick).inputs
            if not (type(inputs) is dict and "raised" in inputs):
                assert repr(run.simulation.last.observation) in alone[tick - 1]
        assert all(episode.total is not None for episode in run.episodes)


def test_the_hash_still_finds_a_different_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that leaves another state in the replay is a desync."""
    with recorder.record(Board(), tmp_path / "run.tape", quiet=True) as board:
        for _ in range(2):
            try:
                board.step(4)
            except IllegalMoveError:
                board.step(5)

    def step(self: Any, cell: int, *, value: int = 1) -> None:
        self.moves += 1
        self.draws.randrange(6)
        if self.cells[cell]:
            raise IllegalMoveError("without a trace")
        self.cells[cell] = value + 5

    monkeypatch.setattr(Board, "step", step)
    with replayer.open(tmp_path / "run.tape", world=Board) as run, pytest.raises(DesyncError):
        run.seek(2)
