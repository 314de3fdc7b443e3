"""Find the modules, classes and functions in which a simulation's code can keep values outside its instances.

These are the user's modules and those that they import; of installed packages, the modules that define the classes of
the simulation's objects, and those that they import from their own part of the package. Python's own modules, NumPy and
the recorder are excluded: their global values (random generators, the environment) are handled in ambient.py.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

from sim.kernel.class_names import module_of
from sim.kernel.simulation import subject_of

MODULES_MAX = 200  # A program has fewer of its own; walking more would take too long.

_EXCLUDED = {"sim", "recorder", "replayer", "numpy", "numba", "pytest", "_pytest"}
_WORLDS = ("sim.worlds.", "sim.scenario.")  # Part of the library, but checked like user code.
_WRAPPING = ("gymnasium.", "pettingzoo.")
_WRAPPED = ("env", "aec_env")  # What a wrapper calls the environment inside.
_WRAPPERS_MAX = 100
CACHE_TYPE: type[Any] = type(functools.lru_cache(lambda: None))


class Roots:
    """The modules, classes and functions of one simulation.

    Attributes:
        modules: by name.
        classes: defined at the top of modules, or given as the factory; each with a unique label, module:name.
        functions: those of the modules and classes, each with a unique label.
    """

    def __init__(self, factory: Callable[[], Any]) -> None:
        self.modules: dict[str, ModuleType] = {}
        self.classes: dict[type, str] = {}
        self.functions: dict[FunctionType, str] = {}
        self._labels: set[str] = set()
        for part in _parts_of(factory):
            if isinstance(part, type):
                for kind in part.__mro__:
                    self._add_module(kind.__module__, follow=True)
                    self._add_class(kind)
            elif isinstance(part, FunctionType):
                self._add_module(part.__module__, follow=True)
                self._add_function(part)
            else:
                self.add_types([type(part)])

    def add_types(self, types: Iterable[type]) -> None:
        """Add the classes of the simulation's objects; those defined in a function belong to the instance."""
        for kind in types:
            for base in kind.__mro__:
                if (
                    base not in self.classes
                    and "<locals>" not in base.__qualname__
                    and not _is_excluded(module_of(base))
                ):
                    self._add_module(module_of(base), follow=is_users(module_of(base)))
                    self._add_class(base)

    def has_class(self, kind: type) -> bool:
        """Return True if a class is the simulation's own, not that of a library."""
        return kind in self.classes or is_users(module_of(kind))

    def caches(self) -> Iterator[tuple[ModuleType | type, str, Any]]:
        """Every lru_cache, with the module or class that holds it, and its name there."""
        holders: list[ModuleType | type] = [*self.modules.values(), *self.classes]
        for holder in holders:
            for name, value in list(vars(holder).items()):
                if type(value) is CACHE_TYPE:
                    yield holder, name, value

    def empty_caches(self, kept: Sequence[Any] = ()) -> list[tuple[ModuleType | type, str, Any]]:
        """Replace every lru_cache by an empty one, except those in kept; return the replaced, as caches() does."""
        fresh: dict[int, Any] = {}
        places = [place for place in self.caches() if not any(place[2] is cache for cache in kept)]
        for holder, name, cache in places:
            if id(cache) not in fresh:
                fresh[id(cache)] = functools.lru_cache(**cache.cache_parameters())(cache.__wrapped__)
            put_cache(holder, name, fresh[id(cache)])
        return places

    def _add_module(self, name: str, *, follow: bool) -> None:
        module = sys.modules.get(name)
        if module is None or name in self.modules or len(self.modules) >= MODULES_MAX or _is_excluded(name):
            return
        self.modules[name] = module
        for value in list(vars(module).values()):
            if isinstance(value, ModuleType):
                self._follow_import(name, value.__name__, follow=follow)
                continue
            home = getattr(value, "__module__", None) if isinstance(value, type | FunctionType | CACHE_TYPE) else None
            if home == name and isinstance(value, type):
                self._add_class(value)
            elif home == name:
                self._add_function(getattr(value, "__wrapped__", value) if type(value) is CACHE_TYPE else value)
            elif home is not None:
                self._follow_import(name, home, follow=follow)

    def _follow_import(self, name: str, imported: str, *, follow: bool) -> None:
        if (follow and is_users(imported)) or _is_beside(name, imported):
            self._add_module(imported, follow=follow)

    def _add_class(self, kind: type) -> None:
        if kind in self.classes or _is_excluded(module_of(kind)):
            return
        self.classes[kind] = self._label(kind)
        for name, value in list(vars(kind).items()):
            for function in functions_in(value):
                self._add_function(function, kind, name)

    def _add_function(self, function: Any, owner: type | None = None, name: str = "") -> None:
        if isinstance(function, FunctionType) and function not in self.functions:
            self.functions[function] = self._label(function, owner, name)

    def _label(self, named: type | FunctionType, owner: type | None = None, name_there: str = "") -> str:
        """Make a unique label: two objects may have the same name, such as those that a decorator makes."""
        short = named.__qualname__.rpartition("<locals>.")[2]
        if owner is not None and "." not in short:  # Defined in a function, then added to the class, as by a decorator.
            short = f"{owner.__qualname__.rpartition('<locals>.')[2]}.{name_there or short}"
        label = name = f"{named.__module__}:{short}"
        number = 1
        while label in self._labels:
            number += 1
            label = f"{name} no. {number}"
        self._labels.add(label)
        return label


def put_cache(holder: ModuleType | type, name: str, cache: Any) -> None:
    """Put a cache under its name in a module or a class."""
    if isinstance(holder, type):
        type.__setattr__(holder, name, cache)
    else:
        vars(holder)[name] = cache


def functions_of(kind: type) -> Iterator[FunctionType]:
    """The functions in a class's own body: methods, static and class methods, properties, cached ones."""
    for value in list(vars(kind).values()):
        yield from functions_in(value)


def functions_in(value: Any) -> Iterator[FunctionType]:
    """The functions behind a name: a function itself, and those that Python's own decorators keep."""
    for one in kept_by_decorator(value):
        plain = one.__wrapped__ if type(one) is CACHE_TYPE else one
        if type(plain) is FunctionType:
            yield plain


def kept_by_decorator(value: Any) -> tuple[Any, ...]:
    """What a property, a cached one, a static, class or bound method keeps; of anything else, the value itself.

    No value is asked for its class, since a proxy would run code for that.
    """
    kind = type(value)
    if issubclass(kind, property):
        return (value.fget, value.fset, value.fdel)
    if issubclass(kind, functools.cached_property):
        return (value.func,)
    return (value.__func__,) if issubclass(kind, staticmethod | classmethod | MethodType) else (value,)


def _is_beside(name: str, other: str) -> bool:
    """Return True for two modules of one part of a package, such as those of one game in a package of games."""
    part = name.rpartition(".")[0]
    return "." in part and other.startswith(f"{part}.")


def is_our_own(kind: type) -> bool:
    """Return True for a class of this library that is not a world: what it holds is never a suspect."""
    name = module_of(kind)
    return name.partition(".")[0] in ("sim", "recorder", "replayer") and not name.startswith(_WORLDS)


@functools.cache
def is_users(module_name: str) -> bool:
    """Return True if a module is neither Python's, nor installed, nor the recorder's."""
    if _is_excluded(module_name):
        return False
    content = content_of(sys.modules.get(module_name))
    if content is None:
        return False
    file = content.get("__file__")
    if not isinstance(file, str):
        return content.get("__spec__") is None
    return module_name.startswith(_WORLDS) or not is_installed(file)


def is_installed(file: str) -> bool:
    """Return True for a file of Python's own library, or of an installed package."""
    # As Path writes it, which takes ten times as long.
    path = str(Path(file)) if "//" in file or "/." in file else file
    return path.startswith(_installed())


def content_of(one: object) -> dict[str, Any] | None:
    """The attributes of a module or an object, without asking it; None if it has no dict.

    A lazy module would be loaded by that, and what stands in the place of one may raise anything.
    """
    try:
        content: dict[str, Any] = object.__getattribute__(one, "__dict__")
    except AttributeError:
        return None
    return content


def _is_excluded(module_name: str) -> bool:
    top = module_name.partition(".")[0]
    if top == "__main__" or module_name.startswith(_WORLDS):
        return False
    return top in _EXCLUDED or top in sys.stdlib_module_names


@functools.cache
def _installed() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({f"{paths[name]}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def _parts_of(factory: Any) -> Iterator[Any]:
    """The parts of a factory: a class, a function, the object that a method is bound to."""
    if isinstance(factory, functools.partial):
        yield from _parts_of(factory.func)
    elif isinstance(factory, MethodType):
        yield from _parts_of(factory.__self__)
        yield from _parts_of(factory.__func__)
    else:
        wrapped = getattr(factory, "__wrapped__", None)
        if wrapped is not None and not isinstance(factory, type):
            yield from _parts_of(wrapped)
        yield factory


def objects_of(simulation: Any) -> list[Any]:
    """The user's object; of an environment, all wrappers from the outermost one, and what they wrap."""
    subject = subject_of(simulation)
    if not _is_environment(subject):
        return [subject]
    found = {id(one): one for one in (subject, subject.unwrapped)}
    inner: Any = subject
    for _ in range(_WRAPPERS_MAX):  # What is wrapped may lead back to itself.
        held = (content_of(inner) or {}) if _is_environment(inner) else {}
        inner = next((held[name] for name in _WRAPPED if name in held), None)
        if inner is None:
            break
        found[id(inner)] = inner
    return list(found.values())


def _is_environment(value: Any) -> bool:
    return any(kind.__module__.startswith(_WRAPPING) for kind in type(value).__mro__)
