"""What all tests share."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def path_of_modules() -> Iterator[None]:
    """Folders in which --sim looks for modules are one test's own: processes that it starts inherit the path."""
    before = list(sys.path)
    yield
    sys.path[:] = before
