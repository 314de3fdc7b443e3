"""The energy ledger: account for every unit of energy that is created, moved or lost, by phase, and check the sums.

A debug mode: ``Meadow(config, ledger=Ledger())``. Each phase notes its changes to the energy of plants and of swarms.
After each phase the sums over the state must equal the ledger's sums, to the last 1/65536 unit.
"""

from __future__ import annotations

import enum
from collections import Counter
from typing import Any

from sim.kernel.state import State


class Flow(enum.Enum):
    """A kind of change: its description, and its sign for the energy of all plants and of all swarms."""

    PLACED_PLANTS = ("placed by scenario and inputs", 1, 0)
    PLACED_SWARMS = ("placed by scenario and inputs", 0, 1)
    GROWTH = ("gained by plants from the sun", 1, 0)
    DROUGHT = ("lost by plants in a drought", -1, 0)
    SEEDLINGS = ("initial energy of new plants", 1, 0)
    SEEDS = ("paid by parents for seeds", -1, 0)
    LINKS = ("paid by plants for links", -1, 0)
    DEAD_PLANTS = ("left in dying plants", -1, 0)
    GRAZING = ("moved from plants to swarms", -1, 1)
    UPKEEP = ("used by swarms", 0, -1)
    STARVATION = ("upkeep that dying heads do not pay", 0, 1)
    DEFENCE = ("paid by plants for defences", -1, 0)
    POISON = ("left in heads killed by toxins", 0, -1)
    CULL = ("left in culled heads", 0, -1)

    @property
    def text(self) -> str:
        """The description."""
        return self.value[0]


class LedgerError(AssertionError):
    """Energy came from nowhere or went nowhere."""


class Ledger:
    """The ledger of one run.

    Attributes:
        entries: sums of the flows so far, by phase and flow, in fixed point.
    """

    def __init__(self) -> None:
        self.entries: Counter[tuple[str, Flow]] = Counter()
        self._open: Counter[Flow] = Counter()
        self._plants = self._swarms = 0

    def note(self, flow: Flow, amount: Any) -> None:
        """Add an amount of this flow, in fixed point. Raises LedgerError if it is negative."""
        if int(amount) < 0:
            raise LedgerError(f"{flow.name} of {int(amount)}")
        self._open[flow] += int(amount)

    def take_open(self) -> dict[Flow, int]:
        """Return the flows since the last phase was closed, and forget them: another ledger accounts for them."""
        flows = dict(self._open)
        self._open.clear()
        return flows

    def begin(self, state: State) -> None:
        """Start from the balance of a restored state."""
        self._open.clear()
        self._plants, self._swarms = balance(state)

    def close_phase(self, phase: str, state: State) -> None:
        """Compare the flows since the last call with the state. Raises LedgerError with the phase and the difference."""
        self.close_with(phase, int(state["tick"]), balance(state))

    def close_with(self, phase: str, tick: int, found: tuple[int, int]) -> None:
        """Do the same with the energy that was found in all plants and in all swarms."""
        for flow, amount in self._open.items():
            _, plants, swarms = flow.value
            self._plants += plants * amount
            self._swarms += swarms * amount
            self.entries[phase, flow] += amount
        self._open.clear()
        for owners, expected, actual in zip(("plants", "swarms"), (self._plants, self._swarms), found, strict=True):
            if expected != actual:
                raise LedgerError(
                    f"tick {tick}, phase {phase}: the {owners} have {actual - expected:+d}/65536 energy "
                    "that no flow explains"
                )


def balance(state: State) -> tuple[int, int]:
    """Return the energy of all plants, and that of all swarms."""
    return int(state["plants.energy"].sum()), int(state["swarms.energy"].sum())
