"""What is said of the fields of a divergent tick is true also where they cannot be compared."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import recorder
from replayer.desync.object_diff import SAVED_FORM, shown_fields
from replayer.report.report_text import print_report, where_lines
from replayer.timeline.verify import verify_tape


class Choir:
    """Its lists change at the second tick, otherwise than when it was recorded where changed says so."""

    changed = ""
    once = Path()

    def __init__(self) -> None:
        self.rows: list[list[int]] = [[1], [], [3]]
        self.tick = 0
        self.kept: Any = None

    def step(self) -> None:
        """Make a step."""
        self.tick += 1
        if self.tick != 2 or not self.changed:
            return
        if self.changed == "length":
            self.rows[1].append(self.rows[0].pop())
        elif self.changed == "kind":
            self.kept = Note()
        elif self.changed == "replaced":
            self.rows[1] = []
        elif not self.once.exists():  # The run that is made to compare the fields has the recorded hash.
            self.once.touch()
            self.tick += 100


class Note:
    """A class of which no object was recorded."""

    def __init__(self) -> None:
        self.text = "la"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("length", "fields that differ at tick 2: lengths of lists"),
        (
            "kind",
            r"fields: which ones differ at tick 2 is not known: the recorded state has \d+ fields there, and the .*",
        ),
        (
            "once",
            "fields: which ones differ at tick 2 is not known: run again to compare them, the tick had the recorded hash",
        ),
    ],
)
def test_a_tape_with_hashes_of_fields_is_not_said_to_lack_them(
    changed: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said "the tape does not record which ones differ", and of lengths "how the objects are saved"."""
    monkeypatch.setattr(Choir, "once", tmp_path / "once")
    lines = lines_of(changed, tmp_path / "run.tape", monkeypatch)
    assert re.fullmatch(said, lines[0]), lines


def test_a_saved_form_that_differs_alone_says_in_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list was replaced by an equal one: no value differs, but the hash does."""
    lines = lines_of("replaced", tmp_path / "run.tape", monkeypatch)
    assert lines[-1].startswith(f"at the next recorded keyframe, tick 4: {SAVED_FORM}: ")
    assert lines[-1].endswith("; an object that replaced an equal one has another number there, which the hash counts")
    assert "which lists exist" in lines[-1]


def test_a_saved_form_that_differs_alone_is_not_called_a_desync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The values at the next keyframe are those of the recording; one that differs there is a desync."""
    path = tmp_path / "run.tape"
    lines_of("replaced", path, monkeypatch)
    print_report(path, verify_tape(path, Choir, jobs=1), "choir:Choir")
    printed = capsys.readouterr().out
    assert "DESYNC" not in printed
    head = "another hash at tick 2, and all ticks before it match the recording; at the next keyframe, of tick 4, no value was found"
    assert f"{path}: {head}" in printed
    assert "next: replay verify" in printed
    assert "--values" in printed

    lines_of("length", tmp_path / "other.tape", monkeypatch)
    print_report(path, verify_tape(tmp_path / "other.tape", Choir, jobs=1), "choir:Choir")
    printed = capsys.readouterr().out
    assert "DESYNC at tick 2" in printed
    assert "--values" not in printed


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("graph.0.list.length", "lengths of lists"),
        ("graph.4.Note.length", "how many values Note objects have"),
        ("graph.4.Note.node", "which Note objects exist, or in which order they were made"),
        ("graph.1.dict.node", "which dicts exist, or in which order they were made"),
        ("graph.1.dict.cells.value", "values of dicts"),
        ("graph.0.list.cells.tag", "values of the recorded object itself or of lists"),
    ],
)
def test_fields_of_objects_are_told_in_short_words(field: str, text: str) -> None:
    """Without a comma, which separates them."""
    assert shown_fields([field]) == [text]


def lines_of(changed: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What verify says of the fields at tick 2."""
    with recorder.record(Choir(), path, quiet=True, trial_ms=0, keyframe_interval_ticks=4) as choir:
        for _ in range(6):
            choir.step()
    monkeypatch.setattr(Choir, "changed", changed)
    [finding] = verify_tape(path, Choir, jobs=1).findings
    return where_lines(finding)
