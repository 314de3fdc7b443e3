"""Names of a package that are imported when they are first asked for; needs nothing but the standard library."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def names_for_later(
    package: str, places: Mapping[str, str], every_name: Sequence[str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for a package.

    places: by name, the module that it is in, or "module:name" where it is called otherwise there. every_name: __all__.
    """

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, own_name = places[name].partition(":")
        # What comes next needs NumPy in its depths. There, CPython 3.11 and later may come upon the end of a piece of the
        # stack of frames, and make and free another one at each call: importing NumPy takes half as long again.
        import_module("numpy")
        return getattr(import_module(module), own_name or name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *every_name})

    return find, names
