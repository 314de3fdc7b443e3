"""Values of modules and classes that are plain but for members of enumerations, such as a table of costs by kinds."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

from recorder.ambient.outside.code_parts.places import Place, is_special
from recorder.ambient.outside.code_text import value_text


def member_tables(places: Iterable[Place]) -> Iterator[tuple[Place, str]]:
    """The places with the text of each, in which a member stands by its name: its own value has a digest as it is."""
    for place in places:
        if (text := member_table_text(place)) is not None:
            yield place, text


def member_table_text(place: Place) -> str | None:
    """None for a value without members, and for what is no plain value otherwise."""
    if is_special(place.key) or isinstance(place.holder, enum.EnumMeta):
        return None
    value = place.value()
    return value_text(value, with_members=True) if value_text(value) is None else None
