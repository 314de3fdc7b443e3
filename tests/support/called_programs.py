"""A random simulation that is called from outside: any methods, with new values and its own as arguments, and assignments.

The truth is the same program, called in the same way, without a recording.
"""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import recorder
import replayer

from moving_values import NAMES, Moving, made

CALLS, KEYFRAME_TICKS, SEEKS = 22, 5, 8
METHODS = ["take", "touch", "step"]
PLACES = ("log", "by", "a", "b", "x", "y")


class RefusedError(Exception):
    """A method refuses an action, and changes nothing."""


class Called(Moving):
    """The simulation."""

    def take(self, value: Any, where: str = "log") -> int:
        """Keep an argument."""
        self.t += 1
        if where == "log":
            self.log.append(value)
        elif where == "by":
            self.by[self.t % 3] = value
        else:
            setattr(self if where in NAMES else self.part, where, value)
        return self.t

    def touch(self, *values: Any, twice: bool = False) -> None:
        """Change what is passed."""
        self.t += 1
        for value in values * (1 + twice):
            self._change(value)

    def refuse(self) -> None:
        """Raise."""
        raise RefusedError


def drive(called: Any, program: Called, seed: int, after: Callable[[], None]) -> None:
    """Call it. called: the program, or what record returned for it."""
    draw = random.Random(seed)

    def argument() -> Any:
        kind, places = draw.randrange(6), program.places()
        if kind < 3 or not places:
            return made(draw, draw.randrange(50, 90))
        held, name = draw.choice(places)
        return (held[name], [held[name], kind], {"in": held[name]})[kind - 3]

    for number in range(CALLS):
        while draw.random() < 0.25:
            if draw.random() < 0.5:
                setattr(called, draw.choice(NAMES), draw.choice((number, number + 0.5, None, f"text {number}")))
            else:
                with contextlib.suppress(RefusedError):
                    called.refuse()
        kind = draw.randrange(9)
        if kind < 4:
            value, where = argument(), draw.choice(PLACES)
            called.take(value, where=where) if draw.random() < 0.5 else called.take(value, where)
        elif kind < 7:
            called.touch(*(argument() for _ in range(1 + draw.randrange(2))), twice=draw.random() < 0.3)
        else:
            called.step()
        after()


def compare_calls(seed: int, tape: Path) -> None:
    """Record a run, and compare it, live and as it is seen, with the same calls of a program that is not recorded.

    Raises AssertionError with what differs, and any error of the recording or the replay.
    """
    plain = Called(seed)
    truth = [plain.values()]
    drive(plain, plain, seed, lambda: truth.append(plain.values()))
    live = Called(seed)
    seen = [live.values()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recorded = recorder.record(
            live, tape, step=METHODS, quiet=True, trial_ms=0, keyframe_interval_ticks=KEYFRAME_TICKS
        )
        drive(recorded, live, seed, lambda: seen.append(live.values()))
        recorded.close()
    assert seen == truth, f"seed {seed}: the recorded program differs from the one that is not recorded"
    draw = random.Random(seed)
    with replayer.open(tape, world=lambda: Called(seed)) as run:
        assert run.last_tick == CALLS
        for tick in (draw.randrange(CALLS + 1) for _ in range(SEEKS)):
            run.seek(tick)
            assert run.subject.values() == truth[tick], f"seed {seed}, tick {tick}"
        report = run.verify()
        assert report.ok, f"seed {seed}: {report}"
        assert report.wrong_keyframes == [], f"seed {seed}: {report}"
