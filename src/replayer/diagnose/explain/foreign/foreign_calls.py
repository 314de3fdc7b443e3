"""Give functions of installed packages and of compiled code plain arrays, in place of the views that a step works on.

A compiler that reads the globals of a user's function, as Numba does, reads them as they were before the step was
watched. A call of compiled code is reported as an operation if its arguments can be read completely.
"""

from __future__ import annotations

import importlib.machinery
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from replayer.diagnose.explain.traced_array import WatchedCall, WatchedModule, plain, report, viewed
from sim.kernel.class_names import package_of

_COMPILERS = {"numba", "jaxlib"}  # Their compiled functions are objects of classes in these packages.
_CYTHON = "cython_function_or_method"
_NUMBA_CLASSES = (("numba.core.dispatcher", "Dispatcher"), ("numba.np.ufunc.ufuncbuilder", "UFuncDispatcher"))
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_PYTHONS = tuple(f"{sysconfig.get_paths()[name]}/" for name in ("stdlib", "platstdlib"))
_SUFFIXES = tuple(importlib.machinery.EXTENSION_SUFFIXES)

Replaced = list[tuple[dict[str, Any], str, Any, Any]]  # Globals, a name in them, the original, and its substitute.


class ForeignCall(WatchedCall):
    """A function that is not the user's: it gets plain arrays."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function. Compiled code is reported, with its arrays as they are afterwards."""
        positional, named = plain(args), plain(kwargs)
        values = [*positional, *named.values()]
        is_bound = not isinstance(getattr(self.original, "__self__", None), ModuleType | type(None))
        if is_bound or not is_compiled(self.original) or not all(map(_is_readable, values)):
            return viewed(self.original(*positional, **named))
        arrays = [value for value in values if isinstance(value, np.ndarray)]
        return report(self._name, lambda: self.original(*positional, **named), values, arrays)


class ForeignModule(WatchedModule):
    """A module of an installed package, whose functions get plain arrays."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.__dict__["_module"], name)
        shown = f"{self.__dict__['_shown']}.{name}"
        return ForeignCall(shown, value) if _is_function(value) else value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_module"], name, value)


def watch_foreign_calls(is_own: Callable[[str], bool]) -> None:
    """Replace functions and modules that are not the user's in the globals of the user's modules.

    Called after watch_modules, until the process ends.
    """
    replaced: Replaced = []
    for module in list(sys.modules.values()):
        if not is_own(getattr(module, "__file__", None) or ""):
            continue
        names = vars(module)
        for name, value in list(names.items()):
            if isinstance(value, WatchedModule | WatchedCall):
                original = value.__dict__["_module"] if isinstance(value, WatchedModule) else value.original
                replaced.append((names, name, original, value))
                continue
            substitute = _substitute(value, is_own)
            if substitute is not None:
                replaced.append((names, name, value, substitute))
                names[name] = substitute
    _compile_as_before(replaced)


def is_compiled(value: Any) -> bool:
    """Return True for a function of compiled code: by Numba, by JAX, by Cython or in C."""
    kind = type(value)
    is_made = package_of(kind) in _COMPILERS and callable(value) and not isinstance(value, type)
    return is_made or kind.__name__ == _CYTHON or isinstance(value, BuiltinFunctionType)


def _substitute(value: Any, is_own: Callable[[str], bool]) -> Any:
    """What takes the place of a value in the user's globals; None for one that stays."""
    if isinstance(value, ModuleType):
        file = getattr(value, "__file__", None) or ""
        is_left = not _is_installed(file) or is_own(file) or value.__name__.partition(".")[0] in _LEFT
        return None if is_left else ForeignModule(value.__name__, value)
    if not _is_function(value):
        return None
    if isinstance(value, FunctionType):
        file = value.__code__.co_filename
        is_left = not _is_installed(file) or is_own(file) or str(value.__module__ or "").partition(".")[0] in _LEFT
        return None if is_left else ForeignCall(f"{value.__module__}.{value.__name__}", value)
    module = str(getattr(value, "__module__", None) or "")
    is_left = module.partition(".")[0] in (*sys.stdlib_module_names, *_LEFT)
    return None if is_left else ForeignCall(f"{module}.{getattr(value, '__name__', 'a function')}", value)


_LEFT = ("numpy", "sim", "recorder", "replayer", "numba")  # Numba's own functions make compiled ones.


def _is_function(value: Any) -> bool:
    return isinstance(value, FunctionType) or is_compiled(value)


def _is_installed(file: str) -> bool:
    """Return True for a file that Python runs neither from its own library nor from text."""
    if not file or file.startswith("<"):
        return False
    is_pythons = file.startswith(_PYTHONS) and "/site-packages/" not in file
    return not is_pythons or file.endswith(_SUFFIXES)


def _is_readable(value: Any) -> bool:
    """Return True if a digest of a value shows all that a function can read of it."""
    if isinstance(value, tuple | list):
        return all(map(_is_readable, value))
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject
    return isinstance(value, np.generic) or type(value) in _PLAIN


def _compile_as_before(replaced: Replaced) -> None:
    """Let Numba compile with the globals that the user's functions had."""
    for module_name, class_name in _NUMBA_CLASSES:
        kind = getattr(sys.modules.get(module_name), class_name, None)
        if kind is not None and "compile" in vars(kind):
            kind.compile = _with_originals(kind.compile, replaced)


def _with_originals(function: Callable[..., Any], replaced: Replaced) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _originals(replaced):
            return function(*args, **kwargs)

    return call


@contextmanager
def _originals(replaced: Iterable[tuple[dict[str, Any], str, Any, Any]]) -> Iterator[None]:
    """Put the originals back in the context; a name that the step has bound to something else stays as it is."""
    back = [entry for entry in replaced if entry[0].get(entry[1]) is entry[3]]
    for names, name, original, _ in back:
        names[name] = original
    try:
        yield
    finally:
        for names, name, _, substitute in back:
            names[name] = substitute
