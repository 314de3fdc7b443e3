"""A warning points at the user's line that led to it, not at one of ours: however many of our calls are in between."""

from __future__ import annotations

import inspect
import linecache
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recorder
from recorder import Recorder
from sim.kernel.schema import Field, Schema
from sim.kernel.state import State
from sim.user_warning import warn_user

COUNT = [0]
TRIAL_MS = 5000.0  # A busy machine needs more than the default; the trials end much earlier.


class Counting:
    """A step reads a counter that is not saved: in the module, where nothing tells of it at the start."""

    def __init__(self) -> None:
        self.turns = 0

    def step(self, _: Any = None) -> int:
        COUNT[0] += 1
        self.turns += COUNT[0]
        return self.turns


class Dealing(Counting):
    """Its step needs an input, so that it is tried after the first ones."""

    def advance(self, card: int) -> int:
        return self.step() + card


class CountingSaved(Counting):
    """The same with save and load."""

    def save(self) -> bytes:
        return self.turns.to_bytes(8, "little")

    def load(self, data: bytes) -> None:
        self.turns = int.from_bytes(data, "little")


class Open:
    """State in an arena, which can be changed between steps; and any object may be assigned."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "i8", (2,))))

    def step(self, _: Any) -> None:
        self.state.set("x", 1, 1)


class Game:
    speed: Any = 1

    def step(self, _: Any = None) -> None:
        self.speed = self.speed


def tried_later(path: Path) -> None:
    tape = recorder.record(Dealing(), path, step="advance", trial_ms=TRIAL_MS)
    for card in range(300):
        tape.advance(card)  # here
    tape.close()


def tried_own(path: Path) -> None:
    with Recorder(path, CountingSaved(), trial_ms=TRIAL_MS) as tape:  # here
        tape.step(None)


def no_step(path: Path) -> None:
    recorder.record(Game(), path, trial_ms=0).close()  # here


def no_step_in_a_block(path: Path) -> None:
    with recorder.record(Game(), path, trial_ms=0):  # here
        pass


def assigned(path: Path) -> None:
    with recorder.record(Game(), path, trial_ms=0) as game:
        game.step()
        game.speed = lambda: 1  # here


def changed_between(path: Path) -> None:
    simulation = Open()
    with Recorder(path, simulation, trial_ms=0, between_steps=True) as tape:
        for _ in range(3):
            simulation.state.set("x", 0, 5)
            tape.step(None)  # here


CASES = (tried_later, tried_own, no_step, no_step_in_a_block, assigned, changed_between)


def test_code_that_is_executed_without_a_module_is_warned_too() -> None:
    """As in a notebook, a page of docs or exec: its globals may have no name."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile("\nwarn('there', UserWarning)", "page.md", "exec"), {"warn": warn_user})
    assert [(str(one.message), one.filename, one.lineno) for one in caught] == [("there", "page.md", 2)]


@pytest.mark.tried
@pytest.mark.parametrize("run", CASES, ids=lambda run: run.__name__)
def test_a_warning_points_at_the_users_line(tmp_path: Path, run: Callable[[Path], None]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(tmp_path / "run.tape")
    found = [one for one in caught if not issubclass(one.category, ResourceWarning)]
    assert found
    for one in found:
        assert one.filename == __file__, f"{one.filename}:{one.lineno}: {one.message}"
        assert "# here" in linecache.getline(one.filename, one.lineno), one.message
        assert one.lineno in range(*_lines_of(run)), one.message


def _lines_of(run: Callable[..., Any]) -> tuple[int, int]:
    lines, first = inspect.getsourcelines(run)
    return first, first + len(lines)
