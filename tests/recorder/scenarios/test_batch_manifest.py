"""The folder of a batch: foreign files stay and are reported; only runs of the same job count as finished."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from recorder.scenarios.batch import Job, RunRecord
from recorder.scenarios.batch_manifest import LINES_NAME, MANIFEST_NAME, BatchFolder, read_manifest
from recorder.scenarios.sweep import run_batch

from disk.cut_programs import recorded
from disk.folder_cuts import batch_of_tapes
from oracle.command_lines import files

CONFIG = {"world": "meadow", "seed": 1}


def job(index: int, folder: Path | None, **more: Any) -> Job:
    """Make a job that cannot run, with its tape in folder."""
    given = {"scenario": {}, "ticks": 5, "bindings": {"seed": index}, **more}
    made = Job(index, "x", "meadow", CONFIG, **given)
    return attrs.evolve(made, tape=folder / f"{made.run_name}.tape" if folder is not None else None)


def done(one: Job) -> RunRecord:
    """Make the record that the job would have."""
    if one.tape is not None:
        assert not one.tape.exists()
        one.tape.write_text(f"tape {one.index}")
    tape = str(one.tape) if one.tape is not None else None
    return RunRecord(one.index, one.name, one.bindings, one.ticks, tape=tape)


def run(jobs: list[Job], folder: Path) -> list[int]:
    """Run jobs; return the indices of those that ran."""
    ran: list[int] = []

    def work(one: Job) -> RunRecord:
        ran.append(one.index)
        return done(one)

    run_batch(jobs, folder, workers=1, work=work)
    return ran


@pytest.mark.parametrize(
    "name",
    ["run-00001.tape", "run-00001.tape.journal", "run-00001.tape.2", MANIFEST_NAME, "survival.png"],
)
def test_existing_files(tmp_path: Path, name: str) -> None:
    """They are refused by name, and nothing is written."""
    (tmp_path / name).write_text("mine")
    (tmp_path / "run-00001.tape.notes").write_text("mine, too")
    before = files(tmp_path)
    with pytest.raises(ValueError, match=f"{name} exists already, and no batch made it"):
        run([job(index, tmp_path) for index in range(2)], tmp_path)
    assert files(tmp_path) == before


def test_files_next_to_a_batch(tmp_path: Path) -> None:
    """Files whose names only start like a tape's stay; an additional run does not overwrite an existing file."""
    notes = tmp_path / "run-00001.tape.notes"
    notes.write_text("mine")
    jobs = [job(index, tmp_path) for index in range(4)]
    assert run(jobs[:2], tmp_path) == [0, 1]
    lines = tmp_path / LINES_NAME
    lines.write_text("".join(lines.read_text().splitlines(keepends=True)[:2]))
    assert run(jobs[:2], tmp_path) == [1]
    (tmp_path / "run-00003.tape").write_text("mine")
    with pytest.raises(ValueError, match=r"run-00003\.tape exists already"):
        run(jobs, tmp_path)
    assert (tmp_path / "run-00003.tape").read_text() == notes.read_text() == "mine"
    (tmp_path / "run-00003.tape").unlink()
    assert run(jobs, tmp_path) == [2, 3]


def test_a_kill_before_the_first_has_finished(tmp_path: Path) -> None:
    """Runs in progress start again."""

    def killed(one: Job) -> RunRecord:
        assert one.tape is not None
        for suffix in ("", ".journal", ".1.new"):
            one.tape.with_name(one.tape.name + suffix).write_text("half")
        raise KeyboardInterrupt

    jobs = [job(0, tmp_path)]
    with pytest.raises(KeyboardInterrupt):
        run_batch(jobs, tmp_path, workers=1, work=killed)
    assert run(jobs, tmp_path) == [0]
    assert sorted(files(tmp_path)) == [MANIFEST_NAME, LINES_NAME, "run-00000.tape"]


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (lambda one: attrs.evolve(one, players={"snail": "greedy"}), "different players"),
        (lambda one: attrs.evolve(one, tape=None), "a tape that was not requested"),
        (lambda one: attrs.evolve(one, ticks=6), "different ticks"),
        (lambda one: attrs.evolve(one, bindings={"seed": 7}), "different parameters"),
        (lambda one: attrs.evolve(one, config={**CONFIG, "seed": 2}), "a different scenario"),
        (lambda one: attrs.evolve(one, scenario={"network": {"loss": 1}}), "a different scenario"),
        (lambda one: attrs.evolve(one, scenario={"checkpoint_interval": 2}), "a different checkpoint interval"),
        (lambda one: attrs.evolve(one, name="y"), "a different name"),
    ],
)
def test_a_different_job_is_not_finished(tmp_path: Path, other: Callable[[Job], Job], what: str) -> None:
    """A job with any difference is refused, even if the earlier run failed; the same job counts as finished."""
    jobs = [job(0, tmp_path), job(1, tmp_path)]
    assert run(jobs, tmp_path) == [0, 1]
    before = files(tmp_path)
    with pytest.raises(ValueError, match=f"holds a different batch: its run 0 has .*{what}"):
        run([other(jobs[0]), jobs[1]], tmp_path)
    assert files(tmp_path) == before
    assert run(jobs, tmp_path) == []
    lines = (tmp_path / LINES_NAME).read_text().splitlines(keepends=True)
    failed = {**json.loads(lines[1]), "error": "oh"}
    (tmp_path / LINES_NAME).write_text(lines[0] + json.dumps(failed) + "\n")
    with pytest.raises(ValueError, match="holds a different batch: its run 0"):
        run([other(jobs[0]), jobs[1]], tmp_path)


def test_two_at_once(tmp_path: Path) -> None:
    """The second batch is refused and deletes nothing."""
    jobs = [job(0, tmp_path)]

    def work(one: Job) -> RunRecord:
        assert one.tape is not None
        begun = one.tape.with_name("run-00000.tape.1.new")
        begun.write_text("begun")
        with pytest.raises(ValueError, match="another process runs a batch in this folder"):
            run(jobs, tmp_path)
        begun.unlink()
        return done(one)

    run_batch(jobs, tmp_path, workers=1, work=work)
    assert run(jobs, tmp_path) == []


BEGUN = '{"begun": 2}\n'


@pytest.mark.parametrize(
    "content",
    [
        "hello",
        "hello\n",
        '{"a": 1}',
        '{"a": 1}\n',
        "[1]\n",
        '{"begun": true}\n',
        "\n",
        "\xff\n",
        BEGUN + '{"index": 0}\n',
        BEGUN + '{"index": 0, "name": "x", "bindings": {}, "more": 1}\n',
        BEGUN + '{"index": "0", "name": "x", "bindings": {}}\n',
        BEGUN + '{"index": -1, "name": "x", "bindings": {}}\n',
        BEGUN + '{"index": 0, "name": "x", "bindings": {}, "violations": [["p"]]}\n',
        BEGUN + '{"index": 0, "name": "x", "bindings": {}, "extinctions": {"owl": "x"}}\n',
        BEGUN + "[" * 100_000 + "\n",
    ],
)
def test_files_that_are_not_manifests(tmp_path: Path, content: str) -> None:
    """One line names the file, which stays unchanged."""
    (tmp_path / LINES_NAME).write_text(content, encoding="latin-1")
    before = files(tmp_path)
    with pytest.raises(ValueError, match=f"{LINES_NAME} is not a manifest: line [12] is not a") as caught:
        BatchFolder(tmp_path).inspect([job(0, tmp_path), job(1, tmp_path)])
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="is not a manifest"):
        run([job(0, tmp_path), job(1, tmp_path)], tmp_path)
    assert files(tmp_path) == before


@pytest.mark.parametrize("half", ["", "{", BEGUN[:-1], BEGUN[:5]])
def test_half_a_first_line(tmp_path: Path, half: str) -> None:
    """A kill can leave half of the first line: the batch starts."""
    (tmp_path / LINES_NAME).write_text(half)
    assert run([job(0, tmp_path)], tmp_path) == [0]
    assert (tmp_path / LINES_NAME).read_text().startswith('{"begun": 1}\n{"job": {')


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("hello", "expected a JSON object"),
        ("[]", "expected a JSON object"),
        ("[" * 100_000, "expected a JSON object"),
        ("{}", "it has no runs"),
        ('{"runs": {"index": 0}}', "it has no runs"),
        ('{"runs": [5]}', "run 0: expected a table"),
        ('{"runs": [{"index": "0", "name": "x", "bindings": {}}]}', "run 0: 'index': unexpected value '0'"),
        ('{"runs": [{"index": 0}]}', "run 0: missing 2 required positional arguments"),
        ('{"runs": [{"index": 0, "name": "x", "bindings": {}, "violations": [["p", "3", ""]]}]}', "'violations'"),
        ('{"runs": [{"index": 0, "name": "x", "bindings": {}, "progress": {"a": [1]}}]}', "'progress'"),
        ('{"runs": [{"index": 0, "name": "x", "bindings": {}, "reconfigurations": {"pure": "1"}}]}', "whole number"),
    ],
)
def test_invalid_manifests(tmp_path: Path, content: str, why: str) -> None:
    """The error names the file and the reason."""
    (tmp_path / MANIFEST_NAME).write_text(content)
    with pytest.raises(ValueError, match=f"{MANIFEST_NAME} is not a manifest: .*{why}"):
        read_manifest(tmp_path)


def test_a_manifest_of_an_unfinished_batch(tmp_path: Path) -> None:
    """The error states that the batch is unfinished."""
    (tmp_path / LINES_NAME).write_text(BEGUN)
    with pytest.raises(ValueError, match="holds an unfinished batch"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("place", [0, 3, 11])
def test_zeros_where_a_line_was_not_on_the_disk(tmp_path: Path, place: int) -> None:
    """A power cut may keep the size of the file and lose pages of its last line: the batch continues with that run."""
    jobs = [job(index, tmp_path) for index in range(3)]
    assert run(jobs, tmp_path) == [0, 1, 2]
    lines = (tmp_path / LINES_NAME).read_bytes().splitlines(keepends=True)
    torn = lines[-1][:place] + bytes(40) + lines[-1][place + 40 :]
    for last in (torn, torn.rstrip(b"\n"), bytes(len(torn))):
        (tmp_path / LINES_NAME).write_bytes(b"".join(lines[:-1]) + last)
        assert run(jobs, tmp_path) == [2]


def test_zeros_in_place_of_a_manifest(tmp_path: Path) -> None:
    """A power cut before its first line was on the disk. Zeros in an earlier line are still an error."""
    jobs = [job(index, tmp_path) for index in range(2)]
    (tmp_path / LINES_NAME).write_bytes(bytes(13))
    assert run(jobs, tmp_path) == [0, 1]
    lines = (tmp_path / LINES_NAME).read_bytes().splitlines(keepends=True)
    (tmp_path / LINES_NAME).write_bytes(lines[0] + bytes(30) + b"\n" + lines[2])
    with pytest.raises(ValueError, match="line 2 is not an entry"):
        run(jobs, tmp_path)


def test_the_manifest_is_durable_before_a_run(tmp_path: Path) -> None:
    """Its name, too: a power cut would leave tapes that no batch seems to have made."""
    calls = recorded(lambda folder, made: batch_of_tapes(folder, [], made), tmp_path / "batch")
    kinds = [(call.kind, call.name or call.file) for call in calls.calls]
    number = next(call.file for call in calls.calls if call.name == LINES_NAME)
    first_tape = kinds.index(("create", "run-00000.tape"))
    assert ("sync_folder", 0) in kinds[:first_tape]
    assert ("sync", number) in kinds[:first_tape]
