"""Checkpoints of the whole: complete or none, restored with any number of workers, refused if anything of them differs."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recorder.cluster import (
    ClusterError,
    OrganismCluster,
    WholeCheckpoint,
    WholeCheckpointError,
    discover_whole_checkpoints,
)
from recorder.cluster.checkpoint_parts import digest_of
from recorder.cluster.whole_checkpoint import read_manifest, restore_whole
from recorder.exit_codes import UsageError
from sim.worlds.organisms import Organisms

from cluster_runs import CONFIG, assert_states_to, inputs_at, plain_hashes

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with checkpoints of ticks 10 and 20, by 3 workers."""
    folder = tmp_path_factory.mktemp("whole")
    with OrganismCluster(CONFIG, 3, folder=folder, interval_ticks=10) as cluster:
        assert_states_to(cluster.simulation, 22)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(written, tmp_path / "whole"))


def manifest(folder: Path, tick: int = 20) -> Path:
    """The manifest of a tick."""
    (path,) = folder.glob(f"checkpoint_{tick:012d}_*_server.json")
    return path


def edit(path: Path, change: Callable[[Any], None], *, signed: bool = True) -> None:
    """Change a manifest. signed: with the digest of the changed one; else without any."""
    plain = json.loads(path.read_text())
    del plain["blake2b"]
    change(plain)
    if signed:
        plain["blake2b"] = digest_of(json.dumps(plain, sort_keys=True).encode())
    path.write_text(json.dumps(plain))


def test_a_checkpoint_has_what_the_origin_asks_for(folder: Path) -> None:
    plain = json.loads(manifest(folder).read_text())
    world = Organisms(CONFIG)
    for tick in range(1, 21):
        world.step(inputs_at(tick))
    metadata = plain["metadata"]
    assert metadata["checkpoint_id"] == "checkpoint_000000000020_1"
    assert metadata["simulation_id"].startswith("sim-")
    assert (metadata["global_step"], metadata["worker_count"]) == (20, 3)
    ids = world.state["organisms.id"].tolist()
    assert metadata["organism_count"] == len(ids)
    assert list(plain["worker_assignments"]) == list(plain["organism_data"]) == list(map(str, ids))
    first = plain["organism_data"][str(ids[0])]
    assert list(first["taxonomy"]) == ["kingdom", "phylum", "class", "order", "family", "genus", "species"]
    assert first["energy"] == world.state["organisms.energy"][0]
    assert [seed["births"] for seed in plain["seed_bank_data"]] == world.state["seed_bank.births"].tolist()
    assert plain["global_stats"]["statistics"]["births"] == world.telemetry()["births"]
    assert set(plain["worker_stats"]) == {"0", "1", "2"}
    assert [entry["global_step"] for entry in plain["historical_stats"]] == [4, 8, 12, 16, 20]
    for part in plain["parts"]:
        content = (folder / part["name"]).read_bytes()
        assert (part["size_bytes"], part["blake2b"]) == (len(content), digest_of(content))


def test_4_workers_then_2_then_7(tmp_path: Path) -> None:
    """The same states as one process; one simulation; assignments, statistics and history come back."""
    names = set()
    for workers, first, last in ((4, 0, 15), (2, 10, 35), (7, 30, 48)):
        with OrganismCluster(CONFIG, workers, folder=tmp_path, interval_ticks=10) as cluster:
            assert cluster.tick == first
            facts, pids = cluster.describe()
            assert len(pids) == workers + 1
            if cluster.resumed is not None:
                plain = json.loads(cluster.resumed.path.read_text())
                kept = {int(one): worker for one, worker in plain["worker_assignments"].items() if worker < workers}
                assert kept.items() <= facts.assignments.items()
                assert facts.history == plain["historical_stats"]
                assert {str(worker): stats for worker, stats in facts.worker_stats.items()} == plain["worker_stats"]
            assert_states_to(cluster.simulation, last)
            names.add(cluster.simulation_id)
    assert len(names) == 1


def test_the_same_number_of_workers_gets_the_same_assignments(folder: Path) -> None:
    with OrganismCluster(CONFIG, 3, folder=folder) as cluster:
        assert cluster.resumed is not None
        assert cluster.describe()[0].assignments == {
            int(one): worker
            for one, worker in json.loads(cluster.resumed.path.read_text())["worker_assignments"].items()
        }


def test_a_checkpoint_on_demand(tmp_path: Path) -> None:
    with OrganismCluster(CONFIG, 2, folder=tmp_path) as cluster:
        assert_states_to(cluster.simulation, 7)
        checkpoint = cluster.checkpoint()
        assert cluster.checkpoint() is checkpoint  # Of one state, one.
        cluster.request_checkpoint()
        assert_states_to(cluster.simulation, 9)
        assert [one.tick for one in cluster.checkpoints] == [7, 8]
    assert restore_whole(checkpoint).world.state.hash() == plain_hashes()[7]


def test_without_a_folder_there_is_no_checkpoint() -> None:
    with OrganismCluster(CONFIG, 1) as cluster, pytest.raises(ClusterError, match="no folder"):
        cluster.checkpoint()


# --- what is refused


def part(folder: Path, worker: int = 1, tick: int = 20) -> Path:
    """The part of a worker."""
    return folder / f"checkpoint_{tick:012d}_1_worker{worker}.bin"


def flip(path: Path, place: int) -> None:
    """Flip a bit of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def replace(path: Path, old: str, new: str) -> None:
    """Replace the first occurrence of a text in a file."""
    path.write_text(path.read_text().replace(old, new, 1))


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a part that is missing": (lambda folder: part(folder).unlink(), "is missing"),
    "a part that is cut off": (
        lambda folder: part(folder).write_bytes(part(folder).read_bytes()[:-1]),
        "is damaged: expected",
    ),
    "a part with a flipped bit": (lambda folder: flip(part(folder), -9), "is damaged: expected"),
    "a part of another tick": (
        lambda folder: shutil.copy(part(folder, tick=10), part(folder)),
        "is of tick 10 of .*: parts of different ticks are no whole",
    ),
    "a part twice": (lambda folder: shutil.copy(part(folder, 0), part(folder, 1)), "is damaged: expected"),
    "a manifest that is cut off": (
        lambda folder: manifest(folder).write_text(manifest(folder).read_text()[:-30]),
        "is not the manifest of a checkpoint",
    ),
    "a manifest with another figure": (
        lambda folder: replace(manifest(folder), '"pool": ', '"pool": 1'),
        "is damaged: its content does not have the digest",
    ),
    "a manifest of another version of the world": (
        lambda folder: edit(manifest(folder), lambda plain: plain["metadata"].update(version=7)),
        "is of another world or version: expected organisms version 1, got organisms version 7",
    ),
    "a manifest of another world": (
        lambda folder: edit(manifest(folder), lambda plain: plain["metadata"].update(world="meadow")),
        "is of another world or version",
    ),
    "a part outside of the folder": (
        lambda folder: edit(manifest(folder), lambda plain: plain["parts"][0].update(name="../x.bin")),
        "a part lies outside",
    ),
    "no object": (lambda folder: manifest(folder).write_text("[]"), "is not the manifest"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_checkpoint_with_a_damage_is_ignored_with_the_reason(name: str, folder: Path) -> None:
    damage, reason = DAMAGES[name]
    damage(folder)
    found = discover_whole_checkpoints(folder)
    assert [one.tick for one in found.checkpoints] == [10]
    ((path, why),) = found.ignored.items()
    assert path == next(folder.glob("*20_1_server.json"))
    assert "\n" not in why
    assert re.search(reason, why), why


def test_a_run_begins_at_the_checkpoint_before_a_damaged_one(folder: Path) -> None:
    flip(part(folder), 99)
    notices: list[str] = []
    with OrganismCluster(CONFIG, 2, folder=folder, on_notice=notices.append) as cluster:
        assert cluster.tick == 10
        assert len(notices) == 1
        assert f"{part(folder)} is damaged" in notices[0]
        assert_states_to(cluster.simulation, 22)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda plain: plain["global_stats"].update(pool=77), "its state has the hash"),
        (lambda plain: plain["seed_bank_data"].pop(), "its state has the hash"),
        (lambda plain: plain["seed_bank_data"][0].update(program="eat"), "expected a program of 4"),
        (lambda plain: plain["organism_data"].popitem(), "its registry and its parts differ in organism"),
        (lambda plain: plain["parts"].pop(), "its state has the hash"),
        (lambda plain: plain.update(parts=[]), "it names no part"),
        (lambda plain: plain.pop("seed_bank_data"), "KeyError"),
        (lambda plain: plain["metadata"].update(config={"world": "organisms", "slice": 0}), "slice"),
    ],
)
def test_a_manifest_that_was_changed_does_not_restore(change: Callable[[Any], None], reason: str, folder: Path) -> None:
    """Also if it lacks its digest, as older ones do."""
    edit(manifest(folder), change, signed=False)
    with pytest.raises(WholeCheckpointError, match=reason):
        restore_whole(read_manifest(manifest(folder)))


def test_a_manifest_without_a_figure_of_a_worker_begins_a_run(folder: Path) -> None:
    edit(manifest(folder), lambda plain: plain["worker_stats"]["0"].pop("steps"))
    with OrganismCluster(CONFIG, 3, folder=folder) as cluster:
        assert_states_to(cluster.simulation, 22)
        assert cluster.describe()[0].worker_stats[0]["steps"] == 2


def test_an_assignment_of_an_unknown_organism_is_a_warning_that_names_it(folder: Path) -> None:
    edit(manifest(folder), lambda plain: plain["worker_assignments"].update({"4711": 0}))
    notices: list[str] = []
    with OrganismCluster(CONFIG, 3, folder=folder, on_notice=notices.append) as cluster:
        assert 4711 not in cluster.describe()[0].assignments
        assert_states_to(cluster.simulation, 24)
    assert notices == [
        f"{manifest(folder)}: organism 4711 is in the assignments, but not in the registry: it is not assigned"
    ]


def test_an_old_manifest_without_history_loads() -> None:
    """It was written without history and without a digest of its own, and leads to the same states."""
    restored = restore_whole(read_manifest(GOLDEN / "checkpoint_000000000012_1_server.json"))
    assert "historical_stats" not in (GOLDEN / "checkpoint_000000000012_1_server.json").read_text()
    assert restored.facts.history == []
    assert restored.world.state.hash() == plain_hashes()[12]
    assert_states_to(restored.world, 20)


# --- the folder


def test_checkpoints_are_listed_newest_first_each_once(folder: Path, tmp_path: Path) -> None:
    """By time; those in memory and those of the folder are one; a copy elsewhere is no further one."""
    shutil.copytree(folder, tmp_path / "whole" / "copy")
    edit(manifest(folder, 10), lambda plain: plain["metadata"].update(timestamp=4e9))
    history = [read_manifest(manifest(folder))]
    found = discover_whole_checkpoints(tmp_path, history)
    assert [one.tick for one in found.checkpoints] == [10, 20]
    assert not found.ignored
    for path in folder.rglob("*20_1*"):
        path.unlink()
    found = discover_whole_checkpoints(tmp_path, history)
    assert [one.tick for one in found.checkpoints] == [10]
    assert "No such file" in found.ignored[history[0].path]


def test_a_checkpoint_without_organisms_is_ignored_with_the_reason(tmp_path: Path) -> None:
    config = {"world": "organisms", "organisms_min": 0, "inflow": 0, "slice": 50}
    notices: list[str] = []
    with OrganismCluster(config, 2, folder=tmp_path, interval_ticks=1) as cluster:
        for _ in range(6):
            cluster.simulation.step(None)
        assert cluster.simulation.ended() is not None
    found = discover_whole_checkpoints(tmp_path)
    assert found.checkpoints
    assert set(found.ignored.values()) == {"it has no organisms (organism_count = 0)"}
    with OrganismCluster(config, 2, folder=tmp_path, on_notice=notices.append) as cluster:
        assert cluster.simulation.state.count("organisms") > 0
    assert len(notices) == len(found.ignored)


def test_a_folder_of_a_different_simulation_is_refused(folder: Path) -> None:
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(UsageError, match=r"seed is 9 there and 10 here; choose a different folder"):
        OrganismCluster({**CONFIG, "seed": 10}, 2, folder=folder)
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize("change", [{"version": 7}, {"world": "meadow"}])
def test_a_folder_of_another_world_or_version_is_refused(change: dict[str, Any], folder: Path) -> None:
    edit(manifest(folder, 10), lambda plain: plain["metadata"].update(change))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(UsageError, match=r"is of another world or version: .*; choose a different folder"):
        OrganismCluster(CONFIG, 2, folder=folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_run_that_can_use_no_checkpoint_writes_over_none(folder: Path) -> None:
    """All are damaged: the run begins again, says why, and leaves them as they are."""
    for tick in (10, 20):
        flip(part(folder, tick=tick), 99)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    notices: list[str] = []
    with OrganismCluster(CONFIG, 3, folder=folder, interval_ticks=10, on_notice=notices.append) as cluster:
        assert (cluster.tick, len(notices)) == (0, 2)
        assert_states_to(cluster.simulation, 20)
        assert len(cluster.checkpoints) == 2
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert before.items() <= after.items()
    assert len(after) == len(before) + 8


def test_a_second_run_in_the_same_folder_is_refused(folder: Path) -> None:
    with OrganismCluster(CONFIG, 1, folder=folder) as cluster:
        with pytest.raises(UsageError, match="is in use by another run"):
            OrganismCluster(CONFIG, 1, folder=folder)
        assert_states_to(cluster.simulation, 23)


def test_only_what_died_half_written_is_swept(folder: Path) -> None:
    kept = {path.name for path in folder.iterdir()}
    temporary = ".0123456789abcdef.part"
    swept = [
        "checkpoint_000000000030_1_worker0.bin",
        f"checkpoint_000000000030_1_worker1.bin{temporary}",
        f"checkpoint_000000000020_1_server.json{temporary}",
    ]
    for name in [*swept, "notes.txt", "checkpoint_30.tape"]:
        (folder / name).write_text("mine")
    OrganismCluster(CONFIG, 1, folder=folder).close()
    assert {path.name for path in folder.iterdir()} == kept | {"notes.txt", "checkpoint_30.tape"}


def test_a_folder_that_cannot_be_written_fails_the_checkpoint_and_not_the_run(tmp_path: Path) -> None:
    folder, notices = tmp_path / "whole", []
    with OrganismCluster(CONFIG, 2, folder=folder, interval_ticks=5, on_notice=notices.append) as cluster:
        assert_states_to(cluster.simulation, 6)
        shutil.rmtree(folder)
        folder.write_text("a file now")
        assert_states_to(cluster.simulation, 12)
        assert [one.tick for one in cluster.checkpoints] == [5]
    assert len(notices) == 1
    assert "no checkpoint of tick 10 could be written" in notices[0]


@pytest.mark.parametrize("name", ["manifest", "part"])
def test_a_pipe_in_the_folder_is_not_waited_for(name: str, folder: Path) -> None:
    path = manifest(folder) if name == "manifest" else part(folder)
    path.unlink()
    os.mkfifo(path)
    found = discover_whole_checkpoints(folder)
    assert [one.tick for one in found.checkpoints] == [10]
    assert list(found.ignored.values()) == [f"{path} is not a file"]


def test_a_checkpoint_knows_its_own_size(folder: Path) -> None:
    checkpoint: WholeCheckpoint = read_manifest(manifest(folder))
    files = list(folder.glob("checkpoint_000000000020_1_*"))
    assert checkpoint.size_bytes == sum(path.stat().st_size for path in files)
    assert len(files) == 1 + len(checkpoint.parts) == 4
    assert attrs.evolve(checkpoint).identity == checkpoint.identity


@given(st.randoms(use_true_random=False))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_hostile_manifest_is_refused_in_one_line_or_gives_the_true_state(written: Path, chance: Random) -> None:
    """A value of a manifest without a digest is replaced by another one; nothing but a refusal or the true state follows."""
    plain = json.loads(manifest(written).read_text())
    del plain["blake2b"]
    holder, key = chance.choice(list(places(plain)))
    holder[key] = chance.choice([None, -1, 1 << 70, 1e300, "", "../x", "x\0", [], {}, [[]], float("nan"), True, 4711])
    path = written / "changed" / f"{manifest(written).name}"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(plain))
    for part_path in written.glob("*.bin"):
        if not (path.parent / part_path.name).exists():
            shutil.copy(part_path, path.parent)
    refusal = ""
    try:
        restored = restore_whole(read_manifest(path))
    except WholeCheckpointError as error:
        refusal = str(error)
    else:
        assert restored.world.state.hash() == plain_hashes()[20]
    finally:
        shutil.rmtree(path.parent)
    assert "\n" not in refusal
    assert len(refusal) < 1000


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each table or list in a value, with each of its keys; some of many."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    for key in list(keys)[:4]:
        yield value, key
        yield from places(value[key])
