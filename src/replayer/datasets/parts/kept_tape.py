"""A tape that stays open from one part to the next, with its environment: making one takes longer than many steps."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from replayer.datasets.plan import TapeInput, open_source
from replayer.datasets.request import Request
from replayer.datasets.transitions.made_environment import close_environment
from replayer.datasets.transitions.quick_steps import QuickSteps
from replayer.datasets.transitions.transition import EnvironmentFacts
from replayer.datasets.transitions.transition_rows import TransitionColumns
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory, make_stepping
from sim.kernel.simulation import Simulation

KEPT_MAX = 4  # Of many tapes: each has open files, and an environment of any size.


class KeptTape:
    """An open tape; a context manager.

    Attributes:
        tape: the tape.
    """

    def __init__(self, source: TapeInput, factory: Factory | None) -> None:
        """Open the tape. Raises as Tape does."""
        self.tape = open_source(source)
        self._factory = factory
        self._quick: QuickSteps | None = None
        self._made: Simulation | None = None
        self._may_fit = True  # False once an environment of the tape was made that cannot go the quick way.

    def quick_steps(self, facts: EnvironmentFacts, columns: TransitionColumns, request: Request) -> QuickSteps | None:
        """The quick way to the transitions, with one environment for all parts; None if it does not fit.

        Raises as make_stepping does.
        """
        if self._quick is None and self._may_fit and QuickSteps.fits(facts, columns, request, self.tape):
            made = make_stepping(self.tape, self._factory)
            self._made, self._may_fit = made, QuickSteps.takes(facts, made)
            if self._may_fit:
                self._quick = QuickSteps(facts, columns, request, Cursor(self.tape, made))
            else:
                self.forget()
        return self._quick

    def forget(self) -> None:
        """Make the environment again for the next part: this one may be in any state."""
        made, self._quick, self._made = self._made, None, None
        if made is not None:
            close_environment(self.tape, made, self._factory)

    def close(self) -> None:
        """Close the environment and the tape."""
        self.forget()
        self.tape.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class KeptTapes:
    """The tapes that were used last; a context manager."""

    def __init__(self, sources: Sequence[TapeInput], factory: Factory | None) -> None:
        self._sources, self._factory = sources, factory
        self._kept: OrderedDict[int, KeptTape] = OrderedDict()

    def of(self, number: int) -> KeptTape:
        """The tape of a source, by its number. Raises as Tape does."""
        if number not in self._kept:
            if len(self._kept) == KEPT_MAX:
                self._kept.popitem(last=False)[1].close()
            self._kept[number] = KeptTape(self._sources[number], self._factory)
        self._kept.move_to_end(number)
        return self._kept[number]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for kept in self._kept.values():
            kept.close()
