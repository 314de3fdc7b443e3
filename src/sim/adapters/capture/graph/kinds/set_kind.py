"""Sets: with the layout of their tables where their elements hash alike in every process, else by their members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.adapters.capture.graph.kinds.kind_protocol import Identities
from sim.adapters.capture.graph.sets.seen_elements import Elements
from sim.adapters.capture.graph.values.found_by_identity import refuse_found_by_identity
from sim.kernel.sets.equal_hashes import hashes_alike
from sim.kernel.sets.set_layout import (
    SetTable,
    begin_again,
    fingerprint,
    layout_is_known,
    rebuild,
    table_of,
)


class SetKind:
    """Sets iterate after a restore as they did live, now and after further changes, if their elements allow it."""

    name = "set"

    def seal(self, value: set[Any]) -> Any:
        """What is the same as long as nothing in the set has changed; it keeps the elements alive."""
        return (fingerprint(value), Identities(list(value)))

    def take(self, value: set[Any], before: Elements = Elements.NONE) -> tuple[Any, tuple[Any, ...]]:
        """The layout of the table, or None where it differs in each process, and the elements.

        before: what was seen in the set. An empty table may hold traces of elements that came and went since the last
        look: places that became free, and the place from which ``pop`` searches. They are kept if the elements that
        were seen before hash alike in every process; the layout then has a fifth item, True. Otherwise the set begins
        again without traces, here as in a replay: its order from now on may be another one than without a recording.
        """
        refuse_found_by_identity(value)
        if before is Elements.OTHERS or not all(map(hashes_alike, value)):
            return None, tuple(value)  # Also later: free places may hang on the hashes of elements that have gone.
        if value or not layout_is_known():
            return table_of(value).to_plain(), tuple(value)
        if before is Elements.ALIKE:
            return [*table_of(value).to_plain(), True], ()
        begin_again(value)
        return table_of(value).to_plain(), ()

    def make(self, plain: Any, parts: Sequence[Any]) -> set[Any]:
        """An empty set."""
        del plain, parts
        return set()

    def finish(self, value: set[Any], plain: Any, parts: Sequence[Any]) -> None:
        """Put the elements into their places. Raises ValueError if they hash otherwise here."""
        if plain is None:
            value.update(parts)
        else:
            rebuild(value, SetTable.from_plain(plain[:4] if not parts and plain[4:] == [True] else plain), list(parts))
