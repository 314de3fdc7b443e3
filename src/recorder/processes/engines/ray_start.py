"""Connect to a Ray, or start one that stays on this machine: on loopback, with a token of its own, without statistics."""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from typing import Any

import attrs

from recorder.processes.engines.engine_error import EngineError

CONNECT_S = 5.0
_STORE_BYTES = 80 << 20  # About the least that Ray takes. Work, items and results are small.
_OWN = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Despite its name: 0 makes all of Ray listen on loopback alone.
    "RAY_AUTH_MODE": "token",  # Other users of this machine can reach loopback.
    "RAY_prestart_worker_first_driver": "0",  # Else Ray waits forever for a worker that is lost while it starts.
    "RAY_raylet_start_wait_time_s": "100",  # Of a busy machine; it gives up after 30 s by itself.
    "RAY_memory_monitor_refresh_ms": "0",  # It ends workers if other programs have taken the machine's memory.
}


@attrs.frozen
class RaySettings:
    """What is needed to reach a Ray.

    Attributes:
        address: HOST:PORT, or "auto" for the cluster that this machine belongs to; None starts one here.
        workers: the number of items at a time; None for the processors of the cluster.
        runtime_env: as ray.init takes it.
    """

    address: str | None
    workers: int | None
    runtime_env: Mapping[str, Any] | None


@contextmanager
def connected(settings: RaySettings, folder: str | None) -> Iterator[tuple[Any, int]]:
    """Ray, and the number of items that it works on at a time. Raises EngineError, with a message of one sentence.

    folder: of the Ray that is started, removed at the end; None for the one at an address.
    """
    own = {**_OWN, "RAY_AUTH_TOKEN": secrets.token_hex(32)} if settings.address is None else {}
    before = {name: os.environ.get(name) for name in own}
    if settings.address is not None:
        _ensure_reachable(settings.address)
    os.environ |= own
    try:
        ray: Any = importlib.import_module("ray")  # An extra, which takes a while to import.
        logging.getLogger("ray").setLevel(logging.CRITICAL)
        ray.init(**_arguments(settings, folder))
        try:
            yield ray, settings.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        finally:
            ray.shutdown()
    except EngineError:
        raise
    except Exception as error:
        where = f"Ray at {settings.address}" if settings.address is not None else "Ray"
        raise EngineError(f"{where} could not be used: {first_line(error)}") from error
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _arguments(settings: RaySettings, folder: str | None) -> dict[str, Any]:
    shared = {
        "log_to_driver": False,
        "logging_level": "critical",
        "configure_logging": False,
        "runtime_env": dict(settings.runtime_env) if settings.runtime_env is not None else None,
    }
    if settings.address is not None:
        return shared | {"address": settings.address}
    return shared | {
        "address": "local",
        "num_cpus": settings.workers,
        "include_dashboard": False,
        "object_store_memory": _STORE_BYTES,
        "_node_ip_address": "127.0.0.1",
        "_temp_dir": folder,
    }


def _ensure_reachable(address: str) -> None:
    """Raise EngineError if nothing answers at an address: Ray itself would try for a minute."""
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if address.startswith("ray://") or "://" in address:
        raise EngineError(
            f"{address}: expected HOST:PORT of a cluster that this machine belongs to, or auto; from outside of it, send "
            "the command with ray job submit"
        )
    if not colon or not port.isdigit() or not 0 < int(port) < 65536:
        raise EngineError(f"Ray address {address!r}: expected HOST:PORT, such as 10.0.0.1:6379, or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except OSError as error:
        raise EngineError(f"Ray at {address} cannot be reached: {error.strerror or error}") from None


def first_line(error: BaseException) -> str:
    """The first line of an error's text that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def ray_version() -> str:
    """The version of the installed Ray."""
    return metadata.version("ray")
