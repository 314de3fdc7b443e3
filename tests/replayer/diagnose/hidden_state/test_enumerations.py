"""Members of an enumeration whose attributes a step changes are hidden state, named with the member."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

import pytest

from recorder.ambient.value_kinds import kind_of
from replayer import SyncTest
from sim import Field, Schema, State
from sim.adapters import adapt


class Good(enum.Enum):
    """What is sold."""

    IRON = "iron"
    ICE = "ice"

    def __init__(self, label: str) -> None:
        self.price = 10 * len(label)


class Side(enum.IntEnum):
    """Members without attributes of their own."""

    LEFT = 1
    RIGHT = 2


class Market:
    """Each sale lowers a price."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("credits", "i8")))

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        """Sell the dearest good."""
        best = max(Good, key=lambda good: (good.price, good.value))
        self.state["credits"][()] += best.price
        best.price -= 3


class Right(enum.Flag):
    """What a key opens."""

    FRONT = 1
    BACK = 2
    ROOF = 4


class Lock:
    """Asks for flags together, which Python then makes and keeps for the enumeration."""

    def __init__(self) -> None:
        self.key, self.opened, self.day = Right.FRONT, 0, 0

    def step(self) -> None:
        """Try the key; change it from time to time."""
        self.day += 1
        asked = Right(self.day * 5 % 7 + 1)
        self.opened += asked == self.key
        if self.day % 3 == 0:
            self.key = asked


@pytest.fixture(autouse=True)
def _prices() -> Iterator[None]:
    prices = {good: good.price for good in Good}
    yield
    for good, price in prices.items():
        good.price = price


def test_a_price_that_a_step_changes_is_proved() -> None:
    """Putting back the prices of the live run gives its states."""
    suspects = SyncTest(Market, ticks=30).run().suspects

    assert {suspect.name for suspect in suspects if suspect.proved} <= {"Good.IRON.price", "Good.ICE.price"}
    assert any(suspect.proved for suspect in suspects)


def test_members_without_attributes_stay_plain_values() -> None:
    """They are compared by value."""
    assert kind_of(Side) == "atom"
    assert kind_of(Good) == "object"


def test_flags_that_are_asked_for_together_are_no_change_outside_the_state() -> None:
    """They were listed: the copy had got another object for them, since what the enumeration keeps had been put back."""
    report = SyncTest(lambda: adapt(Lock()), ticks=40).run()

    assert (report.ok, report.moves) == (True, [])
