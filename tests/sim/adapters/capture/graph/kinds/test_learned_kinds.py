"""Structured arrays, arrays of objects, factories without a name, kept exceptions, and pygame's numbers, in a recorded game."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer
from sim.adapters import NotCapturedError, adapt


class Unit:
    def __init__(self) -> None:
        self.health = 10


class WoundError(ValueError):
    """An exception whose __init__ takes other arguments than it keeps."""

    def __init__(self, unit: Unit, text: str) -> None:
        super().__init__(text)
        self.unit = unit


class Structured:
    """An array with fields, a view of one of them, and the type itself."""

    def __init__(self) -> None:
        self.bodies = np.zeros(3, [("r", "f8"), ("g", "i4", (2,)), ("k", [("x", "u1"), ("y", "?")])])
        self.radii = self.bodies["r"]
        self.held = {"type": np.dtype([("r", "f8"), ("g", "i4")])}

    def step(self, _: Any = None) -> None:
        self.radii[1] += 0.5
        self.bodies["g"][0, 1] += 1
        self.bodies["k"]["x"][2] += 1

    def look(self) -> Any:
        return self.bodies.tolist(), self.bodies.dtype, self.radii.base is self.bodies, self.held


class OfObjects:
    """Arrays of objects that share an object, one of them in itself; also transposed, and without elements."""

    def __init__(self) -> None:
        unit = Unit()
        self.board = np.array([[unit, None], [3, (unit, "a")]], dtype=object)
        self.turned = np.asfortranarray(self.board)
        self.alone = np.empty((), object)
        self.none = np.empty((0, 3), object)
        self.unit = [unit]

    def step(self, _: Any = None) -> None:
        self.unit[0].health -= 1
        self.board[1, 0] += 1
        self.board[0, 1] = [self.board, self.turned] if self.board[1, 0] % 2 else None
        self.alone[()] = [self.board[1, 0]]

    def look(self) -> Any:
        board = self.board
        assert board[0, 0] is board[1, 1][0] is self.turned[0, 0] is self.unit[0]
        assert board[0, 1] is None or board[0, 1][0] is board
        flags = [(one.shape, one.flags.f_contiguous) for one in (board, self.turned, self.alone, self.none)]
        return board[1, 0], self.turned[1, 0], board[0, 0].health, self.alone[()], flags


class Factories:
    """A defaultdict whose factory is a lambda, one of two of the same name, or a function inside a function."""

    def __init__(self) -> None:
        def start() -> int:
            return 7

        self.first: Any = defaultdict(lambda: 1)
        self.lists: Any = [defaultdict(lambda: [2]), defaultdict(start), *[defaultdict(lambda: 5) for _ in range(2)]]
        self.turn = 0

    def step(self, _: Any = None) -> None:
        self.turn += 1
        self.first[self.turn % 5] += 1
        self.lists[0][self.turn].append(3)
        self.lists[1 + self.turn % 3][self.turn] += 1

    def look(self) -> Any:
        return repr([dict(self.first), [dict(one) for one in self.lists]]), [
            one.default_factory() for one in self.lists
        ]


class Errors:
    """Exceptions that are kept, with a cause and attributes."""

    def __init__(self) -> None:
        self.turn, self.units = 0, [Unit()]
        self.last: list[BaseException] = []

    def step(self, _: Any = None) -> None:
        self.turn += 1
        fault = WoundError(self.units[0], f"turn {self.turn}")
        fault.__cause__ = ZeroDivisionError(self.turn)
        self.last = [fault, KeyError("a", self.turn)]

    def look(self) -> Any:
        assert not self.last or self.last[0].unit is self.units[0]  # type: ignore[attr-defined]
        return repr(self.last), [(one.args, repr(one.__cause__), one.__suppress_context__) for one in self.last]


def recorded(tmp_path: Path, kind: Any) -> list[str]:
    """Record a game with a keyframe at every fourth tick; what it looks like after each step."""
    game = kind()
    seen = [repr(game.look())]
    with recorder.record(game, tmp_path / "run.tape", quiet=True, keyframe_interval_ticks=4) as live:
        for _ in range(18):
            live.step()
            seen.append(repr(game.look()))
    return seen


@pytest.mark.parametrize("kind", [Structured, OfObjects, Factories, Errors])
def test_a_game_with_them_is_recorded_exactly(tmp_path: Path, kind: Any) -> None:
    """Each tick is restored, in any order, shared objects stay shared, and every keyframe is proved."""
    seen = recorded(tmp_path, kind)
    with replayer.open(tmp_path / "run.tape", world=kind) as run:
        for tick in (18, 5, 8, 1, 13, 0):
            run.seek(tick)
            assert repr(run.subject.look()) == seen[tick]
        report = run.verify()
        assert (report.ok, report.proved_keyframes, report.not_read) == (True, 5, ())


def game_with(make: Callable[[], Any]) -> Any:
    class Game:
        def __init__(self) -> None:
            self.held = [make()]

        def step(self) -> None:
            """Do nothing."""

    return Game()


def kept_error() -> BaseException:
    try:
        raise ValueError(3)
    except ValueError as error:
        return error


def factory_with(number: int) -> Any:
    return defaultdict(lambda: number)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (kept_error, r"held\[0\] \(ValueError\): an exception with a traceback.*with_traceback\(None\)"),
        (lambda: OSError(2, "no"), r"held\[0\] \(FileNotFoundError\): .*an exception of C code .*keep its text"),
        (lambda: factory_with(3), r"held\[0\].*uses values of it.*define it at the top level|functools.partial"),
        (lambda: np.zeros(2, np.dtype([("a", "u1"), ("b", "f8")], align=True)), r"held\[0\].*gaps .*align=True"),
        (lambda: np.array([[1, "a"]], object)[0], r"held\[0\].*a view of an array of objects.*keep a copy"),
        (lambda: np.array([object, threading.Lock()], object), r"held\[0\].*lock.*cannot be saved"),
    ],
    ids=["traceback", "os error", "closure", "aligned", "view", "lock in an array"],
)
def test_what_cannot_be_saved_among_them_is_refused_with_a_way_out(make: Callable[[], Any], told: str) -> None:
    """By its path and class."""
    with pytest.raises(NotCapturedError, match=told):
        adapt(game_with(make), None)


# --- pygame


class Sprites:
    """Rectangles and vectors, changed in place and shared."""

    def __init__(self) -> None:
        import pygame

        self.body = pygame.Rect(1, 2, 3, 4)
        self.bodies = [self.body, pygame.Rect(0, 0, 1, 1)]
        self.place = {"at": pygame.Vector2(1.5, 2), "far": pygame.Vector3(1, 2, 3)}
        self.color = [pygame.Color(1, 2, 3, 4)]

    def step(self, _: Any = None) -> None:
        self.body.move_ip(1, 2)
        self.place["at"] += (0.5, -1)
        self.place["far"].x += 1
        self.color[0].r += 1

    def look(self) -> Any:
        assert self.body is self.bodies[0]
        return self.bodies, self.place, self.color


def test_numbers_of_pygame_are_saved_and_read_by_the_digest(tmp_path: Path) -> None:
    """Exactly, in place of a pickle."""
    pytest.importorskip("pygame")
    test_a_game_with_them_is_recorded_exactly(tmp_path, Sprites)


def test_pictures_and_clocks_of_pygame_are_refused_with_a_way_out() -> None:
    """They are not state; the message says where to keep them."""
    pygame = pytest.importorskip("pygame")
    with pytest.raises(NotCapturedError, match=r"held\[0\] \(pygame.surface.Surface\).*a picture: keep its name"):
        adapt(game_with(lambda: pygame.Surface((2, 2))), None)
    with pytest.raises(NotCapturedError, match=r"held\[0\] \(pygame.time.Clock\).*time of the day"):
        adapt(game_with(pygame.time.Clock), None)
