"""The names of the items of tuples that have names."""

from __future__ import annotations

from typing import Any


def item_names(value: Any) -> dict[int, str]:
    """The names of the items of a named tuple or of a result of the system such as os.stat(), as ".x"; empty for another value.

    It runs no code of the user's.
    """
    kind = type(value)
    if kind is tuple or not isinstance(value, tuple):
        return {}
    key = "__match_args__" if "n_sequence_fields" in vars(kind) else "_fields"
    names = next((vars(base)[key] for base in kind.__mro__ if key in vars(base)), ())
    known = isinstance(names, tuple) and len(names) <= len(value) and all(type(name) is str for name in names)
    return {number: f".{name}" for number, name in enumerate(names)} if known else {}
