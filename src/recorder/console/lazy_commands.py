"""Commands that are imported on use: importing all of them takes most of a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module

from cyclopts import App

from recorder.console.app import version


def load_app(name: str, help_text: str, table: Mapping[str, str], arguments: Sequence[str]) -> App:
    """Build a program with the command that the arguments begin with, or with all of them if they begin with none.

    table: module:function by the name of the command.
    All of them are needed for the help, and to suggest a command for a misspelt one.
    """
    app = App(name=name, help=help_text, help_format="plaintext", version=version, suppress_keyboard_interrupt=False)
    named = [arguments[0]] if arguments and arguments[0] in table else list(table)
    for one in named:
        module, _, function = table[one].partition(":")
        app.command(getattr(import_module(module), function), name=one)
    return app
