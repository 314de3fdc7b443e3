"""Import the names of a package on first use. Needs only the standard library."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def names_for_later(
    package: str, places: Mapping[str, str], every_name: Sequence[str], modules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package.

    places: the module of each name, or "module:name" if the module uses a different name. every_name: __all__.
    modules: public modules of the package, which ``dir`` lists once they are imported. It lists nothing that is internal, so
    neither does the tab key.
    """

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, own_name = places[name].partition(":")
        # The module below imports NumPy deep inside. At that depth CPython 3.11 and later can reach the end of a chunk
        # of the frame stack, and allocate and free a chunk at each call. Importing NumPy then takes half as long again.
        import_module("numpy")
        return getattr(import_module(module), own_name or name)

    def names() -> list[str]:
        return sorted([*every_name, *(name for name in modules if name in vars(sys.modules[package]))])

    return find, names
