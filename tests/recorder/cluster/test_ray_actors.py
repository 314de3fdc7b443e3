"""A server and workers as actors of Ray: the states of one process, and deaths. Skipped where Ray is not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from project_paths import ROOT
from ray_cluster import alone

PROGRAM = """
import os, signal, sys
from pathlib import Path
import ray
from cluster_runs import CONFIG, assert_states_to, ensure_all_whole
from recorder.cluster import OrganismCluster
from recorder.cluster.ray_actors import RayActorEngine

folder = Path(sys.argv[1])
ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80 << 20, log_to_driver=False,
         _node_ip_address="127.0.0.1", _temp_dir=sys.argv[2])
try:
    notices = []
    with OrganismCluster(
        CONFIG, 2, engine=RayActorEngine(), folder=folder, interval_ticks=5, on_notice=notices.append
    ) as cluster:
        assert_states_to(cluster.simulation, 8)
        os.kill(cluster.describe()[1][1], signal.SIGKILL)
        assert_states_to(cluster.simulation, 11)
        os.kill(cluster.describe()[1][0], signal.SIGKILL)
        assert_states_to(cluster.simulation, 14)
    assert "worker 0" in notices[0] and "the checkpoint of tick 5" in notices[0], notices
    assert "the server" in notices[1] and "the checkpoint of tick 10" in notices[1], notices
    ensure_all_whole(folder)
finally:
    ray.shutdown()
print("as one process")
"""


def test_states_and_deaths_on_ray(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A worker and the server are killed; Ray is started for it, and ended."""
    pytest.importorskip("ray")
    paths = [str(ROOT / "src"), str(ROOT / "tests" / "support"), *sys.path]
    finished = subprocess.run(
        alone(sys.executable, "-c", PROGRAM, str(tmp_path / "whole"), str(tmp_path_factory.mktemp("ray"))),
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.stdout.endswith("as one process\n"), finished.stderr[-3000:]
