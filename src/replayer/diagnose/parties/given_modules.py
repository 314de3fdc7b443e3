"""In a party's process: import some modules from other places, with finders that are asked first."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any


def use_modules(places: Mapping[str, str], lent: Mapping[str, str]) -> None:
    """Let these modules come from other places.

    places: by the full names: a file, or the folder of a package with all of its modules. lent: files of modules that
    are imported only if there is no other one of the name.
    """
    if lent:
        sys.meta_path.insert(0, _Finder(lent, only_missing=True))
    if places:
        sys.meta_path.insert(0, _Finder(places, only_missing=False))


class _Finder:
    def __init__(self, places: Mapping[str, str], *, only_missing: bool) -> None:
        self._places = places
        self._only_missing = only_missing
        self._asked: set[str] = set()  # Other finders ask all finders in turn, this one too.

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder."""
        if name not in self._places or name in self._asked:
            return None
        place = Path(self._places[name])
        is_init = place.stem == "__init__" and not place.is_dir()
        if not is_init and not self._only_missing:
            return PathFinder.find_spec(name, [str(place.parent)])
        own = self._own(name, path, target)
        if own is not None and self._only_missing:
            return own
        if not is_init:
            return PathFinder.find_spec(name, [str(place.parent)])
        # The other modules of the package stay those that they are.
        folders = own.submodule_search_locations if own is not None else None
        return spec_from_file_location(name, place, submodule_search_locations=list(folders or [str(place.parent)]))

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
