"""replay explain and replay verify name what a step reads of the outside world and what of it is not as recorded."""

from __future__ import annotations

import json
import locale
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any, ClassVar

import curious_worlds
import pytest

import replayer.commands.main
from recorder import Recorder
from recorder.ambient.outside.process_facts import VARIABLES, process_facts
from recorder.environment import describe_environment
from replayer.desync.outside_comparison import ReadComparison, compare_reads
from replayer.diagnose.explain.trace_step import trace_step
from replayer.diagnose.explain.variant_choice import first_variants
from replayer.tape.noted_outside import noted_outside
from replayer.tape.tape import Tape

from oracle.command_lines import run

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="a trial needs Linux"), pytest.mark.tried]
TICKS = 5


TRIAL_MS = 2000.0  # A busy machine needs more than the default; the trial ends much earlier.


class Compiling(curious_worlds.Curious):
    """Refuses functions that were replaced, as a compiler does that knows the originals."""

    def read(self) -> float:
        if type(time.time) is not BuiltinFunctionType:
            raise TypeError("cannot determine the type of time.time")
        return float(os.environ["RATE"])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the files that the worlds read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RATE", "2")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(curious_worlds.__file__).parent), *_paths()]))
    time.tzset()
    Path("config.json").write_text('{"rate": 3}')
    Path("numbers.txt").write_text("1 2 3")
    Path("units").mkdir()
    for name in "abc":
        Path("units", name).touch()
    before = locale.setlocale(locale.LC_ALL)
    yield
    locale.setlocale(locale.LC_ALL, before)
    monkeypatch.undo()
    time.tzset()


def _paths() -> list[str]:
    return [path for path in sys.path if path]


def record(name: str) -> None:
    with Recorder("run.tape", getattr(curious_worlds, name)(), trial_ms=TRIAL_MS) as tape:
        for _ in range(TICKS):
            tape.step()


def compared(world: Any) -> list[ReadComparison]:
    """What a traced step of the world reads, compared with the tape."""
    with Tape("run.tape") as tape:
        return compare_reads(noted_outside(tape), trace_step(world, None).reads)


def zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()


CHANGES: dict[str, tuple[Callable[[pytest.MonkeyPatch], Any], str]] = {
    "ReadsFile": (lambda _: Path("config.json").write_text('{"rate": 4}'), "config.json: other content"),
    "ReadsArray": (lambda _: Path("numbers.txt").write_text("3 2 1"), "numbers.txt: other content"),
    "ListsFolder": (lambda _: Path("units/d").touch(), "units: other entries"),
    "WalksFolder": (lambda _: Path("units/a").unlink(), "units: other entries"),
    "ReadsVariable": (lambda patch: patch.setenv("RATE", "5"), "RATE: another value"),
    "ReadsZone": (zone, "datetime.fromtimestamp: JST/JST UTC+9 now"),
    "ReadsLocalTime": (zone, "time.localtime: JST/JST UTC+9 now"),
    "ReadsLocale": (lambda _: locale.setlocale(locale.LC_ALL, "C.UTF-8"), "locale.localeconv: "),
    "CountsProcessors": (lambda patch: patch.setattr(os, "cpu_count", lambda: 77), "os.cpu_count: 77 now"),
}
DRAWN = ("ReadsClock", "ReadsImportedClock", "DrawsUuid", "DrawsSecret", "DrawsRandom", "TakesId", "AsksForProcess")


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.seldom(0.15)
def test_what_changed_since_the_recording_is_named_with_its_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the change everything is as recorded, and nothing is a difference."""
    locale.setlocale(locale.LC_ALL, "C")
    record(name)
    world = getattr(curious_worlds, name)()
    before = {(one.kind, one.result) for one in compared(world)} - {("attributes", "not compared")}  # Their times.
    assert {result for _, result in before} == {"equal"}
    change, expected = CHANGES[name]
    change(monkeypatch)
    different = [one for one in compared(world) if one.result == "differs" and str(one).startswith(expected)]
    source = Path(curious_worlds.__file__).read_text().splitlines()
    above = source[: different[0].line]
    assert next(line for line in reversed(above) if line.startswith("class ")).startswith(f"class {name}(")


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", DRAWN)
def test_what_differs_from_run_to_run_is_named_and_not_compared(name: str) -> None:
    record(name)
    assert [one.result for one in compared(getattr(curious_worlds, name)())] == ["not compared"]


@pytest.mark.seldom(0.15)
def test_a_step_that_reads_nothing_has_no_reads() -> None:
    record("Sound")
    assert compared(curious_worlds.Sound()) == []


def test_what_was_not_noted_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.ambient.outside.outside_note.named_facts", lambda _: [])  # Its code names it.
    record("Sound")
    monkeypatch.setenv("RATE", "7")
    (only,) = compared(curious_worlds.ReadsVariable())
    assert (only.result, only.found) == ("not noted", "the recording did not note it")


@pytest.mark.seldom(0.15)
def test_code_that_cannot_bear_replaced_functions_is_watched_without_them() -> None:
    with Recorder("run.tape", Compiling(), trial_ms=TRIAL_MS) as tape:
        tape.step()
    assert [(one.name, one.result) for one in compared(Compiling())] == [("RATE", "equal")]


@pytest.mark.seldom(1 / 2)
def test_the_commands_name_a_changed_file(capsys: Any) -> None:
    """Verify compares it, explain names the line, info lists it; equal things are called equal and not a cause."""
    record("ReadsFile")
    where = "--sim curious_worlds:ReadsFile"
    assert run(replayer.commands.main.main, f"verify run.tape {where}") == 0
    capsys.readouterr()
    Path("config.json").write_text('{"rate": 4}')
    assert run(replayer.commands.main.main, f"verify run.tape {where}") == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "a different environment" in line]
    assert re.match(
        r"    ! a different environment: config.json: other content than when the recording began \(read at cur", line
    )
    assert "compared and equal: python, numpy, machine" in line
    assert line.endswith("not compared: the arguments of the program (sys.argv), what other steps read")

    assert run(replayer.commands.main.main, f"explain run.tape --tick 1 {where}") == 1
    out = capsys.readouterr().out
    assert (
        "  this step, or the code that it runs, reads what is not as it was when the recording began:\n    config.json: other content than when the recording began"
        in out
    )
    assert "the cause is not known" not in out
    assert "  ! config.json: other content than when the recording began (read at curious_worlds.py:" in out

    assert run(replayer.commands.main.main, "info run.tape") == 0
    assert "  read from outside by the first 3 steps: config.json (curious_worlds.py:" in capsys.readouterr().out
    assert run(replayer.commands.main.main, "info run.tape --json") == 0
    (read,) = json.loads(capsys.readouterr().out)["outside"]["reads"]
    assert (read["kind"], read["name"]) == ("file", "config.json")


@pytest.mark.seldom(1 / 2)
def test_a_variable_of_the_recording_is_a_variant(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its value is on the tape if it is no secret: the step is run under it, and that gives the recorded state."""
    record("ReadsZone")
    zone(monkeypatch)
    assert run(replayer.commands.main.main, "explain run.tape --tick 1 --sim curious_worlds:ReadsZone --json") == 1
    facts = json.loads(capsys.readouterr().out)
    line = facts["cause"]["line"]
    assert {side["label"]: side["as_recorded"] for side in facts["sides"]} == {
        "now": False,
        "as recorded, TZ=UTC": True,
    }
    assert [(one["line"], one["result"]) for one in facts["outside"]] == [(line, "differs")]


def test_another_processor_is_noted_and_its_variables_are_a_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorded variables are set for the other variant; those that were not set are unset there."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    recorded = process_facts() | {"OMP_NUM_THREADS": "3", "cpu_features": f"{process_facts()['cpu_features']} AVX9"}
    monkeypatch.setenv("MKL_NUM_THREADS", "5")

    class Recorded:
        meta: ClassVar[dict[str, Any]] = {"environment": describe_environment(), "outside": {"process": recorded}}

    _, others, notes = first_variants(Recorded(), {}, None)  # type: ignore[arg-type]
    assert [dict(one.environment) for one in others] == [{"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": None}]
    assert notes == ["another processor, cpu_features: AVX9 recorded, not now: the effect of that cannot be tested"]

    recorded |= {"MKL_NUM_THREADS": "5", "cpu_features": process_facts()["cpu_features"]}
    del recorded["OMP_NUM_THREADS"]
    assert first_variants(Recorded(), {}, None)[1:] == ([], [])  # type: ignore[arg-type]
    del Recorded.meta["outside"]  # Of an older version: what was set is not known.
    assert first_variants(Recorded(), {}, None)[1:] == ([], [])  # type: ignore[arg-type]
