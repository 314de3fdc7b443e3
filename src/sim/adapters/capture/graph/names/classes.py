"""Find classes, functions and named objects again by their names; nothing is imported, and nothing else can be reached.

A name is "module:qualified name". The module of the subject's class is written as ".", so that a script that runs as
``__main__`` and the same file imported as ``game`` give equal names.

Reachable are only:
    1. classes and functions that were registered, because the user's own object refers to them;
    2. those that are defined in an imported module of a package that a registered class comes from, or in a module of the
       same folder that the module of the subject's class imports from. The standard library is never such a package. An
       imported name is not a definition: ``game:environ`` is not found.
"""

from __future__ import annotations

import enum
import os
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

from sim.adapters.capture.graph.names.global_items import item_at, split_indexes
from sim.adapters.capture.graph.names.global_names import dict_of, is_named_object, names_of_globals
from sim.adapters.capture.graph.unsavable import UnsavableError
from sim.kernel.class_names import module_of

_PLAIN = (object, types.SimpleNamespace)
OWN = "."
LOCALS = "<locals>"
_WITH_GENERATORS = ("numpy.random",)
_TO_THE_TOP = "define it at the top level of its module"
_RENAMED = (
    "it was renamed, moved or removed after the recording. Replay with the code that was recorded, or give it its old "
    "name and place again"
)


class NotFoundError(LookupError):
    """A name on a tape that no class, function or object that may be reached has; the message is one line."""


class ClassFinder:
    """The names of classes, functions and objects around the class of one subject.

    Attributes:
        own_module: the module of that class, which has no name.
    """

    def __init__(self, subject_class: type) -> None:
        """Register the class of the subject."""
        self.own_module = module_of(subject_class)
        self._classes: dict[str, type] = {}
        self._functions: dict[str, types.FunctionType] = {}
        self._packages: set[str] = set()
        self._modules: set[str] = set()  # Names of modules that the user's object refers to.
        self._is_new = False
        self.register(subject_class)
        self._packages.update(_modules_beside(self.own_module))

    def registering(self, *, is_new: bool) -> None:
        """Register each class and function that is named from now on, or no further ones.

        is_new: true while the user's object is looked at for the first time.
        """
        self._is_new = is_new

    def register(self, cls: type) -> None:
        """Make a class reachable, and the package that it comes from.

        Register exactly the classes that the user's object reaches when it is new: a restored run starts from such an
        object, too.
        """
        self._classes.setdefault(self._name(cls), cls)
        package = module_of(cls).partition(".")[0]
        if package and package not in sys.stdlib_module_names:
            self._packages.add(package)

    def register_function(self, function: types.FunctionType) -> None:
        """Make a function reachable, but not its package."""
        self._functions.setdefault(self._name(function), function)

    # --- classes

    def name_of(self, cls: type) -> str:
        """The name of a class. Raises UnsavableError if it cannot be found again by it."""
        name = self._name(cls)
        if cls in _PLAIN:
            return name  # Such as MISSING = object().
        if self._is_new:
            self.register(cls)
        if self._classes.get(name) is cls:
            return name
        try:
            found = self.find(name)
        except NotFoundError:
            found = None
        if found is not cls:
            raise self._unsavable("class", cls, found)
        return name

    def find(self, name: str) -> type:
        """The class with this name. Raises NotFoundError."""
        if name in self._classes:
            return self._classes[name]
        for plain in _PLAIN:
            if name == self._name(plain):
                return plain
        found = self._defined(name, "class")
        if not issubclass(type(found), type):
            raise NotFoundError(f"expected a class with the name {name!r}, got a {type(found).__qualname__}")
        self._check_definition(found, name, "class")
        return found  # type: ignore[no-any-return]

    # --- functions

    def name_of_function(self, function: types.FunctionType) -> str:
        """The name of a function of a module or class. Raises UnsavableError if it cannot be found again by it."""
        name = self._name(function)
        if self._is_new and LOCALS not in name and function.__name__ != "<lambda>":
            self.register_function(function)
        if self._functions.get(name) is function:
            return name
        try:
            found = self.find_function(name)
        except NotFoundError:
            found = None
        if found is not function:
            raise self._unsavable("function", function, found)
        return name

    def name_beside(self, function: types.FunctionType, qualname: str) -> str:
        """The name of what has this qualified name in the module of a function."""
        return f"{self._module_text(str(function.__module__))}:{qualname}"

    def find_function(self, name: str) -> types.FunctionType:
        """The function with this name. Raises NotFoundError."""
        if name in self._functions:
            return self._functions[name]
        found = self._defined(name, "function")
        if type(found) in (staticmethod, classmethod):
            found = found.__func__
        if type(found) is not types.FunctionType:
            raise NotFoundError(f"expected a function with the name {name!r}, got a {type(found).__qualname__}")
        self._check_definition(found, name, "function")
        return found

    # --- modules

    def name_of_module(self, module: types.ModuleType) -> str:
        """The name of an imported module. Raises UnsavableError if it cannot be found again by it."""
        name = str(dict_of(module).get("__name__"))
        if name in _WITH_GENERATORS:
            raise UnsavableError(
                f"the module {name} has a generator that belongs to the process",
                "keep a random.Random or a NumPy generator of your own",
            )
        if sys.modules.get(name) is not module:
            raise UnsavableError(f"no module is imported as {name} that is this one", "import it as usual")
        text = self._module_text(name)
        if self._is_new:
            self._modules.add(text)
        if text not in self._modules and not self._is_reachable(name):
            raise UnsavableError(
                f"the object did not refer to the module {name} at its start", "keep it in an attribute from the start"
            )
        return text

    def find_module(self, text: str) -> types.ModuleType:
        """The imported module with this name. Raises NotFoundError."""
        name = self.own_module if text == OWN else text
        found = sys.modules.get(name)
        if (text not in self._modules and not self._is_reachable(name)) or name in _WITH_GENERATORS:
            raise NotFoundError(f"expected a module that the recorded object reaches, got {text!r}")
        if found is None:
            raise NotFoundError(f"expected the module {name}, but it is not imported: import {name} first")
        return found

    # --- objects that a module or a class refers to by a name

    def modules(self) -> list[types.ModuleType]:
        """The imported modules that registered classes come from, in the order of their names."""
        names = {module_of(cls) for cls in self._classes.values()}
        found = [sys.modules.get(name) for name in sorted(names) if name.partition(".")[0] in self._packages]
        return [module for module in found if module is not None]

    def names_beside(self, cls: type) -> dict[int, str]:
        """As names_of_globals, of the module of a class, and of those modules that its own classes and functions are from.

        None for modules of packages that are not reachable.
        """
        own = sys.modules.get(module_of(cls))
        if own is None or not self._is_reachable(own.__name__):
            return {}
        named = (one for one in list(dict_of(own).values()) if issubclass(type(one), type | types.FunctionType))
        others = {self._module_of(one) for one in named} - {own.__name__}
        names = dict(self._names_of_globals(own))
        for other in sorted(filter(self._is_reachable, others)):
            if other in sys.modules:
                names = {**self._names_of_globals(sys.modules[other]), **names}
        return names

    def is_of_a_variable(self, value: Any, classes: Sequence[type]) -> bool:
        """Return True for an object that a variable refers to, in the module of its class or of one of these classes."""
        return any(id(value) in self.names_beside(cls) for cls in (*classes, type(value)))

    def _names_of_globals(self, module: types.ModuleType) -> Mapping[int, str]:
        return names_of_globals(module, self._module_text(module.__name__))

    def _is_reachable(self, module: str) -> bool:
        return module.partition(".")[0] in self._packages

    def find_global(self, name: str) -> Any:
        """The object that has this name now. Raises NotFoundError."""
        return self.find_to_fill(name)[0]

    def find_to_fill(self, name: str) -> tuple[Any, bool]:
        """The object that has this name now, and whether a restore may write to it. Raises NotFoundError."""
        variable, places = split_indexes(name)
        found, is_own = self._place(name)
        if not is_named_object("" if places else variable.rpartition(":")[2].rpartition(".")[2], found):
            raise NotFoundError(f"expected an object with the name {name!r}, got a {type(found).__qualname__}")
        return found, is_own

    def refers_to(self, name: str, value: Any) -> bool:
        """Return True if this name refers to just this object now."""
        try:
            return self._place(name)[0] is value
        except NotFoundError:
            return False

    def _place(self, name: str) -> tuple[Any, bool]:
        """The object of a variable, or the one at a place in it, and whether only tuples lead there."""
        variable, places = split_indexes(name)
        try:
            return item_at(self._defined(variable, "object"), places)
        except LookupError as error:
            if isinstance(error, NotFoundError):
                raise
            raise NotFoundError(f"expected an object with the name {name!r}, but there is none at this place") from None

    # --- names

    def _module_text(self, module: str) -> str:
        return OWN if module == self.own_module else module

    def _name(self, named: type | types.FunctionType) -> str:
        return f"{self._module_text(self._module_of(named))}:{named.__qualname__}"

    @staticmethod
    def _module_of(named: type | types.FunctionType) -> str:
        return module_of(named) if isinstance(named, type) else str(named.__module__)

    def _defined(self, name: str, what: str) -> Any:
        """Look a name up in the dicts of an imported module and its classes; no attribute is asked for."""
        text, _, path = name.partition(":")
        module_name = self.own_module if text == OWN else text
        module = sys.modules.get(module_name)
        if module_name.partition(".")[0] not in self._packages or not path:
            raise NotFoundError(
                f"expected a {what} that the recorded object reaches, got {name!r}: it is not of a package of its classes"
            )
        name = f"{module_name}.{path}"
        if not issubclass(type(module), types.ModuleType):
            raise NotFoundError(
                f"expected the {what} {name}, but its module is not imported: import {module_name} first"
            )
        found: Any = module
        for step in path.split("."):
            if found is not module and not issubclass(type(found), type):
                raise NotFoundError(f"expected the {what} {name}, but there is no such name now: {_RENAMED}")
            names = dict_of(found)
            if issubclass(type(found), enum.EnumMeta):
                names = names["_member_map_"]
            if step not in names:
                raise NotFoundError(f"expected the {what} {name}, but there is no such name now: {_RENAMED}")
            found = names[step]
        return found

    def _check_definition(self, found: Any, name: str, what: str) -> None:
        if self._name(found) != name:
            raise NotFoundError(f"expected the definition of the {what} {name!r}, got {self._name(found)!r}")

    def _unsavable(self, what: str, named: Any, found: Any) -> UnsavableError:
        module, qualname = self._module_of(named), named.__qualname__
        package = module.partition(".")[0]
        if LOCALS in qualname:
            return UnsavableError(
                f"the {what} {qualname} is defined in a function, and cannot be found by its name",
                _TO_THE_TOP
                if what == "class"
                else f"{_TO_THE_TOP}, or use a method; functools.partial binds values to it",
            )
        if package not in self._packages:
            return UnsavableError(
                f"the {what} {module}.{qualname} is of a package that the object did not refer to at its start",
                f"keep the {what} in an attribute from the start, such as self.kept = [{named.__name__}]",
            )
        if found is not None:
            return UnsavableError(
                f"the {what} {module}.{qualname} is not the one that has this name now",
                f"make the objects again after {'the class was' if what == 'class' else 'it was'} defined again",
            )
        return UnsavableError(
            f"the {what} {module}.{qualname} cannot be found by this name",
            "keep it at the top level of its module under the name of its definition",
        )


def _modules_beside(name: str) -> set[str]:
    """The modules at the top level, in the same folder, from which a module at the top level has what it uses; theirs, too."""
    folder = _folder_of(name)
    if folder is None or "." in name:
        return set()
    found, waiting = set[str](), [name]
    while waiting:
        used = list(dict_of(sys.modules[waiting.pop()]).values())
        names = {module_of(one) if issubclass(type(one), type) else str(dict_of(one).get("__name__")) for one in used
                 if issubclass(type(one), type | types.ModuleType)}  # fmt: skip  # A proxy would be asked for its class.
        beside = [one for one in sorted(names - found) if "." not in one and _folder_of(one) == folder]
        found.update(beside)
        waiting += beside
    return found - sys.stdlib_module_names


def _folder_of(name: str) -> str | None:
    """The folder of an imported module that is a file; None for any other. No attribute is asked for."""
    names = dict_of(sys.modules[name]) if issubclass(type(sys.modules.get(name)), types.ModuleType) else {}
    file = names.get("__file__")
    if not isinstance(file, str) or "__path__" in names:
        return None
    return os.path.dirname(os.path.abspath(file))  # noqa: PTH100, PTH120 - links are not followed
