"""A cluster of Ray whose machines are all on this one: some can be lost, and new ones can join.

``python ray_machines.py`` is the program that starts it, and takes words on its standard input.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Self

from ray_cluster import ALONE, why_not_alone

_STORE_BYTES = 80 << 20
STARTS_MAX = 5
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # All of it listens on loopback alone.
    "RAY_prestart_worker_first_driver": "0",
    "RAY_raylet_start_wait_time_s": "100",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "4",
}


class RayMachines:
    """A running cluster: a head that works on nothing, and machines of one processor each.

    Attributes:
        address: HOST:PORT.
        prefix: the words before a command that shall be in the cluster's network.
    """

    def __init__(self, machines: int) -> None:
        self._is_alone = why_not_alone() is None
        alone = ALONE if self._is_alone else []
        self._process = subprocess.Popen(
            [*alone, sys.executable, __file__],
            env={**os.environ, **_ENVIRONMENT},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.address = self._ask("head")
        self.prefix = (
            ["nsenter", "--preserve-credentials", "-U", "-n", "-t", str(self._process.pid)] if self._is_alone else []
        )
        for _ in range(machines):
            self.join()

    @property
    def process_id(self) -> int:
        """The process below which all of its processes are."""
        return self._process.pid

    def join(self) -> None:
        """Add a machine."""
        self._ask("join")

    def lose(self) -> int:
        """Kill all processes of the machine that joined first. Returns the number of machines that are left."""
        return int(self._ask("lose"))

    def _ask(self, word: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            kind, _, value = line.strip().partition(" ")
            if kind == "answer":
                return value
        raise AssertionError(f"the cluster ended at {word}")

    def close(self) -> None:
        """End all machines."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(30)
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _started(start: Callable[[], Any]) -> Any:
    """What a start gives; Ray waits for 30 s, which are too few on a busy machine, and is then started again."""
    for number in range(STARTS_MAX):
        try:
            return start()
        except Exception:
            if number == STARTS_MAX - 1:
                raise
    return None


def _serve() -> None:
    from ray.cluster_utils import Cluster

    nodes: list[Any] = []
    cluster: Any = None
    shared = {"object_store_memory": _STORE_BYTES, "include_dashboard": False, "node_ip_address": "127.0.0.1"}
    for line in sys.stdin:
        answer: object = ""
        if line.strip() == "head":
            cluster = _started(lambda: Cluster(initialize_head=True, head_node_args={**shared, "num_cpus": 0}))
            answer = cluster.address
        elif line.strip() == "join":
            nodes.append(_started(partial(cluster.add_node, wait=True, num_cpus=1, **shared)))
        elif line.strip() == "lose":
            cluster.remove_node(nodes.pop(0), allow_graceful=False)
            answer = len(nodes)
        print("answer", answer, flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    _serve()
