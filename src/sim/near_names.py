"""A hint for a name that does not exist: those that are spelt nearly like it."""

from __future__ import annotations

from collections.abc import Iterable

NAMES_MAX = 3
NEAR = 0.75  # Of difflib: a letter too few, too many or swapped in a word of four.


def did_you_mean(name: str, known: Iterable[str], *, before: str = "", after: str = "") -> str:
    """Return the end of a message, such as "; did you mean meadow?", or "" if no known name is near.

    before, after: the rest of the path in which the name stands; both are printed with each near name.
    """
    shown = " or ".join(f"{before}{one}{after}" for one in near_names(name, known))
    return f"; did you mean {shown}?" if shown else ""


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are spelt nearly like a name, without regard to case; at most three."""
    import difflib  # noqa: PLC0415 - only to describe a mistake

    by_folded = {one.casefold(): one for one in known}
    ends = [one for one in by_folded if one.endswith(f".{name.casefold()}")]  # A column without its table.
    near = ends[:NAMES_MAX] or difflib.get_close_matches(name.casefold(), by_folded, NAMES_MAX, NEAR)
    return [by_folded[one] for one in near]
