"""Commands that are imported when they are asked for: all of them together take most of a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module

from cyclopts import App


def add_commands(app: App, table: Mapping[str, str], arguments: Sequence[str]) -> None:
    """Give app the command that the arguments begin with; all of table where they begin with none of it.

    table: by the command's name, module:function.
    With all of them, the help shows each, and a word that is none of them is told which one is meant.
    """
    named = [arguments[0]] if arguments and arguments[0] in table else list(table)
    for name in named:
        module, _, function = table[name].partition(":")
        app.command(getattr(import_module(module), function), name=name)
