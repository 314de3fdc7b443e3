"""The energy ledger: every unit of energy that is created, moved or lost, by phase, and the proof that it adds up.

A debug mode: ``Meadow(config, ledger=Ledger())``. Each phase notes what it does to the energy of plants and of swarms;
when it is over, the sums over the state must be what the notes say, to the last 1/65536 unit.
"""

from __future__ import annotations

import enum
from collections import Counter
from typing import Any

from sim.kernel.state import State


class Flow(enum.Enum):
    """A kind of change, with its sign for the energy of all plants and for that of all swarms."""

    PLACED_PLANTS = ("what scenario and inputs put down", 1, 0)
    PLACED_SWARMS = ("what scenario and inputs put down", 0, 1)
    GROWTH = ("what plants gain from the sun", 1, 0)
    DROUGHT = ("what plants lose in a drought", -1, 0)
    SEEDLINGS = ("what new plants begin with", 1, 0)
    SEEDS = ("what parents pay for seeds", -1, 0)
    LINKS = ("what plants pay for links", -1, 0)
    DEAD_PLANTS = ("what dying plants still had", -1, 0)
    GRAZING = ("what goes from plants to swarms", -1, 1)
    UPKEEP = ("what swarms use up", 0, -1)
    STARVATION = ("upkeep that dying heads do not pay", 0, 1)
    DEFENCE = ("what plants pay for defences", -1, 0)
    POISON = ("what heads that toxins kill had", 0, -1)
    CULL = ("what culled heads had", 0, -1)

    @property
    def text(self) -> str:
        """In words."""
        return self.value[0]


class LedgerError(AssertionError):
    """Energy came from nowhere or went nowhere."""


class Ledger:
    """The books of one run.

    Attributes:
        entries: how much was noted so far, by phase and flow, in fixed point.
    """

    def __init__(self) -> None:
        self.entries: Counter[tuple[str, Flow]] = Counter()
        self._open: Counter[Flow] = Counter()
        self._plants = self._swarms = 0

    def note(self, flow: Flow, amount: Any) -> None:
        """An amount of this flow; 0 or more, in fixed point. Raises LedgerError if it is negative."""
        if int(amount) < 0:
            raise LedgerError(f"{flow.name} of {int(amount)}")
        self._open[flow] += int(amount)

    def begin(self, state: State) -> None:
        """Take the balance as it is: for a state that was restored."""
        self._open.clear()
        self._plants, self._swarms = _balance(state)

    def close_phase(self, phase: str, state: State) -> None:
        """Check what was noted since the last call against the state. Raises LedgerError, naming phase and gap."""
        for flow, amount in self._open.items():
            _, plants, swarms = flow.value
            self._plants += plants * amount
            self._swarms += swarms * amount
            self.entries[phase, flow] += amount
        self._open.clear()
        for what, wanted, found in zip(
            ("plants", "swarms"), (self._plants, self._swarms), _balance(state), strict=True
        ):
            if wanted != found:
                raise LedgerError(
                    f"tick {int(state['tick'])}, phase {phase}: the {what} have {found - wanted:+d}/65536 energy "
                    "that no flow explains"
                )


def _balance(state: State) -> tuple[int, int]:
    return int(state["plants.energy"].sum()), int(state["swarms.energy"].sum())
