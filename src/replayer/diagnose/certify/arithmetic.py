"""The arithmetic of a process: Python, NumPy and its processor features, the kernel and threads of its BLAS.

Only what the process itself reports counts: a variable that was set without effect must not count as a test.
"""

from __future__ import annotations

import ctypes
import importlib
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import attrs
import numpy as np

_MAPS = Path("/proc/self/maps")
_PROCESSOR = Path("/proc/cpuinfo")
_PREFIXES = ("", "scipy_")  # NumPy's and SciPy's wheels rename what they bundle.
_SUFFIXES = ("", "64_", "_64")


@attrs.frozen
class Arithmetic:
    """The libraries and processor features that a process computes with.

    Attributes:
        python, numpy, recorder: versions; recorder is the version of this package.
        simd: the processor features beyond NumPy's baseline that are in use.
        blas_kernel: OpenBLAS's name of the kernel in use; None if NumPy uses no OpenBLAS, or none is visible.
        blas_threads: the number of threads that OpenBLAS uses; None in the same cases.
    """

    python: str
    numpy: str
    recorder: str
    simd: tuple[str, ...]
    blas_kernel: str | None
    blas_threads: int | None


def describe_arithmetic() -> Arithmetic:
    """Describe the arithmetic of this process."""
    kernel, threads = _openblas()
    return Arithmetic(
        python=f"{platform.python_implementation()} {platform.python_version()}",
        numpy=np.__version__,
        recorder=_own_version(),
        simd=tuple(name for name in dispatched_features() if _umath().__cpu_features__.get(name)),
        blas_kernel=kernel,
        blas_threads=threads,
    )


def _own_version() -> str:
    try:
        return metadata.version("simulation-flight-recorder")
    except metadata.PackageNotFoundError:
        return "not installed"  # It runs from a folder of sources.


def dispatched_features() -> list[str]:
    """The processor features for which this NumPy has code that NPY_DISABLE_CPU_FEATURES can turn off."""
    return list(_umath().__cpu_dispatch__)


def processor_flags() -> set[str] | None:
    """The processor's features, in the system's own lower-case words; None where the system does not list them."""
    try:
        lines = _PROCESSOR.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), None)


def _umath() -> Any:
    """NumPy's module with the detected processor features; it is private, and has a different name before NumPy 2."""
    name = "numpy._core._multiarray_umath" if hasattr(np, "_core") else "numpy.core._multiarray_umath"
    return importlib.import_module(name)


def _openblas() -> tuple[str | None, int | None]:
    try:
        lines = _MAPS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None, None
    paths = sorted({line.split(maxsplit=5)[-1] for line in lines if "openblas" in line})
    for path in paths:  # NumPy's own comes first: its folder is numpy.libs, SciPy's is scipy.libs.
        library = ctypes.CDLL(path)
        for name in (f"{prefix}openblas_get_{{}}{suffix}" for prefix in _PREFIXES for suffix in _SUFFIXES):
            corename = getattr(library, name.format("corename"), None)
            count = getattr(library, name.format("num_threads"), None)
            if corename is not None and count is not None:
                corename.restype = ctypes.c_char_p
                return corename().decode("ascii", "replace"), int(count())
    return None, None
