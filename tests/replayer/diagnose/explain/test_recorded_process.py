"""What a process began with when it was recorded: settings of NumPy and Python are tried, and a missing package is named."""

from __future__ import annotations

import decimal
import importlib
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer.commands.main
from recorder import Recorder
from recorder.ambient.outside import process_facts as process_facts_module
from recorder.ambient.outside.loaded_modules import missing_imports
from recorder.ambient.outside.process_facts import FLAGS, process_facts, recorded_flags
from replayer.diagnose.explain import variant_choice
from replayer.diagnose.explain.explain import explain_tape
from replayer.diagnose.explain.values.process_settings import recorded_settings
from replayer.diagnose.explain.variant_choice import first_variants
from replayer.diagnose.explain.variants import SearchResult, Variant, VariantRunner
from replayer.tape.tape import Tape

from oracle.command_lines import run

MODULE = """
import builtins
import decimal
import json
import os

import numpy as np

try:
    import swiftsums
except ImportError:
    swiftsums = None


class Oven:
    def __init__(self):
        self.heat = 80.0

    def step(self, inputs=None):
        try:
            self.heat = float(np.exp(np.float32(self.heat)) > 0) + self.heat + 2
        except FloatingPointError:
            self.heat = 1.0

    def save(self):
        return json.dumps(self.heat).encode()

    def load(self, saved):
        self.heat = json.loads(saved)


class Purse:
    def __init__(self):
        self.share = "1"

    def step(self, inputs=None):
        self.share = str(decimal.Decimal(self.share) / 3 + 1)

    def save(self):
        return json.dumps(self.share).encode()

    def load(self, saved):
        self.share = json.loads(saved)


class Porter:
    def __init__(self):
        self.late = 0

    def step(self, inputs=None):
        self.late += 2 if os.path.exists("late.txt") else 1

    save, load = (lambda self: json.dumps(self.late).encode()), (lambda self, saved: setattr(self, "late", json.loads(saved)))


class Team(Porter):
    def step(self, inputs=None):
        self.late += len(os.sched_getaffinity(0))


class Guard(Porter):
    def wake(self):
        self.late += 1
        return True

    def step(self, inputs=None):
        self.late += 1
        assert self.wake()


class Waiter(Porter):
    def step(self, inputs=None):
        self.late += 1 if hasattr(builtins, "table_is_laid") else 4

    def load(self, saved):
        builtins.table_is_laid = True
        super().load(saved)


class Kitchen:
    def __init__(self):
        self.count, self.watch = 0, [0]

    def step(self):
        self.count += 1
        self.watch[0] += id(object()) % 7919 + 1
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ovens.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("ovens", "swiftsums"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()


def record(name: str) -> None:
    with Recorder("run.tape", getattr(importlib.import_module("ovens"), name)(), trial_ms=0) as tape:
        for _ in range(12):
            tape.step(None)


def explained_settings(name: str) -> list[tuple[str, bool | None]]:
    make = getattr(importlib.import_module("ovens"), name)
    explanation = explain_tape("run.tape", sim=f"ovens:{name}", factory=make)
    return [(one.name, one.proved) for one in explanation.settings]


def record_with_five_digits() -> None:
    with decimal.localcontext() as context:
        context.prec = 5
        record("Purse")


def test_a_name_in_builtins_that_one_of_two_lacks_is_taken_away() -> None:
    """Loading a state sets it, and the step asks whether it is there."""
    record("Waiter")
    make = importlib.import_module("ovens").Waiter
    [one] = explain_tape("run.tape", sim="ovens:Waiter", factory=make).settings
    assert (one.name, one.proved) == ("builtins", True)
    assert str(one) == "builtins, a setting of the whole process: A table_is_laid absent, B table_is_laid True"


def test_numpys_way_with_overflows_is_tried_as_it_was_recorded() -> None:
    """It raised, and the step caught that; here NumPy warns."""
    with np.errstate(over="raise"):
        record("Oven")
    with np.errstate(over="ignore"):
        assert explained_settings("Oven") == [("np.seterr() (floating-point errors)", True)]


@pytest.mark.parametrize("is_near", [True, False])
def test_the_working_directory_is_tried_as_it_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_near: bool
) -> None:
    """The step asks for a file in it, which is not here. Far from the tape it is not searched, and nothing is claimed."""
    desk = tmp_path / ("desk" if is_near else "hall/of/desk")
    desk.mkdir(parents=True)
    (desk / "late.txt").touch()
    importlib.import_module("ovens")
    monkeypatch.chdir(desk)
    with Recorder(tmp_path / "run.tape", importlib.import_module("ovens").Porter(), trial_ms=0) as tape:
        for _ in range(12):
            tape.step(None)
    monkeypatch.chdir(tmp_path)
    assert explained_settings("Porter") == ([("os.getcwd()", True)] if is_near else [])


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this machine has one processor")
def test_the_number_of_usable_processors_is_tried_as_it_was_recorded() -> None:
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    try:
        record("Team")
    finally:
        os.sched_setaffinity(0, processors)
    assert explained_settings("Team") == [("len(os.sched_getaffinity(0))", True)]


def test_more_processors_than_there_are_cannot_be_tried() -> None:
    assert recorded_settings(process_facts() | {"usable_processors": "9999"}) == {}
    assert recorded_settings(process_facts() | {"usable_processors": "0"}) == {}


def test_pythons_flags_are_tried_as_they_were_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    """With python -O, assertions do not run."""
    made = "import ovens, recorder\nwith recorder.Recorder('run.tape', ovens.Guard(), trial_ms=0) as tape:\n"
    Path("record_it.py").write_text(f"{made}    tape.step(None)\n")
    subprocess.run([sys.executable, "-O", "record_it.py"], check=True)
    assert run(replayer.commands.main.main, "explain run.tape --sim ovens:Guard") == 1
    out = capsys.readouterr().out
    assert "cause: Python's flag sys.flags.optimize (or PYTHONOPTIMIZE; 1 in the recording): as recorded," in out
    assert run(replayer.commands.main.main, "verify run.tape --sim ovens:Guard") == 1
    assert "not tested whether it matters: sys.flags optimize=1 recorded, as by default now" in capsys.readouterr().out


@pytest.mark.parametrize("optimize", ["1", "2"])
def test_the_flag_of_a_recording_counts_whatever_variable_is_set_here(
    monkeypatch: pytest.MonkeyPatch, optimize: str
) -> None:
    """Recorded with python -O: without the variable, and with the flag."""
    importlib.import_module("ovens")
    record("Purse")
    noted = {name: text for name, text in process_facts().items() if name != "PYTHONOPTIMIZE"}
    with monkeypatch.context() as patch:
        patch.setattr(variant_choice, "process_facts", lambda: {**noted, "PYTHONOPTIMIZE": optimize})
        patch.setattr(process_facts_module, "_flags", lambda: f"optimize={optimize}")
        flags = {name: getattr(sys.flags, name) for name in dir(sys.flags) if not name.startswith("_")}
        patch.setattr(sys, "flags", types.SimpleNamespace(**{**flags, "optimize": int(optimize)}))
        with Tape("run.tape") as tape:
            tape.meta["outside"]["process"][FLAGS] = "optimize=1"
            found = [one.environment.get("PYTHONOPTIMIZE", "as here") for one in first_variants(tape, {}, None)[1]]
    assert found == ([] if optimize == "1" else ["1"])


@pytest.mark.parametrize("text", ["optimize=1 x=2", "optimize=77", "", "optimize=1optimize=1", None])
def test_flags_that_no_process_notes_are_not_tried(text: str | None) -> None:
    assert recorded_flags(text) == {}


def test_flags_are_tried_where_they_differ() -> None:
    assert recorded_flags(process_facts()[FLAGS]) == {}
    assert recorded_flags("optimize=2 utf8_mode=1") == {"PYTHONOPTIMIZE": "2", "PYTHONUTF8": "1"}


def test_the_precision_of_decimals_is_tried_as_it_was_recorded() -> None:
    """Five digits."""
    record_with_five_digits()

    assert explained_settings("Purse") == [("decimal.getcontext()", True)]


def test_a_sound_tape_is_not_verified_once_more_for_settings_that_are_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded with another way with overflows, of which the step has none."""
    with np.errstate(over="raise"):
        record("Purse")
    searched = list[Variant]()

    def search(_: VariantRunner, variant: Variant, *__: Any) -> SearchResult:
        searched.append(variant)
        return SearchResult(None, [])

    monkeypatch.setattr(VariantRunner, "search", search)
    make = importlib.import_module("ovens").Purse
    assert explain_tape("run.tape", sim="ovens:Purse", factory=make).tick is None
    assert searched
    assert not any(one.settings for one in searched)


IMPOSSIBLE = [
    ("sys.getrecursionlimit()", "9" * 5000),
    ("sys.getrecursionlimit()", "9" * 30),
    ("sys.getrecursionlimit()", "3"),
    ("sys.getrecursionlimit()", "²"),
    ("decimal.getcontext()", "prec=0 rounding=ROUND_UP"),
    ("decimal.getcontext()", "prec=5 rounding=ROUND_OFF"),
    ("decimal.getcontext()", f"prec={'9' * 30} rounding=ROUND_UP"),
    ("np.seterr()", "divide=laugh over=warn under=ignore invalid=warn"),
    ("np.seterr()", "divide=call over=warn under=ignore invalid=warn"),
]


@pytest.mark.parametrize(("name", "text"), IMPOSSIBLE)
def test_a_setting_that_no_process_can_have_is_not_tried(name: str, text: str) -> None:
    """A tape may hold anything."""
    assert recorded_settings({name: text}) == {}


def test_a_tape_with_settings_that_no_process_can_have_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one without them."""
    impossible = process_facts() | {"sys.getrecursionlimit()": "9" * 5000, "decimal.getcontext()": "prec=0 rounding=X"}
    monkeypatch.setattr("recorder.ambient.outside.outside_note.process_facts", lambda: impossible)
    record_with_five_digits()

    assert run(replayer.commands.main.main, "explain run.tape --sim ovens:Purse") in (1, 2)
    assert "run.tape: tick 1" in capsys.readouterr().out


def test_a_package_that_was_loaded_and_is_missing_is_named_with_the_line_that_imports_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The import is caught, so that nothing else shows it."""
    package = tmp_path / "swiftsums.py"
    package.write_text("")
    record_with_five_digits()  # So that a tick differs.
    package.unlink()
    importlib.invalidate_caches()
    for name in ("ovens", "swiftsums"):
        del sys.modules[name]
    assert run(replayer.commands.main.main, "verify run.tape --sim ovens:Purse") == 1
    line = 1 + MODULE[: MODULE.index("    import swiftsums")].count("\n")

    told = "module swiftsums: loaded when the recording began, not found now"
    assert f"{told} (read at ovens.py:{line})" in capsys.readouterr().out
    assert missing_imports(["swiftsums", "json", "no_such_package"]) == [
        ("swiftsums", str(tmp_path / "ovens.py"), line)
    ]


def test_check_leaves_out_what_the_tape_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    """A stopwatch that no step reads differs in each run."""
    kitchen = importlib.import_module("ovens").Kitchen()
    with recorder.record(kitchen, "run.tape", quiet=True, trial_ms=0, ignore=["Kitchen.watch"]) as game:
        for _ in range(20):
            game.step()

    assert run(replayer.commands.main.main, "check ovens:Kitchen --inputs run.tape") == 0
    assert "the same states and results" in capsys.readouterr().out
