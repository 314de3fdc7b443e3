"""``record run --workers``: the tape of one process, checkpoints of the whole, and mistakes in one line."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import tomli_w
from waiting import wait_until

import recorder.commands.main
import replayer.commands.main
from recorder.cluster.checkpoint_folder import CheckpointFolder

from cluster_runs import CONFIG, plain_hashes
from oracle.command_lines import assert_one_line, run

main = recorder.commands.main.main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with a small scenario."""
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(tomli_w.dumps({**CONFIG, "ticks": 20}))
    return tmp_path


def test_a_run_is_recorded_listed_and_continued(capsys: pytest.CaptureFixture[str]) -> None:
    """By 3 workers, then by 2 from the newest checkpoint, then verified; the tape is that of one process."""
    options = "--checkpoints whole --checkpoint-interval 8 --deterministic"
    assert run(main, "run small.toml -o plain.tape -q --deterministic") == 0
    assert run(main, f"run small.toml -o three.tape --workers 3 {options}") == 0
    assert "2 checkpoints in whole" in capsys.readouterr().out
    assert Path("plain.tape").read_bytes() == Path("three.tape").read_bytes()
    assert run(main, "checkpoints whole --json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(one["tick"], one["worker_count"]) for one in listed["checkpoints"]] == [(16, 3), (8, 3)]
    assert listed["checkpoints"][0]["state_hash"] == f"{plain_hashes()[16]:016x}"
    assert run(main, f"run small.toml -o two.tape --ticks 30 --workers 2 {options}") == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0] == (
        f"resumed {listed['checkpoints'][0]['simulation_id']} from whole/checkpoint_000000000016_1_server.json at tick 16, "
        "2 workers"
    )
    assert f"state hash: {plain_hashes()[30]:016x}" in printed
    assert run(replayer.commands.main.main, "verify two.tape") == 0
    assert "all 15 ticks match" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("run quiet-meadow --workers 2", "the world meadow has no server and workers, only the world organisms does"),
        ("run small.toml --workers 0", "--workers"),
        ("run small.toml --workers 2000", "workers: expected 1 to 1024, got 2000"),
        ("run small.toml --checkpoints whole", "need --workers"),
        ("run small.toml --engine ray", "need --workers or --shards"),
        ("run small.toml --workers 2 --engine threads", "expected processes, ray, or ray:ADDRESS"),
        ("run small.toml --workers 2 --engine ray:", "expected processes, ray, or ray:ADDRESS"),
        ("run small.toml --workers 2 --checkpoint-interval 5", "needs --checkpoints"),
        ("run small.toml --workers 2 --from x.tape", "begins at the newest checkpoint"),
        ("run small.toml --workers 2 --blame phases", "run in another process"),
        ("run roles.toml --workers 2", "has a table [scenario], which runs in one process"),
        ("run small.toml --workers 2 --checkpoints small.toml", "small.toml"),
        ("run small.toml --workers 2 --checkpoints whole --shards 2", "does not run in shards"),
        ("run small.toml --workers 2 --checkpoints whole -o none/a.tape", "none"),
    ],
)
def test_a_mistake_gets_one_line_and_writes_nothing(
    line: str, text: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("roles.toml").write_text(tomli_w.dumps({**CONFIG, "scenario": {"steps": 5}}))
    assert run(main, line) == 2
    assert_one_line(capsys.readouterr(), text)
    assert sorted(path.name for path in folder.iterdir()) == ["roles.toml", "small.toml"]


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
def test_without_the_package_ray_the_line_says_what_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(main, "run small.toml --workers 2 --engine ray") == 2
    assert_one_line(capsys.readouterr(), "the engine ray needs ray: pip install 'ray>=2.40'")


def test_processes_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(main, "run small.toml -o a.tape --workers 2 --engine processes") == 0
    assert f"state hash: {plain_hashes()[20]:016x}" in capsys.readouterr().out


@pytest.mark.skipif(find_spec("ray") is None, reason="needs the package ray")
def test_ray_by_name() -> None:
    """A Ray is started for the command, and ended; one that is not there is a line."""
    command = [sys.executable, "-m", "recorder", "run", "small.toml", "--workers", "2", "--engine"]
    finished = subprocess.run([*command, "ray", "-o", "a.tape"], capture_output=True, text=True, check=False)
    assert f"state hash: {plain_hashes()[20]:016x}" in finished.stdout, finished.stderr
    finished = subprocess.run(
        [*command, "ray:127.0.0.1:1", "-o", "b.tape"], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 2
    assert "Ray at 127.0.0.1:1 cannot be reached: " in finished.stderr
    assert not Path("b.tape").exists()


def test_a_folder_that_cannot_be_used_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """One in use, one that is at the end already, one of another simulation; nothing is lost."""
    assert run(main, "run small.toml -o a.tape --workers 1 --checkpoints whole --checkpoint-interval 10 -q") == 0
    before = sorted(path.name for path in Path("whole").iterdir())
    held = CheckpointFolder(Path("whole"))
    for line, text in (
        ("run small.toml -o b.tape --workers 1 --checkpoints whole", "whole is in use by another run"),
        (
            "run small.toml -o b.tape --workers 1 --checkpoints whole",
            "is of tick 20: expected a later last tick, got 20",
        ),
        ("run small.toml -o b.tape --seed 4 --workers 1 --checkpoints whole", "seed is 9 there and 4 here"),
        ("run small.toml -o a.tape --ticks 25 --workers 1 --checkpoints whole", "a.tape already exists"),
    ):
        capsys.readouterr()
        assert run(main, line) == 2
        assert_one_line(capsys.readouterr(), text)
        held.close()
    assert sorted(path.name for path in Path("whole").iterdir()) == before
    assert not Path("b.tape").exists()


def test_what_is_no_checkpoint_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    run(main, "run small.toml -o a.tape --workers 2 --checkpoints whole --checkpoint-interval 10 -q")
    shutil.copytree("whole", "copy")
    Path("whole/checkpoint_000000000010_1_worker1.bin").unlink()
    Path("copy/checkpoint_000000000010_1_server.json").write_text("")
    capsys.readouterr()
    assert run(main, "checkpoints .") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1 checkpoint"
    assert lines[2].split()[1] == "20"
    assert [line.partition(": ")[0] for line in lines[3:5]] == [
        "ignored copy/checkpoint_000000000010_1_server.json",
        "ignored whole/checkpoint_000000000010_1_server.json",
    ]


EARLY = """
import importlib, os, signal, sys
import simulation_flight_recorder
load = importlib.import_module
def load_and_signal(name):
    os.kill(os.getpid(), signal.SIGUSR1)
    return load(name)
simulation_flight_recorder.importlib.import_module = load_and_signal
sys.argv = ["record", "run", "small.toml", "-o", "a.tape", "--workers", "1", "--checkpoints", "whole", "-q"]
simulation_flight_recorder.record()
"""


def test_a_signal_before_the_command_has_begun_asks_for_a_checkpoint() -> None:
    """It comes at the first import; the run ends as it would without, with a checkpoint of its first tick."""
    finished = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert [path.name for path in Path("whole").glob("*_server.json")] == ["checkpoint_000000000001_1_server.json"]


def test_checkpoints_of_other_runs_in_folders_inside_are_not_those_of_a_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of another simulation, and of the same one; record checkpoints lists them."""
    for line in ("-o a.tape --checkpoints of-one", "--seed 4 -o b.tape --checkpoints of-two"):
        assert run(main, f"run small.toml --workers 1 --checkpoint-interval 10 -q {line}") == 0
    assert run(main, "run small.toml -o c.tape --ticks 5 --workers 1 --checkpoints .") == 0
    assert "resumed" not in capsys.readouterr().out
    assert run(main, "checkpoints .") == 0
    assert "4 checkpoints" in capsys.readouterr().out


def test_a_refused_run_leaves_no_folder_for_checkpoints(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(main, "run small.toml --workers 2 --checkpoints new/inner/whole -o none/a.tape") == 2
    assert_one_line(capsys.readouterr(), "none")
    assert sorted(path.name for path in folder.iterdir()) == ["small.toml"]
    Path("kept").mkdir()
    assert run(main, "run small.toml --workers 2 --checkpoints kept/inner/whole -o none/a.tape") == 2
    assert list(Path("kept").iterdir()) == []


def test_a_signal_asks_for_a_checkpoint() -> None:
    """kill -USR1 of the driver; the run goes on, and Ctrl-C ends it with a sealed tape."""
    command = "run small.toml -o a.tape --ticks 100000 --workers 2 --checkpoints whole --checkpoint-interval 1000000 -q"
    process = subprocess.Popen([sys.executable, "-m", "recorder", *command.split()])
    wait_until(lambda: Path("a.tape").exists())
    process.send_signal(signal.SIGUSR1)
    wait_until(lambda: list(Path("whole").glob("*_server.json")))
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    with replayer.Tape("a.tape") as tape:
        assert tape.sealed
        for tick in range(min(tape.last_tick, len(plain_hashes()) - 1) + 1):
            assert tape.state_hash(tick) == plain_hashes()[tick]
