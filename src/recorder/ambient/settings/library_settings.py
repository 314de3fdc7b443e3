"""Settings of libraries that change what a step computes: how NumPy prints, numba's threads, PyTorch's numbers and threads."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

PRINTING, NUMBA_USED = "np.get_printoptions()", "numba.get_num_threads()"
TORCH_TYPE, TORCH_USED = "torch.get_default_dtype()", "torch.get_num_threads()"
TORCH_TYPES = ("float16", "bfloat16", "float32", "float64")
TORCH_BEGINS_WITH = "torch.float32"
# As a process begins with them; formatter and override_repr hold functions, which no text can give.
PRINT_OPTIONS: dict[str, Any] = {
    "edgeitems": 3,
    "threshold": 1000,
    "floatmode": "maxprec",
    "precision": 8,
    "suppress": False,
    "linewidth": 75,
    "nanstr": "nan",
    "infstr": "inf",
    "sign": "-",
    "legacy": False,
}
PRINTING_BEGINS_WITH = "as by default"
_CHOICES: dict[str, tuple[Any, ...]] = {
    "floatmode": ("fixed", "unique", "maxprec", "maxprec_equal"),
    "sign": ("-", "+", " "),
    "legacy": (False, "1.13", "1.21", "1.25", "2.1", "2.2"),
}
_TEXT_CHARS_MAX = 16
_NUMBER_MAX = 1 << 31
_THREADS_MAX = 256  # More are not started for a tape.


def library_settings() -> dict[str, str]:
    """The settings of the libraries that are loaded, as text. Nothing is loaded or started by asking."""
    options: dict[str, Any] = dict(np.get_printoptions())
    changed = {name: options[name] for name, usual in PRINT_OPTIONS.items() if options.get(name, usual) != usual}
    found = {PRINTING: json.dumps(changed, sort_keys=True, default=str) if changed else PRINTING_BEGINS_WITH}
    threads = numba_threads()
    if threads is not None:
        found[NUMBA_USED] = str(threads)
    torch: Any = sys.modules.get("torch")
    if hasattr(torch, "get_num_threads") and hasattr(torch, "get_default_dtype"):
        found[TORCH_TYPE], found[TORCH_USED] = str(torch.get_default_dtype()), str(torch.get_num_threads())
    return found


def numba_begins_with() -> int | None:
    """The number of threads with which numba begins; None if it is not loaded."""
    config: Any = getattr(sys.modules.get("numba"), "config", None)
    return getattr(config, "NUMBA_NUM_THREADS", None)


def numba_threads() -> int | None:
    """The number of threads that numba uses here; None if it is not loaded."""
    parallel: Any = sys.modules.get("numba.np.ufunc.parallel")
    if not getattr(parallel, "_is_initialized", False):  # get_num_threads() would start the threads.
        return numba_begins_with()
    return int(parallel.get_num_threads())


def set_numba_threads(count: int | None) -> None:
    """Set it where numba is loaded."""
    numba: Any = sys.modules.get("numba")
    if numba is not None and count is not None:
        numba.set_num_threads(count)


def torch_type() -> str | None:
    """PyTorch's default type of numbers; None if PyTorch is not loaded."""
    return library_settings().get(TORCH_TYPE)


def set_torch_type(name: str | None) -> None:
    """Set it where PyTorch is loaded. Raises ValueError for another name than torch.float64 and the like."""
    torch: Any = sys.modules.get("torch")
    if torch is None or name is None:
        return
    if not is_torch_type(name):
        raise ValueError(f"expected one of {', '.join(TORCH_TYPES)}, got {name!r}")
    torch.set_default_dtype(getattr(torch, name.removeprefix("torch.")))


def torch_threads() -> int | None:
    """The number of threads that PyTorch uses for one operation; None if PyTorch is not loaded."""
    text = library_settings().get(TORCH_USED)
    return None if text is None else int(text)


def set_torch_threads(count: int | None) -> None:
    """Set it where PyTorch is loaded."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and count is not None:
        torch.set_num_threads(count)


def is_torch_type(text: str) -> bool:
    """Return True for torch.float32 and the like."""
    return text.startswith("torch.") and text.removeprefix("torch.") in TORCH_TYPES


def recorded_threads(text: str) -> int | None:
    """The number of threads that a text tells; None for one that no process has."""
    count = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(_THREADS_MAX)) else 0
    return count if 0 < count <= _THREADS_MAX else None


def recorded_print_options(text: str) -> dict[str, Any] | None:
    """All options by the text of those that are not as usual; None for a text that no process notes: a tape is untrusted."""
    if text == PRINTING_BEGINS_WITH:
        return dict(PRINT_OPTIONS)
    try:
        changed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(changed, dict) or not all(_is_option(name, value) for name, value in changed.items()):
        return None
    return PRINT_OPTIONS | changed


def _is_option(name: str, value: Any) -> bool:
    usual = PRINT_OPTIONS.get(name)
    if name in _CHOICES:
        return type(value) in (bool, str) and value in _CHOICES[name]
    if isinstance(usual, str):
        return isinstance(value, str) and len(value) <= _TEXT_CHARS_MAX
    if type(usual) is int:
        return type(value) is int and 0 <= value < _NUMBER_MAX
    return usual is not None and type(value) is bool
