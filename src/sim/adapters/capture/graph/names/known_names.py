"""Types, functions and modules of Python and NumPy that an attribute may refer to: found by name without a search.

Only those that cannot do harm: a tape may put any of them where the recorded program had another one.
"""

from __future__ import annotations

import builtins
import cmath
import collections
import itertools
import math
import operator
import random
import statistics
import types
from typing import Any

import numpy as np

_BUILTINS = (
    "abs", "all", "any", "bin", "bool", "bytearray", "bytes", "chr", "complex", "dict", "divmod", "enumerate", "filter",
    "float", "format", "frozenset", "hash", "hex", "int", "isinstance", "issubclass", "iter", "len", "list", "map",
    "max", "min", "next", "object", "oct", "ord", "pow", "range", "repr", "reversed", "round", "set", "slice",
    "sorted", "str", "sum", "tuple", "type", "zip", "Exception", "ValueError", "TypeError", "KeyError", "IndexError",
    "RuntimeError", "LookupError", "ArithmeticError", "ZeroDivisionError", "OverflowError", "AssertionError",
    "NotImplementedError",
)  # fmt: skip
_MODULES = (math, cmath, random, itertools, statistics, collections, operator, np)


def _all_names() -> dict[str, Any]:
    names = {f"builtins:{name}": getattr(builtins, name) for name in _BUILTINS}
    for module in (math, cmath, operator):
        names |= {f"{module.__name__}:{name}": one for name, one in vars(module).items() if _is_function(one)}
    for name in ("deque", "Counter", "OrderedDict", "defaultdict", "namedtuple"):
        names[f"collections:{name}"] = getattr(collections, name)
    for name in ("count", "cycle", "repeat", "chain"):
        names[f"itertools:{name}"] = getattr(itertools, name)
    names["random:Random"], names["types:SimpleNamespace"] = random.Random, types.SimpleNamespace
    names |= {f"numpy:{one.__name__}": one for one in {*np.sctypeDict.values()}}
    own = vars(np)  # getattr() with each name of dir(np) would import its testing tools and compilers, in 60 ms.
    names |= {f"numpy:{name}": own[name] for name in sorted(own) if isinstance(own[name], np.ufunc)}
    names |= {f"module:{module.__name__}": module for module in _MODULES}
    return {name: one for name, one in names.items() if name != "operator:methodcaller"}


def _is_function(value: Any) -> bool:
    return isinstance(value, types.BuiltinFunctionType)


NAMED: dict[str, Any] = _all_names()
NAMES: dict[int, str] = {id(value): name for name, value in reversed(NAMED.items())}
