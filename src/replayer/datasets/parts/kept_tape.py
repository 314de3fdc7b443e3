"""A tape that stays open from one part to the next, with the quick way to its transitions."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Sequence

from replayer.datasets.parts.kept_environments import KeptEnvironment, KeptEnvironments
from replayer.datasets.plan import TapeInput, open_source
from replayer.datasets.request import Request
from replayer.datasets.transitions.quick.quick_steps import QuickSteps
from replayer.datasets.transitions.transition import EnvironmentFacts
from replayer.datasets.transitions.transition_rows import TransitionColumns
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory
from replayer.tape.environment_calls import described_environment
from sim.closed_on_exit import ClosedOnExit

KEPT_MAX = 4  # Of many tapes: each has open files.


class KeptTape(ClosedOnExit):
    """An open tape; a context manager.

    Attributes:
        tape: the tape.
    """

    def __init__(self, source: TapeInput, environments: KeptEnvironments) -> None:
        """environments: of this tape, among others, which the caller closes. Raises as Tape does."""
        self.tape = open_source(source)
        self._environments = environments
        self._quick: tuple[KeptEnvironment, QuickSteps] | None = None
        self._may_fit = True  # False once an environment of the tape was made that cannot go the quick way.

    def quick_steps(self, facts: EnvironmentFacts, columns: TransitionColumns, request: Request) -> QuickSteps | None:
        """The quick way to the transitions, with one environment for all parts; None if it does not fit.

        Raises as make_stepping does.
        """
        if not self._may_fit or not (self._quick or QuickSteps.fits(facts, columns, request, self.tape)):
            return None
        made = self._environments.of(self.tape, self._description)
        if self._quick is None or self._quick[0] is not made:
            self._may_fit = QuickSteps.takes(facts, made.simulation)
            if not self._may_fit:
                self.forget()
                return None
            self._quick = made, QuickSteps(facts, columns, request, Cursor(self.tape, made.simulation))
        elif made.tape is not self.tape:
            self._quick[1].leave()
        made.tape = self.tape
        return self._quick[1]

    def forget(self) -> None:
        """Make the environment again for the next part: this one may be in any state."""
        self._environments.forget(self._description)
        self._quick = None

    @functools.cached_property
    def _description(self) -> bytes:
        return described_environment(self.tape)

    def close(self) -> None:
        """Close the tape."""
        self.tape.close()


class KeptTapes(ClosedOnExit):
    """The tapes that were used last, and their environments; a context manager."""

    def __init__(self, sources: Sequence[TapeInput], factory: Factory | None) -> None:
        self._sources, self._environments = sources, KeptEnvironments(factory)
        self._kept: OrderedDict[int, KeptTape] = OrderedDict()

    def of(self, number: int) -> KeptTape:
        """The tape of a source, by its number. Raises as Tape does."""
        if number not in self._kept:
            if len(self._kept) == KEPT_MAX:
                self._kept.popitem(last=False)[1].close()
            self._kept[number] = KeptTape(self._sources[number], self._environments)
        self._kept.move_to_end(number)
        return self._kept[number]

    def close(self) -> None:
        """Close all tapes and environments."""
        for kept in self._kept.values():
            kept.close()
        self._environments.close()
