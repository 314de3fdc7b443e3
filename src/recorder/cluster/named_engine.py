"""The engine of a name: processes of this machine by default, or a Ray that is started here or that has an address."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from recorder.cluster.actor_engine import ActorEngine
from recorder.cluster.process_actors import ProcessEngine
from recorder.cluster.ray_actors import RayActorEngine
from recorder.exit_codes import UsageError
from recorder.processes.cluster.engine_error import EngineError
from recorder.processes.cluster.ray_start import RaySettings, connected
from sim.extras import missing_package

PROCESSES, RAY = "processes", "ray"


@contextmanager
def named_engine(name: str | None) -> Iterator[ActorEngine]:
    """The engine for a name, connected in the context.

    name: "processes" or None; "ray" for a Ray that is started on this machine, and ended; "ray:ADDRESS" for a cluster.
    Raises UsageError for another name, without the package, and if Ray does not start or answer.
    """
    kind, _, address = (name or PROCESSES).partition(":")
    if name in (None, PROCESSES):
        yield ProcessEngine()
        return
    if kind != RAY or name == f"{RAY}:":
        raise UsageError(f"engine {name!r}: expected processes, ray, or ray:ADDRESS, such as ray:10.0.0.1:6379")
    if importlib.util.find_spec(RAY) is None:
        raise UsageError(missing_package("the engine ray", "ray", "ray"))
    folder = None if address else tempfile.mkdtemp(prefix="ray-")
    before = dict(os.environ)
    try:
        with connected(RaySettings(address or None, None, None), folder):
            yield RayActorEngine()
    except EngineError as error:
        raise UsageError(str(error)) from None
    finally:  # What a Ray that is started here is told by the environment.
        for variable in os.environ.keys() - before.keys():
            if variable.startswith("RAY_"):
                del os.environ[variable]
