"""The command that tries more of what is recorded, as a message names it."""

from __future__ import annotations

import inspect
import os
import shlex
from typing import Any

from sim.kernel.class_names import importable_module, why_not_importable
from sim.kernel.simulation import subject_of


def check_command(simulation: Any, path: str | os.PathLike[str]) -> str:
    """``replay check`` with the inputs of a tape, as "`…` tries more".

    A function of the user's that makes the object has a name that is not known here. The class has one, if it is made
    without arguments.
    """
    kind = type(subject_of(simulation))
    shown = shlex.quote(os.fspath(path))
    if is_made_without_arguments(kind):
        return f"`replay check {importable_module(kind.__module__)}:{kind.__qualname__} --inputs {shown}` tries more"
    return (
        f"`replay check MODULE:FUNCTION --inputs {shown}` tries more: put your module there, and the function in it that "
        f"makes this {kind.__name__}"
    )


def is_made_without_arguments(kind: type) -> bool:
    """Return True for a class that a later program can import, and call without arguments."""
    if why_not_importable(kind) is not None:
        return False
    try:
        inspect.signature(kind).bind()
    except (TypeError, ValueError):
        return False
    return True
