"""Give memory that is free back to the system: the C library keeps it for the process, however much it is."""

from __future__ import annotations

import functools
from collections.abc import Callable


def give_back_free_memory() -> None:
    """Give back what the C library can; nothing where it has no call for that. Takes some milliseconds."""
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> Callable[[int], int] | None:
    """The call of the GNU C library; None in any other."""
    import ctypes  # noqa: PLC0415 - only a recording of a large state needs it

    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
