"""Settings of the whole process that a step can read and no state holds: compared before the step, and set for a test."""

from __future__ import annotations

import decimal
import locale
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

Settings = dict[str, Any]  # Plain values, by name.

_PRECISE = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")  # Flags tell what happened, and change nothing.

_NOT_PLAIN = ("formatter", "override_repr")


@attrs.frozen
class DifferingSetting:
    """A setting of the process that differed before the step.

    Attributes:
        name: as code reads it, such as sys.getrecursionlimit().
        first, second: its value in both variants.
        proved: True if one variant gives the other's state with the other's value; None if it was not tested.
    """

    name: str
    first: Any
    second: Any
    proved: bool | None = None

    def __str__(self) -> str:
        one, two = self.first, self.second
        if isinstance(one, dict) and isinstance(two, dict):
            names = [name for name in one if one[name] != two.get(name)]
            one, two = (", ".join(f"{name} {values.get(name)}" for name in names) for values in (one, two))
        return f"{self.name}, a setting of the whole process: A {one}, B {two}"


def _decimal_context() -> dict[str, Any]:
    context = decimal.getcontext()
    traps = sorted(signal.__name__ for signal, is_on in context.traps.items() if is_on)
    return {name: getattr(context, name) for name in _PRECISE} | {"traps": traps}


def _set_decimal_context(values: Mapping[str, Any]) -> None:
    context = decimal.getcontext()
    for name in _PRECISE:
        setattr(context, name, values[name])
    for signal in context.traps:
        context.traps[signal] = signal.__name__ in values["traps"]


def _folder() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return "a folder that was deleted"


def _set_arguments(values: list[str]) -> None:
    sys.argv[:] = values


def _print_options() -> dict[str, Any]:
    """NumPy's options of how arrays are printed, but for functions, which are no plain values."""
    return {name: value for name, value in np.get_printoptions().items() if name not in _NOT_PLAIN}


_ALL: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "np.seterr() (floating-point errors)": (np.geterr, lambda values: np.seterr(**values)),
    "np.get_printoptions()": (_print_options, lambda values: np.set_printoptions(**values)),
    "decimal.getcontext()": (_decimal_context, _set_decimal_context),
    "sys.getrecursionlimit()": (sys.getrecursionlimit, sys.setrecursionlimit),
    "locale.setlocale(locale.LC_ALL)": (
        lambda: locale.setlocale(locale.LC_ALL),
        lambda name: locale.setlocale(locale.LC_ALL, name),
    ),
    "sys.argv": (lambda: list(sys.argv), _set_arguments),
    "os.getcwd()": (_folder, os.chdir),
}


def process_settings() -> Settings:
    """The settings of this process."""
    return {name: read() for name, (read, _) in _ALL.items()}


def set_process_settings(settings: Mapping[str, Any]) -> None:
    """Set some of them in this process. Raises ValueError for a value that is not possible here."""
    for name, value in settings.items():
        try:
            _ALL[name][1](value)
        except (OSError, locale.Error, RecursionError) as error:
            raise ValueError(f"{name} cannot be set to {value!r}: {error}") from error


def differing_settings(first: Settings, second: Settings) -> list[DifferingSetting]:
    """Those that differ."""
    return [DifferingSetting(name, value, second[name]) for name, value in first.items() if second.get(name) != value]
