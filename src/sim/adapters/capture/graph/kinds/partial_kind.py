"""functools.partial: a function with bound values. Python compares two of them by identity, so each is an object."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from sim.adapters.capture.graph.kinds.kind_protocol import Identities, Plain, StrongKind, wrong_data


class PartialKind(StrongKind):
    """A partial: what it calls, the bound values, and its attributes."""

    name = "partial"

    def seal(self, value: functools.partial[Any]) -> Identities | None:
        """What is the same as long as take gives the same; None for one with attributes, which is taken each time."""
        if vars(value):
            return None
        held = (value.func, value.args, value.keywords)
        return Identities([*held, bool(value.keywords)])

    def take(self, value: functools.partial[Any]) -> tuple[Plain, tuple[Any, ...]]:
        """If it has values by keyword, and the names of attributes; what it calls, the values, the attributes' values.

        The dict of values by keyword is an object of its own. An empty one does not count.
        """
        held = vars(value)
        keywords = (value.keywords,) if value.keywords else ()
        return [bool(keywords), list(held)], (value.func, value.args, *keywords, *held.values())

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """Another partial of the same."""
        match plain, parts:
            case [False, [*names]], [func, tuple(args), *values] if len(values) == len(names):
                return self._made(func, args, {}, names, values)
            case [True, [*names]], [func, tuple(args), keywords, *values] if type(keywords) is dict and len(
                values
            ) == len(names):
                return self._made(func, args, keywords, names, values)
        raise wrong_data(self.name)

    def _made(self, func: Any, args: Any, keywords: Any, names: Sequence[Any], values: Sequence[Any]) -> Any:
        if not callable(func) or type(args) is not tuple or any(type(name) is not str for name in names):
            raise wrong_data(self.name)
        made = functools.partial(len)
        made.__setstate__((func, args, keywords, dict(zip(names, values, strict=True)) or None))  # type: ignore[attr-defined]
        return made
