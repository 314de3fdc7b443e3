"""A helper module with memos: programs of module_memos.py use them."""

import functools

COSTS = {}
BY_ID = {}
BY_UNIT = {}


def cost(kind, tick):
    """The cost of a kind: that of the tick when it was first asked for."""
    if kind not in COSTS:
        COSTS[kind] = tick
    return COSTS[kind]  # HERE: MemoOfModule


def number_of(thing, tick):
    """A number for an object, by its address: that of the tick when it was first asked for."""
    return BY_ID.setdefault(id(thing), tick)  # HERE: MemoById


def first_seen(thing, tick):
    """The tick when an object was first asked for."""
    return BY_UNIT.setdefault(thing, tick)  # HERE: MemoByUnit


class Terrain:
    """A terrain whose walls rise."""

    height = 0


@functools.cache
def path_cost(cell):
    """The cost of a cell: it reads a height that changes, so that old results are wrong."""
    return cell * 3 + Terrain.height


@functools.cache
def square(cell):
    """A pure function."""
    return cell * cell
