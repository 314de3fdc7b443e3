"""The names in the modules around a simulation's class, and in the classes that these define."""

from __future__ import annotations

import functools
import itertools
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from recorder.ambient.outside import code_text
from recorder.ambient.roots import content_of, is_users, objects_of
from sim.kernel.class_names import module_of

_MODULES_MAX = 100
_IN_TABLE_MAX = 200
_LIBRARY = ("sim", "recorder", "replayer")  # Their version is in the environment.


@attrs.frozen(eq=False)
class Place:
    """A name in a module or in a class that it defines.

    Attributes:
        holder: the module or the class.
        key: the name there.
        name: qualified, without the module.
        file: of the module.
        module: its name.
        path: of its file, or its name.
    """

    holder: types.ModuleType | type
    key: str
    name: str
    file: str
    module: str
    path: str

    def value(self) -> Any:
        """What stands there now; None if the name is gone."""
        return vars(self.holder).get(self.key)


def places_of(simulation: Any, *, in_tables: bool = True, through_wrappers: bool = True) -> Iterator[Place]:
    """The names in the modules around the simulation's class, and in the classes that these define.

    in_tables: also of modules that are used by what stands in tables alone, which earlier versions did not note.
    through_wrappers: also of those of which only wrapped functions are used, such as compiled ones; the same holds of them.
    """
    for name, path, content in _modules_of(simulation, in_tables=in_tables, through_wrappers=through_wrappers):
        yield from _places_in(sys.modules[name], content, name, "", path)


def files_of(simulation: Any) -> Iterator[str]:
    """The files of the modules around the simulation's class; of a module without one, its name."""
    return (path for _, path, _ in _modules_of(simulation))


def _modules_of(
    simulation: Any, *, in_tables: bool = True, through_wrappers: bool = True
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The modules: the name, the file and a copy of the content of each."""
    kinds = [kind for one in objects_of(simulation) for kind in type(one).__mro__]
    waiting = [name for name in dict.fromkeys(map(module_of, kinds)) if counts(name)]
    seen = set(waiting)
    for name in waiting:  # It grows by the modules that these use.
        content = dict(vars(sys.modules[name]))
        path = str(content.get("__file__") or name)
        # A replay imports the module.
        for only_here in code_text.names_of_a_program(path) if name == "__main__" else ():
            content.pop(only_here, None)
        yield name, path, content
        used = {
            _module_name(_unwrapped(one) if through_wrappers else one)
            for value in content.values()
            for one in (value, *(_in_table(value) if in_tables else ()))
        }
        more = [one for one in sorted(used - seen) if counts(one)]
        seen.update(more)
        if len(seen) <= _MODULES_MAX:
            waiting += more


def _in_table(value: Any) -> list[Any]:
    """What is in a table of a module, such as classes of another one by name; of a larger one, the first _IN_TABLE_MAX."""
    kind = type(value)
    held = value.values() if kind is dict else value if kind in (list, tuple, set, frozenset) else ()
    return list(itertools.islice(list(held), _IN_TABLE_MAX))


def _places_in(
    holder: types.ModuleType | type, content: dict[str, Any], module: str, prefix: str, path: str
) -> Iterator[Place]:
    for key, value in content.items():
        name = f"{prefix}{key}"
        yield Place(holder, key, name, Path(path).name, module, path)
        if is_defined_here(value, module, name):
            yield from _places_in(value, dict(vars(value)), module, f"{name}.", path)


def is_defined_here(value: Any, module: str, name: str) -> bool:
    """Return True for a class that a module defines under this qualified name."""
    # Not isinstance: a proxy would be asked for its class.
    return issubclass(type(value), type) and value.__module__ == module and value.__qualname__ == name


def is_special(name: str) -> bool:
    """Return True for a name that Python gives a meaning."""
    return name.startswith("__") and name.endswith("__")


def counts(name: str) -> bool:
    """Return True for a loaded module of the user's."""
    is_loaded = isinstance(sys.modules.get(name), types.ModuleType)
    return is_loaded and name.partition(".")[0] not in _LIBRARY and is_users(name)


def _unwrapped(value: Any) -> Any:
    """The function in what a decorator made of it, such as numba's or functools.cache; anything else as it is."""
    kind = type(value)
    if issubclass(kind, types.ModuleType | type | types.FunctionType):
        return value
    if issubclass(kind, functools.partial):
        return value.func
    content = content_of(value)
    return content.get("__wrapped__", value) if type(content) is dict else value


def _module_name(value: Any) -> str:
    kind = type(value)
    if issubclass(kind, types.ModuleType):
        return str((content_of(value) or {}).get("__name__"))
    return str(value.__module__) if issubclass(kind, type | types.FunctionType) else ""
