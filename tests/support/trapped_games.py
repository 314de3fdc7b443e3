"""Small games, each with one trap of those that make a saved state incomplete, and sound ones."""

from __future__ import annotations

import functools
import itertools
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

HITS = 0  # A counter of this module that steps of ModuleCounter read and write.


class Sound:
    """A plain object whose named attributes are all that a step reads."""

    def __init__(self) -> None:
        self.x = 0
        self.rng = np.random.default_rng(3)
        self.names = {"a", "b", "c"}  # Only asked for membership.

    def step(self, _: Any) -> Any:
        self.x += int(self.rng.integers(5)) + ("b" in self.names)
        return {"x": self.x, "half": self.x / 2}


class UnsavedGenerator:
    """Trap 1: the generator of a sensor is not saved; only what a step returns shows it."""

    class Sensor:
        def __init__(self) -> None:
            self.noise = np.random.default_rng(7)

    def __init__(self) -> None:
        self.x = 0
        self.sensor = UnsavedGenerator.Sensor()

    def step(self, _: Any) -> Any:
        self.x += 1
        return [self.x, float(self.sensor.noise.random())]


class GeneratorInClosure:
    """Trap 1, hidden more deeply: the generator is in the closure of a function."""

    def __init__(self) -> None:
        self.x = 0.0
        noise = np.random.default_rng(7)
        self.read = lambda: float(noise.random())

    def step(self, _: Any) -> Any:
        self.x += self.read()


class Wrapped:
    """Trap 2: a wrapper holds state that its save omits."""

    def __init__(self) -> None:
        self.x = 0
        self.elapsed = 0

    def step(self, _: Any) -> Any:
        self.elapsed += 1
        self.x += 2 if self.elapsed % 7 == 0 else 1

    def save(self) -> dict[str, Any]:
        return {"x": np.int64(self.x)}

    def load(self, saved: Any) -> None:
        self.x = int(saved["x"])


class CutView:
    """Trap 3: a view of an array, which a load replaces."""

    def __init__(self) -> None:
        self.positions = np.arange(4.0)
        self.first = self.positions[:2]

    def step(self, _: Any) -> Any:
        self.first += 1.0

    def save(self) -> dict[str, Any]:
        return {"positions": self.positions}

    def load(self, saved: Any) -> None:
        self.positions = saved["positions"].copy()


class SetOrder:
    """Trap 4: a step iterates over a set of texts."""

    def __init__(self) -> None:
        self.x = 0
        self.names = {"ann", "bob", "cleo", "dan", "eve", "fay"}

    def step(self, _: Any) -> Any:
        for name in self.names:
            self.x = (self.x * 31 + ord(name[0])) % 1_000_003


class Creature:
    """Hashes by its memory address."""

    def __init__(self, place: int) -> None:
        self.place = place


class Chunks:
    """A step picks from the creatures of a chunk, a set of objects. After crafter.Env._balance_object of Crafter 1.8."""

    def __init__(self, seed: int = 3) -> None:
        self.random = np.random.RandomState(seed)
        self.creatures = [Creature(place) for place in range(12)]
        self.chunks: dict[tuple[np.int64, ...], set[Creature]] = {}
        for creature in self.creatures:
            self.chunks.setdefault((np.int64(creature.place % 3), np.int64(0)), set()).add(creature)

    def step(self, _: Any) -> Any:
        for objects in self.chunks.values():
            found = [one for one in objects if isinstance(one, Creature)]
            found[self.random.randint(0, len(found))].place += 1


class Asked(Chunks):
    """Has the same sets. A step asks them what they hold and sums it up, which no order changes."""

    def step(self, _: Any) -> Any:
        chunks = list(self.chunks.values())
        one = self.creatures[self.random.randint(0, len(self.creatures))]
        for objects in chunks:
            objects.discard(one)
        chunks[one.place % 3].add(one)
        one.place = sum(each.place for each in chunks[0]) % 12 + (one in chunks[1])


class WarmStart:
    """Trap 5: a solver begins at its last solution, which is not saved."""

    def __init__(self) -> None:
        self.x = 1.0
        self._warm = 0.0

    def step(self, _: Any) -> Any:
        for _ in range(3):
            self._warm += (self.x - self._warm) / 2
        self.x = self._warm + 1.0


class LastResult:
    """Trap 6: what a step returns is computed from an array of the step before."""

    def __init__(self) -> None:
        self.x = 0.0
        self._before = np.zeros(2)

    def step(self, _: Any) -> Any:
        self.x += 0.5
        reward = self.x - self._before[0]
        self._before = np.array([self.x * 2, 0.0])
        return (self.x, float(reward))


class ModuleCounter:
    """Trap 7: a global of the module."""

    def __init__(self) -> None:
        self.x = 0

    def step(self, _: Any) -> Any:
        global HITS  # noqa: PLW0603 - the trap itself
        HITS += 1
        self.x += 2 if HITS % 5 == 0 else 1


class GlobalRandom:
    """Trap 7: the random module's generator."""

    def __init__(self) -> None:
        self.x = 0.0

    def step(self, _: Any) -> Any:
        self.x += random.random()


class ClassCounter:
    """Trap 14: a counter of the class."""

    ids = itertools.count()

    def __init__(self) -> None:
        self.x = 0

    def step(self, _: Any) -> Any:
        self.x += next(ClassCounter.ids) % 3


class Unseeded:
    """Trap 8 and others: a source without a seed."""

    def __init__(self) -> None:
        self.x = 0.0

    def step(self, _: Any) -> Any:
        self.x += np.random.default_rng().random()


class Clock:
    """A clock in what a step returns: no fault of the state."""

    def __init__(self) -> None:
        self.x = 0

    def step(self, _: Any) -> Any:
        self.x += 1
        return {"x": self.x, "took": time.perf_counter()}


class LoadLeaves:
    """Trap 11: a load into a used instance leaves something behind."""

    def __init__(self) -> None:
        self.x = 0
        self.seen: list[int] = []

    def step(self, _: Any) -> Any:
        self.seen.append(self.x)
        self.x += 1 + len(self.seen) // 9

    def save(self) -> dict[str, Any]:
        return {"x": np.int64(self.x), "seen": np.array(self.seen, np.int64)}

    def load(self, saved: Any) -> None:
        self.x = int(saved["x"])
        self.seen += saved["seen"].tolist()


class SaveDisturbs:
    """Trap 13: saving changes the run."""

    def __init__(self) -> None:
        self.x = 0

    def step(self, _: Any) -> Any:
        self.x += 1

    def save(self) -> dict[str, Any]:
        self.x += 1
        return {"x": np.int64(self.x)}

    def load(self, saved: Any) -> None:
        self.x = int(saved["x"])


class StickyAction:
    """Trap 15: the previous action, which a step repeats at times, is not saved."""

    def __init__(self) -> None:
        self.x = 0
        self.rng = np.random.default_rng(5)
        self._last = 0

    def trial_inputs(self, seed: int) -> Any:
        return functools.partial(random.Random(seed).randrange, 9)

    def step(self, inputs: Any) -> Any:
        action = self._last if self.rng.random() < 0.25 else inputs
        self._last = action
        self.x += action

    def save(self) -> dict[str, Any]:
        state = self.rng.bit_generator.state
        words = [word for value in state["state"].values() for word in (value & (1 << 64) - 1, value >> 64)]
        return {"x": np.int64(self.x), "rng": np.array(words, np.uint64)}

    def load(self, saved: Any) -> None:
        self.x = int(saved["x"])
        a, b, c, d = map(int, saved["rng"])
        self.rng.bit_generator.state = {
            "bit_generator": "PCG64", "has_uint32": 0, "uinteger": 0, "state": {"state": a | b << 64, "inc": c | d << 64},
        }  # fmt: skip


class Writes:
    """A step that writes a log, prints, and makes a folder."""

    def __init__(self, folder: Path, *, makes_folder: bool = False) -> None:
        self.x = 0
        self.log = folder / "log.txt"
        self.folder = folder / "made"
        self.makes_folder = makes_folder

    def step(self, _: Any) -> Any:
        self.x += 1
        print("step", self.x)
        with self.log.open("a") as file:
            file.write(f"{self.x}\n")
        if self.makes_folder:
            self.folder.mkdir(exist_ok=True)


class Hangs:
    """A step that never returns in a copy of the process."""

    def __init__(self) -> None:
        self.x = 0
        self.home = os.getpid()

    def step(self, _: Any) -> Any:
        while os.getpid() != self.home:
            signal.pause()
        self.x += 1


class Spins:
    """A step that takes very long in a copy of the process."""

    def __init__(self) -> None:
        self.x = 0
        self.home = os.getpid()

    def step(self, _: Any) -> Any:
        while os.getpid() != self.home:
            self.x += 1


class Dies:
    """A step that ends a copy of the process."""

    def __init__(self) -> None:
        self.x = 0
        self.home = os.getpid()

    def step(self, _: Any) -> Any:
        if os.getpid() != self.home:
            os._exit(9)
        self.x += 1


class NeedsInputs:
    """A step that cannot do without inputs."""

    def __init__(self) -> None:
        self.x = 0

    def step(self, inputs: Any) -> Any:
        self.x += inputs["push"]


STEPS_MADE = 0  # A counter of this module that steps of LateReader write.


class LateReader:
    """Counts steps in its class and its module, and reads both only after many steps."""

    made = 0

    def __init__(self) -> None:
        self.turn = 0
        self.x = 0

    def step(self, _: Any) -> Any:
        global STEPS_MADE  # noqa: PLW0603 - the trap itself
        STEPS_MADE += 1
        LateReader.made += 1
        self.turn += 1
        if self.turn > 500:
            self.x = LateReader.made + STEPS_MADE


class Remembers:
    """A sound game that keeps what it computes in a cache of functools."""

    def __init__(self) -> None:
        self.turn = 0

    def step(self, _: Any) -> Any:
        self.turn += square(self.turn % 3)


@functools.cache
def square(number: int) -> int:
    return number * number
