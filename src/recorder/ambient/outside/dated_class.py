"""A substitute for datetime or date whose methods that read the clock are replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def dated_class(kind: type[Any], names: Iterable[str], replace: Callable[[str, Any], Callable[..., Any]]) -> type[Any]:
    """A class to be used in place of datetime or date; its instances are of the real class.

    names: of the methods to replace; those that kind does not have are left out. replace: takes the name and the
    original, which is bound to the class, and returns what is called in its place.
    """

    class Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, kind)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, kind)

    def make(_: Any, *arguments: Any, **named: Any) -> Any:
        return kind(*arguments, **named)

    replaced = {name: staticmethod(replace(name, getattr(kind, name))) for name in names if hasattr(kind, name)}
    return Kind(kind.__name__, (kind,), {"__new__": make, **replaced})
