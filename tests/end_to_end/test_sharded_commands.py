"""``record run --shards``: the tape of one process; every mistake is one line, and nothing is written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest

import recorder.commands.main
import replayer.commands.main
from recorder.location.shards_manifest import joined_by
from recorder.processes.shards.shard_processes import ShardProcesses
from replayer import Tape
from sim.sharding import Piece
from sim.worlds.meadow.shards.meadow_shard import StepOrder

from oracle.command_lines import assert_one_line, files, run
from ray_cluster import alone


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def record(arguments: str) -> int:
    """Run ``record``."""
    return run(recorder.commands.main.main, arguments)


@pytest.mark.seldom(0.18)
def test_the_tape_is_that_of_one_process(capsys: pytest.CaptureFixture[str]) -> None:
    """Frames, end and figures; it is verified, and resumed, by one process."""
    assert record("run boom-and-crash --ticks 30 -q -o many.tape --shards 2") == 0
    assert record("run boom-and-crash --ticks 30 -q -o one.tape") == 0
    with Tape("one.tape") as one, Tape("many.tape") as many:
        assert many.meta["notes"] == {"ticks": 30, "shards": 2}
        assert [one.frame(tick).state_hash for tick in range(1, 31)] == [
            many.frame(tick).state_hash for tick in range(1, 31)
        ]
        assert one.keyframes[-1].tick == many.keyframes[-1].tick
    capsys.readouterr()
    assert run(replayer.commands.main.main, "diff one.tape many.tape") == 0
    assert "31 ticks from 0 to 30, the same" in capsys.readouterr().out
    assert run(replayer.commands.main.main, "verify many.tape.shards") == 0
    assert run(replayer.commands.main.main, "diff one.tape many.tape.shards/manifest.json") == 0
    assert run(replayer.commands.main.main, "seek many.tape.shards --tick 9") == 0
    assert "tick 9 of many.tape: " in capsys.readouterr().out
    for line in (
        "tail many.tape.shards -n 1 --no-follow",
        "index many.tape.shards",
        "follow many.tape.shards --no-wait",
    ):
        assert run(replayer.commands.main.main, line) == 0, line
    capsys.readouterr()
    assert run(replayer.commands.main.main, "ls many.tape.shards") == 0
    assert "many.tape.shards: 2 runs" in capsys.readouterr().out
    assert record("resume many.tape --ticks 33 -q") == 0
    assert run(replayer.commands.main.main, "verify many.tape") == 0


def test_info_of_a_shard_names_its_keyframes_as_they_are_and_no_simulation(capsys: pytest.CaptureFixture[str]) -> None:
    """A keyframe comes where the state has another size, too; the steps of a shard are not run alone."""
    assert record("run boom-and-crash --ticks 30 -q -o some.tape --shards 2") == 0
    with Tape("some.tape.shards/shard-1.tape") as tape:
        ticks = [place.tick for place in tape.keyframes]
    apart = sorted(later - before for before, later in pairwise(ticks))
    capsys.readouterr()
    assert run(replayer.commands.main.main, "info some.tape.shards/shard-1.tape") == 0
    told = capsys.readouterr().out
    found = f"{apart[0]} to {apart[-1]}" if apart[0] < apart[-1] else str(apart[0])
    assert f"  keyframes: {len(ticks)} full, 0 delta, {found} ticks apart (set to 300)\n" in told
    assert "(no registered world; shard 1 of 2 of a run: its steps are those of the whole)" in told
    assert "--sim" not in told


@pytest.mark.skipif(find_spec("ray") is None, reason="needs the package ray")
def test_shards_on_a_ray_that_is_started_for_the_command() -> None:
    """The tape is that of one process; a Ray that is not there is one line."""
    command = [sys.executable, "-m", "recorder", "run", "boom-and-crash", "--ticks", "6", "--shards", "2", "--engine"]
    finished = subprocess.run(
        alone(*command, "ray", "-q", "-o", "many.tape"), capture_output=True, text=True, check=False
    )
    assert (finished.returncode, finished.stdout) == (0, ""), finished.stderr
    assert record("run boom-and-crash --ticks 6 -q -o one.tape") == 0
    assert run(replayer.commands.main.main, "diff one.tape many.tape.shards") == 0
    finished = subprocess.run(
        [*command, "ray:127.0.0.1:1", "-o", "b.tape"], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 2
    assert "Ray at 127.0.0.1:1 cannot be reached: " in finished.stderr
    assert not Path("b.tape").exists()


@pytest.mark.seldom(0.15)
def test_a_shard_that_always_ends_is_one_line_and_the_ticks_before_are_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tape is sealed, and continues in one process."""
    step = ShardProcesses.step

    def dying_step(self: ShardProcesses, inputs: StepOrder) -> list[Piece]:
        if self.steps_left == 0:
            os.kill(self.process_ids[1], signal.SIGKILL)
        ShardProcesses.steps_left = max(self.steps_left - 1, 0)
        return step(self, inputs)

    with monkeypatch.context() as patch:
        patch.setattr(ShardProcesses, "steps_left", 3, raising=False)
        patch.setattr(ShardProcesses, "step", dying_step)
        assert record("run boom-and-crash --ticks 9 -q -o many.tape --shards 2") == 3
    assert_one_line(
        capsys.readouterr(),
        "--shards: shard 1 of 2 ended with exit code -9, after 3 restarts of all shards in this tick",
    )
    assert run(replayer.commands.main.main, "verify many.tape") == 0
    assert "all 4 ticks match" in capsys.readouterr().out
    assert record("resume many.tape --ticks 9 -q") == 0


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
def test_without_the_package_ray_the_line_says_what_to_install(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert record("run quiet-meadow --shards 2 --engine ray -o a.tape") == 2
    assert_one_line(capsys.readouterr(), "the engine ray needs ray: pip install 'ray>=2.40'")
    assert files(folder) == {}


def test_a_new_name_is_none_whose_tapes_of_shards_are_still_there() -> None:
    """Of a tape that was removed."""
    Path("recordings/boom-and-crash-1.tape.shards").mkdir(parents=True)
    assert record("run boom-and-crash --ticks 2 -q") == 0
    assert [path.name for path in Path("recordings").glob("*.tape")] == ["boom-and-crash-2.tape"]


def test_a_folder_of_data_that_is_called_so_is_no_manifest_of_shards(capsys: pytest.CaptureFixture[str]) -> None:
    """A data set has a manifest of its own: no second one is written beside it."""
    assert record("run boom-and-crash --ticks 5 -q -o one.tape") == 0
    assert run(replayer.commands.main.main, "extract one.tape -o data.shards") == 0
    before = files(Path())
    capsys.readouterr()
    Path("data").write_text("a file")
    assert run(replayer.commands.main.main, "extract one.tape -o data.shards --stride 2") == 2
    Path("data").unlink()
    assert run(replayer.commands.main.main, "extract one.tape -o data.shards --stride 2") == 2
    assert files(Path()) == before
    assert joined_by(Path("data.shards")) == Path("data.shards")
    Path(".shards").mkdir()
    Path(".shards/manifest.json").write_text("{}")
    assert joined_by(Path(".shards")) == Path(".shards")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("quiet-meadow --shards 25", "25 shards do not divide a world of 48 rows"),
        ("two-phase-vote --shards 2", "--shards 2: the world choreography does not run in shards"),
        ("quiet-meadow --shards 0", "Must be >= 1"),
        ("quiet-meadow --shards two", "expected an integer, got 'two'"),
        ("quiet-meadow --shards 2 --engine threads", "expected processes, ray, or ray:ADDRESS"),
        ("quiet-meadow --engine processes", "--checkpoints and --engine need --workers or --shards"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    arguments: str, why: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before a process is started."""
    assert record(f"run {arguments} -o a.tape") == 2
    assert_one_line(capsys.readouterr(), why)
    assert files(folder) == {}
