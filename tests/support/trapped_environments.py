"""Small environments whose state cannot be saved, each with something that outlives a reset."""

from __future__ import annotations

import itertools
import mmap
import os
import random
import threading
import time
from typing import Any, ClassVar

import gymnasium
import numpy as np


class Engine:
    """An object that cannot be saved, because of its lock."""

    __slots__ = ("heat", "lock")

    def __init__(self) -> None:
        self.heat = 0
        self.lock = threading.Lock()


class Unsavable(gymnasium.Env[Any, Any]):
    """Adds up its actions. It has something that cannot be saved and that decides nothing."""

    observation_space = gymnasium.spaces.Box(-1e6, 1e6, (1,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        self.x = np.array([0.0])
        return self.x.copy(), {}

    def step(self, action: Any) -> Any:
        self.x = self.x + action
        self.work()
        return self.x.copy(), 0.0, False, False, {}

    def work(self) -> None:
        """What else a step does."""


class History(Unsavable):
    """A list, a dict of objects and generators of random numbers outlive a reset. They can be saved."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[float] = []
        self.counts = {"steps": itertools.count()}
        self.nested = {"random": random.Random(3)}

    def work(self) -> None:
        self.history.append(float(self.x[0]) + self.nested["random"].random())
        next(self.counts["steps"])

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        observation, info = super().reset(seed=seed, options=options)
        return observation + len(self.history) + self.nested["random"].random(), info


class Maps(Unsavable):
    """An engine whose memory no Python code can list outlives a reset; another one is made again by each."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = mmap.mmap(-1, 16)

    def work(self) -> None:
        self.engine[0] = (self.engine[0] + 1) % 256

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.parts = [mmap.mmap(-1, 16)]
        return super().reset(seed=seed, options=options)


class Heats(Unsavable):
    """An object that outlives a reset cannot be saved. It decides nothing that a step returns."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine()

    def work(self) -> None:
        self.engine.heat += 1


class Cools(Heats):
    """The reset gives it its first value."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.engine.heat = 0
        return super().reset(seed=seed, options=options)


class CountsInClosure(Unsavable):
    """A variable of a function around a function outlives a reset."""

    def __init__(self) -> None:
        super().__init__()
        number = 0

        def count() -> int:
            nonlocal number
            number += 1
            return number

        self.count = count

    def work(self) -> None:
        self.count()


class Entangled(Unsavable):
    """What can be saved shares an object with what cannot: the reset reaches it through the latter."""

    def __init__(self) -> None:
        super().__init__()
        unit = {"health": 0}
        self.units = [unit]
        self.locked = [(unit, threading.Lock())]

    def work(self) -> None:
        self.units[0]["health"] += 1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.locked[0][0]["health"] = 0
        return super().reset(seed=seed, options=options)


class Grows(Unsavable):
    """The first reset makes what cannot be saved; a later one only empties it."""

    def __init__(self) -> None:
        super().__init__()
        self.engines: list[Engine] | None = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if self.engines is None:
            self.engines, self.made = [], Engine()
        self.engines[:] = []
        self.made.heat = 0
        return super().reset(seed=seed, options=options)

    def work(self) -> None:
        assert self.engines is not None
        self.engines.append(Engine())
        self.made.heat += 1


class World:
    """Stands for a world of C code: it keeps its parts until it is told to let go of them."""

    __slots__ = ("lock", "parts")

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.lock = threading.Lock()


class Car:
    """An object of Python with a part that cannot be saved."""

    def __init__(self, world: World) -> None:
        self.hull = Engine()
        world.parts.append(self.hull)


class LetsGo(Unsavable):
    """Each reset lets go of what the last one made, if that is there."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.car: Car | None = None
        self.wheel: Engine | None = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if self.wheel is not None:
            assert self.car is not None
            for part in (self.car.hull, self.wheel):
                self.world.parts.remove(part)
        self.car, self.wheel = Car(self.world), Engine()
        self.world.parts.append(self.wheel)
        observation, info = super().reset(seed=seed, options=options)
        return observation + len(self.world.parts), info


class ReadsClock(Unsavable):
    """The time of a step is kept; no step reads it."""

    def work(self) -> None:
        self.at = time.perf_counter_ns()


class KeepsProcessId(Unsavable):
    """Its client notes the process that it belongs to, as the client of a physics server does; no step reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.client = Engine()
        self.client.heat = os.getpid()


class KeepsProcessIdFirst(Heats):
    """The first episode has the id of the process; later ones have not, and restore a wrong count."""

    def __init__(self) -> None:
        super().__init__()
        self.client = Engine()
        self.client.heat = os.getpid()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed:
            self.client.heat = 0
        return super().reset(seed=seed, options=options)


class Connection:
    """A connection of one process to a service, which its end closes, as the client of a physics server does."""

    open_count: ClassVar[int] = 0

    def __init__(self) -> None:
        Connection.open_count += 1

    def __del__(self) -> None:
        Connection.open_count -= 1


class Connected(Unsavable):
    """Its steps need the connection that its first reset makes."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: list[Connection] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if not self.clients:
            self.clients.append(Connection())
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        if not Connection.open_count:
            raise RuntimeError("not connected")
        return super().step(action)
