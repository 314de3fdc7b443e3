"""Tables in modules and classes that are plain but for members of enumerations, functions and classes.

Such as costs by kinds, or the functions that other modules have registered.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

from recorder.ambient.outside.code_parts.places import Place, is_special
from recorder.ambient.outside.code_text import COLLECTIONS, CONTAINERS, value_text
from sim.enum_members import member_name


def member_tables(places: Iterable[Place]) -> Iterator[tuple[Place, str]]:
    """The places with the text of each, in which members, functions and classes stand by their names: those have digests."""
    for place in places:
        if (text := member_table_text(place)) is not None:
            yield place, text


def member_table_text(place: Place) -> str | None:
    """None for a plain value, which has a digest of its own, for what is no table, and for one that holds objects."""
    if is_special(place.key) or isinstance(place.holder, enum.EnumMeta):
        return None
    value = place.value()
    if type(value) not in (*CONTAINERS, *COLLECTIONS) and member_name(value) is None:
        return None
    return value_text(value, with_names=True) if value_text(value) is None else None
