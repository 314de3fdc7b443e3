"""Uploads of tapes while they are recorded: what is at the URL is the tape up to there, and in the end all of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from counted_store import CountedStore, empty, put
from waiting import wait_until

from recorder import Recorder, resume
from recorder.commands.main import main
from recorder.errors import RecordingError
from recorder.location.tape_url import TapeUrl
from recorder.upload.tape_upload import TapeUpload
from replayer import Timeline

from oracle.command_lines import assert_one_line, run
from small_worlds import Walkers, record

URL = TapeUrl("counted://runs/run.tape")
PARTS: dict[str, Any] = {"keyframe_interval_ticks": 10, "split": 500, "deterministic": True, "trial_ms": 0}


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("recorder.storage.remote.store_errors.FIRST_PAUSE_S", 0)
    empty()
    yield
    empty()


def stored() -> dict[str, bytes]:
    return {name.removeprefix("/runs/"): file.getvalue() for name, file in CountedStore.store.items()}


def here() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path.cwd().glob("run.tape*")}


@pytest.mark.seldom(0.15)
def test_during_a_run_the_url_has_the_tape_up_to_there(tmp_path: Path) -> None:
    """Each time it reads as a tape that was not closed, with the states of the live run; in the end it is the tape."""
    live: dict[int, bytes] = {}
    with Recorder("run.tape", Walkers(3), **PARTS) as tape:
        upload = TapeUpload(tmp_path / "run.tape", URL)
        for tick in range(1, 200):
            tape.step(None)
            live[tick] = tape.simulation.state.arena.tobytes()
            if tick % 50 == 0:
                tape.flush()
                upload.upload_finished()
                with Timeline(URL, lambda: Walkers(3)) as run:
                    assert run.tape.status == "incomplete"
                    assert run.last_tick <= tick
                    assert run[run.last_tick].arena.tobytes() == live[run.last_tick]
        with pytest.raises(RecordingError, match="is being recorded"):
            upload.upload_all()
    report = upload.upload_all()

    assert report.is_whole
    assert report.uploaded == report.files == len(here()) > 4
    assert stored() == here()
    assert len(CountedStore.put_names) == report.files, "each was sent once"


@pytest.mark.parametrize("number", [0, 2, 4])
def test_an_upload_that_stopped_continues(number: int, tmp_path: Path) -> None:
    record("run.tape", Walkers(3), [None] * 100, **PARTS)
    CountedStore.failing_puts[number] = PermissionError("not now")
    with pytest.raises(PermissionError):
        TapeUpload(tmp_path / "run.tape", URL).upload_all()
    assert len(stored()) == number
    report = TapeUpload(tmp_path / "run.tape", URL).upload_all()

    assert report.uploaded == report.files - number
    assert stored() == here()
    assert TapeUpload(tmp_path / "run.tape", URL).follow().uploaded == 0


def test_a_tape_that_was_resumed_is_uploaded_again(tmp_path: Path) -> None:
    """Only the files that have changed; the journal of the unclosed run is removed."""
    with Recorder("run.tape", Walkers(3), **PARTS) as tape:
        for _ in range(95):
            tape.step(None)
        tape.flush()  # Otherwise it depends on the writer how many files there are.
        copies = here()
    for path in tmp_path.glob("run.tape*"):
        path.unlink()
    for name, data in copies.items():
        (tmp_path / name).write_bytes(data)
    first = TapeUpload(tmp_path / "run.tape", URL).upload_all()
    assert not first.is_whole
    assert stored() == here()
    with resume("run.tape", Walkers(3)) as tape:
        tape.step(None)
    second = TapeUpload(tmp_path / "run.tape", URL).upload_all()

    assert second.is_whole
    assert 0 < second.uploaded < first.files
    assert stored() == here()


def test_another_tape_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record("other.tape", Walkers(4), [None] * 20, trial_ms=0)
    put("run.tape", Path("other.tape").read_bytes())
    record("run.tape", Walkers(3), [None] * 20, trial_ms=0)
    before = stored()
    with pytest.raises(FileExistsError, match="another tape is there"):
        TapeUpload(tmp_path / "run.tape", URL)
    assert run(main, f"upload run.tape {URL.text}") == 2
    assert_one_line(capsys.readouterr(), "counted://runs/run.tape: another tape is there")
    assert stored() == before


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("upload run.tape counted://runs/a.tape", "run.tape: No such file or directory"),
        ("upload run.tape copy.tape", "expected a URL such as s3://bucket/run.tape, got 'copy.tape'; this is a path"),
        (
            "upload run.tape file:///a/copy.tape",
            "got 'file:///a/copy.tape'; /a/copy.tape is on this machine: copy the tape",
        ),
        ("run quiet-meadow -o run.tape --upload copy.tape", "expected a URL such as s3://bucket/run.tape"),
        ("run quiet-meadow -o run.tape --upload nosuch://a/b", "the scheme nosuch:// is not known"),
        ("run quiet-meadow -o run.tape --keep 60s --upload counted://runs/a.tape", "--keep removes old ones"),
    ],
)
def test_a_mistake_is_one_line(line: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(main, line) in (2, 5)
    assert_one_line(capsys.readouterr(), text)
    assert here() == {}


def test_the_command_uploads(capsys: pytest.CaptureFixture[str]) -> None:
    record("run.tape", Walkers(3), [None] * 100, **PARTS)
    assert run(main, f"upload run.tape {URL.text} --json") == 0
    facts = json.loads(capsys.readouterr().out)

    assert facts["is_whole"]
    assert facts["uploaded"] == facts["files"] == len(here())
    assert run(main, f"upload run.tape {URL.text}") == 0
    assert f"uploaded to {URL.text}: 0 files of {facts['files']} sent" in capsys.readouterr().out


RUN = ["run", "quiet-meadow", "--split", "20kB", "--keyframe-interval", "50", "-o", "run.tape"]


@pytest.mark.seldom(0.15)
def test_a_run_uploads_beside_itself(tmp_path: Path) -> None:
    """By a process of its own: at the end, the URL has the same bytes."""
    (tmp_path / "copy").mkdir()
    command = [
        sys.executable,
        "-m",
        "recorder",
        *RUN,
        "--ticks",
        "300",
        "--upload",
        f"local://{tmp_path}/copy/run.tape",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    copied = {path.name: path.read_bytes() for path in (tmp_path / "copy").iterdir()}
    assert copied == here()
    assert f"uploaded to local://{tmp_path}/copy/run.tape: {len(copied)} file" in done.stdout


@pytest.mark.seldom(0.15)
def test_a_run_that_is_killed_is_uploaded_as_far_as_it_came(tmp_path: Path) -> None:
    """By kill -9, once its second file has begun; then its tape is resumed, and uploaded to its end."""
    (tmp_path / "copy").mkdir()
    url = f"local://{tmp_path}/copy/run.tape"
    command = [sys.executable, "-m", "recorder", *RUN, "--ticks", "90000", "--realtime", "2000", "--upload", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until((tmp_path / "copy/run.tape").exists)
        process.send_signal(signal.SIGKILL)

    def copied() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (tmp_path / "copy").iterdir()}

    wait_until(lambda: copied() == here())
    with Timeline(f"{url}") as found, Timeline("run.tape") as whole:
        assert found.last_tick == whole.last_tick
        assert found[found.last_tick].arena.tobytes() == whole[whole.last_tick].arena.tobytes()
    last_tick = whole.last_tick
    again = [sys.executable, "-m", "recorder", "resume", "run.tape", "--ticks", str(last_tick + 50)]
    subprocess.run(again, capture_output=True, check=True)
    assert run(main, f"upload run.tape {url}") == 0
    assert copied() == here()
