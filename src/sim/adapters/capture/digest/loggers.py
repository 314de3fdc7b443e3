"""Loggers of the module logging, by their names: a program has one of each, and what it writes is not in the state.

In a name, the module of the recorded object's class is ".", so that a script and the same file imported give equal names.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

OWN = "."


def logger_name(value: Any, home: str) -> str | None:
    """The name by which logging.getLogger finds just this logger; None for anything else. No logger is made.

    home: the module that is "." in the name.
    """
    if not issubclass(type(value), logging.Logger):
        return None
    name = logging.root.name if value is logging.root else vars(value).get("name")
    if not isinstance(name, str) or name.startswith(OWN) or not (value is logging.root or _present(name) is value):
        return None
    for own in _names_of(home):
        if name == own or name.startswith(f"{own}."):
            return name.removeprefix(own) or OWN
    return name


def logger_named(name: str, home: str) -> logging.Logger:
    """The logger of a name that logger_name gave; it is made if the program has not asked for it yet."""
    if not name.startswith(OWN):
        return logging.getLogger(name)
    names = [own if name == OWN else own + name for own in _names_of(home)]
    return logging.getLogger(next((one for one in names if isinstance(_present(one), logging.Logger)), names[0]))


def _present(name: str) -> Any:
    return logging.Logger.manager.loggerDict.get(name)


def _names_of(home: str) -> list[str]:
    """The names of a module: a script is imported under another one."""
    module: Any = sys.modules.get(home)
    if home != "__main__" or module is None:
        return [home]
    spec, file = getattr(module, "__spec__", None), getattr(module, "__file__", None)
    return [home, *([spec.name] if spec is not None else [Path(file).stem] if file else [])]
