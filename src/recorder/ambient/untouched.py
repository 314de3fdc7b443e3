"""Tell whether anything outside of a simulation has changed, so that a process may simulate several intervals.

A process of its own for each interval carries no hidden state from one to the next. One for several is as good only if
nothing that outlives a simulation has changed: module globals, class attributes, closures, generators, the environment.
So only what is known completely is accepted: the user's own modules, which hold plain data, functions and objects of
their own classes. Anything else gives None, and each interval gets its own process. A change is seen by identity, so that
looking takes microseconds: an equal value in place of the old one counts as a change.

Invariant: nothing here runs the user's code.
"""

from __future__ import annotations

import collections
import functools
import importlib
import operator
import re
import sys
from abc import ABCMeta
from collections.abc import Callable, Iterable
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, cast

import attrs
import numpy as np

from recorder.ambient.outside.outside_checks import (
    Check,
    ItemChecks,
    SameItems,
    SameNames,
    library_checks,
    open_names,
    process_checks,
    same_attributes,
    same_elements,
)
from recorder.ambient.process_wide import registered_classes
from recorder.ambient.roots import CACHE_TYPE, is_users
from recorder.ambient.value_kinds import attributes_of, generator_state
from sim.kernel.class_names import module_of
from sim.kernel.schema import Blob, Field, Layout, Schema, Table

NODES_MAX = 5_000  # Values; further ones would take longer to look at than a process takes to fork.
BYTES_MAX = 1 << 20  # Of arrays, which are compared as a whole.

# Packages that this one loads itself, and that keep nothing of a step.
KNOWN_PACKAGES = {
    *(
        "sim",
        "recorder",
        "replayer",
        "simulation_flight_recorder",
        "simulation_flight_recorder_names",
        "numpy",
        "attr",
        "attrs",
        "cattrs",
        "cyclopts",
        "rich",
    ),
    *("google_crc32c", "lz4", "msgpack", "xxhash", "typing_extensions", "cython_runtime", "__mp_main__"),
}
# Modules that Cython makes of its own classes, one of sysconfig, and those by which an installation finds packages.
_KNOWN_STARTS = ("_cython_", "_sysconfigdata_", "__editable__", "_distutils_hack")

# Of the standard library: what the user's modules may import. Others, such as logging, keep state out of sight.
_STATELESS = {
    *("__future__", "abc", "argparse", "array", "bisect", "builtins", "cmath", "collections", "contextlib", "copy"),
    *("dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "itertools", "json"),
    *("math", "numbers", "operator", "os", "pathlib", "posixpath", "random", "re", "statistics", "string", "struct"),
    *("sys", "textwrap", "time", "tomllib", "types", "typing", "warnings", "zlib"),
}
_ATOMS = (bool, int, float, complex, str, bytes, type(None), range, slice, type(Ellipsis), type(NotImplemented))
_STILL = (
    *(BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType),
    *(GetSetDescriptorType, MemberDescriptorType, re.Pattern),
)
_OURS = (Blob, Field, Layout, Schema, Table)  # Frozen, unless a class is derived of them.
_TUPLE_GETTER = type(functools._CacheInfo.hits)  # noqa: SLF001 - of named tuples
_STILL_MODULES = {"typing", "types", "__future__", "typing_extensions", "dataclasses"}

# Functions that change or read what nothing here can see, and those that run code that nothing here has read.
_HIDING = {
    *("exec", "eval", "__import__", "modules", "_getframe", "currentframe", "addaudithook", "set_asyncgen_hooks"),
    *("umask", "putenv", "unsetenv", "popen", "system", "dup", "dup2", "pipe", "sched_setscheduler", "setpriority"),
    *("__setstate__", "__reduce__", "f_globals", "cr_frame", "gi_frame"),
}


class _UnknownError(Exception):
    """Something of which not everything that can change is known."""


@attrs.frozen
class ReadableOutside:
    """What outlives a simulation, as it was. Made in a process that has simulated nothing, and asked in copies of it.

    Attributes:
        checks: each returns True while its part is as it was.
    """

    checks: tuple[Check, ...]
    held: tuple[Any, ...]  # So that no other object gets their addresses.

    def begin(self) -> ReadableOutside:
        """In a forked copy: with what a fork may have changed, such as the states of generators."""
        return attrs.evolve(self, checks=(*self.checks, *process_checks()))

    def are_untouched(self) -> bool:
        """True if nothing has changed since."""
        return all(check() for check in self.checks)


def read_outside(factory: Callable[[], Any] | None) -> ReadableOutside | None:
    """What a simulation that factory makes can find outside of itself; None if not all of it can be read."""
    if any(not _is_known(name) and not is_users(name) for name in list(sys.modules)):
        return None  # A library may keep anything, and in compiled code.
    walk = _Walk()
    try:
        for name, module in list(sys.modules.items()):
            if is_users(name) and not _is_known(name):
                walk.visit(module)
        walk.visit(factory)
        walk.finish()
    except Exception:  # noqa: BLE001 - _UnknownError, or whatever an odd object raises when it is read
        return None
    items = [check for check in walk.checks if isinstance(check, SameItems)]
    others = [check for check in walk.checks if not isinstance(check, SameItems)]
    return ReadableOutside((ItemChecks(items), *others), tuple(walk.held))


def import_libraries(names: Iterable[str]) -> bool:
    """Import what a step imports late, such as numpy.ma; return False, and import nothing, if it is not all of NumPy.

    It would count as a change otherwise.
    """
    modules = list(names)
    if any(name.partition(".")[0] != "numpy" for name in modules):
        return False
    for name in modules:
        importlib.import_module(name)
    return True


def _is_known(name: str) -> bool:
    top = name.partition(".")[0]
    return (
        (top in sys.stdlib_module_names and top != "__main__") or top in KNOWN_PACKAGES or top.startswith(_KNOWN_STARTS)
    )


class _Walk:
    def __init__(self) -> None:
        self.checks: list[Check] = []
        self.held: list[Any] = []
        self._seen: set[int] = set()
        self._queue: list[Any] = []
        self._libraries: set[int] = set()
        self._bytes = 0

    def visit(self, value: Any) -> None:
        """Note a value that is to be walked."""
        if type(value) not in _ATOMS and id(value) not in self._seen:
            self._seen.add(id(value))
            self.held.append(value)
            self._queue.append(value)

    def finish(self) -> None:
        """Walk all values. Raises _UnknownError."""
        while self._queue:
            if len(self._seen) > NODES_MAX:
                raise _UnknownError
            self._walk(self._queue.pop())

    def _walk(self, value: Any) -> None:
        kind = type(value)
        walk = _WALKS.get(kind)
        if walk is not None:
            walk(self, value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, np.generic | np.dtype | np.ufunc):
            self._of_numpy(value)
        elif kind in _OURS or kind is _TUPLE_GETTER or isinstance(value, _STILL) or module_of(kind) in _STILL_MODULES:
            self._still(value)
        elif is_users(module_of(kind)):
            self._object(value)
        else:
            raise _UnknownError

    def module(self, module: ModuleType) -> None:
        """The names in a module; what they stand for only in the user's."""
        if module is sys:
            return  # See process_checks.
        names = open_names(vars(module))
        self.checks.append(SameNames(vars(module)))
        if is_users(module.__name__) and not _is_known(module.__name__):
            for one in names.values():
                self.visit(one)
        else:
            _ensure_stateless(module.__name__)
            self.checks.extend(library_checks(module, self._libraries))

    def _class(self, kind: type) -> None:
        name, names = module_of(kind), open_names(vars(kind))
        self.checks.append(SameNames(vars(kind)))
        bases, further = kind.__bases__, (kind.__name__, kind.__qualname__, kind.__doc__)
        self.checks.append(
            lambda: kind.__bases__ == bases and (kind.__name__, kind.__qualname__, kind.__doc__) == further
        )
        if issubclass(type(kind), ABCMeta):
            abstract = cast(ABCMeta, kind)
            registered = registered_classes(abstract)
            self.checks.append(lambda: registered_classes(abstract) == registered)
        if is_users(name) and not _is_known(name):
            derived: list[type] = type.__subclasses__(kind)
            annotations = vars(kind).get("__annotations__", {})
            self.checks.extend(map(same_attributes, vars(kind).get("__dataclass_fields__", {}).values()))
            self.checks += lambda: type.__subclasses__(kind) == derived, SameItems(annotations)
        if is_users(name) and not _is_known(name):
            for one in (*names.values(), *kind.__bases__, type(kind)):
                self.visit(one)
        else:
            _ensure_stateless(name)

    def mapping(self, value: dict[Any, Any]) -> None:
        then = dict(dict.items(value))
        self.checks.append(SameItems(value))
        factory = getattr(value, "default_factory", None)
        self.checks.append(lambda: getattr(value, "default_factory", None) is factory)
        self._further(value)
        for one in (*then.keys(), *then.values(), factory):
            self.visit(one)

    def _further(self, value: Any) -> None:
        """Attributes that code may have given to an object that needs none."""
        attributes = getattr(value, "__dict__", None)
        if type(attributes) is dict:
            self.checks.append(SameItems(attributes))
            for name, one in attributes.items():
                if name not in ("__annotations__", "__wrapped__"):
                    self.visit(one)

    def sequence(self, value: Any) -> None:
        self.checks.append(same_elements(value))
        for one in list(value):
            self.visit(one)

    def function(self, function: FunctionType) -> None:
        home = str(function.__globals__.get("__name__"))  # functools.wraps gives __module__ another value.
        if not is_users(function.__module__ or "") and not is_users(home) and not function.__closure__:
            _ensure_stateless(function.__module__ or "")
            self._further(function)
            return
        if is_users(home):  # Others wrap it, as dataclasses do.
            for name in _names_of(function.__code__) & sys.modules.keys():
                if _is_known(name):
                    self.visit(sys.modules[name])  # It may import that itself.
            if function.__globals__ is not getattr(sys.modules.get(home), "__dict__", None):
                raise _UnknownError  # Its globals are in no module.
        texts = (function.__name__, function.__qualname__, function.__doc__)
        self.checks.append(lambda: (function.__name__, function.__qualname__, function.__doc__) == texts)
        then = (function.__code__, function.__defaults__, function.__kwdefaults__)
        self.checks.append(
            lambda: all(map(operator.is_, (function.__code__, function.__defaults__, function.__kwdefaults__), then))
        )
        for one in (*(function.__closure__ or ()), *then[1:], function.__dict__):
            self._cell(one) if type(one) is CellType else self.visit(one)

    def _cell(self, cell: CellType) -> None:
        try:
            then = cell.cell_contents
        except ValueError:
            raise _UnknownError from None  # Empty: the function that fills it is still running.
        self.checks.append(lambda: cell.cell_contents is then)
        self.visit(then)

    def parts(self, value: Any) -> None:
        """The functions and arguments in a bound method, a partial or a descriptor."""
        names = ("__self__", "__func__", "func", "args", "keywords", "fget", "fset", "fdel")
        if not isinstance(value, MethodType):  # That of a method is the function's.
            self._further(value)
        for one in (getattr(value, name, None) for name in names):
            self.visit(one)

    def cache(self, cache: Any) -> None:
        then = cache.cache_info()
        self.checks.append(lambda: cache.cache_info() == then)
        self.visit(cache.__wrapped__)

    def array(self, array: np.ndarray[Any, Any] | bytearray) -> None:
        """The numbers in an array."""
        if isinstance(array, np.ndarray) and array.dtype.hasobject:
            raise _UnknownError
        then, form = np.asarray(array).tobytes(), _form(array)
        self._bytes += len(then)
        if self._bytes > BYTES_MAX:
            raise _UnknownError
        self.checks.append(lambda: np.asarray(array).tobytes() == then and _form(array) == form)

    def generator(self, generator: Any) -> None:
        then = _whole_state(generator)
        self.checks.append(lambda: _whole_state(generator) == then)

    def _of_numpy(self, value: Any) -> None:
        """A number, a data type or a function of NumPy: made by others, they may change or hold anything."""
        if isinstance(value, np.dtype):
            if value.metadata is not None:
                raise _UnknownError
            names = value.names
            self.checks.append(lambda: value.names == names)
        elif isinstance(value, np.ufunc):
            if getattr(np, value.__name__, None) is not value:
                raise _UnknownError
        elif module_of(type(value)) != "numpy" or isinstance(value, np.void | np.object_):
            raise _UnknownError

    def _still(self, value: Any) -> None:
        """What never changes itself; a method of a list stands for the list."""
        if module_of(type(value)) in _STILL_MODULES and getattr(value, "__dict__", None):
            self.checks.append(same_attributes(value))
        if type(value) is BuiltinFunctionType:
            _ensure_stateless((value.__module__ or "builtins").lstrip("_"))  # Those of _random, _operator, …
        owner = getattr(value, "__self__", None) if type(value) is BuiltinFunctionType else None
        if owner is not None and not isinstance(owner, ModuleType | type):
            self.visit(owner)
        if type(value).__name__ in ("SimpleNamespace", "GeneratorType", "coroutine", "mappingproxy", "generator"):
            raise _UnknownError

    def _object(self, value: Any) -> None:
        """An object of the user's: of classes of the user's only, down to object."""
        kind = type(value)
        for base in kind.__mro__:
            if (
                not is_users(module_of(base))
                and base is not object
                and module_of(base) not in ("abc", "typing", "enum")
            ):
                raise _UnknownError
        self.visit(kind)
        self.checks.append(same_attributes(value))
        for one in attributes_of(value).values():
            self.visit(one)


_WALKS: dict[type, Callable[[_Walk, Any], None]] = {
    **dict.fromkeys((dict, collections.OrderedDict, collections.defaultdict, collections.Counter), _Walk.mapping),
    **dict.fromkeys((list, tuple, set, frozenset, collections.deque), _Walk.sequence),
    **dict.fromkeys((MethodType, functools.partial, property, staticmethod, classmethod), _Walk.parts),
    **dict.fromkeys((np.random.Generator, np.random.RandomState), _Walk.generator),
    **dict.fromkeys((np.ndarray, bytearray), _Walk.array),
    functools.cached_property: _Walk.parts,
    ModuleType: _Walk.module,
    FunctionType: _Walk.function,
    CACHE_TYPE: _Walk.cache,
}


def _ensure_stateless(module: str) -> None:
    """Raise _UnknownError for a module of the standard library that may keep state out of sight."""
    top = module.partition(".")[0]
    if top not in KNOWN_PACKAGES and top.lstrip("_") not in _STATELESS and top != "__future__":
        raise _UnknownError


def _names_of(code: CodeType) -> set[str]:
    """The names in a function's code. Raise _UnknownError if one is of a module with state, which it may import itself."""
    names = set(code.co_names)
    if any(name in _HIDING or (name in sys.stdlib_module_names and name not in _STATELESS) for name in names):
        raise _UnknownError
    return names.union(*(_names_of(one) for one in code.co_consts if isinstance(one, CodeType)))


def _form(array: Any) -> tuple[Any, ...]:
    return (array.shape, array.dtype, array.flags.writeable) if isinstance(array, np.ndarray) else ()


def _whole_state(generator: Any) -> tuple[Any, ...]:
    """The state of a generator, and how many others it has spawned."""
    inner = getattr(generator, "bit_generator", None)
    seeds = getattr(inner, "seed_seq", getattr(inner, "_seed_seq", None))
    return generator_state(generator), getattr(seeds, "n_children_spawned", 0)
