"""Packages that only some tests need: without one, a test module is skipped; otherwise it is imported when a test runs.

Importing torch, Mesa or Rerun takes seconds, which a run that collects all tests to do one of them must not pay for.
"""

from __future__ import annotations

import importlib
import warnings
from importlib.util import find_spec
from typing import Any

import pytest


def needs(*packages: str) -> None:
    """Skip the module that calls this at its top, unless all the packages are installed. Imports none of them."""
    for package in packages:
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed", allow_module_level=True)


ASKED_BY_PYTEST = {"is_hypothesis_test"}  # Among the contents of a test module, when it is collected.


class LazyModule:
    """A stand-in for a module, which is imported when one of its public attributes is first read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_") or attribute in ASKED_BY_PYTEST:
            raise AttributeError(attribute)
        with warnings.catch_warnings():  # As pytest.importorskip does: tests turn warnings into errors.
            warnings.simplefilter("ignore")
            module = importlib.import_module(self._name)
        value = getattr(module, attribute)
        setattr(self, attribute, value)  # From the second time on it costs a normal attribute access.
        return value


def lazily(name: str) -> Any:
    """The named module of an installed package, not yet imported; without the package, the calling module is skipped."""
    needs(name.partition(".")[0])
    return LazyModule(name)
