"""A simulation that keeps its state as one text in JSON: what differs is named by paths, never by offsets of bytes."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer.commands.main
from replayer.desync.object_diff import compare_objects
from replayer.desync.state_diff import compare_states
from replayer.diagnose.hidden_state.report import SyncFinding, SyncReport, finding_lines
from replayer.diagnose.hidden_state.report import report_facts as check_facts
from replayer.report.notebook import report_html
from replayer.report.report_text import report_facts, where_lines
from replayer.timeline.verify import VerificationReport, verify_tape
from sim.kernel.schema import Blob, Field, Schema, Table
from sim.kernel.state import State

from oracle.command_lines import run

OTHER_FORM = "all values in this text are equal, it is only written in another way"


class Bakery:
    """Each oven warms up; changed says what is otherwise than when it was recorded, from the third tick on."""

    changed = ""

    def __init__(self) -> None:
        self.ovens = [{"name": f"o{number}", "heat": number, "bread": "none"} for number in range(12)]
        self.tick = 0

    def step(self, more: Any) -> None:
        """Warm up."""
        self.tick += 1
        for oven in self.ovens:
            oven["heat"] += 7 + bool(more)
        if self.tick >= 3 and self.changed == "bread":
            self.ovens[4]["bread"] = "rye"
        elif self.tick >= 3 and self.changed == "all":
            for oven in self.ovens:
                oven["heat"] += 1000

    def save(self) -> dict[str, Any]:
        """The state as a text, and an array beside it."""
        order = -1 if self.tick >= 3 and self.changed == "order" else 1
        kept = {"ovens": self.ovens, "tick": self.tick}
        text = json.dumps(dict(list(kept.items())[::order]), indent=1 if self.changed == "form" else None)
        return {"text": text.encode(), "beside": np.array([self.tick])}

    def load(self, saved: Any) -> None:
        """Take over a state."""
        kept = json.loads(bytes(saved["text"]))
        self.ovens, self.tick = kept["ovens"], kept["tick"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the tape of a run of the bakery as it is."""
    monkeypatch.chdir(tmp_path)
    record("run.tape", 0)


def record(path: str, more: int) -> None:
    """Record eight ticks; more: the input of the fifth."""
    with recorder.Recorder(path, Bakery(), keyframe_interval_ticks=5, trial_ms=0) as bakery:
        for tick in range(8):
            bakery.step(more if tick == 4 else 0)


def report_of(changed: str, monkeypatch: pytest.MonkeyPatch, dumps: Path | None = None) -> VerificationReport:
    """The report of a changed bakery."""
    monkeypatch.setattr(Bakery, "changed", changed)
    return verify_tape("run.tape", Bakery, dump_folder=dumps, jobs=1)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("bread", ["  text.ovens[4].bread: recorded 'none', replayed 'rye'"]),
        ("order", ["  order of text: recorded ovens, tick; replayed tick, ovens"]),
        (
            "all",
            [
                *(f"  text.ovens[{n}].heat: recorded {n + 35}, replayed {n + 3035}" for n in range(8)),
                "  … and 4 more",
            ],
        ),
    ],
)
def test_verify_names_the_values_in_the_text(changed: str, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It printed numbers of bytes, which are the codes of characters, and how many of them differ."""
    report = report_of(changed, monkeypatch)
    assert report.first_bad == 3
    lines = where_lines(report.findings[0])
    assert lines[-len(said) - 1 :] == ["at the next recorded keyframe, tick 5, these values differ:", *said]
    assert said[0].strip() in report_html(report).replace("&#x27;", "'")


def test_a_text_that_is_only_written_otherwise_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """No value is claimed to differ."""
    report = report_of("form", monkeypatch)
    (line,) = [line for line in where_lines(report.findings[0]) if "text:" in line]
    assert line.startswith(f'  text: {OTHER_FORM}: recorded \'{{"ovens"')
    assert [one["kind"] for one in report_facts(report)["values"]] == ["form"]


@pytest.mark.seldom(0.3)
def test_the_facts_and_the_dump_name_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """The object of verify --json, the report, the table and the finding of the dump."""
    report = report_of("bread", monkeypatch, Path())
    values = [{"path": "text.ovens[4].bread", "kind": "value", "recorded": "'none'", "replayed": "'rye'"}]
    facts = report_facts(report)
    assert (facts["fields_at_tick"], facts["fields"], facts["values"]) == (["text"], ["text.ovens[4].bread"], values)
    dump = report.dump_path
    assert dump is not None
    rows = list(csv.DictReader((dump / "differences.csv").read_text().splitlines()))
    assert [(row["field"], row["recorded"], row["replayed"]) for row in rows] == [
        ("text.ovens[4].bread", "'none'", "'rye'")
    ]
    finding = json.loads((dump / "finding.json").read_text())
    assert (finding["fields"], finding["values"]) == ([], values)
    report_text = (dump / "report.md").read_text()
    assert "- `text.ovens[4].bread: recorded 'none', replayed 'rye'`\n" in report_text
    assert "sizes of tables" not in report_text


@pytest.mark.seldom(0.3)
def test_diff_counts_no_bytes_of_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither the values nor the trend are told by rows."""
    record("other.tape", 1)
    assert run(replayer.commands.main.main, f"diff run.tape other.tape --sim {__name__}:Bakery") == 1
    printed = capsys.readouterr().out
    assert "text.ovens[0].heat: first 35, second 36" in printed
    assert "trend: 4 ticks of 4 differ, up to the last" in printed
    assert "rows" not in printed


def test_a_field_beside_a_text_keeps_its_rows_and_sizes() -> None:
    """What is no text in a standard form on both sides is told as before, also where a table has such bytes."""
    schema = Schema(
        Blob("text"), Blob("raw"), Field("code", np.uint8, (9,)), Table("t", Field("x", np.uint8), capacity=9)
    )
    states = [State(schema) for _ in range(2)]
    for number, state in enumerate(states):
        state.set_blob("text", b'{"n": %d}' % (9 + number))
        state.set_blob("raw", b'{"n": 1' + b"}" * number)
        state["code"][:] = np.frombuffer(b'{"n": %d}' % (8 + number) + bytes(1), np.uint8)
        state.set("t.x", state.add_rows("t", 3), np.frombuffer(b"[%d]" % number, np.uint8))
    diff = compare_objects((states[0].snapshot(), states[1].snapshot()))
    assert diff is not None
    assert [one.path for one in diff.differences] == ["text.n", "code.n"]
    assert {name for name in ("text", "code", "raw", "t.x", "#counts") if diff.holds(name)} == {"text", "code"}


def test_check_names_the_values_in_a_text() -> None:
    """In its lines, and in the object of check --json, which had the first bytes."""
    states = [State(Schema(Blob("saved"), Field("n", np.int64, (2,)))) for _ in range(2)]
    for number, state in enumerate(states):
        state.set_blob("saved", b'{"n": [%d]}' % (9 + number))
        state["n"][1] = number
    both = states[0].snapshot(), states[1].snapshot()
    finding = SyncFinding(3, 0, "fresh", 1, 2, compare_states(*both), [], states=both)
    lines = finding_lines(finding)
    assert lines[2:5] == ["  saved.n[0]: live 9, restored 10", "  n: 1 row", "    [1] live 0, restored 1"]
    (facts,) = check_facts(SyncReport(3, 1, [finding], [], []))["findings"]
    assert facts["values"] == [{"path": "saved.n[0]", "kind": "value", "live": "9", "restored": "10"}]
    assert [one["field"] for one in facts["fields"]] == ["n"]
