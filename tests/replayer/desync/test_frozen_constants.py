"""A function that numba compiled before the recording began keeps what its module had then: it is told, and tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from optional_packages import needs

from recorder.ambient.outside.code_parts.frozen_constants import FrozenConstant
from recorder.ambient.outside.outside_note import decode_note
from replayer import Tape
from replayer.diagnose.explain.lines_run.found_values import ValuesPutIn
from replayer.report.program_lines import other_values_text
from replayer.tape.noted_outside import noted_outside

pytestmark = pytest.mark.share(0.4)

WIND = """
import numba

PUSH = 2.5
TITLE, IDLE = "calm", 1.0


def blow(push):
    global PUSH, TITLE, IDLE
    PUSH = push
    TITLE, IDLE = "storm", 3.0


@numba.njit
def pushed(x):
    return x + PUSH


@numba.njit
def sailed(x):
    return pushed(x) * 2.0 + 0.0 * IDLE + 0.0 * len(TITLE)
"""
BOAT = """
import wind_table


class Boat:
    def __init__(self, push=4.0):
        wind_table.blow(push)
        self.x, self.tick = 1.0, 0

    def step(self):
        self.tick += 1
        self.x = wind_table.sailed(self.x)


def compiled_first():
    wind_table.sailed(0.0)
    return Boat()
"""
RECORD = """
import recorder
from wind_boat import Boat
Boat(2.5)
demo = Boat(2.5)
import wind_table
if {demo}:
    wind_table.PUSH, wind_table.TITLE, wind_table.IDLE = 2.5, "calm", 1.0
    demo.step()
with recorder.record(Boat(), "run.tape", trial_ms=0, quiet=True) as boat:
    for _ in range(3):
        boat.step()
"""
COMPARE = """
import sys, wind_boat
from replayer.desync.code_comparison import compared_code
from replayer.tape.tape import Tape
print(compared_code(Tape("run.tape"), getattr(wind_boat, sys.argv[1])))
"""
SEARCH = """
import json
from wind_boat import Boat
from replayer.diagnose.explain.other_values.frozen_values import frozen_values
from replayer.playback.make_simulation import make_simulation
from replayer.playback.cursor import Cursor
from replayer.tape.plain_state import snapshot_to_plain
from replayer.tape.tape import Tape
with Tape("run.tape") as tape:
    make = lambda: make_simulation(tape, Boat)
    cursor = Cursor(tape, make())
    cursor.seek(0)
    job = {"tick": 1, "before": snapshot_to_plain(cursor.state.snapshot())}
    print(json.dumps(frozen_values(tape, job, make)))
"""


def run(folder: Path, *arguments: str) -> str:
    """What Python prints in a folder."""
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, "."]), "PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return ran.stdout


def recorded(folder: Path, *, demo: bool) -> tuple[FrozenConstant, ...]:
    """The note of a run, before which a demo was shown or not."""
    needs("numba")
    (folder / "wind_table.py").write_text(WIND)
    (folder / "wind_boat.py").write_text(BOAT)
    run(folder, "-c", RECORD.replace("{demo}", str(demo)))
    with Tape(folder / "run.tape") as tape:
        return noted_outside(tape).frozen


def test_constants_of_before_the_recording_are_noted_and_told(tmp_path: Path) -> None:
    """A text may be a secret: it has no value there. Where the simulation of here is compiled with them, too, they are equal."""
    place = "wind_table.py:14", "wind_table.py:19"
    assert set(recorded(tmp_path, demo=True)) == {
        FrozenConstant("wind_table.pushed", place[0], "PUSH", "2.5", "4.0"),
        FrozenConstant("wind_table.sailed", place[1], "IDLE", "1.0", "3.0"),
        FrozenConstant("wind_table.sailed", place[1], "TITLE", "", ""),
    }
    told = run(tmp_path, "-c", COMPARE, "Boat")
    assert "compared and equal: " in told
    assert "compiled before the recording began, with values that a replay need not take: wind_table.pushed" in told
    assert "wind_table.pushed (wind_table.py:14) with PUSH 2.5, which was 4.0 when the recording began" in told
    assert "with another value of TITLE" in told
    assert "suspicious=None" in told
    assert "compiled before" not in run(tmp_path, "-c", COMPARE, "compiled_first")


def test_nothing_is_told_of_what_the_run_compiles_itself(tmp_path: Path) -> None:
    """It was compiled with what the module has."""
    assert recorded(tmp_path, demo=False) == ()
    assert "compiled before" not in run(tmp_path, "-c", COMPARE, "Boat")


def test_the_constant_that_decides_is_proved_with_its_lines(tmp_path: Path) -> None:
    """It is of a function that a compiled one calls; the other one is not needed for the state."""
    recorded(tmp_path, demo=True)
    plain: dict[str, Any] = json.loads(run(tmp_path, "-c", SEARCH))["found"]
    for one in (*plain["found"], *plain["unneeded"]):
        one["set_at"], one["read_at"] = (
            [{**line, "path": Path(line["path"]).name} for line in one[key]] for key in ("set_at", "read_at")
        )
    found = ValuesPutIn.from_plain(plain)
    assert other_values_text(found) == (
        "a value outside the state, PUSH as a constant of wind_table.pushed (wind_table.py:4): with 2.5, as when the recording "
        "began, the step gives the recorded state, with 4.0, as it is now, another one"
    )
    [push] = found.found
    assert [one.line for one in push.set_at] == [4, 10]
    assert [one.line for one in push.read_at] == [16]
    assert [one.name for one in found.unneeded] == ["IDLE as a constant of wind_table.sailed"]


def test_constants_that_do_not_give_the_recorded_state_are_no_cause(tmp_path: Path) -> None:
    """Something else was edited."""
    recorded(tmp_path, demo=True)
    (tmp_path / "wind_table.py").write_text(WIND.replace("* 2.0", "* 2.5"))
    assert json.loads(run(tmp_path, "-c", SEARCH))["found"] is None


def test_an_unreadable_note_is_left_out() -> None:
    """Of a tape that something else wrote; a value that is not a number is not put in."""
    good = ["a.b", "a.py:1", "X", "__import__('os')", "2"]
    [one] = decode_note({"frozen": [["a.b", "a.py:1", "X", 5, "2"], 7, good]}).frozen
    assert not one.is_known
