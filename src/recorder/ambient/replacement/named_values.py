"""Read and set one of the names of a holder: of a module, a class, an object, a container, a closure, a function."""

from __future__ import annotations

import functools
from collections import OrderedDict, deque
from contextvars import ContextVar
from types import BuiltinFunctionType, FunctionType, MethodType, MethodWrapperType
from typing import Any

import numpy as np

from recorder.ambient.value_kinds import attributes_of

Step = tuple[str, Any]  # From a holder to a value in it: attribute, item, global, cell, …
Path = tuple[Step, ...]

# After the path of a function: of its default arguments as a whole.
DEFAULTS = ("default", "")
ABSENT: Any = object()  # Stands for a missing value.

_WITH_ITEMS: tuple[Any, ...] = (OrderedDict, dict, list, deque, np.ndarray)
_READ_ITEMS: tuple[Any, ...] = (dict, list, tuple, deque, np.ndarray)


def child_of(holder: Any, step: Step) -> Any:
    """What one of the names of a holder leads to; ABSENT for none, and for a place that cannot be read."""
    kind, name = step
    match kind:
        case "item":
            return _item_of(holder, name)
        case "cell" if isinstance(holder, ContextVar):
            return holder.get(ABSENT)
        case "cell":
            try:
                return holder.cell_contents
            except ValueError:  # It was never assigned.
                return ABSENT
        case "default":
            return defaults_of(holder).get(name, ABSENT) if isinstance(holder, FunctionType) else ABSENT
        case "attribute" if isinstance(holder, functools.partial | MethodType) and name not in holder.__dict__:
            return getattr(holder, name, ABSENT)
        case "attribute" if isinstance(holder, BuiltinFunctionType | MethodWrapperType):
            return getattr(holder, name, ABSENT)
        case "attribute":
            return attributes_of(holder).get(name, ABSENT)
    return (getattr(holder, "__dict__", None) or {}).get(name, ABSENT)


def set_child(holder: Any, step: Step, value: Any) -> None:
    """Set one of the names of a holder to value, or delete it if value is ABSENT."""
    kind, name = step
    match kind:
        case "global" if value is ABSENT:
            vars(holder).pop(name, None)
        case "global":
            vars(holder)[name] = value
        case "class" if value is not ABSENT:
            type.__setattr__(holder, name, value)
        case "class" if name in vars(holder):
            type.__delattr__(holder, name)
        case "attribute" if value is ABSENT:
            object.__delattr__(holder, name)
        case "attribute":
            object.__setattr__(holder, name, value)
        case "function attribute":
            holder.__dict__.pop(name, None)
            if value is not ABSENT:
                holder.__dict__[name] = value
        case "cell":
            _put_cell(holder, value)
        case "default" if value is not ABSENT and isinstance(holder, FunctionType):
            _put_default(holder, name, value)
        case "item" if value is not ABSENT:
            _put_item(holder, name, value)


def _item_of(holder: Any, name: Any) -> Any:
    """Read an item by the method of the plain container, as _put_item does; of a dict, __missing__ is not called either."""
    base = _plain_container(holder, _READ_ITEMS)
    try:
        return dict.get(holder, name, ABSENT) if base is dict else base.__getitem__(holder, name)
    except (LookupError, TypeError):
        return ABSENT


def _plain_container(holder: Any, kinds: tuple[Any, ...]) -> Any:
    return next((one for one in kinds if issubclass(type(holder), one)), type(holder))


def _put_item(holder: Any, name: Any, value: Any) -> None:
    """Put an item by the method of the plain container: that of a class derived from it would run the user's code."""
    _plain_container(holder, _WITH_ITEMS).__setitem__(holder, name, value)


def _put_cell(holder: Any, value: Any) -> None:
    if isinstance(holder, ContextVar):
        holder.set(value)
    else:
        holder.cell_contents = value


def defaults_of(function: FunctionType) -> dict[str, Any]:
    """The default arguments of a function, by name."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    # Paired from the end, as a call does: a decorator may have copied more defaults than its function has arguments.
    pairs = list(zip(reversed(names), reversed(function.__defaults__ or ()), strict=False))
    return dict(reversed(pairs)) | (function.__kwdefaults__ or {})


def kept_defaults(function: FunctionType) -> tuple[Any, ...]:
    """What put_defaults gives back: tuples and pairs, shallow."""
    named = function.__kwdefaults__
    return function.__defaults__, None if named is None else dict(named)


def put_defaults(function: FunctionType, kept: tuple[Any, ...]) -> None:
    """Give a function the default arguments that it had, the same objects."""
    defaults, named = kept
    if function.__defaults__ is not defaults:
        function.__defaults__ = defaults
    now = function.__kwdefaults__
    if now is None or named is None or list(now) != list(named) or any(now[name] is not named[name] for name in named):
        function.__kwdefaults__ = None if named is None else dict(named)


def _put_default(function: FunctionType, name: str, value: Any) -> None:
    """Give an argument another default; nothing for one without a default."""
    code, defaults = function.__code__, list(function.__defaults__ or ())
    named = code.co_varnames[: code.co_argcount]
    index = named.index(name) - len(named) if name in named else -len(defaults) - 1
    if index >= -len(defaults):
        defaults[index] = value
        function.__defaults__ = tuple(defaults)
    elif name in (function.__kwdefaults__ or {}):
        function.__kwdefaults__ = {**(function.__kwdefaults__ or {}), name: value}
