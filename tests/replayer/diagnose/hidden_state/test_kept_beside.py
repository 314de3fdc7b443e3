"""What a step keeps in a context variable, in the length of a deque, or beside an object by a weak reference to it."""

from __future__ import annotations

import contextvars
import weakref
from collections import deque
from typing import Any

import pytest

from replayer import SyncTest

LEVEL = contextvars.ContextVar("LEVEL", default=1)
ORDERS: contextvars.ContextVar[dict[str, int]] = contextvars.ContextVar("ORDERS")


class Tide:
    """Its level is that of the context; every third step raises it."""

    def __init__(self) -> None:
        self.steps, self.depth = 0, 0

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.steps += 1
        if self.steps % 3 == 0:
            LEVEL.set(LEVEL.get() + self.steps)
        self.depth += LEVEL.get()

    def save(self) -> bytes:
        return bytes(f"{self.steps} {self.depth}", "ascii")

    def load(self, saved: bytes) -> None:
        self.steps, self.depth = map(int, saved.split())


class Shop(Tide):
    """Keeps its orders in a dict that the context holds."""

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        orders = ORDERS.get()
        orders["tea"] = orders.get("tea", 0) + 1
        self.steps += 1
        self.depth += orders["tea"]


class Buoy(Tide):
    """Remembers the last three depths; after a load, all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = deque([0] * 3, maxlen=3)

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.steps += 1
        self.seen.append(self.steps)
        self.depth += sum(self.seen)

    def save(self) -> bytes:
        return super().save() + b" " + b" ".join(b"%d" % one for one in self.seen)

    def load(self, saved: bytes) -> None:
        self.steps, self.depth, *seen = map(int, saved.split())
        self.seen = deque(seen)


class Rust:
    """A descriptor that keeps the value of each object beside it."""

    def __init__(self) -> None:
        self.held: Any = weakref.WeakKeyDictionary()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.held.get(instance, 0)

    def __set__(self, instance: Any, value: int) -> None:
        self.held[instance] = value


class Anchor:
    """Something that rusts."""

    rust = Rust()


class Ship(Tide):
    """Its anchor rusts, which save() does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.anchor = Anchor()

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.steps += 1
        self.anchor.rust += self.steps % 4
        self.depth += self.anchor.rust


@pytest.mark.parametrize(
    ("kind", "name"),
    [(Tide, "LEVEL"), (Shop, "ORDERS"), (Buoy, "Buoy.seen.maxlen"), (Ship, "Anchor.rust.held")],
)
def test_check_names_it_and_proves_it(kind: Any, name: str) -> None:
    def run() -> Any:
        ORDERS.set({})
        return SyncTest(kind, [None] * 24).run()

    report = contextvars.copy_context().run(run)
    assert not report.ok
    assert any(name in one.name and one.proved for one in report.suspects), report.suspects
