"""The environments that ``replay certify`` tries: one factor is changed at a time, all others stay as they are.

A cell is one process. Factors are changed by environment variables, which are read when a process starts. A factor that
cannot have an effect on this machine is marked here, if that is known before anything runs.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from recorder.processes.pool import processor_count
from replayer.diagnose.certify.arithmetic import Arithmetic, dispatched_features, processor_flags

PRESENT, REPEAT, HASH_SEED, SIMD = "present environment", "the same again", "hash seed", "SIMD level"
THREADS, BLAS_KERNEL, PYTHON = "threads", "BLAS kernel", "Python and NumPy"
FACTORS = {"hash-seed": HASH_SEED, "simd": SIMD, "threads": THREADS, "blas-kernel": BLAS_KERNEL}

FROM_STDIN = "-"  # In place of a URL, which may hold a signature: others can read the arguments of a process.
HASH_SEED_VARIABLE = "PYTHONHASHSEED"
SIMD_VARIABLE = "NPY_DISABLE_CPU_FEATURES"
KERNEL_VARIABLE = "OPENBLAS_CORETYPE"
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

_HASH_SEEDS = ("0", "1", "2", "random")
_WIDE = ("AVX512", "X86_V4")  # Prefixes of those NumPy features that no AVX2 machine has.
_SETTING = re.compile(r"[A-Za-z0-9_, ]{1,200}")
_KERNELS = {"Haswell": "avx2", "SkylakeX": "avx512f", "Prescott": "sse3"}  # And the processor feature that each needs.


@attrs.frozen
class Cell:
    """One environment to try.

    Attributes:
        factor: the factor that is changed; PRESENT if none is.
        level: the value that it is changed to.
        changes: environment variables and their values; None unsets one.
        python: the interpreter.
        why_not: the reason why it cannot be tried on this machine; None if it can.
        is_present: True if it equals the present environment: there is nothing to run.
    """

    factor: str
    level: str
    changes: Mapping[str, str | None] = attrs.field(factory=dict)
    python: str = sys.executable
    why_not: str | None = None
    is_present: bool = False


def repeat_cell(present: Cell) -> Cell:
    """Repeat the present environment: if that gives a different result, no factor can be blamed."""
    return attrs.evolve(present, factor=REPEAT, level="nothing is changed")


def present_cell(recorded: Mapping[str, Any]) -> Cell:
    """The environment that all others are compared with: the present one, with the order of sets fixed.

    Without a hash seed every process has its own order, and each factor would seem to matter.
    recorded: the environment that the tape states.
    """
    if os.environ.get(HASH_SEED_VARIABLE, "random") != "random":
        seed = os.environ[HASH_SEED_VARIABLE]
    else:
        seed = _text(recorded.get(HASH_SEED_VARIABLE), "0")
    return Cell(PRESENT, f"{HASH_SEED_VARIABLE}={seed}", {HASH_SEED_VARIABLE: seed})


def make_matrix(
    present: Cell,
    arithmetic: Arithmetic,
    recorded: Mapping[str, Any],
    *,
    pythons: Sequence[str] = (),
    factors: Sequence[str] = (),
    quick: bool = False,
) -> list[Cell]:
    """Make the cells that change a factor, in the order in which they are shown.

    arithmetic: that of this process. factors: keys of FACTORS, all by default; pythons are always tried.
    quick: one level of each factor, the one that differs most.
    """
    chosen = [FACTORS[name] for name in factors] or list(FACTORS.values())
    cells_by_factor = {
        HASH_SEED: _hash_seed_cells(present, recorded, quick=quick),
        SIMD: _simd_cells(arithmetic, recorded, quick=quick),
        THREADS: _thread_cells(quick=quick),
        BLAS_KERNEL: _kernel_cells(arithmetic, recorded, quick=quick),
    }
    cells: list[Cell] = []
    for factor in chosen:
        cells += [_with_seed(cell, present) for cell in cells_by_factor[factor]]
    cells += [_with_seed(Cell(PYTHON, python, python=python), present) for python in pythons]
    return cells


def _with_seed(cell: Cell, present: Cell) -> Cell:
    """Add the variables that the present environment fixes; set is_present if nothing else is changed."""
    changes = {**present.changes, **cell.changes}
    same = cell.why_not is None and cell.python == present.python
    is_present = same and all(_effective(name, changes) == _effective(name, present.changes) for name in changes)
    return attrs.evolve(cell, changes=changes, is_present=is_present)


def _effective(name: str, changes: Mapping[str, str | None]) -> str | None:
    return changes[name] if name in changes else os.environ.get(name)


def _hash_seed_cells(present: Cell, recorded: Mapping[str, Any], *, quick: bool) -> list[Cell]:
    own = present.changes[HASH_SEED_VARIABLE]
    seeds = [seed for seed in _HASH_SEEDS if seed != own][:1] if quick else list(_HASH_SEEDS)
    seed = _text(recorded.get(HASH_SEED_VARIABLE), "0")
    return [Cell(HASH_SEED, seed, {HASH_SEED_VARIABLE: seed}) for seed in dict.fromkeys([*seeds, seed])]


def _simd_cells(arithmetic: Arithmetic, recorded: Mapping[str, Any], *, quick: bool) -> list[Cell]:
    """Make cells with all features, without those that an AVX2 machine lacks, with the baseline, and as recorded."""
    dispatched = dispatched_features()
    disabled_here = os.environ.get(SIMD_VARIABLE)
    wide = [name for name in dispatched if name.startswith(_WIDE)]
    cells = []
    if not quick or disabled_here:
        cells.append(Cell(SIMD, "all features", {SIMD_VARIABLE: None}))
    if wide and not disabled_here and not any(name.startswith(_WIDE) for name in arithmetic.simd):
        cells.append(Cell(SIMD, "AVX-512", why_not="this processor has no AVX-512"))
    elif wide and not quick:
        cells.append(Cell(SIMD, "AVX2", {SIMD_VARIABLE: " ".join(wide)}))
    if arithmetic.simd or disabled_here:
        cells.append(Cell(SIMD, "baseline", {SIMD_VARIABLE: " ".join(dispatched)}))
    else:
        cells.append(Cell(SIMD, "baseline", why_not="NumPy uses no feature here that can be turned off"))
    cells += _as_recorded(SIMD, SIMD_VARIABLE, recorded)
    return cells


def _thread_cells(*, quick: bool) -> list[Cell]:
    cells = [Cell(THREADS, "1", dict.fromkeys(THREAD_VARIABLES, "1"))]
    if processor_count() < 2:
        cells.append(Cell(THREADS, "2", why_not="this machine has one processor"))
    elif not quick:
        cells.append(Cell(THREADS, "2", dict.fromkeys(THREAD_VARIABLES, "2")))
    return cells


def _kernel_cells(arithmetic: Arithmetic, recorded: Mapping[str, Any], *, quick: bool) -> list[Cell]:
    if arithmetic.blas_kernel is None:
        return [Cell(BLAS_KERNEL, "any", why_not="no OpenBLAS is loaded in this process")]
    flags = processor_flags()
    cells = []
    for kernel, flag in _KERNELS.items():
        if flags is None:
            why_not: str | None = "the system does not list the processor's features"
        elif flag not in flags and flag.replace("sse3", "pni") not in flags:
            why_not = f"this processor has no {flag.upper().replace('AVX512F', 'AVX-512')}"
        else:
            why_not = None
        if kernel == arithmetic.blas_kernel and KERNEL_VARIABLE not in os.environ:
            cells.append(Cell(BLAS_KERNEL, kernel, {KERNEL_VARIABLE: None}))
        else:
            cells.append(Cell(BLAS_KERNEL, kernel, {KERNEL_VARIABLE: kernel}, why_not=why_not))
    if quick:  # The oldest kernel runs everywhere and differs most.
        cells = cells[-1:]
    return cells + _as_recorded(BLAS_KERNEL, KERNEL_VARIABLE, recorded)


def _as_recorded(factor: str, variable: str, recorded: Mapping[str, Any]) -> list[Cell]:
    """The setting of the recording, if it had one that differs from the present one."""
    value = recorded.get(variable)
    if not isinstance(value, str) or not _SETTING.fullmatch(value) or value == os.environ.get(variable):
        return []  # A tape is untrusted input; text of this form does no harm in a variable that turns features off.
    return [Cell(factor, "as recorded", {variable: value})]


def _text(value: Any, default: str) -> str:
    """A hash seed that a tape states, or the default if it is not one: a tape is untrusted input."""
    return value if isinstance(value, str) and value.isascii() and value.isdigit() and int(value) < 1 << 32 else default
