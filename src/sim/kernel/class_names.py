"""The names of classes: their modules and packages, and the name under which a later program can import one."""

from __future__ import annotations

import sys

MAIN = "__main__"


def module_of(kind: type) -> str:
    """The name of the module of a class; empty if the class has none, such as the SWIG classes of Box2D."""
    return str(getattr(kind, "__module__", None) or "")


def package_of(kind: type) -> str:
    """The name of the package of a class; empty if it is unknown."""
    return module_of(kind).partition(".")[0]


def importable_name(kind: type) -> str:
    """Module and name of a class. A class of the running script has the name of the script's module, not __main__."""
    return f"{importable_module(kind.__module__)}.{kind.__qualname__}"


def importable_module(module: str) -> str:
    """The name of a module for an import: for __main__ that of the running program, if it is a file or a module."""
    main = sys.modules.get(MAIN)
    if module != MAIN or main is None:
        return module
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)  # python -m package.game
    stem, _, suffix = str(getattr(main, "__file__", None) or "").rpartition("/")[2].rpartition(".")
    return stem if suffix == "py" and stem.isidentifier() else module


def why_not_importable(kind: type) -> str | None:
    """One sentence if no later program can import the class, and what to do; None if it can."""
    if "<locals>" in kind.__qualname__:
        function = kind.__qualname__.partition(".<locals>")[0]
        return (
            f"the class {kind.__name__} exists only inside {function}(): a later replay cannot import it; define it at "
            "the top level of a module, or write a function there that makes the object"
        )
    if importable_module(kind.__module__) == MAIN:
        return (
            f"the class {kind.__name__} was defined in this session: a later replay cannot import it; put it into a "
            "module, and import it from there"
        )
    return None
