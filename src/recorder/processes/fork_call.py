"""Do something in a forked copy of this process, and get what it gives as plain data; the original stays as it is."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgpack

from recorder.processes.fork_pool import ForkPool
from recorder.processes.pool import Report, WorkerDiedError, results_in_order


def in_a_copy(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what work returns in a copy of this process.

    Raises RuntimeError if the copy died, or if work raised there.
    """
    drawn = random.getstate()  # Python seeds the random module of a copy anew; here a copy is to be one.

    def in_the_copy(_: None, __: Report) -> bytes:
        random.setstate(drawn)
        packed: bytes = msgpack.packb(work())
        return packed

    try:
        (result_bytes,) = results_in_order(ForkPool(1), in_the_copy, [None], name=lambda _: "worked on a copy")
    except WorkerDiedError as error:
        raise RuntimeError(f"a copy of the process died with exit code {error.exit_code}") from None
    except Exception as error:
        raise RuntimeError(f"a copy of the process failed: {type(error).__name__}: {error}") from error
    result: dict[str, Any] = msgpack.unpackb(result_bytes, strict_map_key=False)
    return result
