"""The engine of a name: processes of this machine by default, or a Ray that is started here or that has an address."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recorder.cluster.actor_engine import ActorEngine
from recorder.cluster.process_actors import ProcessEngine
from recorder.cluster.ray_actors import RayActorEngine
from recorder.exit_codes import UsageError

PROCESSES, RAY = "processes", "ray"
ANSWER_S = 10.0  # For the machine at an address.
STORE_BYTES = 80 << 20  # Of the Ray that is started here: states are small, and its default is a third of the memory.


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
        raise UsageError("the engine ray needs the package ray: pip install ray")
    ray: Any = importlib.import_module(RAY)
    folder = None if address else tempfile.mkdtemp(prefix="ray-")
    try:
        _connect(ray, address, folder)
        try:
            yield RayActorEngine()
        finally:
            ray.shutdown()
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _connect(ray: Any, address: str, folder: str | None) -> None:
    """Connect to the Ray at an address; "" starts one here, whose files are in folder. Raises UsageError."""
    arguments: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if address:
        _ensure_listens(address)
        arguments["address"] = address
    else:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # It sends nothing home.
        arguments |= {"include_dashboard": False, "object_store_memory": STORE_BYTES, "_temp_dir": folder}
        arguments["_node_ip_address"] = "127.0.0.1"
    try:
        ray.init(**arguments)
    except Exception as error:  # noqa: BLE001 - Ray raises errors of many kinds here
        where = f"at {address}" if address else "on this machine"
        why = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise UsageError(f"Ray {where} could not be used: {why}") from None


def _ensure_listens(address: str) -> None:
    """Raise UsageError if nothing listens at HOST:PORT: Ray itself would try for minutes. Other forms are left to Ray."""
    host, _, port = address.rpartition(":")
    if not host or "/" in address or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), ANSWER_S).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"Ray at {address} could not be used: {error}") from None
