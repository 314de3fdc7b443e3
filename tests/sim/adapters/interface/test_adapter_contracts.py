"""Gymnasium environments with discrete and card-like states conform to the contract."""

from __future__ import annotations

from typing import Any

import pytest

from recorder.testing import SimulationContract

gymnasium = pytest.importorskip("gymnasium")


class TestCartPole(SimulationContract):
    ticks = 80

    def make(self) -> Any:
        return gymnasium.make("CartPole-v1")


@pytest.mark.long
class TestBlackjack(SimulationContract):
    ticks = 60

    def make(self) -> Any:
        return gymnasium.make("Blackjack-v1")
