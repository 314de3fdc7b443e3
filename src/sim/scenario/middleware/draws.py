"""Draws of a scenario: keyed by who asks, the tick and the message, so that no part's draws disturb another's."""

from __future__ import annotations

from enum import IntEnum

from sim.kernel.arithmetic.counter_rng import KeyedRandom

CHANCE_ONE = 1 << 32  # A chance of 1; a draw is one 32-bit word.


class ScenarioPhase(IntEnum):
    """The phases in the keys of a scenario's draws; far from those of worlds."""

    ADVERSARY = 210
    TRIGGER = 211
    NETWORK = 212
    RECONFIGURATION = 213


class ScenarioDraws:
    """Draws under one seed; holds nothing else."""

    def __init__(self, seed: int) -> None:
        self._random = KeyedRandom(seed)

    def falls(
        self, chance: int, phase: ScenarioPhase, tick: int, entity: int, *, block: int = 0, word: int = 0
    ) -> bool:
        """Whether something of this chance, of 2**32, happens. One of 0 or of 2**32 draws nothing."""
        if chance <= 0 or chance >= CHANCE_ONE:
            return chance > 0
        return self._random.numbers(phase, tick, entity, block)[word] < chance

    def spread(self, phase: ScenarioPhase, tick: int, entity: int, *, block: int = 0, word: int = 0) -> int:
        """A number from -2**31 to 2**31 - 1."""
        return self._random.numbers(phase, tick, entity, block)[word] - (1 << 31)
