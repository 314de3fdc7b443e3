"""``replay seek`` prints what a recorded object held, by the paths of its values."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

import recorder
import replayer.commands.main
from replayer.desync.object_diff import SAVED_FORM
from replayer.report.report_text import print_report, where_lines

from oracle.command_lines import run


class Patrol:
    """A game of plain objects."""

    def __init__(self) -> None:
        self.turn = 0
        self.units = [{"name": f"u{number}", "hp": number} for number in range(30)]

    def advance(self) -> None:
        """Make a turn."""
        self.turn += 1
        self.units[14]["hp"] -= 1


SIM = f"--sim {Patrol.__module__}:Patrol"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a tape that has a keyframe at tick 5."""
    monkeypatch.chdir(tmp_path)
    with recorder.record(Patrol(), "run.tape", step="advance", quiet=True, keyframe_interval_ticks=5) as game:
        for _ in range(8):
            game.advance()


def seek(capsys: pytest.CaptureFixture[str], options: str = "") -> str:
    """What a seek to that keyframe prints, without the class of the object."""
    assert run(replayer.commands.main.main, f"seek run.tape --tick 5 {options}") == 0
    return capsys.readouterr().out


def test_the_attributes_and_the_first_items_of_those_that_are_long(capsys: pytest.CaptureFixture[str]) -> None:
    """No fields of the arena."""
    assert seek(capsys).splitlines()[2:] == [
        "  turn = 5",
        "  units = [… 30 items]",
        "    units[0] = {'name': 'u0', 'hp': 0}",
        "    units[1] = {'name': 'u1', 'hp': 1}",
        "    units[2] = {'name': 'u2', 'hp': 2}",
        "    … 27 more: --all, or --field 'units'",
    ]
    assert "    units[29] = {'name': 'u29', 'hp': 29}" in seek(capsys, "--all").splitlines()


def test_single_values(capsys: pytest.CaptureFixture[str]) -> None:
    """Paths, with or without the name of the class, and names of fields as before."""
    lines = seek(capsys, "--field \"units[14]['hp']\" --field Patrol.units[1] --field Patrol.turn").splitlines()
    assert lines[2:] == [  # No attribute that was not asked for, and none twice.
        "  units[14]['hp'] = 9",
        "  units[1] = {'name': 'u1', 'hp': 1}",
        "    units[1]['name'] = 'u1'",
        "    units[1]['hp'] = 1",
        "  Patrol.turn: one int64: value 5",
        "    5",
    ]


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ('units[14]["hp"]', "units[14]['hp'] = 9"),
        ("units[-1]['hp']", "units[29]['hp'] = 29"),
        ("Patrol.units[1]['name']", "units[1]['name'] = 'u1'"),
    ],
)
def test_paths_as_who_and_find_take_them(asked: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Either quotes, and places from the end."""
    assert seek(capsys, f"--field {shlex.quote(asked)}").splitlines()[-1] == f"  {shown}"
    assert run(replayer.commands.main.main, f"who run.tape --field {shlex.quote(asked)} --no-line {SIM}") in (0, 1)


def test_all_cuts_no_list(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number of a long list, in an attribute and inside an object."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: False)

    class Log:
        def __init__(self) -> None:
            self.lines = [1000 + number for number in range(80)]
            self.pages = [{"words": [2000 + number for number in range(80)]}, {}]

        def advance(self) -> None:
            self.lines[0] += 0

    with recorder.record(Log(), "log.tape", step="advance", quiet=True) as game:
        game.advance()
    for options, numbers in (
        ("--all", (1079, 2079)),
        ("--field lines --all", (1079,)),
        ("--field pages --all", (2079,)),
    ):
        assert run(replayer.commands.main.main, f"seek log.tape --tick 0 {options}") == 0
        lines = capsys.readouterr().out.splitlines()
        assert all(str(number) in "".join(lines) for number in numbers)
        assert not [line for line in lines[-3:] if "more" in line]


def test_what_a_step_changed(capsys: pytest.CaptureFixture[str]) -> None:
    """Paths with both values; a tick without a step before it is refused."""
    assert seek(capsys, f"--changes {SIM}").splitlines()[-3:] == [
        "  the step to tick 5 changed:",
        "    turn: before 4, after 5",
        "    units[14]['hp']: before 10, after 9",
    ]
    facts = json.loads(seek(capsys, f"--changes --json {SIM}"))["changes"]
    assert [(one["path"], one["before"], one["after"]) for one in facts["values"]] == [
        ("turn", "4", "5"),
        ("units[14]['hp']", "10", "9"),
    ]
    assert facts["fields"] == []
    assert run(replayer.commands.main.main, "seek run.tape --tick 0 --changes") == 2
    assert capsys.readouterr().err == "error: --changes: no step led to tick 0: choose a later tick\n"


def test_values_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers, texts, lists and dicts."""
    facts = json.loads(seek(capsys, "--field units[14] --field Patrol.turn --json"))
    assert facts["fields"] == {"units[14]": {"name": "u14", "hp": 9}, "Patrol.turn": 5}
    assert facts["summary"]["turn"] == "5"
    assert re.match(r"\[\{'name': 'u0', 'hp': 0\}, .*… 2\d more\]$", facts["summary"]["units"])


def test_a_path_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """What the part that exists holds is told."""
    assert run(replayer.commands.main.main, "seek run.tape --tick 5 --field units[99]") == 2
    assert capsys.readouterr().err == "error: no attribute or field 'units[99]'; units has 30 items at tick 5\n"


@pytest.mark.seldom(0.15)
def test_a_desync_names_the_values_of_the_object(capsys: pytest.CaptureFixture[str]) -> None:
    """A change that is no input: at the next keyframe, the path and both values, and not the fields of the arena that hold them."""
    with recorder.record(Patrol(), "changed.tape", step="advance", quiet=True, keyframe_interval_ticks=5) as game:
        for tick in range(8):
            if tick == 2:
                game.units[3]["hp"] = 70
                game.units.append({"name": "new", "hp": 1})
            game.advance()
    with replayer.open("changed.tape", world=Patrol) as run_of_it:
        report = run_of_it.verify(jobs=1)
    print_report(Path("changed.tape"), report)
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("  at the next recorded keyframe, tick 5, these values differ:")
    assert lines[at + 1 : at + 3] == [
        "    units[30]: recorded {'name': 'new', 'hp': 1}, replayed absent",
        "    units[3]['hp']: recorded 70, replayed 3",
    ]
    assert not [line for line in lines[at:] if "graph." in line or "#counts" in line]


def test_a_saved_form_that_differs_is_not_called_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no value differs, the heading does not say that values do."""
    with recorder.record(Patrol(), "form.tape", step="advance", quiet=True, keyframe_interval_ticks=5) as game:
        for tick in range(8):
            game.units[3]["hp"] += tick == 2
            game.advance()
    with replayer.open("form.tape", world=Patrol) as run_of_it:
        (finding,) = run_of_it.verify(jobs=1).findings
    monkeypatch.setattr("replayer.report.report_text.object_difference_lines", lambda *_: ([SAVED_FORM], []))
    *_, last = where_lines(finding)
    assert last == f"at the next recorded keyframe, tick 5: {SAVED_FORM}"
    monkeypatch.setattr("replayer.report.report_text.object_difference_lines", lambda *_: ([SAVED_FORM], ["own"]))
    assert "at the next recorded keyframe, tick 5, these fields differ:" in where_lines(finding)


def test_two_recordings_are_compared_by_paths(capsys: pytest.CaptureFixture[str]) -> None:
    """At the first keyframe that both have from the difference on: the path and both values, and no field of the arena."""
    for name in ("one", "other"):
        with recorder.record(Patrol(), f"{name}.tape", step="advance", quiet=True, keyframe_interval_ticks=5) as game:
            for tick in range(8):
                if (name, tick) == ("other", 2):
                    game.units[3]["hp"] = 70
                game.advance()
    assert run(replayer.commands.main.main, "diff one.tape other.tape") == 1
    lines = capsys.readouterr().out.splitlines()
    assert "    units[3]['hp']: first 3, second 70" in lines
    assert not [line for line in lines if "graph." in line or "#counts" in line]


def test_a_tick_is_that_of_the_seek(capsys: pytest.CaptureFixture[str]) -> None:
    """As in a condition of replay find."""
    assert "  tick = 5" in seek(capsys, "--field tick").splitlines()
    assert json.loads(seek(capsys, "--json --field tick"))["fields"] == {"tick": 5}


@pytest.mark.parametrize("path", ["turn[-1]", "places[-1]", "units[-31]", "units[0]['name'][-1]", "units[0][-1]"])
def test_a_place_from_the_end_of_what_is_no_list_is_refused(capsys: pytest.CaptureFixture[str], path: str) -> None:
    """A dict with the key 0 has no place -1."""
    patrol = Patrol()
    vars(patrol)["places"] = {0: "a"}
    with recorder.record(patrol, "places.tape", step="advance", quiet=True) as game:
        game.advance()
    assert run(replayer.commands.main.main, f"seek places.tape --tick 1 {SIM} --field {shlex.quote(path)}") == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"error: no attribute or field {path!r}")
    assert "Traceback" not in printed.err
