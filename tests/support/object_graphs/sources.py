"""Cases whose changes and views are lines of source, so that a case is read in one place; ``s`` is the subject."""

from __future__ import annotations

import copy
import functools
import random
import zlib
from typing import Any

import numpy as np

from object_graphs import classes, odd_classes
from object_graphs.pitfalls import Case

NAMES: dict[str, Any] = {
    **vars(classes),
    **vars(odd_classes),
    "np": np,
    "functools": functools,
    "random": random,
    "zlib": zlib,
}


def does(text: str) -> Any:
    """A change of the subject ``s``, as source: one line that is read with its case."""
    code = compile(text, "<case>", "exec")
    return lambda s: exec(code, {**NAMES, "s": s})


def sees(text: str) -> Any:
    """A view of the subject ``s``, as source."""
    code = compile(text, "<case>", "eval")
    return lambda s: eval(code, {**NAMES, "s": s})


def case(held: Any, *changes: str, seen: str = "None", **more: Any) -> Case:
    """A case; held is copied for each object, or called."""
    make = held if callable(held) else lambda: copy.deepcopy(held)
    return Case(make, tuple(map(does, changes)), sees(seen), **more)
