"""Functions whose code is replaced for a while, with the code that is their own."""

from __future__ import annotations

import types

_own: dict[int, types.CodeType] = {}  # By id of the function, which the caller of replace_code keeps alive.


def replace_code(function: types.FunctionType, code: types.CodeType) -> None:
    """Give a function other code, and remember its own."""
    _own[id(function)] = function.__code__
    function.__code__ = code


def restore_code(function: types.FunctionType, code: types.CodeType) -> bool:
    """Give a function its own code again, in place of the one that replaced it; return False if it has another one."""
    own = _own.pop(id(function), None)
    if own is None or function.__code__ is not code:
        return False
    function.__code__ = own
    return True


def own_code(function: types.FunctionType) -> types.CodeType:
    """The code of a function, or the one that it had before another one replaced it."""
    return _own.get(id(function), function.__code__)
