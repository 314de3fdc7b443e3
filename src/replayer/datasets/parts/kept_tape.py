"""A tape that stays open from one part to the next, with its environment: making one takes longer than many steps."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from replayer.datasets.plan import TapeInput, open_source
from replayer.datasets.request import Request
from replayer.datasets.transitions.quick_steps import QuickSteps
from replayer.datasets.transitions.transition import EnvironmentFacts
from replayer.datasets.transitions.transition_rows import TransitionColumns
from replayer.datasets.transitions.transitions_of_part import environment_of
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory

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

    def quick_steps(self, facts: EnvironmentFacts, columns: TransitionColumns, request: Request) -> QuickSteps | None:
        """The quick way to the transitions, with one environment for all parts; None if it does not fit.

        Raises as environment_of does.
        """
        if self._quick is None:
            cursor = Cursor(self.tape, environment_of(self.tape, self._factory))
            if QuickSteps.fits(facts, columns, request, cursor):
                self._quick = QuickSteps(facts, columns, request, cursor)
        return self._quick

    def forget(self) -> None:
        """Make the environment again for the next part: this one may be in any state."""
        self._quick = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.tape.close()


class KeptTapes:
    """The tapes that were used last; a context manager."""

    def __init__(self, sources: Sequence[TapeInput], factory: Factory | None) -> None:
        self._sources, self._factory = sources, factory
        self._kept: OrderedDict[int, KeptTape] = OrderedDict()

    def of(self, number: int) -> KeptTape:
        """The tape of a source, by its number. Raises as Tape does."""
        if number not in self._kept:
            if len(self._kept) == KEPT_MAX:
                self._kept.popitem(last=False)[1].tape.close()
            self._kept[number] = KeptTape(self._sources[number], self._factory)
        self._kept.move_to_end(number)
        return self._kept[number]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for kept in self._kept.values():
            kept.tape.close()
