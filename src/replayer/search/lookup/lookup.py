"""The facts that are known of a tape's intervals: those of its lookup file, and the written rows on the tape itself.

Invariant: an answer is used to skip steps only. Where nothing is known, or a fact does not fit, steps are run.
"""

from __future__ import annotations

import ast
import bisect
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

from replayer.search.lookup.interval_facts import ChangedRows, IntervalFacts
from replayer.search.lookup.logged_rows import LoggedRows
from replayer.search.lookup.lookup_file import Stored, UnusableLookupError, lookup_path, read_lookup
from replayer.search.lookup.possible import may_hold
from replayer.search.lookup.written_blocks import WrittenBlocks
from replayer.tape.tape import Tape

Warn = Callable[[str], None]


class LookupWarning(UserWarning):
    """A tape's lookup file is not used: it is damaged, or of another tape."""


class TapeLookup:
    """What is known of the intervals of one tape.

    Attributes:
        problem: why the lookup file is not used; None if it is used, or if there is none.
        recording: what was read of the tape when the file was found to fit.
    """

    def __init__(self, tape: Tape, warn: Warn) -> None:
        """warn: called with a line if there is a file that cannot be used."""
        self._warn = warn
        self._intervals: list[Stored] = []
        self._decoded: dict[int, IntervalFacts] = {}
        self.problem: str | None = None
        self.recording = tape.recording
        if isinstance(tape.path, Path):  # Of a tape at a URL there is none: a file of this machine is not beside it.
            path = lookup_path(tape.path)
            try:
                self._intervals = read_lookup(tape, path)
            except FileNotFoundError:
                pass
            except (UnusableLookupError, OSError) as error:
                self._distrust(f"{path}: {error}")
        self._starts = [one.first_tick for one in self._intervals]
        self._written = WrittenBlocks(tape)
        self._tape = tape

    def _distrust(self, why: str) -> None:
        """Use nothing of the file from now on, and warn."""
        self._intervals, self._starts, self._decoded = [], [], {}
        self.problem = f"{why}; it is not used. Make it again: replay index"
        self._warn(self.problem)

    @functools.cached_property
    def logged(self) -> LoggedRows:
        """The rows of the tape's change log, which is listed when it is asked for: conditions need none of it."""
        return LoggedRows(self._tape)

    def __len__(self) -> int:
        return len(self._intervals)

    def _covering(self, first_tick: int, last_tick: int) -> Iterator[IntervalFacts]:
        """The facts of intervals that together have all these ticks; none of them if a tick is missing."""
        number = bisect.bisect_right(self._starts, first_tick) - 1
        found, tick = list[IntervalFacts](), first_tick
        while 0 <= number < len(self._intervals) and self._intervals[number].first_tick <= tick <= last_tick:
            if self._intervals[number].last_tick >= tick:
                facts = self._facts(number)
                if facts is None:
                    return
                found.append(facts)
                tick = facts.last_tick + 1
            number += 1
        if tick > last_tick:
            yield from found

    def _facts(self, number: int) -> IntervalFacts | None:
        if number not in self._decoded:
            try:
                self._decoded = {number: self._intervals[number].decoded()}  # Questions go from one to the next.
            except UnusableLookupError as error:
                self._distrust(str(error))
                return None
        return self._decoded[number]

    def rules_out(self, condition: ast.expr, ticks: range) -> bool:
        """Return True if a condition has a value at each of these ticks, and is false."""
        facts = list(self._covering(ticks[0], ticks[-1]))
        return bool(facts) and not any(
            may_hold(condition, range(max(one.first_tick, ticks[0]), min(one.last_tick, ticks[-1]) + 1), one.zones)
            for one in facts
        )

    def changed_rows(self, first_step: int, last_step: int) -> list[ChangedRows]:
        """The rows that the steps to these ticks have changed; empty if that is not known of all of them."""
        return [one.changed for one in self._covering(first_step - 1, last_step - 1)]

    def keeps_path(self, path: str, first_step: int, last_step: int) -> bool:
        """Return True if a value of recorded objects is the same after each of the steps to these ticks."""
        facts = list(self._covering(first_step - 1, last_step - 1))
        return bool(facts) and all(path in one.kept for one in facts)

    def written_rows(self, first_step: int, last_step: int) -> list[ChangedRows]:
        """The rows that the steps to these ticks have marked as written; empty if that is not known of all of them.

        A write without a mark is not among them: compare the values at both ends, and call distrust_marks.
        """
        return self._written.changed_rows(first_step, last_step)

    def distrust_marks(self, why: str) -> None:
        """Use no written rows of the tape from now on, and warn."""
        self._written.is_trusted = False
        self._warn(f"{why}; the rows that the recorder noted are not used")
