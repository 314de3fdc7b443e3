"""The plugin for pytest: tapes of failed tests are kept, golden tapes are compared, and without use nothing is loaded."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tomllib

import pytest
from failing_worlds import Till

import replayer

from project_paths import ROOT, SUPPORT

pytest_plugins = ["pytester"]
NAME = "simulation_flight_recorder_pytest"


@pytest.fixture(autouse=True)
def plugin_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other plugin in the runs inside of these tests: that of zarr imports all of it."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SUPPORT), str(ROOT / "src")]))


def run_inner(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run pytest with the plugin, in another process: it would leave half of our modules imported in this one."""
    return pytester.runpytest_subprocess("-p", NAME, "-p", "no:cacheprovider", "-q", *arguments)


FAILING = """
import pytest
from failing_worlds import Levers, Robot, Till

def test_good(flight_recorder):
    tape = flight_recorder(Till())
    tape.step([["sell", 1]])

@pytest.mark.parametrize("number", [7])
def test_bad(flight_recorder, number):
    tape = flight_recorder(Till())
    for article in (0, 1, 2):
        tape.step([["sell", article]])
    assert int(tape.simulation.state["cash"]) == number

class TestMore:
    def test_raises(self, flight_recorder):
        robot, tape = flight_recorder(Robot(), step="push"), flight_recorder(Till())
        tape.step([["lock", 0]])
        robot.push("left")
        tape.step([["sell", 7]])

@pytest.mark.xfail(strict=True)
def test_expected(flight_recorder):
    flight_recorder(Till())
    assert False

def test_other(flight_recorder):
    assert not flight_recorder
"""


@pytest.mark.seldom(0.18)
def test_the_tapes_of_failed_tests_are_kept(pytester: pytest.Pytester) -> None:
    """With the command that opens them at the failing tick, in the folder that is configured; no others are."""
    pytester.makepyfile(test_inner=FAILING)
    result = run_inner(pytester, "-o", "failed_tapes=kept/here")
    result.assert_outcomes(passed=1, failed=3, xfailed=1)
    folder = pytester.path / "kept" / "here"
    names = ("test_bad-7", "TestMore-test_raises", "TestMore-test_raises-2")
    bad, more, second = (folder / f"test_inner-{name}.tape" for name in names)
    assert sorted(folder.iterdir()) == sorted([bad, more, second])
    result.stdout.fnmatch_lines(
        [
            "*flight recorder*",
            f"tick 3 was the last one: replay seek {bad} --tick 3 --sim failing_worlds:Till",
            "*flight recorder*",
            f"tick 1 was the last one: replay seek {more} --tick 1 --sim failing_worlds:Robot",
            f"tick 1 was the last one: replay seek {second} --tick 1 --sim failing_worlds:Till",
        ]
    )
    with replayer.open(bad, Till) as run:
        assert run.verify().ok
        assert run.tape.outcome["exception"].startswith("AssertionError")
        assert run.tape.outcome["test"] == "test_inner.py::test_bad[7]"
    with replayer.open(second, Till) as run:
        assert run.tape.outcome["step"] == {"tick": 2, "inputs": [["sell", 7]]}


GOLDEN = """
from tills import Till

def test_till(golden_tape):
    golden_tape("tapes/till.tape", Till, [[["sell", number % 3]] for number in range(30)])
"""


@pytest.mark.seldom(0.18)
def test_golden_tapes_are_recorded_on_request_and_compared(pytester: pytest.Pytester) -> None:
    """Without one, and with a different run, the test fails with a text that says what to do, and no traceback."""
    tape = pytester.path / "tapes" / "till.tape"
    command = "pytest --update-golden-tapes 'test_inner.py::test_till'"
    pytester.makepyfile(test_inner=GOLDEN, tills="from failing_worlds import Till")

    run_inner(pytester, "--update-golden-tapes").assert_outcomes(passed=1)
    before = tape.read_bytes()
    pytester.makepyfile(test_new=GOLDEN.replace("till.tape", "new.tape"))
    result = run_inner(pytester)
    result.assert_outcomes(passed=1, failed=1)
    new = f"there is no golden tape {tape.with_name('new.tape')}: record it with "
    assert new + command.replace("inner", "new") in result.outlines
    assert not tape.with_name("new.tape").exists()
    pytester.makepyfile(tills="from failing_worlds import Till\nTill.sell = lambda self, article: self.pay(-article)")
    result = run_inner(pytester, "test_inner.py")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            f"{tape}: DESYNC at tick 1; all ticks before it match the recording",
            "*cash, sold*",
            f"if this is as it should be from now on: {command}",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    assert tape.read_bytes() == before


PONDS = """
from sim import Field, Schema, State

class Pond:
    name = "water"

    def __init__(self):
        self.state = State(Schema(Field(self.name, "i8")))

    def step(self, rain):
        self.state[self.name][...] += rain
"""
MAPPED = """
from ponds import Pond

def test_pond(golden_tape):
    golden_tape("pond.tape", Pond, [3, 1, 4, 1, 5])

class Lake(Pond):
    name = "level"

def test_lake(golden_tape):
    golden_tape("pond.tape", Lake, [3, 1, 4, 1, 5], field_map="names.toml")

def test_salt_lake(golden_tape):
    golden_tape("pond.tape", Lake, [3, 1, 4, 1, 5], field_map="salt.toml")

def test_sea(golden_tape):
    golden_tape("pond.tape", Lake, [3, 1, 4], field_map="names.toml")
"""


def test_golden_tapes_of_older_code_are_compared_by_a_field_map(pytester: pytest.Pytester) -> None:
    """One map fits, one does not; other inputs are found as well."""
    pytester.makepyfile(test_inner=MAPPED, ponds=PONDS)
    (pytester.path / "names.toml").write_text('[renamed]\nwater = "level"\n')
    (pytester.path / "salt.toml").write_text('[renamed]\nwater = "salt"\n')
    run_inner(pytester, "--update-golden-tapes", "test_inner.py::test_pond").assert_outcomes(passed=1)
    result = run_inner(pytester)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*salt.toml: water (as salt): fields of the tape that the simulation does not have*"])
    result.stdout.fnmatch_lines(["pond.tape: the run has 3 ticks, and had 5"])


def test_unused_the_plugin_loads_nothing_of_ours() -> None:
    """It is imported in every run of pytest, also next to a user's own sim.py."""
    program = f"import sys, {NAME}; print(sorted({{'recorder', 'replayer', 'sim', 'numpy'}} & set(sys.modules)))"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "[]\n"


def test_it_is_declared_under_its_own_name() -> None:
    """So that -p with that name does not load it twice."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["entry-points"]["pytest11"] == {NAME: NAME}
    assert f"src/{NAME}.py" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    installed = importlib.metadata.entry_points(group="pytest11", name=NAME)
    assert all(one.value == NAME for one in installed)
