"""A recording notes what its first steps read of the outside world, where a trial watched them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import curious_worlds
import pytest

import recorder
from recorder import Recorder
from recorder.ambient.outside.loaded_modules import loaded_modules
from recorder.ambient.outside.outside_note import (
    NOTED_MAX,
    NotedFact,
    NotedReads,
    OutsideNote,
    decode_note,
    note_of,
    reads_note,
)
from recorder.ambient.outside.outside_read import OutsideRead
from recorder.ambient.outside.process_facts import process_facts
from recorder.trial.outside_reads import STEPS
from replayer.tape.noted_outside import noted_outside
from replayer.tape.tape import Tape

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="a trial needs Linux"), pytest.mark.tried]


TRIAL_MS = 2000.0  # A busy machine needs more than the default; the trial ends much earlier.


class Fading:
    """A plain object without arguments; it reads a file up to its second step."""

    def __init__(self) -> None:
        self.ticks = 0

    def step(self) -> None:
        self.ticks += 1
        if self.ticks in (STEPS, STEPS + 1):
            self.rate = float(Path(f"rate{self.ticks}").read_text())


class Moved:
    """A plain object whose step needs an argument."""

    def __init__(self) -> None:
        self.x = 0.0

    def step(self, by: float) -> None:
        self.x += by * float(os.environ["RATE"])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the files that the worlds read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RATE", "2")
    Path("config.json").write_text('{"rate": 3}')
    for tick in (STEPS, STEPS + 1):
        Path(f"rate{tick}").write_text("1")


def noted(path: str = "run.tape") -> OutsideNote:
    with Tape(path) as tape:
        return noted_outside(tape)


@pytest.mark.seldom(0.15)
def test_a_recorder_notes_what_the_first_steps_read() -> None:
    with Recorder("run.tape", curious_worlds.ReadsFile(), trial_ms=TRIAL_MS) as tape:
        tape.step()
    note = noted()
    assert (note.process, note.steps) == (process_facts(), STEPS)
    assert [(read.kind, read.name) for read in note.reads] == [("file", "config.json")]


def test_nothing_is_noted_where_nothing_is_tried() -> None:
    with Recorder("run.tape", curious_worlds.ReadsFile(), trial_ms=0) as tape:
        tape.step()
    assert (noted().process, noted().steps, noted().reads) == (process_facts(), None, ())


@pytest.mark.seldom(0.18)
def test_a_deterministic_tape_has_no_note() -> None:
    """Neither in META nor in its end: it is the same on every machine."""
    for world, argument in ((Fading(), ()), (Moved(), (1.0,))):
        path = f"{type(world).__name__}.tape"
        with recorder.record(world, path, quiet=True, trial_ms=TRIAL_MS, deterministic=True) as recorded:
            for _ in range(10):
                recorded.step(*argument)
        assert noted(path) == OutsideNote()


def test_record_notes_the_first_steps_of_an_object_and_not_the_later_ones() -> None:
    with recorder.record(Fading(), "run.tape", quiet=True, trial_ms=TRIAL_MS) as recorded:
        for _ in range(STEPS + 2):
            recorded.step()
    names = [read.name for read in noted().reads if read.kind == "file"]
    assert names == [f"rate{STEPS}"]


def test_steps_that_need_arguments_are_noted_at_the_end() -> None:
    with recorder.record(Moved(), "run.tape", quiet=True, trial_ms=TRIAL_MS) as recorded:
        for _ in range(10):
            recorded.step(0.5)
    with Tape("run.tape") as tape:
        assert "reads" not in tape.meta["outside"]
        assert tape.outcome["reason"] == "closed"
    note = noted()
    assert (note.steps, note.process) == (STEPS, process_facts())
    assert [(read.kind, read.name) for read in note.reads] == [("variable", "RATE")]


def test_the_outcome_of_the_user_is_left_as_it_is() -> None:
    with recorder.record(Moved(), "run.tape", quiet=True, trial_ms=TRIAL_MS) as recorded:
        for _ in range(10):
            recorded.step(0.5)
        recorder.tape_of(recorded).close({"why": "tea"})
    with Tape("run.tape") as tape:
        assert tape.outcome == {"why": "tea"}


def test_a_resumed_tape_has_the_settings_of_the_present_process(monkeypatch: pytest.MonkeyPatch) -> None:
    with Recorder("run.tape", curious_worlds.ReadsFile(), trial_ms=TRIAL_MS) as tape:
        tape.step()
    before = noted()
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    with recorder.resume("run.tape", curious_worlds.ReadsFile()) as tape:
        tape.step()
        assert tape.meta["outside"]["process"]["OMP_NUM_THREADS"] == "5"
        assert decode_note(tape.meta["outside"]).reads == before.reads


def test_a_note_has_each_thing_once_and_no_more_than_the_limit() -> None:
    for count in (0, NOTED_MAX, NOTED_MAX + 1):
        reads = [OutsideRead("variable", f"A{number}", "/game/game.py", 7, None) for number in range(count)]
        plain = json.loads(json.dumps(reads_note(NotedReads(2, (*reads, *reads)))))
        note = decode_note(plain)
        assert note.steps == 2
        assert note.reads == tuple(
            NotedFact("variable", f"A{number}", "game.py:7", None) for number in range(min(count, NOTED_MAX))
        )
    assert note_of(None) == {"process": process_facts(), "watches_settings": True, "modules": loaded_modules()}


@pytest.mark.parametrize(
    "plain",
    [
        None,
        7,
        [],
        {},
        {"process": 3, "steps": "many", "reads": []},
        {"steps": 3},
        {"reads": [["file", "x", "game.py:1", None]]},
        {
            "process": {7: "x", "TZ": 9},
            "steps": 3,
            "reads": [7, ["file"], ["planet", "x", "y", None], ["file", 1, "y", None]],
        },
    ],
)
def test_what_is_no_note_is_left_out(plain: Any) -> None:
    note = decode_note(plain)
    assert note.reads == ()
    assert not note.process
    assert note.fact("file", "x") is None
