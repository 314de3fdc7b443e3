"""Settings of a process and of its machine that steps may read without any call that could be watched."""

from __future__ import annotations

import contextlib
import decimal
import locale
import os
import re
import sys
import time
from typing import Any

import numpy as np

from recorder.ambient.settings.library_settings import (
    NUMBA_USED,
    PRINTING,
    PRINTING_BEGINS_WITH,
    TORCH_BEGINS_WITH,
    TORCH_TYPE,
    TORCH_USED,
    library_settings,
    numba_begins_with,
)

VARIABLES = (  # Their values are no secrets, and can be set again for a test.
    "TZ",
    "LANG",
    "LC_ALL",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "PYTHONOPTIMIZE",
    "PYTHONWARNINGS",
    "PYTHONINTMAXSTRDIGITS",
)
# Settings of Python and NumPy that code may change; noted where they are not as a process begins with them.
FLOAT_ERRORS, RECURSION, DECIMAL = "np.seterr()", "sys.getrecursionlimit()", "decimal.getcontext()"
_BEGINS_WITH = {
    FLOAT_ERRORS: "divide=warn over=warn under=ignore invalid=warn",
    RECURSION: "1000",
    DECIMAL: "prec=28 rounding=ROUND_HALF_EVEN",
    PRINTING: PRINTING_BEGINS_WITH,
    TORCH_TYPE: TORCH_BEGINS_WITH,
}
# All of changed_settings.
CHANGEABLE = (FLOAT_ERRORS, RECURSION, DECIMAL, PRINTING, NUMBA_USED, TORCH_TYPE, TORCH_USED)
OF_THREAD = (DECIMAL, FLOAT_ERRORS, PRINTING, NUMBA_USED)  # Each thread has its own.
FLAGS, NO_FLAGS = "sys.flags", "as by default"
# Of Python's command line, those that may change what a step does, each with the variable that sets it, too.
FLAG_VARIABLES = {"optimize": "PYTHONOPTIMIZE", "dev_mode": "PYTHONDEVMODE", "utf8_mode": "PYTHONUTF8"}
TIME_ZONE, LOCALE_NAME, CPU_FEATURES = "time_zone", "locale", "cpu_features"
PROCESSORS, USABLE, FOLDER = "processors", "usable_processors", "working_directory"
# What code may change while the process runs.
WATCHED = (TIME_ZONE, LOCALE_NAME, USABLE, FOLDER, *VARIABLES, *CHANGEABLE)
_DIGEST_BYTES = 8
_FLAGS = re.compile(rf"{NO_FLAGS}|(({'|'.join(FLAG_VARIABLES)})=[0-9]( |$))+")


def time_zone() -> str:
    """For example CET/CEST UTC+1."""
    return f"{'/'.join(time.tzname)} UTC{-time.timezone / 3600:+g}"


def locale_name() -> str:
    """The locale; if its categories differ, those other than C."""
    parts = [part for part in locale.setlocale(locale.LC_ALL).split(";") if not part.endswith("=C")]
    return ";".join(parts) or "C"


def process_facts() -> dict[str, str]:
    """The time zone, the locale, Python's flags, processors, numba's threads, NumPy's CPU features, VARIABLES.

    And a digest of the working directory, whose path may be private. Nothing is started or changed by asking.
    """
    facts = {PROCESSORS: str(os.cpu_count()), FLAGS: _flags()}
    features = _cpu_features()
    if features is not None:
        facts[CPU_FEATURES] = features
    numba: Any = sys.modules.get("numba")  # get_num_threads() would start the threads.
    if hasattr(numba, "config"):
        facts["numba_threads"] = str(numba.config.NUMBA_NUM_THREADS)
    return facts | {
        name: text for name, text in changeable_facts().items() if name not in CHANGEABLE or text != begins_with(name)
    }


def changeable_facts() -> dict[str, str]:
    """Those of process_facts that code may change while the process runs, whether or not they are as it began with them."""
    facts = {TIME_ZONE: time_zone(), LOCALE_NAME: locale_name()}
    if hasattr(os, "sched_getaffinity"):
        facts[USABLE] = str(len(os.sched_getaffinity(0)))
    with contextlib.suppress(OSError):  # It was deleted.
        facts[FOLDER] = folder_digest(os.getcwd())  # noqa: PTH109 - as the system names it
    variables = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    return facts | changed_settings() | variables


def begins_with(name: str) -> str | None:
    """The text of a setting as a process begins with it; None for one that depends on the process."""
    if name == NUMBA_USED:
        count = numba_begins_with()
        return None if count is None else str(count)
    return _BEGINS_WITH.get(name)


def _flags() -> str:
    """The flags of FLAG_VARIABLES that are set, for example optimize=1."""
    values = {name: int(getattr(sys.flags, name)) for name in FLAG_VARIABLES}
    return " ".join(f"{name}={value}" for name, value in values.items() if value) or NO_FLAGS


def recorded_flags(noted: str | None) -> dict[str, str | None]:
    """The variables that set the flags as a recording noted them, where they differ here; None for one to unset.

    Nothing for a text that no process notes: a tape is untrusted.
    """
    match = _FLAGS.fullmatch(noted or "")
    if match is None or noted == _flags():
        return {}
    set_then = dict(re.findall(r"(\w+)=(\d)", match[0]))
    return {
        variable: set_then.get(name)
        for name, variable in FLAG_VARIABLES.items()
        if int(set_then.get(name, 0)) != int(getattr(sys.flags, name))
    }


def folder_digest(path: str) -> str:
    """A digest of the path of a folder."""
    import hashlib  # noqa: PLC0415 - it loads OpenSSL

    return hashlib.blake2b(os.fsencode(path), digest_size=_DIGEST_BYTES).hexdigest()


def changed_settings() -> dict[str, str]:
    """The settings of Python and of libraries that code may change, as text."""
    context = decimal.getcontext()
    return library_settings() | {
        FLOAT_ERRORS: " ".join(f"{name}={how}" for name, how in np.geterr().items()),
        RECURSION: str(sys.getrecursionlimit()),
        DECIMAL: f"prec={context.prec} rounding={context.rounding}",
    }


def _cpu_features() -> str | None:
    """The features that NumPy uses; None in a NumPy that does not tell."""
    package: Any = getattr(np, "_core", None) or getattr(np, "core", None)
    features = getattr(getattr(package, "_multiarray_umath", None), "__cpu_features__", None)
    return " ".join(sorted(name for name, is_used in features.items() if is_used)) if features else None
