"""Commands that are imported on use: importing all of them takes most of a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module

from cyclopts import App


def add_commands(app: App, table: Mapping[str, str], arguments: Sequence[str]) -> None:
    """Add to app the command that the arguments begin with, or all of them if the arguments begin with none.

    table: module:function by the name of the command.
    All of them are needed for the help, and to suggest a command for a misspelt one.
    """
    named = [arguments[0]] if arguments and arguments[0] in table else list(table)
    for name in named:
        module, _, function = table[name].partition(":")
        app.command(getattr(import_module(module), function), name=name)
