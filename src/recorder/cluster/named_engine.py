"""The engine of a name: processes of this machine by default, or a Ray that is started here or that has an address."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from recorder.cluster.actor_engine import ActorEngine
from recorder.cluster.process_actors import ProcessEngine
from recorder.cluster.ray_actors import RayActorEngine
from recorder.exit_codes import UsageError
from recorder.processes.engines.engine import find_engine
from recorder.processes.engines.engine_error import EngineError
from recorder.processes.engines.ray_engine import RayEngine, ensure_installed
from recorder.processes.engines.ray_start import RaySettings, connected


@contextmanager
def named_engine(name: str | None) -> Iterator[ActorEngine]:
    """The engine for a name, connected in the context.

    name: see find_engine. Raises UsageError for another name, without the package, and if Ray does not start or answer.
    """
    try:
        found = find_engine(name)
        if not isinstance(found, RayEngine):
            yield ProcessEngine()
            return
        ensure_installed()
        folder = None if found.address else tempfile.mkdtemp(prefix="ray-")
        with connected(RaySettings(found.address, None, None), folder):
            yield RayActorEngine()
    except EngineError as error:
        raise UsageError(str(error)) from None
