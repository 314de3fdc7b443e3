"""Settings of the process that are changed while a run is recorded: noted at keyframes, compared at the tick, and tried."""

from __future__ import annotations

import decimal
import importlib
import json
import os
import re
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replayer.commands.main
from recorder import Recorder
from recorder.ambient.outside.outside_note import CHANGED_MAX, decode_note
from recorder.ambient.settings.library_settings import TORCH_TYPE, TORCH_USED, library_settings
from recorder.ambient.watches.settings_watch import SettingsWatch
from replayer.diagnose.explain.values.process_settings import process_settings, recorded_settings, set_process_settings
from replayer.diagnose.explain.variant_choice import changed_variants
from replayer.reshape.cut import cut_tape
from replayer.tape.noted_outside import noted_at
from replayer.tape.tape import Tape
from replayer.timeline.verify import verify_tape

from oracle.command_lines import run

MODULE = """
import datetime
import decimal
import json
import os

import numpy as np


class Clerk:
    def __init__(self):
        self.count, self.ledger = 0, []

    def step(self, inputs=None):
        self.count += 1
        self.ledger.append(self.entry())

    def save(self):
        return json.dumps([self.count, self.ledger]).encode()

    def load(self, saved):
        self.count, self.ledger = json.loads(saved)


class Ferry(Clerk):
    def entry(self):
        return datetime.datetime.fromtimestamp(1_700_000_000 + 60 * self.count).hour


class Bank(Clerk):
    def entry(self):
        return str(decimal.Decimal(self.count) / 7)


class Scribe(Clerk):
    def entry(self):
        return str(np.array([self.count / 7]))


class Warden(Clerk):
    def entry(self):
        return os.path.exists("gate.txt")
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "clerks.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("clerks", None)
    precision, options = decimal.getcontext().prec, np.get_printoptions()
    yield
    decimal.getcontext().prec = precision
    np.set_printoptions(**options)
    sys.modules.pop("clerks", None)


@pytest.fixture
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def travel() -> None:
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()


def stay() -> None:
    os.environ["TZ"] = "UTC"
    time.tzset()


def move() -> None:
    Path("inside").mkdir()
    os.chdir("inside")


def move_back() -> None:
    os.chdir("..")


def digits(count: int) -> Callable[[], None]:
    return lambda: setattr(decimal.getcontext(), "prec", count)


def record(name: str, change: Callable[[], Any], undo: Callable[[], Any], *, at: int = 7) -> None:
    """20 ticks, keyframes at each fifth; the setting is changed before the step to the tick AT + 1."""
    made = getattr(importlib.import_module("clerks"), name)()
    tape = Recorder("run.tape", made, keyframe_interval_ticks=5, trial_ms=0, between_steps=False)
    for tick in range(20):
        if tick == at:
            change()
        tape.step(None)
    tape.close()
    undo()


def verified(name: str) -> str:
    """What verify says of the environment."""
    report = verify_tape("run.tape", getattr(importlib.import_module("clerks"), name))
    return " / ".join(str(one.found) for one in report.findings[0].tested if one.cause == "a different environment")


@pytest.mark.parametrize(
    ("name", "change", "undo", "noted", "cause"),
    [
        (
            "Ferry",
            travel,
            stay,
            "time_zone from UTC/UTC UTC+0 to JST/JST UTC+9 between tick 5 and 10; TZ from UTC to Asia/Tokyo between",
            "cause: the environment variable TZ (Asia/Tokyo in the recording): as recorded, the step gives the recorded",
        ),
        (
            "Bank",
            digits(5),
            digits(28),
            "decimal.getcontext() from prec=28 rounding=ROUND_HALF_EVEN to prec=5 rounding=ROUND_HALF_EVEN between tick 5 and 10",
            "cause: decimal.getcontext() differs before the step",
        ),
        (
            "Scribe",
            lambda: np.set_printoptions(precision=3),
            lambda: np.set_printoptions(precision=8),
            'np.get_printoptions() from as by default to {"precision": 3} between tick 5 and 10',
            "np.get_printoptions()",
        ),
        ("Warden", move, move_back, "the working directory between tick 5 and 10", "os.getcwd()"),
    ],
)
@pytest.mark.usefixtures("_in_utc")
def test_a_setting_that_was_changed_while_recording_is_named_and_tried(
    name: str,
    change: Callable[[], Any],
    undo: Callable[[], Any],
    noted: str,
    cause: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("gate.txt").write_text("open")
    record(name, change, undo)

    assert run(replayer.commands.main.main, f"verify run.tape --sim clerks:{name}") == 1
    [line] = [one for one in capsys.readouterr().out.splitlines() if "a different environment" in one]
    assert line.startswith(f"    ? a different environment: changed while the run was recorded: {noted}")
    equal = re.search(r"compared and equal: (.*?) \(when the recording began and at its keyframes\)", line)
    assert equal is not None
    assert not {noted.split(maxsplit=1)[0], "working_directory"} & set(equal[1].split(", "))
    assert "datetime.fromtimestamp" not in equal[1]

    if not cause.startswith("cause"):
        with Tape("run.tape") as tape:
            [variant] = changed_variants(tape, 8, [])
        assert list(variant.settings) == [cause]
        return
    assert run(replayer.commands.main.main, f"explain run.tape --tick 8 --sim clerks:{name}") == 1
    assert cause in capsys.readouterr().out


def test_after_a_keyframe_the_tick_is_compared_with_its_settings(capsys: pytest.CaptureFixture[str]) -> None:
    """Five digits from tick 8 on make no difference up to tick 13, before which a keyframe tells of them."""
    Path("clerks.py").write_text(
        MODULE.replace("Decimal(self.count) / 7", "Decimal(self.count) / (7 if self.count > 12 else 1)")
    )
    record("Bank", digits(5), digits(28))

    found = verified("Bank")
    assert "matters: decimal.getcontext() prec=5 rounding=ROUND_HALF_EVEN recorded, prec=28" in found
    assert run(replayer.commands.main.main, "explain run.tape --tick 13 --sim clerks:Bank") == 1
    assert "as recorded at tick 10, decimal.getcontext() as recorded: hash" in capsys.readouterr().out


@pytest.mark.usefixtures("_in_utc")
def test_what_no_tape_tells_of_the_tick_is_not_excluded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tape of an earlier version: what is equal is so when the recording began."""
    with monkeypatch.context() as patch:
        patch.setattr("recorder.ambient.outside.outside_note.WATCHES", "some other key")
        record("Ferry", travel, stay)

    report = verify_tape("run.tape", importlib.import_module("clerks").Ferry)
    [one] = [one for one in report.findings[0].tested if one.cause == "a different environment"]
    assert one.suspicious is None
    assert "(when the recording began; whether any was changed while the run was recorded is not known)" in one.found
    assert run(replayer.commands.main.main, "explain run.tape --tick 8 --sim clerks:Ferry") == 1
    assert "  settings of the process that were changed while it ran,\n" in capsys.readouterr().out


def test_a_part_of_a_tape_tells_nothing_of_changes() -> None:
    """The end of the whole run is not in it."""
    record("Bank", digits(5), digits(28))
    cut_tape("run.tape", "part.tape", 0, 12)
    with Tape("run.tape") as whole, Tape("part.tape") as part:
        assert noted_at(whole, 3).is_known
        assert not noted_at(part, 3).is_known


def test_a_run_without_a_change_notes_nothing() -> None:
    watch = SettingsWatch(0, is_first=True)
    watch.look(10)
    assert watch.outcome({"reason": "closed"}, 20) == {"reason": "closed"}
    watch = SettingsWatch(33, is_first=False)
    settings = {"first_tick": 33, "last_tick": 40, "changes": []}
    assert watch.outcome({}, 40) == {"outside": {"settings": settings}}


def test_no_more_changes_than_the_limit_are_noted() -> None:
    """Of the ticks since, nothing is known."""
    watch = SettingsWatch(0, is_first=True)
    for tick in range(1, CHANGED_MAX + 3):
        decimal.getcontext().prec = 30 + tick
        watch.look(tick)
    settings = watch.outcome({}, 99)["outside"]["settings"]
    assert (len(settings["changes"]), settings["last_tick"]) == (CHANGED_MAX, CHANGED_MAX)
    assert decode_note({"settings": settings}).settings.changes[1].before == "prec=31 rounding=ROUND_HALF_EVEN"


def test_a_thread_that_closes_the_tape_does_not_tell_its_own_settings() -> None:
    """Each thread has a decimal context: that of the thread that took the steps counts."""
    decimal.getcontext().prec = 9
    watch, ends = SettingsWatch(0, is_first=True), list[Any]()
    thread = threading.Thread(target=lambda: ends.append(watch.outcome({}, 5)))
    thread.start()
    thread.join()
    assert ends == [{}]


@pytest.mark.usefixtures("_in_utc")
@pytest.mark.parametrize("is_changed", [False, True], ids=["as it began", "with a setting of its own"])
def test_what_is_equal_at_the_tick_alone_is_not_said_to_be_so_from_the_beginning(
    is_changed: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Of versions, no keyframe tells anything either."""
    Path("clerks.py").write_text(
        MODULE.replace(
            "self.count).hour",
            "self.count).hour * (self.count > 7) + (self.count > 12 and os.path.exists('another.txt'))",
        )
    )
    with np.errstate(over="ignore" if is_changed else "warn"):
        record("Ferry", travel, lambda: None)
        Path("another.txt").touch()
        found = verified("Ferry")
    assert "changed while the run was recorded: time_zone" in found
    equal = found.partition("compared and equal: ")[2].partition("; ")[0]
    equal = re.sub(r" \(read at [^()]*\)", "", equal)
    # Names such as np.seterr() have brackets of their own: they are in the list where another test of this process has set one.
    parts = re.findall(r"(.+?) \(((?:when|at tick) [^()]*)\)(?:, |$)", equal)
    named = {when: set(names.split(", ")) for names, when in parts}
    assert {"python", "numpy", "processors"} <= named["when the recording began"]
    assert {"time_zone", "TZ"} <= named["at tick 10 of the recording"]
    steady = named["when the recording began and at its keyframes"]
    assert "locale" in steady
    assert ("np.seterr()" in steady) >= is_changed


def in_a_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_another_thread_has_its_own_settings_and_changes_nothing() -> None:
    """The recorder is made in one thread, and steps are taken in two others that have their own digits."""
    Path("clerks.py").write_text(
        MODULE.replace("Decimal(self.count) / 7", "Decimal(self.count) / (7 if self.count > 17 else 1)")
    )
    decimal.getcontext().prec = 50
    made = importlib.import_module("clerks").Bank()
    tape = Recorder("run.tape", made, keyframe_interval_ticks=5, trial_ms=0, between_steps=False)

    def stepping(digits: int, count: int) -> Callable[[], None]:
        def step() -> None:
            decimal.getcontext().prec = digits
            for _ in range(count):
                tape.step(None)

        return step

    in_a_thread(stepping(28, 12))
    in_a_thread(stepping(9, 8))
    tape.close()
    with Tape("run.tape") as read:
        assert noted_at(read, 3).changes == ()
        told = [noted_at(read, tick) for tick in (3, 8, 13, 18)]
    name = "decimal.getcontext()"
    digits_then = [(one.note.process or {}).get(name, "").partition(" ")[0] for one in told]
    assert digits_then == ["", "prec=28", "", "prec=9"]
    assert [one.unknown.get(name) for one in told] == [(0, 5), None, (10, 15), None]
    assert [one.seen.get(name) for one in told][1::2] == [5, 15]
    decimal.getcontext().prec = 28
    found = verified("Bank")  # At tick 18.
    assert "matters: decimal.getcontext() prec=9 rounding=ROUND_HALF_EVEN recorded, prec=28" in found
    assert "changed while" not in found


def test_what_is_not_known_of_a_thread_is_not_compared() -> None:
    decimal.getcontext().prec = 50
    made = importlib.import_module("clerks").Bank()
    tape = Recorder("run.tape", made, keyframe_interval_ticks=5, trial_ms=0, between_steps=False)

    def steps() -> None:
        for _ in range(6):
            tape.step(None)

    in_a_thread(steps)
    tape.close()
    found = verified("Bank")  # At tick 1: the digits of the thread were those of a new one.
    assert "decimal.getcontext() (between tick 0 and 5 two threads were seen that have others)" in found


def test_threads_in_turn_are_noted_in_one() -> None:
    watch = SettingsWatch(0, is_first=True)

    def looking(tick: int) -> Callable[[], None]:
        def look() -> None:
            decimal.getcontext().prec = 30 + tick
            watch.look(tick)

        return look

    for tick in range(1, 100):
        in_a_thread(looking(tick))
    settings = watch.outcome({}, 99)["outside"]["settings"]
    decoded = decode_note({"settings": settings}).settings
    assert [(one.after, one.tick, list(one.settings)) for one in decoded.threads] == [(0, 99, ["decimal.getcontext()"])]
    assert decoded.changes == ()


def test_pytorch_is_told_and_set_where_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {"type": "torch.float32", "threads": 2}
    torch = types.SimpleNamespace(float64="torch.float64", float32="torch.float32")
    torch.get_default_dtype, torch.get_num_threads = (lambda: held["type"]), (lambda: held["threads"])
    torch.set_default_dtype, torch.set_num_threads = (
        (lambda one: held.update(type=one)),
        (lambda one: held.update(threads=one)),
    )
    found = recorded_settings({TORCH_TYPE: "torch.float64", TORCH_USED: "3"})
    assert found == {TORCH_TYPE: "torch.float64", TORCH_USED: 3}
    set_process_settings(found)  # It is not loaded: nothing happens.
    monkeypatch.setitem(sys.modules, "torch", torch)
    watch = SettingsWatch(0, is_first=True)
    set_process_settings(found)
    assert held == {"type": "torch.float64", "threads": 3}
    assert (process_settings()[TORCH_TYPE], library_settings()[TORCH_USED]) == ("torch.float64", "3")
    changes = watch.outcome({}, 5)["outside"]["settings"]["changes"]
    assert changes == [[TORCH_TYPE, 0, 5, "torch.float32", "torch.float64"], [TORCH_USED, 0, 5, "2", "3"]]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (TORCH_TYPE, "torch.load"),
        (TORCH_TYPE, "os.system"),
        (TORCH_USED, "0"),
        (TORCH_USED, "99999"),
        ("numba.get_num_threads()", "-1"),
        ("np.get_printoptions()", "{"),
        ("np.get_printoptions()", "[" * 9999),
        ("np.get_printoptions()", '{"precision": "3"}'),
        ("np.get_printoptions()", '{"precision": true}'),
        ("np.get_printoptions()", '{"floatmode": "none"}'),
        ("np.get_printoptions()", '{"legacy": [1]}'),
        ("np.get_printoptions()", '{"formatter": {}}'),
        ("np.get_printoptions()", json.dumps({"nanstr": "x" * 999})),
        ("locale", "../../etc"),
        ("locale", "LC_CTYPE=/etc/x"),
        ("locale", "no_SUCH"),
    ],
)
def test_a_library_setting_that_no_process_notes_is_not_tried(name: str, text: str) -> None:
    assert recorded_settings({name: text}) == {}


def test_numpys_options_of_printing_are_set_whole() -> None:
    np.set_printoptions(precision=5, suppress=True)
    set_process_settings(recorded_settings({"np.get_printoptions()": '{"linewidth": 40}'}))
    options = np.get_printoptions()
    assert (options["precision"], options["suppress"], options["linewidth"]) == (8, False, 40)


def test_a_change_with_no_effect_leaves_a_sound_tape_sound() -> None:
    record("Scribe", digits(5), digits(28))
    make = importlib.import_module("clerks").Scribe
    assert verify_tape("run.tape", make).ok
