"""All candidates for a change before a step, those that are most usual first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from replayer.diagnose.explain.before_step.assigned_values import (
    added_items,
    arrays_by_difference,
    as_recorded,
    by_difference,
    groups_of,
    joined,
    of_all_items,
    usual_values,
)
from replayer.diagnose.explain.before_step.changeable_values import Change, ValuePlace, last_attribute
from replayer.diagnose.explain.before_step.changed_containers import (
    DRAWS_MAX,
    emptied,
    fewer_items,
    more_draws,
    orders,
    replaced_orders,
    without_some,
)
from replayer.diagnose.explain.before_step.changing_lines import Written
from replayer.diagnose.explain.before_step.written_values import as_written

FIRST_DRAWS = range(1, 25)


def candidates(root: Any, places: Sequence[ValuePlace], written: Written) -> Iterator[Change]:
    """The changes to try. First those of places that code changes which the step is not seen to run.

    written: what that code writes.
    """
    named = [place for place in places if last_attribute(place.path) in written.names]
    set_values = as_recorded(root, places)
    yield from set_values
    yield from groups_of(set_values)
    yield from as_written(root, places, written)
    if len(named) < len(places):
        yield from _of_places(root, named)
    yield from _of_places(root, places)
    if set_values:
        # Besides these, one more, such as a list that is sorted where the time of the save is noted.
        for some in (named, places):
            for one in chain(orders(root, some), emptied(root, some), by_difference(root, some)):
                yield joined([*set_values, one])


def _of_places(root: Any, places: Sequence[ValuePlace]) -> Iterator[Change]:
    differences = list(by_difference(root, places))
    yield from added_items(root, places)
    yield from emptied(root, places)
    yield from without_some(root, places)
    yield from differences
    yield from groups_of(differences)
    yield from arrays_by_difference(root, places)
    yield from more_draws(root, places, FIRST_DRAWS)
    yield from orders(root, places)
    yield from of_all_items(root, places)
    yield from usual_values(root, places)
    yield from fewer_items(root, places)
    yield from more_draws(root, places, range(FIRST_DRAWS.stop, DRAWS_MAX))
    yield from replaced_orders(root, places)
