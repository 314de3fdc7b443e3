"""In a party's process: import some modules from other places, or not at all, with finders that are asked first."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from recorder.ambient.outside.own_code import is_users_file


def use_modules(places: Mapping[str, str], lent: Mapping[str, str], hidden: Iterable[str] = ()) -> None:
    """Let these modules come from other places.

    places: by the full names: a file, or the folder of a package with all of its modules. lent: files of modules that
    only these places and other lent files import, and only if there is no other one of the name. hidden: names of
    modules that are not found.
    """
    if hidden:
        sys.meta_path[:] = [_Without(finder, frozenset(hidden)) for finder in sys.meta_path]
    if lent:
        sys.meta_path.insert(0, _Finder(lent, [*places.values(), *lent.values()]))
    if places:
        sys.meta_path.insert(0, _Finder(places, None))


def origin_of(module: object) -> str | None:
    """The file that was loaded in the place of another one; None for any other module."""
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    return str(loader.path) if isinstance(loader, _InPlaceOf) else None


class _Finder:
    """importers: the files and folders whose code gets a module, where there is no other one; None for any code."""

    def __init__(self, places: Mapping[str, str], importers: list[str] | None) -> None:
        self._places = places
        self._importers = importers
        self._asked: set[str] = set()  # Other finders ask all finders in turn, this one too.

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder."""
        if name not in self._places or name in self._asked:
            return None
        place = Path(self._places[name])
        if place.is_dir():
            return PathFinder.find_spec(name, [str(place.parent)])
        own = self._own(name, path, target)
        if self._importers is not None and (own is not None or not _is_imported_by(self._importers)):
            return own
        loader = None
        if own is not None and own.origin is not None and place.suffix == Path(own.origin).suffix == ".py":
            loader = _InPlaceOf(name, str(place), own.origin)
        if place.stem != "__init__":
            found = PathFinder.find_spec(name, [str(place.parent)])
            return found if loader is None else spec_from_file_location(name, place, loader=loader)
        # The other modules of the package stay those that they are.
        folders = list((own.submodule_search_locations if own is not None else None) or [str(place.parent)])
        return spec_from_file_location(name, place, loader=loader, submodule_search_locations=folders)

    def _own(self, name: str, path: Any, target: ModuleType | None) -> ModuleSpec | None:
        """The module as it is found without this finder; None if there is none."""
        self._asked.add(name)
        try:
            for finder in sys.meta_path:
                spec = finder.find_spec(name, path, target) if finder is not self else None
                if spec is not None:
                    return spec
        except ModuleNotFoundError:  # Of a commit, which lacks a module of the checkout.
            return None
        finally:
            self._asked.discard(name)
        return None


class _InPlaceOf(SourceFileLoader):
    """Loads a file as if it lay in the place of another one: what it finds next to itself stays what it was."""

    def __init__(self, name: str, path: str, own: str) -> None:
        super().__init__(name, path)
        self._own = own

    def exec_module(self, module: ModuleType) -> None:
        """See importlib.abc.Loader. The origin in the module's __spec__ is the file that is loaded."""
        module.__file__ = self._own
        super().exec_module(module)


class _Without:
    """A finder that does not find some modules."""

    def __init__(self, finder: Any, names: frozenset[str]) -> None:
        self._finder = finder
        self._names = names
        self._asked: set[str] = set()  # A finder that asks all others does not know itself in this one.

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder."""
        if name in self._names or name in self._asked:
            return None
        self._asked.add(name)
        try:
            return self._finder.find_spec(name, path, target)  # type: ignore[no-any-return]
        finally:
            self._asked.discard(name)


def _is_imported_by(places: list[str]) -> bool:
    """Return True if the user's code that imports now is one of these files, or in one of these folders."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - no other way tells who imports
    while frame is not None and not is_users_file(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return False
    file = Path(frame.f_code.co_filename)
    return any(file == Path(place) or Path(place) in file.parents for place in places)
