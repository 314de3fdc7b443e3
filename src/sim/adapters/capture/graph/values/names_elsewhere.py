"""The names of objects that a graph refers to and does not hold, and what it may hold although it has a name."""

from __future__ import annotations

from collections.abc import Mapping


class NamesElsewhere(dict[int, str]):
    """The names of objects that are saved elsewhere, by identity.

    Attributes:
        left_out: the identities of objects in attributes that the user left out. No name stands for them: what saved
            objects hold of them is in the graph.
    """

    left_out: frozenset[int] = frozenset()


def left_out_of(known: Mapping[int, str]) -> frozenset[int]:
    """The identities of the objects in attributes that the user left out."""
    return known.left_out if isinstance(known, NamesElsewhere) else frozenset()
