"""Which files are those of Python and of installed packages."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import numpy as np
import pytest

from recorder.ambient.roots import is_installed

PLACES = sorted({sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")})


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "rest", ["", "/json/__init__.py", "//json/decoder.py", "/./a/.b/c.py", "/a/../b.py", "-more/game.py", "/.py"]
)
def test_an_installed_file_is_one_below_the_folders_of_python(place: str, rest: str) -> None:
    """By the parts of the path, as pathlib compares them, and not by its letters."""
    below = any(Path(place + rest) != Path(one) and Path(place + rest).is_relative_to(one) for one in PLACES)
    assert is_installed(place + rest) is below


def test_a_file_of_numpy_is_installed_and_this_one_is_not() -> None:
    assert is_installed(np.__file__)
    assert not is_installed(__file__)
