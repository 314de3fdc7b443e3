"""A work tree of a commit, and in its process: imports of its modules in place of those of the user's checkout."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

OUR_PACKAGES = frozenset({"sim", "recorder", "replayer", "simulation_flight_recorder"})
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_common_names: dict[str, str] = {}  # Of the work tree of this process, if it has one.


@attrs.frozen
class WorkTree:
    """A commit of the user's repository, checked out in a folder of its own.

    Attributes:
        commit: its short id.
        checkout, tree: the user's checkout and the work tree, both resolved.
        folder: the current folder of a process of it.
        folders: put in front of its module path.
        module_path: its PYTHONPATH.
    """

    commit: str
    checkout: Path
    tree: Path
    folder: Path
    folders: tuple[str, ...]
    module_path: str

    def to_plain(self) -> list[Any]:
        """Encode as lists and strings."""
        return [self.commit, *map(str, (self.checkout, self.tree, self.folder)), list(self.folders), self.module_path]

    @staticmethod
    def from_plain(plain: Sequence[Any]) -> WorkTree:
        """Decode the plain data of to_plain."""
        commit, checkout, tree, folder, folders, module_path = plain
        return WorkTree(commit, Path(checkout), Path(tree), Path(folder), tuple(folders), module_path)


def common_name(tree: Path) -> str:
    """The name that stands for those of two work trees, which lie in one folder and are named after it and their commits."""
    return tree.parent.name


def use_common_name(tree: Path) -> None:
    """Let without_tree_name() know the work tree of this process."""
    _common_names[tree.name] = common_name(tree)


def without_tree_name(text: str) -> str:
    """The text of a value with the common name: a value that holds the path of its tree is no difference of two commits."""
    for name, common in _common_names.items():
        text = text.replace(name, common)
    return text


def moved_path(path: str, checkout: Path, tree: Path) -> str:
    """Return the place in the work tree of a file or folder in the checkout; others, and installed ones, as they are.

    An environment often lies in the checkout (.venv). What is installed in it belongs to no commit.
    """
    absolute = Path(path).absolute()
    if not is_of_the_checkout(absolute, checkout) or absolute.resolve().is_relative_to(tree):
        return path
    return str(tree / absolute.resolve().relative_to(checkout))


def is_of_the_checkout(path: Path, checkout: Path) -> bool:
    """Return True for a path in the checkout, unless it is of an environment there."""
    resolved = path.resolve()
    environments = [Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)]
    if not resolved.is_relative_to(checkout) or _INSTALLED & {*path.parts, *resolved.parts}:
        return False
    return not any(
        one != checkout and one.is_relative_to(checkout) and resolved.is_relative_to(one) for one in environments
    )


def import_from_work_tree(checkout: Path, tree: Path, folders: Sequence[str]) -> None:
    """Let this process, and processes that it forks, import the work tree's modules.

    checkout, tree: resolved. folders: put in front of the module path.

    Folders of the checkout on the module path (PYTHONPATH, editable installs) are replaced by those of the work tree. A
    module that only the checkout has cannot be imported: the commit does not contain it. The folder of this library
    stays even if it lies in the checkout.
    """
    own = Path(__file__).resolve().parents[2]
    kept = [entry if Path(entry).resolve() == own else moved_path(entry, checkout, tree) for entry in sys.path if entry]
    sys.path[:] = list(dict.fromkeys([*folders, *kept]))
    sys.path_importer_cache.clear()
    sys.meta_path.insert(0, _Guard(checkout, tree))


class _Guard:
    """The first finder: it asks all others, and replaces what they find in the checkout.

    Editable installs of some tools bring finders with fixed paths, which sys.path does not show.
    """

    def __init__(self, checkout: Path, tree: Path) -> None:
        self._checkout, self._tree = checkout, tree

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder. Raises ModuleNotFoundError."""
        if name.partition(".")[0] in OUR_PACKAGES:
            return None  # The other finders are asked next.
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(name, path, target)
            if spec is None:
                continue
            return self._moved(spec)
        return None

    def _moved(self, spec: ModuleSpec) -> ModuleSpec:
        """Return the same module of the work tree for one of the checkout."""
        is_file = spec.has_location and spec.origin is not None
        places = [str(spec.origin)] if is_file else list(spec.submodule_search_locations or ())
        moved = [moved_path(place, self._checkout, self._tree) for place in places]
        if moved == places:
            return spec
        found = None
        if is_file and Path(moved[0]).exists():
            inside = [moved_path(place, self._checkout, self._tree) for place in spec.submodule_search_locations or ()]
            found = spec_from_file_location(spec.name, moved[0], submodule_search_locations=inside or None)
        if found is None:
            raise ModuleNotFoundError(
                f"No module named {spec.name!r} in the commit, only in the checkout", name=spec.name
            )
        return found


def is_used(tree: Path) -> bool:
    """Return True if any module was imported from the work tree."""
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return any(isinstance(file, str) and Path(file).resolve().is_relative_to(tree) for file in files)


def is_module_of(folder: str, name: str, file: Any) -> bool:
    """Return True if a module was found through a folder in sys.path, not deeper below it. folder: a path without links."""
    if not isinstance(file, str):
        return False
    parent, last = os.path.split(file)
    if last.partition(".")[0] == "__init__":
        parent, last = os.path.split(parent)
    return f"{_without_links(parent)}/{last.partition('.')[0]}" == f"{folder}/{name.replace('.', '/')}"


# A thousand modules lie in a hundred folders, and each answer asks the disk ten times.
_without_links = functools.cache(os.path.realpath)
