"""Notice that something has taken the name of one of our packages, and say what, instead of failing later and unclearly.

A user's file of that name, such as their own sim.py, hides a package. Another distribution with a package of that name
overwrites it. This module lives beside the packages, because it is needed when any of them is hidden. It uses os.path and
the finders directly: pathlib and importlib.util would take most of the import time of our packages.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import NoReturn

DISTRIBUTION = "simulation-flight-recorder"
USAGE = 2  # As in recorder.exit_codes, which may be hidden.
BEGINS = {  # Of each package's __init__.py.
    "sim": b'"""Simulations as states with one step',
    "recorder": b'"""Record simulations: from a running',
    "replayer": b'"""Replay recordings: from bytes',
}
FOLDER = os.path.dirname(__file__)  # noqa: PTH120 - see above


class TakenNameError(ImportError):
    """A name of our packages is taken. Uncaught, it is printed as one line."""


def ensure_ours(package: str, asker: str) -> None:
    """Raise TakenNameError, naming the file or the distribution, if importing package would not give ours.

    asker: our package that needs it. ``python -m recorder`` and ``python -m replayer`` print the line and end.
    """
    ours, origin = os.path.join(FOLDER, package, "__init__.py"), _origin(package)  # noqa: PTH118
    if os.path.exists(ours):  # noqa: PTH110
        if origin is not None and not os.path.samefile(origin, ours):  # noqa: PTH121
            _fail(f"{origin} hides the package {package!r} that {asker} needs: give that file another name")
        with open(ours, "rb") as file:  # noqa: PTH123
            if file.read(len(BEGINS[package])) != BEGINS[package]:
                other = _overwriter(package)
                _fail(
                    f"{other} has overwritten the package {package!r} of {DISTRIBUTION}: "
                    "uninstall it, then install ours again"
                )
    elif os.path.isdir(os.path.dirname(ours)) and not os.path.exists(f"{ours}c"):  # noqa: PTH110, PTH112, PTH120
        _fail(f"{ours} is missing, perhaps since another distribution was uninstalled: install {DISTRIBUTION} again")


def _origin(package: str) -> str | None:
    """Return the file that importing a package would load."""
    loaded = sys.modules.get(package)
    if loaded is not None:
        return loaded.__file__
    specs = (finder.find_spec(package, None) for finder in sys.meta_path)
    return next((spec.origin for spec in specs if spec is not None), None)


def _overwriter(package: str) -> str:
    """Return the name of the other distribution that lists the package's __init__.py among its files."""
    from importlib import metadata  # noqa: PLC0415 - only to describe a failure

    for found in metadata.distributions():
        if found.name != DISTRIBUTION and any(str(file) == f"{package}/__init__.py" for file in found.files or ()):
            return f"the distribution {found.name!r}"
    return "another distribution"


def _fail(message: str) -> NoReturn:
    started = sys.orig_argv[sys.orig_argv.index("-m") + 1 :][:1] if "-m" in sys.orig_argv else []
    if sys.argv[:1] == ["-m"] and started and started[0] in BEGINS:  # Python is looking for the program to run.
        sys.stderr.write(f"error: {message}\n")
        sys.exit(USAGE)
    before = sys.excepthook

    def in_one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, TakenNameError):
            sys.stderr.write(f"ImportError: {error}\n")
        else:
            before(kind, error, trace)

    sys.excepthook = in_one_line
    raise TakenNameError(message)
