"""Environments that stay made from one tape to the next, one for all tapes that describe the same environment.

To make one, and to find its attributes, takes longer than many steps. Where it is used for a further tape, a keyframe of
that tape is loaded into it first, as in any seek, and its states are compared with the hashes of that tape.
"""

from __future__ import annotations

import attrs

from replayer.datasets.transitions.made_environment import close_environment, make_environment
from replayer.playback.make_simulation import Factory
from replayer.tape.tape import Tape
from sim.closed_on_exit import ClosedOnExit
from sim.kernel.simulation import Simulation


@attrs.define(eq=False)
class KeptEnvironment:
    """An environment.

    Attributes:
        simulation: the environment. tape: the one that used it last.
    """

    simulation: Simulation
    tape: Tape


class KeptEnvironments(ClosedOnExit):
    """The environments of some tapes; a context manager, which closes them."""

    def __init__(self, factory: Factory | None) -> None:
        self._factory = factory
        self._made: dict[bytes, KeptEnvironment] = {}

    def of(self, tape: Tape, description: bytes) -> KeptEnvironment:
        """The environment of a tape, in any state. Raises as make_environment does.

        description: see described_environment. To make it takes as long as tens of steps, so a tape keeps it.
        """
        if description not in self._made:
            self._made[description] = KeptEnvironment(make_environment(tape, self._factory), tape)
        return self._made[description]

    def forget(self, description: bytes) -> None:
        """Close the environment of this description, and make another one when it is asked for again."""
        made = self._made.pop(description, None)
        if made is not None:
            close_environment(made.tape, made.simulation, self._factory)

    def close(self) -> None:
        """Close all environments."""
        while self._made:
            self.forget(next(iter(self._made)))
