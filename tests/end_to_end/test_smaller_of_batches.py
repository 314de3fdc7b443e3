"""record batch and record sweep write a smaller scenario for a violated property next to its tape, once."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

import recorder.commands.main
from recorder.scenarios import shrink_batch as smaller
from recorder.scenarios.batch import Job, RunRecord
from recorder.scenarios.shrink_batch import SmallerScenario, first_violations, make_smaller, read_smaller

from oracle.command_lines import TINY, assert_one_line, files, run

PROVOKED = (
    TINY.replace("ticks = 90", "ticks = 12")
    + """
[[players]]
species = "snail"
[scenario]
[scenario.network]
loss = 0.5
[[scenario.adversaries]]
id = "fog"
kind = "withholding"
budget = { total = 3 }
[[scenario.properties]]
name = "young"
kind = "always"
when = "tick < 7"
[[scenario.properties]]
name = "younger"
kind = "always"
when = "tick < 5"
"""
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with scenarios in it: one violates two properties, one a third, and one none."""
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text(PROVOKED)
    Path("other.toml").write_text(PROVOKED.replace("tick < 7", "tick < 99"))
    Path("good.toml").write_text(PROVOKED.replace("tick < 7", "tick < 99").replace("tick < 5", "tick < 99"))
    return tmp_path


def smaller_files(folder: str) -> list[str]:
    """Return the smaller scenarios of a batch."""
    return sorted(path.name for path in Path(folder).glob("*.smaller*"))


def manifest(folder: str) -> Any:
    """Return the manifest of a batch."""
    return json.loads((Path(folder) / "manifest.json").read_text())


@pytest.mark.seldom(0.15)
def test_one_of_each_scenario_and_property(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the first violating run; named in the summary and the manifest; it violates that property alone."""
    line = "batch good.toml bad.toml other.toml --seeds 4,5 --player snail=random -o runs -j 1"
    assert run(recorder.commands.main.main, line) == 1
    out = capsys.readouterr().out
    names = ["run-00002.young.smaller.toml", "run-00002.younger.smaller.toml", "run-00004.younger.smaller.toml"]
    assert smaller_files("runs") == names
    told = [text for text in out.splitlines() if text.startswith("  made smaller: ")]
    assert [text.partition(": run ")[2].partition(",")[0] for text in told] == ["2", "2", "4"]
    assert {text.rpartition(": ")[2] for text in told} == {f"runs/{name}" for name in names}
    entries = manifest("runs")["smaller"]
    assert [(one["scenario"], one["violates"], one["run"], one["tick"]) for one in entries] == [
        ("bad", "younger", 2, 5),
        ("bad", "young", 2, 7),
        ("other", "younger", 4, 5),
    ]
    assert [one["is_minimal"] for one in entries] == [True] * 3

    text = (Path("runs") / names[0]).read_text()
    assert text.splitlines()[1] == f"# Recorded with: record run {names[0]} --player snail=random"
    left = tomllib.loads(text)
    assert (left["seed"], left["scenario"].get("adversaries"), "network" in left["scenario"]) == (4, [], False)
    assert [one["name"] for one in left["scenario"]["properties"]] == ["young"]
    assert run(recorder.commands.main.main, f"run runs/{names[0]} --player snail=random -o again.tape") == 1
    assert "violated at tick 7: young" in capsys.readouterr().err


def test_it_is_made_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A finished batch that is continued keeps it and does not search; one whose file is gone makes it again."""
    line = "sweep bad.toml --axis seed=1,2 -o runs -j 1"
    assert run(recorder.commands.main.main, line) == 1
    first, before = capsys.readouterr().out, files(Path("runs"))
    assert len(smaller_files("runs")) == 2
    searched: list[str] = []
    search = smaller.search

    def noted(*given: Any, **more: Any) -> Any:
        searched.append(given[4].name)
        return search(*given, **more)

    monkeypatch.setattr(smaller, "search", noted)
    assert run(recorder.commands.main.main, line) == 1
    assert capsys.readouterr().out == first
    after = files(Path("runs"))
    assert {name for name in before | after if before.get(name) != after.get(name)} <= {"survival.png"}
    assert searched == []

    Path("runs/run-00000.young.smaller.toml").unlink()
    assert run(recorder.commands.main.main, line) == 1
    assert searched == ["young"]
    assert files(Path("runs"))["run-00000.young.smaller.toml"] == before["run-00000.young.smaller.toml"]


@pytest.mark.seldom(0.15)
def test_leaving_it_out(capsys: pytest.CaptureFixture[str]) -> None:
    """With --no-smaller nothing is searched and older ones stay; without it, missing ones are made."""
    line = "sweep bad.toml --axis seed=1,2 -j 1 -o runs"
    assert run(recorder.commands.main.main, f"{line} --no-smaller --json") == 1
    facts = json.loads(capsys.readouterr().out)
    assert (facts["smaller"], facts["not_yet_smaller"]) == ([], 0)
    assert (smaller_files("runs"), manifest("runs")["smaller"]) == ([], [])
    assert run(recorder.commands.main.main, f"{line} --json") == 1
    facts = json.loads(capsys.readouterr().out)
    assert [one["file"] for one in facts["smaller"]] == [
        "runs/run-00000.younger.smaller.toml",
        "runs/run-00000.young.smaller.toml",
    ]
    assert run(recorder.commands.main.main, f"{line} --no-smaller") == 1
    assert capsys.readouterr().out.count("made smaller") == 2
    assert len(manifest("runs")["smaller"]) == 2
    assert run(recorder.commands.main.main, line.replace("-o runs", "-o bare --no-tapes")) == 1
    assert sorted(path.name for path in Path("bare").iterdir() if path.suffix == ".toml") == smaller_files("runs")


def test_nothing_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """That is printed and kept, and there is no file."""
    alone = PROVOKED.split("[scenario.network]", maxsplit=1)[0] + PROVOKED[PROVOKED.index("[[scenario.properties]]") :]
    Path("alone.toml").write_text(alone.partition('[[scenario.properties]]\nname = "younger"')[0])
    assert run(recorder.commands.main.main, "batch alone.toml -o runs -j 1") == 1
    assert "  not smaller: run 0, property young: nothing in the scenario can be left out" in capsys.readouterr().out
    assert smaller_files("runs") == []
    assert manifest("runs")["smaller"][0]["file"] is None


def job(index: int, name: str) -> Job:
    """Make a job of a scenario."""
    return Job(index, name, "meadow", {}, {}, 5)


def test_the_first_of_each() -> None:
    """By scenario and property; the lowest index."""
    jobs = [job(index, name) for index, name in enumerate(["x", "x", "y", "x"])]
    violations = [[], [["p", 3, ""]], [["p", 1, ""]], [["q", 2, ""], ["p", 1, ""]]]
    records = [RunRecord(one.index, one.name, {}, violations=v) for one, v in zip(jobs, violations, strict=True)]
    firsts = first_violations(jobs, records)
    assert [(one.job.name, one.violation.name, one.job.index, one.violation.tick) for one in firsts] == [
        ("x", "p", 1, 3),
        ("y", "p", 2, 1),
        ("x", "q", 3, 2),
    ]


def test_when_the_time_is_over_or_the_user_interrupts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished ones are kept, the others are left for a later run."""
    jobs = [job(index, name) for index, name in enumerate("xyz")]
    firsts = first_violations(jobs, [RunRecord(one.index, one.name, {}, violations=[["p", 3, ""]]) for one in jobs])
    kept: list[list[SmallerScenario]] = []
    assert make_smaller(firsts, tmp_path, [], keep=kept.append, on_error=pytest.fail, budget_s=0) == []

    def made(first: smaller.FirstViolation, *_: Any) -> SmallerScenario:
        if first.job.name == "y":
            raise KeyboardInterrupt
        return SmallerScenario(first.job.name, "p", first.job.index, 3, None, 1, True)

    monkeypatch.setattr(smaller, "_made_smaller", made)
    found = make_smaller(firsts, tmp_path, [], keep=kept.append, on_error=pytest.fail)
    assert [one.scenario for one in found] == ["x"]
    assert kept == [found]


def test_a_file_that_is_not_a_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    """One line, and nothing is written."""
    Path("runs").mkdir()
    for text in ("{", "[]", '{"smaller": [{"run": 1}]}', '{"smaller": 5}'):
        Path("runs/manifest.json").write_text(text)
        assert run(recorder.commands.main.main, "batch good.toml -o runs") == 2
        assert_one_line(capsys.readouterr(), "runs/manifest.json is not a manifest: ")
        assert [path.name for path in Path("runs").iterdir()] == ["manifest.json"]
    with pytest.raises(ValueError, match="is not a manifest"):
        read_smaller(Path("runs"))
