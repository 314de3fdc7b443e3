"""Small simulations, each with one kind of hidden state, or only with an appearance of it: the zoo of the sync test."""

from __future__ import annotations

import functools
import itertools
import os
import random
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

import numpy as np

from sim import Field, Schema, State, Table

COUNTER = 0
CALLS: dict[str, int] = {}


class One:
    """A simulation of one number."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("tick", "i8"), Field("x", "i8")))

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["tick"][()] += 1
        self.state["x"][()] = int(self.state["x"]) * 3 % 1_000_003 + self.draw()

    def draw(self) -> int:
        return 1


class InstanceAttribute(One):
    """Counts in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self._memo = 0

    def draw(self) -> int:
        self._memo += 1
        return self._memo


class ModuleGlobal(One):
    """Counts in a module global."""

    def draw(self) -> int:
        global COUNTER  # noqa: PLW0603
        COUNTER += 1
        return COUNTER


class GlobalDict(One):
    """Counts in a global container."""

    def draw(self) -> int:
        CALLS["draw"] = CALLS.get("draw", 0) + 1
        return CALLS["draw"]


class ClassAttribute(One):
    """Counts in a class attribute."""

    total = 0

    def draw(self) -> int:
        ClassAttribute.total += 1
        return ClassAttribute.total


def _make_draw() -> Any:
    drawn = 0

    def draw(self: Any) -> int:  # noqa: ARG001
        nonlocal drawn
        drawn += 1
        return drawn

    return draw


class ClosureCell(One):
    """Counts in a closure's cell."""

    draw = _make_draw()


@functools.lru_cache
def threshold(kind: str) -> int:  # noqa: ARG001
    """A cached value that was right at the first call."""
    return StaleCache.now


class StaleCache(One):
    """Reads a cache whose value was computed from the state of an earlier tick."""

    now = 0

    def draw(self) -> int:
        StaleCache.now = int(self.state["tick"])
        return threshold("grass")


class GlobalRandom(One):
    """Draws from the random module."""

    def draw(self) -> int:
        return random.randrange(100)


class NumpyRandom(One):
    """Draws from NumPy's legacy global generator."""

    def draw(self) -> int:
        return int(np.random.randint(100))  # noqa: NPY002


class WallClock(One):
    """Reads the clock in full hours: two runs in a row mostly read the same."""

    def draw(self) -> int:
        return int(time.time() // 3600)


class Today(One):
    """Reads the date."""

    def draw(self) -> int:
        return datetime.now(UTC).toordinal()


class ImportedClock(One):
    """Reads a clock that was imported by its name."""

    def draw(self) -> int:
        return int(perf_counter()) // 1000


class EnvironmentRead(One):
    """Reads its speed from the environment."""

    def draw(self) -> int:
        return int(os.environ.get("LEAKY_SPEED", "3"))


class EnvironmentWritten(One):
    """Keeps its count in the environment."""

    def draw(self) -> int:
        count = int(os.environ.get("LEAKY_COUNT", "0")) + 1
        os.environ["LEAKY_COUNT"] = str(count)
        return count


class SplitAlias:
    """Keeps two names of one array, which a load turns into two arrays."""

    def __init__(self) -> None:
        self.places = np.arange(4)
        self.seen = self.places

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.places += 1
        self.places[0] = self.seen.sum() % 1009

    def save(self) -> dict[str, Any]:
        return {"places": self.places, "seen": self.seen}

    def load(self, saved: dict[str, Any]) -> None:
        self.places, self.seen = saved["places"].copy(), saved["seen"].copy()


class SplitView(SplitAlias):
    """Keeps a view into an array, which a load separates."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = self.places[1:3]


class HalfWord(One):
    """Keeps its generator in the state, but not the half word that the generator buffers for the next draw."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("tick", "i8"), Field("x", "i8"), Field("rng", "u8", (4,))))
        self.random = np.random.Generator(np.random.PCG64(5))
        self._keep()

    def _keep(self) -> None:
        inner = self.random.bit_generator.state["state"]
        low = (1 << 64) - 1
        self.state["rng"][:] = [inner[name] >> shift & low for name in ("state", "inc") for shift in (0, 64)]

    def after_restore(self) -> None:
        words = [int(word) for word in self.state["rng"]]
        self.random.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": {"state": words[0] | words[1] << 64, "inc": words[2] | words[3] << 64},
            "has_uint32": 0,
            "uinteger": 0,
        }

    def draw(self) -> int:
        value = int(self.random.integers(0, 1000, dtype=np.int32))
        self._keep()
        return value


class MutableDefault(One):
    """Keeps a list in a default argument."""

    def draw(self, gathered: list[int] = []) -> int:  # noqa: B006
        gathered.append(int(self.state["tick"]))
        return len(gathered)


class Uuid(One):
    """Makes a UUID."""

    def draw(self) -> int:
        return uuid.uuid4().int % 1000


class FunctionAttribute(One):
    """Counts in an attribute of its own method."""

    def draw(self) -> int:
        function = FunctionAttribute.draw
        function.calls = getattr(function, "calls", 0) + 1  # type: ignore[attr-defined]
        return int(function.calls)  # type: ignore[attr-defined]


class WrittenOnce(One):
    """Keeps a value of its first step in a class attribute: the same for every copy in one process."""

    first: int | None = None

    def draw(self) -> int:
        if WrittenOnce.first is None:
            WrittenOnce.first = int(self.state["x"]) + 7
        return WrittenOnce.first


class ForgottenGenerator(One):
    """Keeps a NumPy generator outside the state, inside a list inside an object."""

    class Brain:
        def __init__(self) -> None:
            self.generators = [np.random.Generator(np.random.PCG64(3))]

    def __init__(self) -> None:
        super().__init__()
        self.brain = self.Brain()

    def draw(self) -> int:
        return int(self.brain.generators[0].integers(0, 1000))


class TwoLeaks(InstanceAttribute):
    """Has two leaks at once, and a third value that is harmless."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def draw(self) -> int:
        self.steps += 1
        return super().draw() + random.randrange(10)


class OrderOfKeys(One):
    """Iterates over a dict in an order that the state does not hold."""

    def __init__(self) -> None:
        super().__init__()
        self.known = {"a": 1, "b": 2}

    def draw(self) -> int:
        first = next(iter(self.known))
        self.known[first] = self.known.pop(first)
        return self.known[first]


class ReadingDraws(One):
    """Draws random numbers in its telemetry."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("tick", "i8"), Field("x", "i8"), Field("word", "i8")))

    def draw(self) -> int:
        self.state["word"][()] = (int(self.state["word"]) * 1103 + 12345) % 65537
        return int(self.state["word"])

    def telemetry(self) -> dict[str, int]:
        return {"luck": self.draw()}


class Unmarked(One):
    """Declares that it marks all writes, and does not."""

    marks_writes = True

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state.set("tick", 0, self.state["tick"] + 1)
        if self.state["tick"] == 13:
            self.state["x"][()] += 1


class StaleView:
    """Keeps a view of its first table, which is no longer the table after a restore into a larger one."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("tick", "i8"), Table("rows", Field("x", "i8"), capacity=2)))
        self.state.add_rows("rows", 2)
        self.rows = self.state["rows.x"]

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["tick"][()] += 1
        if self.state["tick"] % 5 == 0:
            self.state.add_rows("rows", 1)
            self.rows = self.state["rows.x"]
        self.rows += self.state["tick"]


class UnseededConstruction(One):
    """Draws its speed when it is made."""

    def __init__(self) -> None:
        super().__init__()
        self.speed = random.SystemRandom().randrange(10**9)

    def draw(self) -> int:
        return self.speed


class Numbering(One):
    """Gives numbers from an iterator."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = itertools.count(1)

    def draw(self) -> int:
        return next(self.numbers)


class Script(One):
    """Runs a script that is a generator, which cannot be restored."""

    def __init__(self) -> None:
        super().__init__()
        self.script = self.play()

    @staticmethod
    def play() -> Iterator[int]:
        yield from range(1_000_000)

    def draw(self) -> int:
        return next(self.script)


class Fragile(One):
    """Raises after a restore because a value is missing."""

    def __init__(self) -> None:
        super().__init__()
        self.plan: list[int] = []

    def draw(self) -> int:
        if self.state["tick"] == 1:
            self.plan.append(4)
        return self.plan[-1]


class Registry(One):
    """Has a list of all its instances; their number takes part in the step."""

    known: list[Registry] = []  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.known.append(self)

    def draw(self) -> int:
        return len(self.known)


def make_with_closure() -> One:
    """Make a simulation of a new class, whose step counts in a new closure."""
    drawn = 0

    class Local(One):
        def draw(self) -> int:
            nonlocal drawn
            drawn += 1
            return drawn

    return Local()


# --- without hidden state


class HarmlessCounter(One):
    """Changes an attribute, a global and a clock's reading that no step reads."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.seconds = 0.0

    def draw(self) -> int:
        global COUNTER  # noqa: PLW0603
        COUNTER += 1
        self.steps += 1
        self.seconds += time.perf_counter()
        return 1


@functools.lru_cache
def square(value: int) -> int:
    """A cache of constant values."""
    return value * value


class PureCache(One):
    """Uses a correct cache."""

    def draw(self) -> int:
        return square(int(self.state["x"]) % 7)


class DerivedCache(One):
    """Keeps a sum outside the state and recomputes it after a restore."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("tick", "i8"), Field("x", "i8"), Field("values", "i8", (5,))))
        self.sum = 0

    def draw(self) -> int:
        values, tick = self.state["values"], int(self.state["tick"])
        self.sum += tick - int(values[tick % 5])
        values[tick % 5] = tick
        return self.sum

    def after_restore(self) -> None:
        self.sum = int(self.state["values"].sum())


class WholeSave:
    """Saves and loads completely, with its generator, and keeps a view of an array."""

    def __init__(self) -> None:
        self.random = np.random.Generator(np.random.PCG64(5))
        self.places = np.zeros(6)
        self._tie()

    def _tie(self) -> None:
        self.front = self.places[:3]

    def step(self, inputs: Any) -> None:
        self.front += self.random.integers(0, 9, 3, dtype=np.int32)
        self.places[3] += float(self.front.sum()) + (inputs or 0)

    def save(self) -> dict[str, Any]:
        state = self.random.bit_generator.state
        low = (1 << 64) - 1
        words = [state["state"][name] >> shift & low for name in ("state", "inc") for shift in (0, 64)]
        return {
            "places": self.places,
            "rng": np.array([*words, state["has_uint32"], state["uinteger"]], np.uint64),
        }

    def load(self, saved: dict[str, Any]) -> None:
        self.places = saved["places"].copy()
        self._tie()
        words = [int(word) for word in saved["rng"]]
        self.random.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": {"state": words[0] | words[1] << 64, "inc": words[2] | words[3] << 64},
            "has_uint32": words[4],
            "uinteger": words[5],
        }
