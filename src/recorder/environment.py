"""The environment of a recording: the versions and settings that are known to change results."""

from __future__ import annotations

import os
import platform
import sys

import numpy as np


def describe_environment() -> dict[str, str]:
    """Return Python, NumPy, processor, system, and the environment variables that change hashing or arithmetic."""
    names = ("PYTHONHASHSEED", "NPY_DISABLE_CPU_FEATURES", "OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS")
    environment = {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": np.__version__,
        "machine": platform.machine(),
        "system": platform.system(),
        "byte_order": sys.byteorder,
    }
    return environment | {name: os.environ[name] for name in names if name in os.environ}
