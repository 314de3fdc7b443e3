"""Name what differs between two states: values of captured objects by their paths, other fields by their names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from sim.kernel.state import Snapshot

SHOWN = 3
_MALFORMED = (ValueError, LookupError, TypeError, RecursionError, OverflowError)


def named_differences(live: Snapshot, now: Snapshot, fields: Sequence[str]) -> str:
    """The first values that differ, or the fields. fields: those that differ."""
    from sim.adapters.object_view.object_comparison import object_differences  # noqa: PLC0415 - few states have objects
    from sim.adapters.object_view.object_tree import GRAPH_PREFIX, tree_of  # noqa: PLC0415

    names = list(fields)
    try:
        trees = tree_of(live), tree_of(now)
        if trees[0] is None or trees[1] is None:
            return ", ".join(names) or "the layout of the state"
        found = list(islice(object_differences(trees[0], trees[1], SHOWN), SHOWN + 1))
        known = trees[0].fields | trees[1].fields
    except _MALFORMED:
        return ", ".join(names)  # Its own values contradict each other: the names are all that is known.
    texts = [one.text(("live", "now")) for one in found[:SHOWN]] + ["…"] * (len(found) > SHOWN)
    rest = [name for name in names if name not in known and not name.startswith((GRAPH_PREFIX, "#"))]
    return "; ".join([*texts, *rest]) or "how its objects are saved"
