"""Verify simulations that use threads, which forked processes lack, and inside of processes of a pool.

Each case runs in a process of its own with a time limit: all of them hung, or could not start a process.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import threaded_worlds

import replayer.commands.main
from recorder import Recorder

from oracle.command_lines import run
from project_paths import SUPPORT

LIMIT_S = 90
PREPARED = """
import json, sys
sys.path.insert(0, SUPPORT)
import replayer, threaded_worlds
from recorder import Recorder
from replayer.timeline import interval_processes
interval_processes.FORK_PATIENCE_S = 1.0

def record(world):
    with Recorder("run.tape", world(), keyframe_interval_ticks=10, durability="none", trial_ms=0) as tape:
        for tick in range(40):
            tape.step(tick)

def verify(world, **options):
    report = replayer.verify_tape("run.tape", world, **options)
    print(json.dumps([report.ok, report.verified_ticks, report.first_bad, list(report.notes)]), flush=True)
"""


def results(folder: Path, text: str) -> list[Any]:
    """Run a script in a folder and return what it prints, a JSON value in each line. A hang fails the test."""
    (folder / "script.py").write_text(PREPARED.replace("SUPPORT", repr(str(SUPPORT))) + text)
    finished = subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2", "NUMBA_THREADING_LAYER": "omp"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return [json.loads(line) for line in finished.stdout.splitlines()]


@pytest.mark.seldom(0.15)
def test_a_simulation_whose_making_starts_threads_is_simulated_in_fresh_processes(tmp_path: Path) -> None:
    """With the same result, also for a desync, and a note. The script has no guard and is not run again."""
    text = """
record(threaded_worlds.Plain)
verify(threaded_worlds.Threaded, jobs=2)
threaded_worlds.POOL = threaded_worlds.ThreadPoolExecutor(1)
verify(threaded_worlds.OtherThreaded)
"""
    same, other = results(tmp_path, text)
    assert same[:3] == [True, 41, None]
    assert other[:3] == [False, 13, 13]
    for (note,) in (same[3], other[3]):
        assert note.startswith("simulated in a fresh process for several intervals each")
        assert "a simulation whose making started threads (ThreadPoolExecutor-" in note


@pytest.mark.seldom(0.4)
@pytest.mark.parametrize(
    ("world", "before", "last_tick"),
    [("Lazy", "", 0), ("Locked", "threaded_worlds.hold_lock_at_fork()", 7)],
    ids=["pool", "lock"],
)
def test_a_hanging_copy_is_ended_and_its_interval_repeated(
    tmp_path: Path, world: str, before: str, last_tick: int
) -> None:
    """Where nothing was seen beforehand: a pool that was used, a lock that a thread held. The last tick is named."""
    text = f"record(threaded_worlds.{world})\n{before}\nverify(threaded_worlds.{world})"
    [found] = results(tmp_path, text)
    assert found[:3] == [True, 41, None]
    [note] = found[3]
    assert f"because a forked copy did nothing for 1 s after tick {last_tick}" in note
    assert "fresh process" in note


@pytest.mark.seldom(0.4)
def test_a_pool_of_processes_in_a_module_is_one_of_each_copy(tmp_path: Path) -> None:
    """Copies of a process shared its queues, so each waited for tasks that another one had taken."""
    (tmp_path / "mills.py").write_text(
        "from concurrent.futures import ProcessPoolExecutor\nfrom small_worlds import Kinds\n"
        "POOL = ProcessPoolExecutor(2)\n"
        "class Mill(Kinds):\n    def step(self, inputs):\n"
        "        super().step(sum(POOL.map(abs, range(-inputs, 20))))\n"
    )
    text = "import mills\nif __name__ == '__main__':\n    record(mills.Mill)\n    verify(mills.Mill, jobs=2)\n"
    assert results(tmp_path, text) == [[True, 41, None, []]]


def test_a_simulation_of_the_script_itself_is_simulated_in_this_process(tmp_path: Path) -> None:
    """No other process can import it without running the script again; the note says what is not found."""
    text = """
class Mine(threaded_worlds.Threaded):
    pass

record(Mine)
verify(Mine)
verify(lambda: Mine())
"""
    for found in results(tmp_path, text):
        assert found[:3] == [True, 41, None]
        [note] = found[3]
        assert note.startswith("simulated in this process")
        assert "what a step keeps in globals of modules, or what this process has in them, stays unnoticed" in note


@pytest.mark.seldom(0.15)
def test_a_step_that_hangs_everywhere_is_named_with_its_last_tick(tmp_path: Path) -> None:
    """In one line; the process is ended. A step that computes or sleeps shortly is not taken for one that hangs."""
    text = """
import os, time
from recorder.processes.lifetimes.stuck_workers import WorkerStuckError
os.environ["THREADED_WORLDS_GO"] = ""
record(threaded_worlds.Stuck)
verify(threaded_worlds.Slow, patience_s=1)
del os.environ["THREADED_WORLDS_GO"]
try:
    verify(threaded_worlds.Stuck, patience_s=1)
except WorkerStuckError as error:
    print(json.dumps([str(error), error.reached]))
"""
    slow, (message, reached) = results(tmp_path, text)
    assert slow == [True, 41, None, []]
    assert message == (
        "the process that simulated ticks 10 to 20 did nothing for 1 s after tick 10, and was ended: it waits for something, "
        "such as a lock or a thread"
    )
    assert reached == "tick 10"


@pytest.mark.seldom(0.4)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_verify_works_in_a_process_of_a_pool(tmp_path: Path, method: str) -> None:
    """Such a process is daemonic: multiprocessing lets it have no children. It finds a desync and hidden state, too."""
    text = f"""
import multiprocessing
if __name__ == "__main__":
    record(threaded_worlds.Plain)
    with multiprocessing.get_context("{method}").Pool(2) as pool:
        jobs = [pool.apply_async(verify_in_pool, (name,)) for name in ("Plain", "OtherPlain", "Counting")]
        for job in jobs:
            print(json.dumps(job.get(60)))
"""
    in_pool = """
def verify_in_pool(name):
    report = replayer.verify_tape("run.tape", getattr(threaded_worlds, name), jobs=2)
    return [report.ok, report.first_bad, list(report.notes)]
"""
    assert results(tmp_path, in_pool + text) == [[True, None, []], [False, 13, []], [False, 11, []]]


COMPILED = {
    "torch": """
import torch
from sim import Field, Schema, State

class Compiled:
    def __init__(self):
        self.state = State(Schema(Field("x", "f8", (2,))))
        torch.ones(1_000_000).exp().sum()

    def step(self, inputs):
        self.state["x"][:] += float((torch.ones(1_000_000) * inputs).max())
""",
    "numba": """
import numba
from sim import Field, Schema, State

@numba.njit(parallel=True)
def add(values, added):
    for index in numba.prange(len(values)):
        values[index] += added

class Compiled:
    def __init__(self):
        self.state = State(Schema(Field("x", "f8", (64,))))
        add(self.state["x"], 0.0)

    def step(self, inputs):
        add(self.state["x"], float(inputs))
""",
}


@pytest.mark.seldom(0.15)
@pytest.mark.share(0.5)
@pytest.mark.parametrize("package", COMPILED)
def test_threads_of_compiled_code_do_not_hang_it(tmp_path: Path, package: str) -> None:
    """Of OpenMP: a forked copy waited for them forever, or was ended by the library."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    (tmp_path / "compiled.py").write_text(COMPILED[package])
    text = "import compiled\nrecord(compiled.Compiled)\nverify(compiled.Compiled)\n"
    used_before, fresh = (
        results(tmp_path, text),
        results(tmp_path, "import compiled\nverify(compiled.Compiled, jobs=2)\n"),
    )
    assert [found[:3] for found in (*used_before, *fresh)] == [[True, 41, None]] * 2


def test_the_command_prints_the_note(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the result, and among the facts of --json. This process has no thread of that simulation before."""
    monkeypatch.setattr(threaded_worlds, "POOL", threaded_worlds.ThreadPoolExecutor(1))
    with Recorder(tmp_path / "run.tape", threaded_worlds.Plain(), durability="none") as tape:
        for tick in range(5):
            tape.step(tick)
    line = f"verify {tmp_path / 'run.tape'} --sim threaded_worlds:Threaded"
    try:
        assert run(replayer.commands.main.main, line) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].endswith("all 6 ticks match the recording")
        assert lines[1].startswith("  note: simulated in a fresh process")
        monkeypatch.setattr(threaded_worlds, "POOL", threaded_worlds.ThreadPoolExecutor(1))
        assert run(replayer.commands.main.main, f"{line} --json") == 0
        [note] = json.loads(capsys.readouterr().out)["notes"]
        assert note.startswith("simulated in a fresh process")
    finally:
        threaded_worlds.POOL.shutdown()


@pytest.mark.seldom(0.15)
def test_explain_and_certify_end(tmp_path: Path) -> None:
    """In processes of their own, which make simulations and fork."""
    text = """
record(threaded_worlds.Threaded)
import os, subprocess
environment = os.environ | {"PYTHONPATH": os.pathsep.join([SUPPORT_FOLDER, os.environ.get("PYTHONPATH", "")])}
program = [sys.executable, "-c", "import replayer.commands.main; replayer.commands.main.main()"]
for words in (["explain", "--tick", "13"], ["certify", "--factor", "threads", "--json"]):
    command = [*program, words[0], "run.tape", "--sim", "threaded_worlds:OtherThreaded", *words[1:]]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True)
    print(json.dumps([finished.returncode, finished.stdout, finished.stderr]))
""".replace("SUPPORT_FOLDER", repr(str(SUPPORT)))
    explained, certified = results(tmp_path, text)
    assert explained[0] == 1
    assert explained[1].startswith("run.tape: tick 13")
    assert "the simulation starts threads: lines that run in those are not traced" in explained[1]
    assert certified[0] == 1
    assert {cell["first_bad"] for cell in json.loads(certified[1])["cells"]} == {13}
