"""What all tests share."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("tests", deadline=None)  # How long an example takes says how busy the machine is.
settings.load_profile("tests")


@pytest.fixture(autouse=True)
def path_of_modules() -> Iterator[None]:
    """Folders in which --sim looks for modules are one test's own: processes that it starts inherit the path."""
    before = list(sys.path)
    yield
    sys.path[:] = before
