"""Work on a cluster of several machines, one of which is lost: the same results, and nothing twice."""

from __future__ import annotations

import importlib
import random
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import cluster_work
import pool_work
import pytest
from optional_packages import needs
from pool_work import named
from waiting import wait_until

from recorder.processes.engines.ray_engine import RayEngine
from recorder.processes.engines.ray_pool import RayPool
from recorder.processes.pool import results_in_order
from replayer.datasets import plan
from replayer.datasets.extract import extract
from replayer.timeline.verify import verify_tape

from killed_commands import LINES, KilledCommands, Place
from oracle.command_lines import files
from ray_cluster import ray_pool
from ray_machines import RayMachines
from small_worlds import Walkers, record

needs("ray")


@pytest.fixture(scope="module")
def machines() -> Iterator[RayMachines]:
    """A cluster of two machines with one processor each, beside the head. A test that loses one lets another one join."""
    with RayMachines(2) as made:
        yield made


@pytest.fixture(scope="module")
def pool(machines: RayMachines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayPool]:
    """A connection to it."""
    engine = RayEngine(machines.address, patience_s=60.0)
    with ray_pool(tmp_path_factory.mktemp("ray"), engine=engine, before=machines.prefix) as made:  # type: ignore[arg-type]
        yield made


def test_a_machine_that_is_lost_costs_its_items_time_alone(
    machines: RayMachines, pool: RayPool, tmp_path: Path
) -> None:
    """Two items have begun, one on each machine. One of them begins again; each result comes once."""
    losing = threading.Thread(target=_lose_one_of_two, args=(machines, tmp_path))
    losing.start()
    submission = pool.submit(partial(cluster_work.held, tmp_path), range(5), name=named)
    assert sorted((one.index, one.get()) for one in submission) == [(item, item * 10) for item in range(5)]
    losing.join()
    begun = [len((tmp_path / f"{item}.begun").read_text().split()) for item in range(5)]
    assert sorted(begun[:2]) == [1, 2]
    assert begun[2:] == [1, 1, 1]
    machines.join()
    assert list(results_in_order(pool, pool_work.double, range(4), name=named)) == [0, 2, 4, 6]
    assert pool.workers == 2


def _lose_one_of_two(machines: RayMachines, folder: Path) -> None:
    """Lose a machine as soon as two items are under way, and let the other items end once its own has gone with it."""
    wait_until(lambda: len(_processes(folder)) == 2)
    under_way = _processes(folder)
    machines.lose()
    wait_until(lambda: not all(Path(f"/proc/{one}").exists() for one in under_way))
    (folder / "go").touch()


def _processes(folder: Path) -> list[str]:
    """The processes that have begun an item, by its file, which is written after it is made."""
    return [process for path in folder.glob("*.begun") for process in path.read_text().split()]


def test_results_are_the_same_bytes_if_a_machine_is_lost(
    machines: RayMachines, pool: RayPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of extract and of verify, one of whose machines is lost after the first progress."""
    monkeypatch.setattr(plan, "PART_TICKS", 14)
    tape = tmp_path / "run.tape"
    record(tape, Walkers(), [[[tick % 20, 2]] for tick in range(80)], keyframe_interval_ticks=8)
    extract(tape, tmp_path / "local", world=Walkers, tables=("states", "actions"), jobs=2)
    lost: list[int] = []

    def lose(done: int, _: int) -> None:
        if done and not lost:
            lost.append(machines.lose())

    extract(tape, tmp_path / "ray", world=Walkers, tables=("states", "actions"), pool=pool, progress=lose)
    assert lost == [1]
    assert files(tmp_path / "ray") == files(tmp_path / "local")
    machines.join()
    lost.clear()
    report = verify_tape(tape, Walkers, pool=pool, progress=lose)
    assert (lost, report.ok, report.verified_ticks) == ([1], True, 81)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", LINES)
def test_a_killed_command_is_given_again(machines: RayMachines, name: str, tmp_path: Path) -> None:
    """The command, or its process that speaks with the cluster: the same files, and nothing of it is left there."""
    place = Place(["--engine", f"ray:{machines.address}"], machines.prefix, cluster=machines.process_id, is_ray=True)
    commands = KilledCommands(tmp_path / "commands", place, random.Random(random.getrandbits(32)))
    assert commands.kill_driver(name).words.endswith("the same")


def test_a_package_that_only_the_caller_has_reaches_the_machines_by_the_runtime_env(
    machines: RayMachines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A simulation with a module of rules. Its folder is gone before a worker could find it on the caller's path."""
    package = tmp_path / "faraway"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "rules.py").write_text("PACE = 3\n")
    (package / "game.py").write_text(GAME)
    monkeypatch.syspath_prepend(tmp_path)
    game = importlib.import_module("faraway.game")
    tape = tmp_path / "run.tape"
    record(tape, game.Game(), [None] * 40, keyframe_interval_ticks=10)
    environment = {"py_modules": [str(package)]}
    engine = RayEngine(machines.address, runtime_env=environment, patience_s=60.0)
    with ray_pool(tmp_path, engine=engine, before=machines.prefix) as pool:
        shutil.rmtree(package)
        report = verify_tape(tape, game.Game, pool=pool)
        assert (report.ok, report.verified_ticks) == (True, 41)
        assert list(results_in_order(pool, cluster_work.has_file, [package], name=named)) == [False]


GAME = """
from faraway.rules import PACE
from sim import Field, Schema, State


class Game:
    def __init__(self):
        self.state = State(Schema(Field("x", "i8", (4,))))

    def step(self, inputs):
        self.state["x"][:] += PACE
"""
