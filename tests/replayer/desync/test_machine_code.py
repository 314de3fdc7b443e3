"""Machine code that numba loaded from its cache on disk may be that of earlier source: it is told, and tested where it still is there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from optional_packages import needs

from recorder.ambient.outside.code_parts.machine_code import LoadedCode
from recorder.ambient.outside.outside_note import decode_note
from replayer import Tape
from replayer.desync import finding
from replayer.desync.code_comparison import CODE, versions_not_tested
from replayer.tape.noted_outside import noted_outside

pytestmark = pytest.mark.share(0.4)

GROWTH = """
import numba


@numba.njit
def growth(x):
    return x + 2 * len((x, x)) - 3
"""
REEF = """
import numba
from reef_rates import growth

SIZE = 3


@numba.njit(cache=True)
def grown(x):
    return growth(x) * SIZE


@numba.njit(cache=True)
def counted(tick):
    return tick + 1


class Reef:
    def __init__(self):
        self.x, self.tick = 1, 0

    def step(self):
        self.tick = counted(self.tick)
        self.x = grown(self.x) % 1000
"""
RECORD = """
import recorder
from reef import Reef
with recorder.record(Reef(), "run.tape", trial_ms=0, quiet=True) as reef:
    for _ in range(3):
        reef.step()
"""
COMPARE = """
from reef import Reef
from replayer.desync.code_comparison import compared_code
from replayer.tape.tape import Tape
print(compared_code(Tape("run.tape"), Reef))
"""


def run(folder: Path, *arguments: str) -> str:
    """What Python prints in a folder, to both outputs."""
    environment = {name: one for name, one in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**environment, "PYTHONPATH": os.pathsep.join([*sys.path, "."]), "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    return ran.stdout + ran.stderr


def made(folder: Path) -> None:
    """The modules; the rates of earlier than what is compiled from now on."""
    for name, text in (("reef_rates", GROWTH), ("reef", REEF)):
        (folder / f"{name}.py").write_text(text)
        os.utime(folder / f"{name}.py", (time.time() - 60, time.time() - 60))


def test_functions_that_were_loaded_from_the_cache_are_named(tmp_path: Path) -> None:
    """Not the one that takes nothing from elsewhere, and none in a recording that compiled them itself."""
    needs("numba")
    made(tmp_path)
    run(tmp_path, "-c", RECORD)
    with Tape(tmp_path / "run.tape") as tape:
        assert noted_outside(tape).machine_code == ()
    (tmp_path / "run.tape").unlink()
    os.utime(tmp_path / "reef_rates.py", (time.time() + 60, time.time() + 60))
    run(tmp_path, "-c", RECORD)
    with Tape(tmp_path / "run.tape") as tape:
        noted = noted_outside(tape).machine_code
    loaded = LoadedCode("reef.grown", "reef.py:8", ("reef_rates.growth (reef_rates.py:5)", "SIZE"), ("reef_rates.py",))
    assert noted == (loaded,)
    told = run(tmp_path, "-c", COMPARE)
    assert "compared and equal: 5 functions and 1 value" in told
    assert (
        "not compared is machine code that the recorded run loaded from numba's cache on disk: reef.grown (reef.py:8), "
        "which numba does not renew when reef_rates.growth (reef_rates.py:5) or SIZE changes (its file in the cache was "
        "older than reef_rates.py)"
    ) in told
    assert "suspicious=None" in told


@pytest.mark.seldom(0.3)
def test_an_empty_cache_that_gives_the_recorded_state_proves_it(tmp_path: Path) -> None:
    """The recording compiled its functions; since then the cache has machine code of other rates."""
    needs("numba")
    made(tmp_path)
    run(tmp_path, "-c", RECORD)
    shutil.rmtree(tmp_path / "__pycache__")
    (tmp_path / "reef_rates.py").write_text(GROWTH.replace("2 *", "5 *"))
    run(tmp_path, "-c", "from reef import Reef; Reef().step()")
    (tmp_path / "reef_rates.py").write_text(GROWTH)
    told = run(tmp_path, "-m", "replayer", "explain", "run.tape", "--tick", "1", "--sim", "reef:Reef")
    assert (
        "cause: machine code in numba's cache on disk: where that is empty, the step gives the recorded state, with what "
        "it holds now another one"
    ) in told


def test_an_unreadable_note_is_left_out() -> None:
    """Of a tape that something else wrote."""
    assert decode_note({"machine_code": [["a.b", "a.py:1", [], 5], 7]}).machine_code == ()


def test_it_is_among_what_is_not_tested() -> None:
    """In place of versions of libraries alone."""
    found = "compared and equal: 1 function; not compared is machine code that the recorded run loaded from numba's cache on disk: x"
    code = finding.TestedCause(CODE, found, suspicious=None)
    assert versions_not_tested(code) == "the machine code of the recording, other versions of libraries"
