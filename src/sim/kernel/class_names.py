"""The names of classes, also of those that C code has made without all that Python's own have."""

from __future__ import annotations


def module_of(kind: type) -> str:
    """The name of the module that a class is of; empty for one that does not know, as SWIG's of Box2D."""
    return str(getattr(kind, "__module__", None) or "")


def package_of(kind: type) -> str:
    """The name of the package that a class is of; empty if that is not known."""
    return module_of(kind).partition(".")[0]
