"""``record run --shards --checkpoints``: any number of shards continues from them, after any death; mistakes are one line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until

import recorder.commands.main
import replayer.commands.main
from recorder.cluster.checkpoint_folder import CheckpointFolder
from recorder.processes.shards.shard_processes import ShardProcesses
from recorder.scenarios.shards import shard_checkpoints
from recorder.scenarios.shards.shard_checkpoints import ShardCheckpoints, discover_shard_checkpoints, state_of
from sim.scenario.scenario_file import load_scenario
from sim.sharding import Lockstep
from sim.worlds.meadow import WORLD, Meadow
from sim.worlds.meadow.shards.sharded_meadow import ShardedMeadow

from oracle.command_lines import assert_one_line, files, run

main = recorder.commands.main.main
SCENARIO = "boom-and-crash"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder. Shards run in this process, but where a test says otherwise: starting others takes seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("recorder.processes.shards.shard_processes.ShardProcesses", lambda **_: Lockstep())
    return tmp_path


@cache
def plain_hashes() -> list[int]:
    """The hashes of the run in one process."""
    plain = load_scenario(SCENARIO).config
    meadow, inputs_at = Meadow(plain), WORLD.inputs(plain)
    hashes = [meadow.state.hash()]
    for tick in range(1, 61):
        meadow.step(inputs_at(tick))
        hashes.append(meadow.state.hash())
    return hashes


def written(place: Path, ticks: int, every: int, count: int = 3) -> None:
    """Write checkpoints to a folder by a plain loop over a meadow in shards."""
    plain = load_scenario(SCENARIO).config
    meadow, inputs_at = ShardedMeadow(plain, count), WORLD.inputs(plain)
    place.mkdir(parents=True, exist_ok=True)
    writer = ShardCheckpoints(place, every, None, pytest.fail)
    meta = {"world": meadow.origin.described(), "notes": {}}
    for tick in range(1, ticks + 1):
        meadow.step(inputs_at(tick))
        writer.write_if_due(meadow.shards, meadow.state, tick, meta)


def manifest(tick: int, epoch: int = 1, place: str = "parts") -> Path:
    """The path of a manifest."""
    return Path(place) / f"checkpoint_{tick:012d}_{epoch}.shards" / "manifest.json"


def test_3_shards_then_2_then_7(capsys: pytest.CaptureFixture[str]) -> None:
    """Each run begins at the newest checkpoint; hashes, listing and tapes are those of one process."""
    options = "--checkpoints parts --checkpoint-interval 8"
    assert run(main, f"run {SCENARIO} --ticks 20 --shards 3 -o a.tape {options}") == 0
    assert "2 checkpoints in parts" in capsys.readouterr().out
    assert run(main, "checkpoints parts --json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(one["tick"], one["shard_count"], one["state_hash"]) for one in listed["checkpoints"]] == [
        (tick, 3, f"{plain_hashes()[tick]:016x}") for tick in (16, 8)
    ]
    for count, ticks, begun in ((2, 30, 16), (7, 45, 24)):
        assert run(main, f"run {SCENARIO} --ticks {ticks} --shards {count} -o {count}.tape {options}") == 0
        printed = capsys.readouterr().out
        assert f"resumed {listed['checkpoints'][0]['simulation_id']} from parts/checkpoint_" in printed
        assert f" at tick {begun}, {count} shards" in printed
        assert f"state hash: {plain_hashes()[ticks]:016x}" in printed
        assert run(replayer.commands.main.main, f"verify {count}.tape") == 0
    capsys.readouterr()
    assert run(replayer.commands.main.main, f"seek {manifest(40, 3).parent} --tick 40 --json") == 0
    assert json.loads(capsys.readouterr().out)["state_hash"] == f"{plain_hashes()[40]:016x}"
    assert run(main, "checkpoints .") == 0
    assert "next: record run SCENARIO --shards 7 --checkpoints parts" in capsys.readouterr().out


@pytest.mark.seldom(0.15)
def test_a_killed_driver_leaves_no_shard_and_another_number_of_shards_continues(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run goes back to the last checkpoint, and has the same final hash."""
    line = f"run {SCENARIO} --ticks 6000 --shards 2 -q -o a.tape --checkpoints parts --checkpoint-interval 5"
    process = subprocess.Popen([sys.executable, "-m", "recorder", *line.split()])
    wait_until(lambda: len(list(Path("parts").glob("*/manifest.json"))) > 1)
    shards = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.wait()
    wait_until(lambda: not any(is_running(int(shard)) for shard in shards))
    newest = discover_shard_checkpoints(Path("parts")).checkpoints[0]
    monkeypatch.setattr("recorder.processes.shards.shard_processes.ShardProcesses", ShardProcesses)
    goal = newest.tick + 9
    assert run(main, f"run {SCENARIO} --ticks {goal} --shards 3 -o b.tape --checkpoints parts") == 0
    plain = load_scenario(SCENARIO).config
    meadow, inputs_at = Meadow(plain), WORLD.inputs(plain)
    for tick in range(1, goal + 1):
        meadow.step(inputs_at(tick))
    assert f"state hash: {meadow.state.hash():016x}" in capsys.readouterr().out


def is_running(process: int) -> bool:
    """Return True if there is such a process, which is not waiting to be taken note of."""
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


def test_a_signal_asks_for_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Lockstep.step

    def step_and_signal(self: Lockstep, inputs: Any) -> Any:
        signals = signal.SIGUSR1 if not list(Path("parts").glob("*.shards")) else signal.SIGCONT
        os.kill(os.getpid(), signals)
        return step(self, inputs)

    monkeypatch.setattr(Lockstep, "step", step_and_signal)
    assert run(main, f"run {SCENARIO} --ticks 4 --shards 2 -q -o a.tape --checkpoints parts") == 0
    assert [one.tick for one in discover_shard_checkpoints(Path("parts")).checkpoints] == [1]


def exchange(one: Path, other: Path) -> None:
    """Put the part of one checkpoint in the place of that of another one, with a size and a digest that fit."""
    shutil.copy(other, one)
    content = json.loads((one.parent / "manifest.json").read_text())
    entry = next(entry for entry in content["tapes"] if entry["name"] == one.name)
    entry.update(bytes=other.stat().st_size, blake2b=shard_checkpoints.digest_of(other))
    (one.parent / "manifest.json").write_text(json.dumps(content))


def change(**values: Any) -> None:
    """Change the newest manifest."""
    path = manifest(8)
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "a part is missing": (lambda: manifest(8).with_name("shard-1.tape").unlink(), "shard-1.tape is missing"),
    "a part is damaged": (
        lambda: manifest(8).with_name("shard-1.tape").write_bytes(b"\x89TAP\r\n\x1a\n"),
        "its content has changed",
    ),
    "parts of two ticks": (
        lambda: exchange(manifest(8).with_name("shard-1.tape"), manifest(4).with_name("shard-1.tape")),
        "shard-1.tape is not a part of a checkpoint of tick 8",
    ),
    "half a manifest": (lambda: manifest(8).write_text('{"version": 2,'), "cannot be read"),
    "another version": (lambda: change(version=9), "has version 9"),
    "a hash that is not that of the parts": (lambda: change(last_hash="00"), "its parts together have the hash"),
    "other cuts": (lambda: change(cuts=[0, 14, 26, 40]), "divides the world in another way"),
    "no time": (lambda: change(timestamp="now"), "is not the manifest of a checkpoint"),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("what", BAD)
def test_a_damaged_checkpoint_is_ignored_with_the_reason(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The run begins at the one before it, and writes over neither."""
    written(Path("parts"), 8, 4)
    damage, why = BAD[what]
    damage()
    before = files(Path("parts"))
    assert run(main, f"run {SCENARIO} --ticks 9 --shards 2 -o a.tape --checkpoints parts --checkpoint-interval 4") == 0
    printed = capsys.readouterr()
    assert "at tick 4, 2 shards" in printed.out
    assert f"state hash: {plain_hashes()[9]:016x}" in printed.out
    assert len(printed.err.splitlines()) == 1
    assert printed.err.startswith("shards: ignored ")
    assert why in printed.err
    assert before.items() <= files(Path("parts")).items()


def test_what_a_killed_run_left_half_written_is_removed() -> None:
    """It has no manifest. Other files stay."""
    written(Path("parts"), 8, 4)
    manifest(8).unlink()
    Path("parts/notes.shards").mkdir()
    assert run(main, f"run {SCENARIO} --ticks 5 --shards 2 -q -o a.tape --checkpoints parts") == 0
    assert sorted(path.name for path in Path("parts").glob("*.shards")) == [manifest(4).parent.name, "notes.shards"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--ticks 8 --shards 2", "is of tick 8: expected a later last tick, got 8"),
        ("--ticks 20 --shards 2 --seed 5", "seed is 11 there and 5 here; choose a different folder"),
        ("--ticks 20 --shards 2 --inputs inputs.json", "--inputs is None there and 'inputs.json' here"),
        ("--ticks 20 --shards 30", "30 shards do not divide a world of 40 rows"),
        ("--ticks 20", "--checkpoints and --engine need --workers or --shards"),
        ("--ticks 20 --shards 2 --from a.tape", "begins at the newest checkpoint there"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(line: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    written(Path("parts"), 8, 8)
    Path("inputs.json").write_text('{"tick": 5, "inputs": []}')
    before = set(files(Path()))
    assert run(main, f"run {SCENARIO} -o a.tape --checkpoints parts {line}") == 2
    assert_one_line(capsys.readouterr(), why)
    assert set(files(Path())) - {"parts/.lock"} == before


def test_checkpoints_of_another_world_version_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("sim.worlds.meadow.simulation.WORLD_VERSION", 3)
        written(Path("parts"), 8, 8)
    assert run(main, f"run {SCENARIO} -q -o a.tape --shards 2 --checkpoints parts") == 2
    assert_one_line(
        capsys.readouterr(), "is of another world or version: expected meadow version 4, got meadow version 3"
    )


def test_a_second_run_into_the_same_folder_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    held = CheckpointFolder(Path("parts"))
    assert run(main, f"run {SCENARIO} -q -o a.tape --shards 2 --checkpoints parts") == 2
    assert_one_line(capsys.readouterr(), "parts is in use by another run")
    held.close()


def test_a_scenario_around_the_world_has_checkpoints_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(str(WORLD.scenarios)) / f"{SCENARIO}.toml").read_text()
    Path("around.toml").write_text(f"{text}\n[scenario]\nsteps = 5\n")
    assert run(main, "run around.toml -q -o a.tape --shards 2 --checkpoints parts") == 2
    assert_one_line(capsys.readouterr(), "has a table [scenario], whose state is not divided")


def test_a_checkpoint_that_cannot_be_written_fails_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: nothing is left of it, and the run continues."""

    def full_disk(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shard_checkpoints, "write_file", full_disk)
    notices: list[str] = []
    meadow = ShardedMeadow(load_scenario(SCENARIO).config, 2)
    Path("parts").mkdir()
    writer = ShardCheckpoints(Path("parts"), 1, None, notices.append)
    writer.write_if_due(meadow.shards, meadow.state, 1, {})
    assert notices == ["no checkpoint of tick 1 could be written: [Errno 28] No space left on device"]
    assert files(Path("parts")) == {}
    assert writer.written == []


def test_the_state_of_a_checkpoint_is_that_of_one_process() -> None:
    """For 1 to 7 shards, with all rows and capacities."""
    plain = load_scenario(SCENARIO).config
    meadow, inputs_at = Meadow(plain), WORLD.inputs(plain)
    for tick in range(1, 6):
        meadow.step(inputs_at(tick))
    for count in range(1, 8):
        written(Path(f"of-{count}"), 5, 5, count)
        (found,) = discover_shard_checkpoints(Path(f"of-{count}")).checkpoints
        assert found.shard_count == count
        assert (state_of(found).arena == meadow.state.arena).all()
