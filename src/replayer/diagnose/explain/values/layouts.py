"""What no value of a simulation shows: the order in memory of its arrays, and the order of the keys of its dicts.

Whether reshape() copies an array depends on the one, and what a loop over a dict does first on the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from recorder.ambient.leaf_text import name_of
from recorder.ambient.object_walk import take_instance
from recorder.ambient.replacement.named_values import set_child
from sim.kernel.simulation import Simulation

# Among the settings of a trace, though they are the simulation's.
LAYOUTS = "the order in memory of arrays"
KEYS = "the order of the keys of dicts"
ORDERS = (LAYOUTS, KEYS)

KEYS_MAX = 100  # Of a dict; the order of a longer one is not compared.
_ROWS, _COLUMNS, _OTHER = "by rows", "by columns", "neither by rows nor by columns"
_NUMPYS: dict[str, Literal["C", "F"]] = {_ROWS: "C", _COLUMNS: "F"}


def orders_of(simulation: Simulation) -> dict[str, dict[str, Any]]:
    """Of arrays of two dimensions or more, and of dicts with plain keys, the order by their names, such as Kiln.grid."""
    named = [(name_of(path), one) for path, one in take_instance(simulation).objects.items()]
    return {
        LAYOUTS: {name: _layout(one) for name, one in named if type(one) is np.ndarray and one.ndim > 1},
        KEYS: {name: list(one) for name, one in named if _has_plain_keys(one)},
    }


def put_in_order(simulation: Simulation, orders: Mapping[str, Mapping[str, Any]]) -> None:
    """Put equal arrays that have these orders in the place of others, and the keys of dicts into these orders.

    orders: as of orders_of, in part. A dict with other keys stays as it is.
    """
    layouts, keys = orders.get(LAYOUTS, {}), orders.get(KEYS, {})
    objects = take_instance(simulation).objects
    for path, one in objects.items():
        name = name_of(path)
        if type(one) is np.ndarray and path[:-1] in objects:
            wanted = layouts.get(name)
            if wanted in _NUMPYS and _layout(one) != wanted:
                set_child(objects[path[:-1]], path[-1], np.array(one, order=_NUMPYS[wanted]))
        elif name in keys and _has_plain_keys(one) and set(one) == set(keys[name]):
            for key in keys[name]:
                one[key] = one.pop(key)


def _has_plain_keys(value: Any) -> bool:
    return type(value) is dict and 1 < len(value) <= KEYS_MAX and all(type(key) in (str, int) for key in value)


def _layout(array: np.ndarray[Any, Any]) -> str:
    if array.flags.c_contiguous:
        return _ROWS
    return _COLUMNS if array.flags.f_contiguous else _OTHER
