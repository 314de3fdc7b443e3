"""Find what may decide the next episode although it is not saved, at the level inputs_only.

A seek restores what can be saved of the values before the last reset, and repeats the inputs since then. A reset with
a seed begins from that seed. One without a seed continues with whatever generator the environment has: that is exact
only if the generator can be saved.
"""

from __future__ import annotations

import random
import sys
import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from sim.adapters.capture.native_objects import is_native
from sim.adapters.capture.survey import type_name
from sim.kernel.class_names import package_of

VALUES_MAX = 2_000  # Further values are not inspected.
_WITHOUT_GENERATORS = {"builtins", "numpy", "gymnasium", "mujoco", "pygame", "PIL", "OpenGL", "glfw", "matplotlib"}
_SKIPPED = (spaces.Space, EnvSpec, gymnasium.Env, types.ModuleType, types.FunctionType, types.MethodType, type)


def unsaved_sources(left_alone: Mapping[str, Any]) -> list[str]:
    """The names of generators, and of objects of C code that may hold one, which no seek restores.

    left_alone: the values that are not saved, by their full names.
    """
    waiting = deque(left_alone.items())
    seen: set[int] = set()
    found: list[str] = []
    while waiting and len(seen) < VALUES_MAX:
        name, value = waiting.popleft()
        if id(value) in seen or isinstance(value, _SKIPPED):
            continue
        seen.add(id(value))
        if isinstance(value, random.Random | np.random.Generator | np.random.RandomState) or _is_opaque(value):
            found.append(f"{name} ({type_name(value)})")
        else:
            waiting.extend((f"{name}{step}", inner) for step, inner in _inside(value))
    return found


def _is_opaque(value: Any) -> bool:
    package = package_of(type(value))
    if hasattr(value, "__dict__") or is_native(value) or not package:
        return False
    return package not in _WITHOUT_GENERATORS and package not in sys.stdlib_module_names


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", inner) for key, inner in value.items())
    elif isinstance(value, list | tuple | deque):
        yield from ((f"[{index}]", inner) for index, inner in enumerate(value))
    elif isinstance(getattr(value, "__dict__", None), dict):
        yield from ((f".{name}", inner) for name, inner in vars(value).items())
