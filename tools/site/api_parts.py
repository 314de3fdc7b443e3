"""The public names of a module as directives of mkdocstrings, which makes a reference of their docstrings."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

LIST = Path(__file__).parents[2] / "tests/end_to_end/public_names.toml"


def members_of(module: str) -> str:
    """Return a directive for each public name of a module."""
    return "\n\n".join(f"::: {module}.{name}" for name in public_names(module))


def public_names(module: str) -> list[str]:
    """Return the names of a module that programs may import: what it offers, and what is promised to stay.

    Errors come last.
    """
    lists = tomllib.loads(LIST.read_text(encoding="utf-8"))
    promised = {**lists["public"], **lists["documented"]}.get(module, "").split()
    names = {*promised, *getattr(import_module(module), "__all__", [])}
    return sorted(names, key=lambda name: (name.endswith(("Error", "Warning")), name.casefold()))
