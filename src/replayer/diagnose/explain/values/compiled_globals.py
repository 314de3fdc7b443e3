"""The globals that a compiled function takes as constants when it is first called."""

from __future__ import annotations

from types import FrameType
from typing import Any

from replayer.diagnose.explain.traced_array import WatchedCall
from replayer.diagnose.explain.value_hash import is_data


def compiled_globals(frame: FrameType) -> dict[str, dict[str, Any]]:
    """Of the compiled functions that the function of a frame names: their own globals, by the function's name."""
    named = {name: _globals_of(frame.f_globals.get(name)) for name in frame.f_code.co_names}
    return {name: values for name, values in named.items() if values}


def _globals_of(value: Any) -> dict[str, Any]:
    """The data among the globals that a function compiled by numba names; empty for anything else."""
    value = value.original if isinstance(value, WatchedCall) else value
    if not callable(value) or not type(value).__module__.startswith("numba."):
        return {}
    function = getattr(value, "py_func", None)
    code = getattr(function, "__code__", None)
    names = getattr(function, "__globals__", {})
    if code is None:
        return {}
    return {name: names[name] for name in code.co_names if name in names and is_data(names[name])}
