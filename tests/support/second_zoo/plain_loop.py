"""The truth of a specimen by a plain loop: no recorder, no tape, no replayer.

As a program it runs in two processes. The first plays the specimen, keeps the state at each keyframe with pickle or the
specimen's own ``save()``, and a description of all values at each tick. The second restores each of these states in a
fresh copy of itself and plays on to the next one: the first tick that differs is the truth.

    python plain_loop.py live PLAN KEPT
    python plain_loop.py replay PLAN KEPT
"""

from __future__ import annotations

import collections
import importlib
import json
import os
import pickle  # noqa: TID251 - of states that this very program kept
import random
import re
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ATOMS = (type(None), bool, int, float, complex, str, bytes)


def describe(value: Any, seen: dict[int, int]) -> Any:
    """All values that an object leads to, in order; sets sorted, and what has no values left out."""
    if isinstance(value, ATOMS):
        return repr(value)
    if isinstance(value, np.ndarray | np.generic):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, tuple):
        return [describe(part, seen) for part in value]
    if id(value) in seen:
        return f"object {seen[id(value)]}"
    seen[id(value)] = len(seen)
    if isinstance(value, random.Random):
        return (value.getstate(), repr(value.__dict__))
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, dict):
        return [(describe(key, seen), describe(part, seen)) for key, part in value.items()]
    if isinstance(value, list | collections.deque):
        return [describe(part, seen) for part in value]
    if isinstance(value, set | frozenset):
        return sorted(repr(describe(part, dict(seen))) for part in value)
    if callable(value) or isinstance(value, weakref.ref):
        return type(value).__name__
    if not hasattr(value, "__dict__"):
        return re.sub("0x[0-9a-f]+", "", repr(value))
    return (type(value).__name__, [(name, describe(part, seen)) for name, part in vars(value).items()])


class Player:
    """One program, played step by step as the plan says."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.module = importlib.import_module(plan["module"])
        self.plan, self.game, self.returned = plan, getattr(self.module, plan["make"])(), None
        self.is_over = False

    def step(self, tick: int, *, is_live: bool) -> None:
        """Make one tick, with the code between the ticks if the run is the live one or that is an input."""
        plan = self.plan
        names = {"game": self.game, "tick": tick, plan["module"]: self.module, "result": self.returned}
        if plan["between"] and is_live:
            exec(plan["between"], names)
        inputs = eval(plan["inputs"], names) if plan["inputs"] else None
        if plan["kind"] == "env":
            if tick == 1:
                self.returned = eval(plan["reset"], names)
            elif self.is_over:
                self.returned = self.game.reset()
            else:
                self.returned = self.game.step(inputs)
            self.is_over = len(self.returned) == 5 and (self.returned[2] or self.returned[3])
            return
        try:
            getattr(self.game, plan["step"])(*([inputs] if plan["takes_inputs"] else []))
        except Exception as error:
            if type(error).__name__ != plan["catches"]:
                raise

    def save(self) -> Any:
        """The state as the specimen, or pickle, saves it; None if it cannot."""
        if hasattr(self.game, "save"):
            return pickle.dumps(self.game.save())
        if hasattr(self.game, "state") and hasattr(self.game.state, "layout"):
            return pickle.dumps({name: np.array(self.game.state[name]) for name in self.game.state})
        return pickle.dumps((self.game, self.returned, self.is_over))

    def load(self, saved: bytes) -> None:
        """Restore what ``save()`` returned."""
        values = pickle.loads(saved)
        if hasattr(self.game, "save"):
            self.game.load(values)
        elif hasattr(self.game, "state") and hasattr(self.game.state, "layout"):
            for name, array in values.items():
                self.game.state[name][...] = array
        else:
            self.game, self.returned, self.is_over = values

    def described(self) -> str:
        """All values that count as the state."""
        if hasattr(self.game, "save"):
            return repr(describe(self.game.save(), {}))
        if hasattr(self.game, "state") and hasattr(self.game.state, "layout"):
            return repr([(name, np.array(self.game.state[name]).tobytes()) for name in self.game.state])
        return repr(describe([self.game, self.returned], {}))


def play_live(plan: dict[str, Any]) -> dict[str, Any]:
    """The live run: the states at the keyframes, and the values at each tick."""
    player = Player(plan)
    kept: dict[int, bytes] = {}
    described = [player.described()]
    for tick in range(plan["ticks"] + 1):
        if tick:
            player.step(tick, is_live=True)
            described.append(player.described())
        if tick % plan["keyframes"] == 0 and plan["restores"]:
            kept[tick] = player.save()
    return {"states": kept, "values": described}


def intervals(plan: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """The first and last tick of each stretch that is replayed."""
    length = plan["keyframes"] if plan["restores"] else plan["ticks"]
    return ((first, min(first + length, plan["ticks"])) for first in range(plan["from"], plan["ticks"], length))


def first_difference(plan: dict[str, Any], kept: dict[str, Any]) -> int | None:
    """The first tick whose values differ from the live run's; each stretch runs in a fresh copy of the process."""
    for first, last in intervals(plan):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            os.write(writing, str(replay_stretch(plan, kept, first, last)).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as answer:
            text = answer.read()
        os.waitpid(child, 0)
        if text != "None":
            return int(text)
    return None


def replay_stretch(plan: dict[str, Any], kept: dict[str, Any], first: int, last: int) -> int | None:
    """The first tick of a stretch that differs, None if none does. A step that raises differs."""
    player = Player(plan)
    if plan["restores"]:
        player.load(kept["states"][first])
    try:
        restored = player.described()
    except Exception:  # noqa: BLE001 - as below
        return first
    if restored != kept["values"][first]:
        return first
    for tick in range(first + 1, last + 1):
        try:
            player.step(tick, is_live=plan["between_is_input"])
        except Exception:  # noqa: BLE001 - whatever it is, the live run did not raise it
            return tick
        if player.described() != kept["values"][tick]:
            return tick
    return None


def main() -> None:
    """Run one of the two parts."""
    part, plan_path, kept_path = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if part == "live":
        del sys.argv[1:]  # As a script that a user runs; the arguments of the other part stand for those of a command.
    sys.path.insert(0, str(Path.cwd()))
    plan = json.loads(plan_path.read_text(encoding="utf-8"))
    if part == "live":
        kept_path.write_bytes(pickle.dumps(play_live(plan)))
    else:
        print(json.dumps(first_difference(plan, pickle.loads(kept_path.read_bytes()))))


if __name__ == "__main__":
    main()
