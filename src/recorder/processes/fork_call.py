"""Call a function in a forked copy of this process and return its plain data. This process does not change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack

from recorder.processes.fork_hazard import ForkHazardError
from recorder.processes.fork_pool import ForkPool
from recorder.processes.lifetimes.stuck_workers import WorkerStuckError
from recorder.processes.pool import Report, WorkerDiedError, results_in_order
from recorder.processes.seeds.process_generators import generator_states, set_generator_states

COPY_PATIENCE_S = 10.0


def in_a_copy(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what work returns in a copy of this process.

    Raises RuntimeError if the copy died or hung, or if work raised there.
    """
    # This child must be an exact copy: a worker of the pool begins with the generators as an import has seeded them.
    states = generator_states()

    def in_the_copy(_: None, __: Report) -> bytes:
        set_generator_states(states)
        packed: bytes = msgpack.packb(work())
        return packed

    try:
        (result_bytes,) = results_in_order(
            ForkPool(1, COPY_PATIENCE_S), in_the_copy, [None], name=lambda _: "worked on a copy"
        )
    except ForkHazardError as error:
        raise RuntimeError(f"{error.hazard} has been used in this process, and a copy of it would hang") from None
    except WorkerStuckError:
        raise RuntimeError(
            f"a copy of the process waited for {COPY_PATIENCE_S:g} s without computing: it lacks threads that this process has"
        ) from None
    except WorkerDiedError as error:
        raise RuntimeError(f"a copy of the process died with exit code {error.exit_code}") from None
    except Exception as error:
        raise RuntimeError(f"a copy of the process failed: {type(error).__name__}: {error}") from error
    result: dict[str, Any] = msgpack.unpackb(result_bytes, strict_map_key=False)
    return result
