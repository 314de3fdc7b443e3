"""The recorded object behaves as the object: a plain run of the same calls stands next to each recorded one."""

from __future__ import annotations

import copy
import inspect
import os
import pickle  # noqa: TID251 - a copy of the user, which never comes from a tape
from collections.abc import Callable
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_games import Base, Game, ensure_images, image, recorded

import recorder
import replayer


def test_all_kinds_of_calls_are_repeated_exactly(tmp_path: Path) -> None:
    """Any number of arguments, by position and by name, with their types."""
    shared = [1.0]
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}),
        ((3,), {}),
        ((), {"push": 3}),
        ((2, ), {"dt": 0.5}),
        (((1, 2),), {}),
        (([1, 2],), {}),
        ((np.arange(3.0),), {"dt": np.float32(0.25)}),
        ((np.arange(6.0)[::2],), {}),
        ((np.int64(3),), {}),
        ((True,), {}),
        ((-0.0,), {}),
        (([1 << 60],), {}),
        (([shared, shared],), {"times": 1}),
    ]  # fmt: skip
    plain, live = Game(), []
    live.append(image(plain))
    game = recorded(tmp_path / "run.tape")
    for arguments, keywords in calls:
        assert game.advance(*arguments, **keywords) == plain.advance(*arguments, **keywords)
        live.append(image(plain))
    game.close()

    ensure_images(tmp_path / "run.tape", live)
    with replayer.open(tmp_path / "run.tape") as run:
        assert [run.tape.frame(tick).inputs for tick in range(1, 5)] == [
            {"advance()": [[], {}]},
            3,
            {"advance()": [[], {"push": 3}]},
            {"advance()": [[2], {"dt": 0.5}]},
        ]


class Dispatch:
    """A step that takes any argument and keeps its type."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def step(self, *arguments: Any, **keywords: Any) -> None:
        self.seen.append(repr((arguments, keywords)))


LOOKALIKES = (
    {"step()": [[1], {}]},
    {"raised": "ValueError", "message": "", "inputs": 3},
    {"bet": {"call": 20}},
    {1: "a", "b": (1, 2)},
    {"set": b""},
    None,
    b"\x80",
    {3, 1},
)


@pytest.mark.parametrize("argument", LOOKALIKES, ids=repr)
def test_an_argument_that_looks_like_our_maps_stays_the_argument(argument: Any, tmp_path: Path) -> None:
    plain = Dispatch()
    with recorder.record(Dispatch(), tmp_path / "run.tape", quiet=True) as subject:
        for one in (subject, plain):
            one.step(argument)
            one.step(argument, 1)
            one.step(name=argument)
            one.step()
        assert subject.seen == plain.seen
    with replayer.open(tmp_path / "run.tape", world=Dispatch) as run:
        assert run.verify().ok
        run.seek(0)
        run.seek(4)
        assert run.subject.seen == plain.seen


def test_a_step_is_recorded_however_it_is_called(tmp_path: Path) -> None:
    """By the proxy, by methods of the object, by a method taken before, by the class, on the object itself: once each."""
    subject, plain = Game(), Game()
    before, in_partial = subject.advance, partial(subject.advance, 4)
    game = recorded(tmp_path / "run.tape", subject)
    after = game.advance
    live = [image(plain)]

    def both(ours: Callable[[], Any], theirs: Callable[[], Any]) -> None:
        ours()
        theirs()
        live.append(image(plain))

    both(game.advance, plain.advance)
    both(before, plain.advance)
    both(after, plain.advance)
    both(in_partial, partial(plain.advance, 4))
    both(subject.advance, plain.advance)
    both(game.explicit, plain.explicit)
    both(lambda: Game.advance(subject, 1), lambda: plain.advance(1))
    both(lambda: Game.advance(game, 7), lambda: plain.advance(7))
    both(partial(game.advance, times=3), partial(plain.advance, times=3))  # Calls itself and its base class.
    game.run(3)
    for _ in range(3):
        plain.advance()
        live.append(image(plain))
    assert game.tape.tick == len(live) - 1
    game.close()
    ensure_images(tmp_path / "run.tape", live)


def test_other_objects_and_copies_are_not_recorded(tmp_path: Path) -> None:
    """A search that plays on copies leaves no trace on the tape, nor in the copies."""
    plain, live = Game(), []
    live.append(image(plain))
    other = Game()
    game = recorded(tmp_path / "run.tape")
    for _ in range(6):
        for copied in (
            copy.deepcopy(game),
            copy.copy(game),
            pickle.loads(pickle.dumps(game)),
            copy.deepcopy(game.subject),
        ):
            assert type(copied) is Game
            if copied.random is not game.random:  # A shallow copy shares it.
                copied.run(3)
        other.run(2)
        game.advance()
        plain.advance()
        live.append(image(plain))
    assert (game.tape.tick, other.ticks) == (6, 12)
    game.close()
    assert vars(game.subject).keys() == vars(other).keys()
    ensure_images(tmp_path / "run.tape", live)


def test_the_method_is_itself_again_after_the_recording(tmp_path: Path) -> None:
    """After the last recording is closed, or dropped, of any object of the class."""
    function, code = Game.advance, Game.advance.__code__
    signature = str(inspect.signature(function))
    one, two = recorded(tmp_path / "one.tape"), recorded(tmp_path / "two.tape")
    one.advance()
    two.advance()
    one.close()
    one.subject.advance()
    assert function.__code__ is not code
    assert str(inspect.signature(function)) == signature
    two.tape.close()
    two.subject.advance()
    assert (Game.advance, function.__code__, vars(function)) == (function, code, {})
    kept = [recorded(tmp_path / "three.tape")]
    assert function.__code__ is not code
    with pytest.warns(ResourceWarning, match="never closed"):
        kept.clear()
    assert function.__code__ is code


def test_the_method_shows_itself_as_the_objects(tmp_path: Path) -> None:
    """Its name, its parameters and its text, of the proxy and of the object."""
    with recorded(tmp_path / "run.tape") as game:
        plain = Game()
        for one in (game, game.subject):
            assert one.advance.__name__ == plain.advance.__name__ == "advance"
            assert inspect.signature(one.advance) == inspect.signature(plain.advance)
            assert one.advance.__doc__ == plain.advance.__doc__
            assert one.advance.__qualname__ == plain.advance.__qualname__
        game.advance()


def test_a_forked_child_plays_on_alone(tmp_path: Path) -> None:
    game = recorded(tmp_path / "run.tape")
    game.advance()
    child = os.fork()
    if not child:
        game.subject.advance()
        os._exit(game.subject.ticks)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    game.advance()
    assert game.tape.tick == 2
    game.close()


class Wrapped:
    """Its step is a callable object, not a function; another object has a bound method of itself under the name."""

    def __init__(self) -> None:
        self.t = 0

    def fast(self) -> None:
        self.t += 2

    @staticmethod
    def step() -> None:
        """Changes nothing."""

    tick = partialmethod(fast)


def test_a_step_that_is_no_function_is_recorded_where_it_is_called_by_the_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first line says so."""
    for step in ("tick", "step"):
        with recorder.record(Wrapped(), tmp_path / f"{step}.tape", step=step) as wrapped:
            getattr(wrapped, step)()
            getattr(wrapped, step)()
            assert wrapped.tape.tick == 2
        assert f"; {step} is no Python function: only calls through the result count" in capsys.readouterr().err
        with replayer.open(tmp_path / f"{step}.tape", world=Wrapped) as run:
            assert run.verify().ok


class Chosen:
    """Chooses how it steps when it is made."""

    def __init__(self) -> None:
        self.t = 0
        self.step = self.fast

    def fast(self) -> None:
        self.t += 2

    def run(self) -> None:
        self.step()
        self.fast()


def test_a_step_that_the_object_chose_is_recorded(tmp_path: Path) -> None:
    """An attribute that holds one of the object's own methods."""
    chosen = recorder.record(Chosen(), tmp_path / "run.tape", quiet=True, ignore=["Chosen.step"])
    chosen.run()
    chosen.step()
    chosen.close()
    with replayer.open(tmp_path / "run.tape", world=Chosen) as run:
        assert run.verify().ok
        assert run.last_tick == 3
        assert run[3]["Chosen.t"] == 6


class Episodes(Base):
    """As environments are: a step, a reset that a step may call, too, and a method that changes something between."""

    def reset(self, seed: int | None = None) -> float:
        if seed is not None:
            self.random.seed(seed)
        self.x, self.ticks = self.random.random(), 0
        return self.x

    def advance(self, push: Any = 0, *, dt: float = 1.0, times: int = 1) -> float:
        result = super().advance(push, dt=dt, times=times)
        return self.reset() if self.ticks > 4 else result

    def place(self, where: float, *, name: str) -> str:
        self.x = where
        self.log.append(name)
        return name


@pytest.mark.parametrize("step", ["advance", ("advance", "reset", "place")])
def test_resets_and_other_methods_are_ticks(step: Any, tmp_path: Path) -> None:
    """A reset without being named, between two steps only; every other method if it is named."""
    plain = Episodes()
    live = [image(plain)]
    episodes = recorder.record(Episodes(), tmp_path / "run.tape", step=step, quiet=True, keyframe_interval_ticks=5)
    for number in range(60):
        for one in (episodes, plain):
            if number % 7 == 0:
                result = one.reset(number if number % 2 else None)
            elif number % 5 == 0 and step != "advance":
                one.speed = number
                result = one.place(number / 2, name="here")
            else:
                result = one.advance(number)
            if one is episodes:
                expected = result
        assert result == expected
        live.append(image(plain))
    bound = episodes.subject.reset
    bound(5)
    plain.reset(5)
    live.append(image(plain))
    episodes.close()
    ensure_images(tmp_path / "run.tape", live, Episodes)
    with replayer.open(tmp_path / "run.tape") as run:
        assert run.tape.frame(1).inputs == {"reset()": [[None], {}]}


def test_a_further_method_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"^Episodes has no method fly\(\): .*methods advance, place, reset$"):
        recorder.record(Episodes(), tmp_path / "run.tape", step=("advance", "fly"))
    for wrong in ((), ("advance", 3), [None]):
        with pytest.raises(TypeError, match=r"^step=.*: expected the name of a method, or several$"):
            recorder.record(Episodes(), tmp_path / "run.tape", step=wrong)
    assert not list(tmp_path.iterdir())
