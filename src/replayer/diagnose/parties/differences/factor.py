"""One difference between two parties, and how it is given from one to the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from replayer.diagnose.parties.party import Party

PARTIES = ("A", "B")
_TEXT_CHARS_MAX = 120
TextPair = tuple[str, str]
ModulePair = tuple[str, str | None, str | None]  # Its name, and its file in A and in B; None where it is not loaded.


@attrs.frozen(eq=False)
class Factor:
    """One difference.

    Attributes:
        kind: "inputs", "argument", "configuration", "file", "module", "variable", "setting", "value", "package", "factory",
            "interpreter" or "together".
        name: of the argument, the module and so on.
        texts: for people: what A has, and what B has.
        remark: what else is said of it; empty without one.
        files: of a module, the files that differ, and of a file it: the path of A and that of B.
        parts: of "together", the differences that are given at once.
        brought: modules that only one party has, and that were given with a module, which imports them.
        modules: those that are exchanged.
        key: of a value of a module, its name as processes take it.
        give: returns a party with what the first (0) or the second party (1) has.
    """

    kind: str
    name: str
    texts: TextPair
    give: Callable[[Party, int], Party]
    files: tuple[TextPair, ...] = ()
    parts: tuple[Factor, ...] = ()
    remark: str = ""
    brought: tuple[str, ...] = ()
    modules: tuple[ModulePair, ...] = ()
    key: str = ""


def cut(text: str) -> str:
    """A text of what a party has, as long as it is shown."""
    return text if len(text) <= _TEXT_CHARS_MAX else f"{text[:_TEXT_CHARS_MAX]}…"


def together(factors: list[Factor]) -> Factor:
    """Several differences as one."""

    def give(to: Party, of: int) -> Party:
        for factor in factors:
            to = factor.give(to, of)
        return to

    return Factor("together", "", ("", ""), give, parts=tuple(factors))


def give_entry(table: str, name: str, pair: tuple[Any, Any]) -> Callable[[Party, int], Party]:
    """Return a function that sets an entry in one of a party's tables to the value of one of the two parties."""

    def give(to: Party, of: int) -> Party:
        changed: dict[str, Any] = {table: {**getattr(to, table), name: pair[of]}}
        return attrs.evolve(to, **changed)

    return give
