"""Tell hidden state from state that load() does not give back."""

from __future__ import annotations

import attrs

from replayer.diagnose.explain.cause import Cause, DifferingValue
from replayer.diagnose.explain.values.loaded_lines import (
    LoadedValue,
    line_of_attribute,
    line_that_loaded,
    undone_in_load,
)
from replayer.diagnose.explain.values.reloaded import NotGivenBack, is_field


def with_load(cause: Cause, lost: list[NotGivenBack], loaded: list[LoadedValue]) -> Cause:
    """A cause of the kind "outside", with what load() has to do with it.

    lost: fields that save() returned with other values right after load(). loaded: the values that load() sets. Where
    all that the line reads from outside is in attributes that load() sets, and fields are lost, load() is the cause.
    """
    at, undone = line_that_loaded(cause.outside, loaded), undone_in_load(cause.outside, loaded)
    if at is not None and undone is not None:
        cause, at = attrs.evolve(cause, undone=undone), undone.changed_by
    if not lost and at is not None and cause.saved_at is not None and all(map(_is_number, cause.outside)):
        # The states before the step are equal: save() returned the same for both.
        return attrs.evolve(cause, kind="inexact", place=cause.saved_at, read_at=cause.place, loaded_at=at)
    if not lost:
        return attrs.evolve(cause, loaded_at=at)
    others = [one for one in cause.outside if not _is_lost(one, lost)]
    if not others or all(line_of_attribute([one], loaded) is not None for one in others):
        reads_lost = next((line for one in lost for line in one.lines), None)
        of_attribute = line_of_attribute(cause.outside, loaded)
        # Where all that differs is lost, the line that reads the saved field; else the one that sets the attribute.
        at = at or (of_attribute or reads_lost if others else reads_lost or of_attribute)
        if at is None:
            return attrs.evolve(cause, kind="load", outside=others)
        return attrs.evolve(cause, kind="load", place=at, read_at=cause.place)
    return attrs.evolve(cause, outside=others, loaded_at=at)


def _is_number(value: DifferingValue) -> bool:
    return (
        value.elements is not None and value.elements.total == 1 and all(path == value.name for path, *_ in value.parts)
    )


def _is_lost(value: DifferingValue, lost: list[NotGivenBack]) -> bool:
    """Return True if all that differs of a value is in fields that load() does not give back."""
    return all(is_field(name, lost) for name in [part[0] for part in value.parts] or [value.name])
