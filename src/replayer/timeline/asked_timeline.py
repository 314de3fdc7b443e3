"""Questions to a timeline: where a condition holds, and which step changed a value last."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from recorder.errors import MissingTickError
from replayer.playback.cursor import MismatchError
from replayer.playback.make_simulation import Factory, make_simulation
from replayer.search.counted_cursor import CountedCursor
from replayer.tape.tape import Tape
from sim.user_warning import warn_user

if TYPE_CHECKING:
    from replayer.search.last_write import LastWrite
    from replayer.search.lookup.lookup import TapeLookup
    from replayer.search.matches import Condition, Finder, Matches


# Methods of a Timeline for the other modules of this package; the tab key does not offer them.
FOR_THIS_PACKAGE = frozenset({"absolute_tick", "another_simulation", "counted_cursor", "finder", "holder_of"})


class AskedTimeline:
    """The questions of a Timeline; the attributes below are the Timeline's."""

    tape: Tape
    _world: Factory | None
    _lookup: TapeLookup | None = None

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in FOR_THIS_PACKAGE]

    def absolute_tick(self, tick: int) -> int:
        """See Timeline."""
        raise NotImplementedError

    def find(self, condition: Condition, *, first_tick: int | None = None, last_tick: int | None = None) -> Matches:
        """All ticks at which a condition holds; parameters and result as in search.matches. The timeline does not move.

        condition: a text such as "plants.energy.sum() > 2000", or a function of a Snapshot. Raises ExpressionError.
        """
        return self.finder(condition).find("all", first_tick, last_tick)

    def first(self, condition: Condition) -> int | None:
        """The first tick at which a condition holds, None if there is none. Raises as find does, and UnprovedAnswerError."""
        return self.finder(condition).find("first").only()

    def last(self, condition: Condition) -> int | None:
        """The last tick at which a condition holds, None if there is none. Raises as first does."""
        return self.finder(condition).find("last").only()

    def last_write(
        self, field: str, row: int | tuple[int, ...] = (), *, entity: int | None = None, at: int = -1, line: bool = True
    ) -> LastWrite:
        """The last change of a value at or before a tick; the timeline does not move.

        field: a field, or the path of a value in recorded objects: "units[14].hp". row: the index of an element.
        entity: instead of a row, the number of an entity in the column "id" of the field's table. line: find the source
        line, too, by another run of that step in a copy of this process. Raises ExpressionError for an unknown value,
        MissingTickError if the steps give another state at the tick than the recorded one, and else as seek does.
        """
        from replayer.search.last_write import WriteSearch  # noqa: PLC0415 - rarely asked
        from replayer.search.watched_value import watched_value  # noqa: PLC0415

        watched = watched_value(field, row if isinstance(row, tuple) else (row,), entity)
        search = WriteSearch(self.tape, self.counted_cursor, watched, self.lookup())
        try:
            return search.last(self.absolute_tick(at), wants_line=line)
        except MismatchError as mismatch:
            why = "the steps give another state there than the recorded one: replay verify tells what differs"
            raise MissingTickError(mismatch.tick, why) from None

    def finder(self, condition: Condition) -> Finder:
        """A search for the ticks at which a condition holds, with all its ways. Raises ExpressionError."""
        from replayer.search.matches import Finder  # noqa: PLC0415 - rarely asked

        return Finder(self.tape, self.counted_cursor, condition, self.lookup())

    def lookup(self, warn: Callable[[str], None] | None = None) -> TapeLookup:
        """The lookup file of the tape, read once; empty without one.

        warn: called with a line if there is a file that cannot be used; by default a LookupWarning is given.
        """
        from replayer.search.lookup.lookup import LookupWarning, TapeLookup  # noqa: PLC0415 - rarely asked

        if self._lookup is None or self._lookup.recording is not self.tape.recording:
            self._lookup = TapeLookup(self.tape, warn or (lambda text: warn_user(text, LookupWarning)))
        return self._lookup

    def counted_cursor(self) -> CountedCursor:
        """A further cursor, with a simulation of its own, that counts its steps. Raises as make_simulation does."""
        return CountedCursor(self.tape, make_simulation(self.tape, self._world))
