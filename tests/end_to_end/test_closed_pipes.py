"""A reader that leaves, as ``| head -1`` does, changes no verdict: the exit code stays the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recorder import Recorder

from small_worlds import Walkers

pytestmark = pytest.mark.share(0.18)

REPLAY = [sys.executable, "-c", "import replayer.commands.main; replayer.commands.main.main()"]

WRONG = """
from small_worlds import Walkers

class Wrong(Walkers):
    def step(self, inputs):
        super().step(inputs)
        if self.state["rng"][2] == 29 * 40:
            self.state["y"][7] ^= 4

class Talking(Walkers):
    def step(self, inputs):
        super().step(inputs)
        print("x" * 5000, flush=True)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a tape and a simulation that does not fit it."""
    monkeypatch.chdir(tmp_path)
    Path("wrong.py").write_text(WRONG)
    for name, amount in (("run", 2), ("other", 3)):
        with Recorder(f"{name}.tape", Walkers(), keyframe_interval_ticks=10) as tape:
            for tick in range(1, 41):
                tape.step([[tick % 20, amount]])


def unread(words: str, *, both: bool = False) -> tuple[int, str]:
    """Run a command whose stdout is not read; return exit code and stderr. both: stderr is not read either."""
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}
    finished = subprocess.run(
        [*REPLAY, *words.split()],
        stdout=writing,
        stderr=writing if both else subprocess.PIPE,
        env=environment,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(writing)
    return finished.returncode, finished.stderr or ""


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("verify run.tape --sim wrong:Wrong --json", 1),
        ("verify run.tape --sim wrong:Talking", 0),
        ("diff run.tape other.tape", 1),
        ("seek run.tape --tick 5000 --sim small_worlds:Walkers --json", 2),
        ("tail run.tape -n 40", 0),
    ],
)
@pytest.mark.seldom(0.15)
def test_the_exit_code_does_not_depend_on_the_reader(words: str, code: int) -> None:
    """Even if the simulation itself prints, or neither stream is read."""
    found, said = unread(words)
    assert (found, said.count("\n")) == (code, int(code == 2))


@pytest.mark.seldom(0.15)
def test_nor_does_it_on_who_reads_stderr() -> None:
    """Both streams at once, as by 2>&1."""
    assert unread("verify run.tape --sim wrong:Wrong", both=True) == (1, "")


def test_following_a_recording_ends_with_its_reader() -> None:
    """A tail whose output is not read ends."""
    Path("cut.tape").write_bytes(Path("run.tape").read_bytes()[:-60])
    assert unread("tail cut.tape -n 40")[0] == 0
