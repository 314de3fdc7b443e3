"""Add to an ambient the values that a process has once: global generators, the environment, the folder, settings."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np

from recorder.ambient.ambient import (
    ENVIRONMENT_PATH,
    FOLDER_PATH,
    NUMPY_RANDOM_PATH,
    RANDOM_PATH,
    SETTING,
    Ambient,
)
from recorder.ambient.process_wide import SETTINGS


def add_process_values(ambient: Ambient) -> None:
    """Add them, each with what puts it back."""
    ambient.leaves[RANDOM_PATH] = state = random.getstate()
    ambient.contents[RANDOM_PATH] = ("random", state)
    legacy: Any = np.random.get_state(legacy=False)  # noqa: NPY002 - see above
    ambient.contents[NUMPY_RANDOM_PATH] = ("np.random", legacy)
    inner = legacy["state"]
    plain = {name: part.tobytes() if isinstance(part, np.ndarray) else part for name, part in inner.items()}
    ambient.leaves[NUMPY_RANDOM_PATH] = {**plain, "has_gauss": legacy["has_gauss"], "gauss": legacy["gauss"]}
    ambient.add_numbas()
    environment = dict(os.environ)
    ambient.leaves[ENVIRONMENT_PATH] = environment
    ambient.contents[ENVIRONMENT_PATH] = ("environment", environment)
    ambient.leaves[FOLDER_PATH] = folder = _current_folder()
    ambient.contents[FOLDER_PATH] = ("folder", folder)
    for name, (read, _, shown) in SETTINGS.items():
        ambient.contents[((SETTING, name),)] = (SETTING, setting := read())
        ambient.leaves[((SETTING, name),)] = shown(setting)


def _current_folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - a Path would take longer to make than everything else
    except OSError:
        return None  # It was removed.
