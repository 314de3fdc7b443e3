"""Functions, methods and ufuncs that are written in C, as text that is the same in each process: they have no code to compare."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from recorder.ambient.roots import content_of, is_users
from sim.kernel.class_names import importable_module, module_of

C_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)
BOUND = (types.BuiltinFunctionType, types.MethodWrapperType, types.MethodType)
_WITH_UFUNCS = ("numpy", "scipy.special")


def c_function_text(value: Any) -> str | None:
    """Module and name; None for one that keeps an object, such as the list of a bound append, and for anything else.

    The method of a library's own object, such as random.random, has the name that its module gives it.
    """
    kind = type(value)
    if kind is np.ufunc:
        return _name_in(_WITH_UFUNCS, value)
    if kind.__name__ == "_ArrayFunctionDispatcher" and kind.__module__ == "numpy":
        return f"{value.__module__}.{value.__qualname__}"
    if kind in C_METHODS:
        return f"{_class_name(value.__objclass__)}.{value.__name__}"
    if kind not in BOUND:
        return None
    holder = value.__self__
    if kind is types.BuiltinFunctionType and (holder is None or issubclass(type(holder), types.ModuleType)):
        return f"{value.__module__}.{value.__qualname__}"
    if issubclass(type(holder), type):
        return f"{_class_name(holder)}.{value.__name__}" if kind is not types.MethodType else None
    home = module_of(type(holder))
    return None if is_users(home) else _name_in((home,), value)


def keeps_object(value: Any) -> bool:
    """Return True for a bound method of an object, or a ufunc of a program: no text tells what it does."""
    if type(value) is types.MethodType and issubclass(type(value.__self__), type | types.ModuleType):
        return False
    return type(value) in (*BOUND, np.ufunc) and c_function_text(value) is None


def _class_name(kind: type) -> str:
    return f"{importable_module(module_of(kind))}.{kind.__qualname__}"


def _name_in(modules: tuple[str, ...], value: Any) -> str | None:
    return next((f"{module}.{name}" for module, name in _names_in(modules, value)), None)


def _names_in(modules: tuple[str, ...], value: Any) -> Iterator[tuple[str, str]]:
    name = value.__name__
    for module in modules:
        if (content_of(sys.modules.get(module)) or {}).get(name) is value:
            yield module, name
