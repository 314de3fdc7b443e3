"""Ray as an engine: where it is, and how its workers are made."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs

from recorder.processes.engines.engine_error import EngineError
from recorder.processes.engines.ray_pool import RayPool, RaySession
from recorder.processes.engines.ray_start import RaySettings
from recorder.processes.lifetimes.stuck_workers import PATIENCE_S
from sim.extras import missing_package

ATTEMPTS = 4


@attrs.frozen(kw_only=True)
class RayEngine:
    """Work on a cluster of Ray, or on a Ray that is started on this machine.

    Attributes:
        address: HOST:PORT of a cluster that this machine belongs to, or "auto" for the one that runs here. None takes the
            Ray of this process if it is connected to one, else RAY_ADDRESS, else starts one here: on loopback alone, and
            ended with the work.
        workers: the number of items at a time; None for all processors.
        runtime_env: the environment of the workers, as ray.init takes it: working_dir, pip, env_vars and others.
        attempts: an item whose worker or machine is lost is begun up to that many times. A worker that is lost before it has begun
            an item is not counted, up to twenty of them.
        patience_s: a process that does nothing for longer is ended, see ForkPool.
    """

    address: str | None = attrs.field(default=None, kw_only=False)
    workers: int | None = None
    runtime_env: Mapping[str, Any] | None = None
    attempts: int = ATTEMPTS
    patience_s: float = PATIENCE_S

    @contextmanager
    def pool(self, workers: int | None = None) -> Iterator[RayPool]:
        """Connect, and disconnect at the end of the block; see Engine.pool."""
        ensure_installed()
        address = self.address or _address_of_process() or os.environ.get("RAY_ADDRESS") or None
        count = self.workers or workers or (None if address is not None else len(os.sched_getaffinity(0)))
        session = RaySession(RaySettings(address, count, self.runtime_env), self.attempts)
        try:
            yield RayPool(session, self.patience_s)
        finally:
            session.close()


def ensure_installed() -> None:
    """Raise EngineError, with what to install, if there is no Ray."""
    if importlib.util.find_spec("ray") is None:
        raise EngineError(missing_package("the engine ray", "ray", "ray"))


def _address_of_process() -> str | None:
    """The address of the Ray that this process is connected to; None if there is none."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return None
    return str(ray.get_runtime_context().gcs_address)
