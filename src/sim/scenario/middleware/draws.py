"""The random draws of a scenario, keyed by phase, tick and message: no element's random draws affect another's."""

from __future__ import annotations

from enum import IntEnum

from sim.kernel.arithmetic.counter_rng import KeyedRandom

CHANCE_ONE = 1 << 32  # A chance of 1; a random draw is one 32-bit word.


class ScenarioPhase(IntEnum):
    """The phases in the keys of a scenario's random draws, in a range that worlds do not use."""

    ADVERSARY = 210
    TRIGGER = 211
    NETWORK = 212
    RECONFIGURATION = 213


class ScenarioDraws:
    """Random draws from one seed; no other state."""

    def __init__(self, seed: int) -> None:
        self._random = KeyedRandom(seed)

    def happens(
        self, chance: int, phase: ScenarioPhase, tick: int, entity: int, *, block: int = 0, word: int = 0
    ) -> bool:
        """Return True if an event of this chance, in units of 2**-32, happens. Chances of 0 and 1 need no random draw."""
        if chance <= 0 or chance >= CHANCE_ONE:
            return chance > 0
        return self._random.numbers(phase, tick, entity, block)[word] < chance

    def spread(self, phase: ScenarioPhase, tick: int, entity: int, *, block: int = 0, word: int = 0) -> int:
        """A random integer from -2**31 to 2**31 - 1."""
        return self._random.numbers(phase, tick, entity, block)[word] - (1 << 31)
