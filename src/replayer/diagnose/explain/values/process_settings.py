"""Settings of the whole process that a step can read and no state holds: compared before the step, and set for a test."""

from __future__ import annotations

import contextlib
import decimal
import functools
import itertools
import locale
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from recorder.ambient.outside.process_facts import (
    CHANGEABLE,
    DECIMAL,
    FLOAT_ERRORS,
    FOLDER,
    LOCALE_NAME,
    RECURSION,
    USABLE,
    begins_with,
    changed_settings,
    folder_digest,
    locale_name,
    process_facts,
)
from recorder.ambient.process_wide import (
    added_builtins,
    put_builtins,
    put_warning_filters,
    raising_filters,
    signal_handlers,
    users_handlers,
    warning_filters,
)
from recorder.ambient.settings.library_settings import (
    NUMBA_USED,
    PRINTING,
    TORCH_TYPE,
    TORCH_USED,
    is_torch_type,
    numba_threads,
    recorded_print_options,
    recorded_threads,
    set_numba_threads,
    set_torch_threads,
    set_torch_type,
    torch_threads,
    torch_type,
)
from replayer.diagnose.explain.values.layouts import ORDERS

Settings = dict[str, Any]  # Plain values, by name.

_PRECISE = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")  # Flags tell what happened, and change nothing.

_MISSING = object()
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

    @property
    def sentence(self) -> str:
        """That it differs."""
        what = "" if self.name in ORDERS else "a setting of the whole process that "
        return f"{self.name} differs before the step, {what or 'which '}the state does not hold"

    @property
    def texts(self) -> tuple[str, str]:
        """Both values for people; of several values of one name, those that differ."""
        one, two = self.first, self.second
        if self.name == _LOCALE and "=" in f"{one}{two}":
            one, two = _categories(one), _categories(two)
        if isinstance(one, dict) and isinstance(two, dict):
            names = [name for name in {**one, **two} if one.get(name, _MISSING) != two.get(name, _MISSING)]
            one, two = (", ".join(f"{name} {_in_words(values, name)}" for name in names) for values in (one, two))
        if isinstance(one, list) and isinstance(two, list) and len(one) != len(two):
            one, two = ([entry for entry in these if entry not in others] for these, others in ((one, two), (two, one)))
        return str(one), str(two)

    def __str__(self) -> str:
        one, two = self.texts
        what = "" if self.name in ORDERS else ", a setting of the whole process"
        return f"{self.name}{what}: A {one}, B {two}"


def _categories(name: str) -> dict[str, str]:
    """The categories of a locale; all of them have one that is told by its name alone."""
    parts = dict(part.split("=", 1) for part in name.split(";") if "=" in part)
    return parts or dict.fromkeys(_CATEGORIES, name)


def _in_words(values: Mapping[str, Any], name: str) -> str:
    return str(values[name]) if name in values else "absent"


def _put_builtins(values: Mapping[str, Any]) -> None:
    """Let builtins have these values, and none that _builtins would tell of besides."""
    added = added_builtins()
    put_builtins({**{name: value for name, value in added.items() if name not in _builtins()}, **values})


def _decimal_context() -> dict[str, Any]:
    context = decimal.getcontext()
    traps = sorted(condition.__name__ for condition, is_on in context.traps.items() if is_on)
    return {name: getattr(context, name) for name in _PRECISE} | {"traps": traps}


def _set_decimal_context(values: Mapping[str, Any]) -> None:
    context = decimal.getcontext()
    for name in _PRECISE:
        setattr(context, name, values[name])
    for condition in context.traps:
        context.traps[condition] = condition.__name__ in values["traps"]


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


def _filters() -> list[list[Any]]:
    """The filters that make exceptions of warnings: the action, both patterns, the name of the class, and the line."""
    return [
        [action, _pattern(message), f"{kind.__module__}:{kind.__qualname__}", _pattern(module), line]
        for action, message, kind, module, line in raising_filters(warning_filters())
    ]


def _pattern(compiled: Any) -> str | None:
    return None if compiled is None else str(getattr(compiled, "pattern", compiled))


def _set_filters(filters: list[list[Any]]) -> None:
    present = warning_filters()
    others = [one for one in present if one not in raising_filters(present)]
    made = [
        (action, _compiled(message, re.IGNORECASE), _named(kind), _compiled(module, 0), line)
        for action, message, kind, module, line in filters
    ]
    put_warning_filters([*made, *others])


def _compiled(pattern: str | None, flags: int) -> re.Pattern[str] | None:
    return None if pattern is None else re.compile(pattern, flags)


def _named(name: str) -> Any:
    """What is found under module:name. Raises ValueError if it is not loaded here."""
    module, _, path = name.partition(":")
    try:
        return functools.reduce(getattr, path.split("."), sys.modules[module])
    except (KeyError, AttributeError) as error:
        raise ValueError(f"{name} is not loaded in this process") from error


def _handlers() -> dict[str, str]:
    """The names of the handlers of signals that the user's code has set."""
    return users_handlers(signal_handlers())


def _set_handlers(handlers: dict[str, str]) -> None:
    for name in _handlers().keys() - handlers.keys():
        signal.signal(signal.Signals[name], signal.SIG_DFL)
    for name, one in handlers.items():
        signal.signal(signal.Signals[name], _named(one))


def _builtins() -> dict[str, Any]:
    """What code has put into the module builtins, of plain values alone."""
    return {name: one for name, one in added_builtins().items() if type(one) in (bool, int, float, str, type(None))}


# Of the process itself: a variant may tell its step something else.
_affinity = getattr(os, "sched_getaffinity", lambda _: set[int]())


def _usable() -> int:
    """The number of processors that this process may use."""
    return len(_affinity(0))


def _set_usable(count: int) -> None:
    """Leave this process the first ones of its processors. Raises ValueError if it has not that many."""
    processors = sorted(_affinity(0))
    if not 0 < count <= len(processors):
        raise ValueError(f"expected 1 to {len(processors)} processors, as many as this process may use, got {count}")
    os.sched_setaffinity(0, processors[:count])


WORKING_DIRECTORY = "os.getcwd()"
_LOCALE = "locale.setlocale(locale.LC_ALL)"
_USABLE = "len(os.sched_getaffinity(0))"
_FLOAT_ERRORS = f"{FLOAT_ERRORS} (floating-point errors)"
_ERROR_MODES = {"ignore", "warn", "raise", "print"}  # The others need a function.
_RECURSION_MIN = 200  # Below, what runs the step would not run.
_NEAR_MAX = 200  # Folders inside of one.
_CATEGORIES = (
    "LC_CTYPE",
    "LC_NUMERIC",
    "LC_TIME",
    "LC_COLLATE",
    "LC_MONETARY",
    "LC_MESSAGES",
    "LC_PAPER",
    "LC_NAME",
    "LC_ADDRESS",
    "LC_TELEPHONE",
    "LC_MEASUREMENT",
    "LC_IDENTIFICATION",
)
_LOCALE_NAME = re.compile(r"[\w.@-]{1,40}|(LC_[A-Z]{1,20}=[\w.@-]{1,40}(;|$)){1,12}", re.ASCII)  # No path.
_NUMBER = re.compile(r"[0-9]{1,9}")
_ALL: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    _FLOAT_ERRORS: (np.geterr, lambda values: np.seterr(**values)),
    PRINTING: (_print_options, lambda values: np.set_printoptions(**values)),
    DECIMAL: (_decimal_context, _set_decimal_context),
    RECURSION: (sys.getrecursionlimit, sys.setrecursionlimit),
    NUMBA_USED: (numba_threads, set_numba_threads),
    TORCH_TYPE: (torch_type, set_torch_type),
    TORCH_USED: (torch_threads, set_torch_threads),
    _LOCALE: (
        lambda: locale.setlocale(locale.LC_ALL),
        lambda name: locale.setlocale(locale.LC_ALL, name),
    ),
    "sys.argv": (lambda: list(sys.argv), _set_arguments),
    WORKING_DIRECTORY: (_folder, os.chdir),
    "warnings.filters": (_filters, _set_filters),
    "signal.getsignal()": (_handlers, _set_handlers),
    **({_USABLE: (_usable, _set_usable)} if hasattr(os, "sched_setaffinity") else {}),
    "builtins": (_builtins, _put_builtins),
}


def process_settings() -> Settings:
    """The settings of this process."""
    return {name: read() for name, (read, _) in _ALL.items()}


def process_setting(name: str) -> Any:
    """One of the settings of this process."""
    return _ALL[name][0]()


def without_folder(settings: dict[str, Any], folder: Path) -> None:
    """Name the working directory by its place inside of a folder, which stands where another one stood."""
    place = settings.get(WORKING_DIRECTORY)
    if isinstance(place, str) and Path(place).is_relative_to(folder):
        settings[WORKING_DIRECTORY] = str(Path(place).relative_to(folder))


def set_process_settings(settings: Mapping[str, Any]) -> None:
    """Set some of them in this process. Raises ValueError for a value that is not possible here."""
    for name, value in settings.items():
        if name in ORDERS:  # The simulation's, which has them set elsewhere.
            continue
        try:
            _ALL[name][1](value)
        except (OSError, locale.Error, RecursionError) as error:
            raise ValueError(f"{name} cannot be set to {value!r}: {error}") from error


def recorded_settings(noted: Mapping[str, str], near: Path | None = None) -> Settings:
    """The settings that a recording noted and that are others here, as set_process_settings takes them.

    What no process can have is left out: a tape is untrusted. near: the folder of the tape, in whose neighbourhood the working
    directory of the recording is searched: of that it has a digest alone.
    """
    present = changed_settings()
    found = Settings()
    for name in (name for name in CHANGEABLE if name in noted and noted[name] != present.get(name, begins_with(name))):
        text = noted[name]
        parts = dict(part.split("=", 1) for part in text.split() if "=" in part)
        if name == FLOAT_ERRORS and parts.keys() == np.geterr().keys() and _ERROR_MODES.issuperset(parts.values()):
            found[_FLOAT_ERRORS] = parts
        elif name == DECIMAL and _is_context(number := _number(parts.get("prec", "")), parts.get("rounding")):
            found[DECIMAL] = {**_decimal_context(), "prec": number, "rounding": parts["rounding"]}
        elif name == RECURSION and (number := _number(text)) >= _RECURSION_MIN:
            found[RECURSION] = number
        elif name == PRINTING and (options := recorded_print_options(text)) is not None:
            found[PRINTING] = options
        elif name == TORCH_TYPE and is_torch_type(text):
            found[TORCH_TYPE] = text
        elif name in (NUMBA_USED, TORCH_USED) and (threads := recorded_threads(text)) is not None:
            found[name] = threads
    if (category_names := _recorded_locale(noted.get(LOCALE_NAME))) is not None:
        found[_LOCALE] = category_names
    if (count := _number(noted.get(USABLE, ""))) > 0 and _USABLE in _ALL and count < _usable():
        found[_USABLE] = count
    folder = noted.get(FOLDER)
    if folder not in (None, process_facts().get(FOLDER)):
        place = next((place for place in _near(near) if folder_digest(place) == folder), None)
        found |= {} if place is None else {WORKING_DIRECTORY: place}
    return found


def _recorded_locale(noted: str | None) -> str | None:
    """A noted locale, as setlocale takes it; None for that of this process, and for one that cannot be set here."""
    if noted is None or noted == locale_name() or _LOCALE_NAME.fullmatch(noted) is None:
        return None
    parts = dict(part.split("=", 1) for part in noted.split(";") if "=" in part)
    full = ";".join(f"{name}={parts.get(name, 'C')}" for name in _CATEGORIES) if parts else noted
    before = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, full)
    except locale.Error:
        return None
    finally:
        locale.setlocale(locale.LC_ALL, before)
    return full


def _near(folder: Path | None) -> Iterator[str]:
    """The folders next to the tape and next to the working directory: those around, inside, and beside."""
    for base in dict.fromkeys(([] if folder is None else [folder.resolve()]) + [Path(_folder())]):
        yield from map(str, [base, *base.parents])
        for outer in (base, base.parent):
            with contextlib.suppress(OSError), os.scandir(outer) as entries:
                inside = (entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
                yield from itertools.islice(inside, _NEAR_MAX)


def _number(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0


def _is_context(precision: int, rounding: str | None) -> bool:
    try:
        decimal.Context(precision, rounding or "")
    except (ValueError, TypeError):
        return False
    return True


def differing_settings(first: Settings, second: Settings) -> list[DifferingSetting]:
    """Those that both have, and that differ; of orders, those of what both have."""
    pairs = {name: (value, second[name]) for name, value in first.items() if name in second}
    for name in ORDERS:
        match pairs.get(name):
            case (dict() as one, dict() as other):
                both = [key for key in one if key in other and _has_same_members(one[key], other[key])]
                pairs[name] = {key: one[key] for key in both}, {key: other[key] for key in both}
    return [DifferingSetting(name, *pair) for name, pair in pairs.items() if pair[0] != pair[1]]


def _has_same_members(one: Any, other: Any) -> bool:
    """Return False for the keys of two dicts that are not the same ones: the order is not what differs."""
    return not isinstance(one, list) or sorted(map(repr, one)) == sorted(map(repr, other))
