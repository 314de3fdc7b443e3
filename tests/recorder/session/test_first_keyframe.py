"""The first keyframe is in the file before the first step, at every level of durability and however a tape begins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import recorder
from recorder.storage.open_tape import OpenTape

from oracle.fake_files import FailingFiles, use_files
from small_worlds import Walkers

LEVELS = ("tick", "block", "none")
WAYS = ("new", "object", "resumed", "resumed object", "split", "ring")

# Forks a child for each case, which kills itself inside the first step of its last session. Prints nothing if all did.
KILLED_IN_THE_FIRST_STEP = """
import os, signal, sys
from recorder import Recorder, record, resume, tape_of
from recorder.adapted.record import object_of
from sim import Field, Schema, State

class Counter:
    def __init__(self, dies_at):
        self.state, self.dies_at = State(Schema(Field("n", "i8", (40,)))), dies_at
    def step(self, inputs):
        if self.state["n"][0] == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.state["n"][:] += 1

class Plain:
    dies_at = -1
    def __init__(self):
        self.n = 0
    def step(self):
        if self.n == Plain.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.n += 1

def run(way, level, path):
    options = {"durability": level, "trial_ms": 0.0}
    if way.endswith("object"):
        Plain.dies_at = -1 if way == "resumed object" else 0
        made = record(Plain(), path, quiet=True, **options)
        for _ in range(5):
            made.step()
        tape_of(made).close()
        Plain.dies_at = 5
        object_of(resume(path, Plain())).step()
    options |= {"split": {"split": 600}, "ring": {"keep": 50}}.get(way, {})
    with Recorder(path, Counter(-1 if way == "resumed" else 0), **options) as tape:
        for _ in range(5):
            tape.step()
    resume(path, Counter(5)).step()

if __name__ == "__main__":
    folder, levels, ways = sys.argv[1], sys.argv[2].split(","), sys.argv[3].split(",")
    for level in levels:
        for way in ways:
            child = os.fork()
            if not child:
                try:
                    run(way, level, f"{folder}/{level} {way}.tape")
                finally:
                    os._exit(1)
            assert os.waitpid(child, 0)[1] == signal.SIGKILL, (level, way)
"""


@pytest.mark.seldom(0.15)
def test_a_kill_in_the_first_step_leaves_a_state_at_every_level(tmp_path: Path) -> None:
    """Sessions of each kind, ended by SIGKILL as soon as their first step has begun."""
    program = tmp_path / "first_step.py"
    program.write_text(KILLED_IN_THE_FIRST_STEP)
    subprocess.run([sys.executable, program, tmp_path, ",".join(LEVELS), ",".join(WAYS)], check=True)

    for level in LEVELS:
        for way in WAYS:
            with OpenTape(tmp_path / f"{level} {way}.tape") as opened:
                keyframes = opened.assemble().recording.keyframes
                first_of_session = 5 if way.startswith("resumed") else 0
                found = [place.tick for place in keyframes if place.is_full]
                assert found[-1:] == [first_of_session], (level, way)
                assert len(found) == (2 if way.startswith("resumed") else 1), (level, way)


@pytest.mark.parametrize("level", LEVELS)
def test_without_room_for_the_first_keyframe_no_tape_is_begun(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The header and META fit, the keyframe does not: as documented, Recorder() raises and leaves no file."""
    files = FailingFiles(2, "append", forever=True)
    use_files(monkeypatch, files)
    monkeypatch.setattr("recorder.writer.retries.RETRY_S", (0.0, 0.0))

    with pytest.raises(recorder.errors.WriterFailedError):
        recorder.Recorder("memory", Walkers(), durability=level)
    assert files.segments == {}
