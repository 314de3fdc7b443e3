"""The module and package of a class, also of classes made by C code that lack some attributes of Python classes."""

from __future__ import annotations


def module_of(kind: type) -> str:
    """The name of the module of a class; empty if the class has none, such as the SWIG classes of Box2D."""
    return str(getattr(kind, "__module__", None) or "")


def package_of(kind: type) -> str:
    """The name of the package of a class; empty if it is unknown."""
    return module_of(kind).partition(".")[0]
