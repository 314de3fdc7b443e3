"""Data sets at URLs: the files are those of an extraction into a folder, and there is all of it or no data set."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from optional_packages import needs

needs("fsspec", "pyarrow")

from counted_store import CountedStore, empty  # noqa: E402

from recorder.errors import UnreadableError  # noqa: E402
from replayer import extract  # noqa: E402
from replayer.commands.main import main  # noqa: E402
from replayer.datasets.request import ExtractionError  # noqa: E402

from oracle.command_lines import assert_one_line, run  # noqa: E402
from small_worlds import Walkers, record  # noqa: E402

URL = "counted://sets/data"
WANTED = {"tables": ("states",), "fields": ("x", "y"), "world": Walkers}


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPLAY_STAGING", str(tmp_path / "staging"))
    monkeypatch.setattr("recorder.storage.remote.store_errors.FIRST_PAUSE_S", 0)
    empty()
    record("run.tape", Walkers(0), [None] * 30, keyframe_interval_ticks=10, trial_ms=0)
    yield
    empty()


def stored() -> dict[str, bytes]:
    """The files at the URL by name."""
    return {
        name.removeprefix("/sets/data/"): file.getvalue()
        for name, file in CountedStore.store.items()
        if name.startswith("/sets/data/")
    }


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def same_but_for_times(one: dict[str, bytes], other: dict[str, bytes]) -> bool:
    """Return True if two data sets are equal; their manifests may differ in the command and the time."""
    manifests = [json.loads(files["manifest.json"]) for files in (one, other)]
    rest = [{name: data for name, data in files.items() if name != "manifest.json"} for files in (one, other)]
    return rest[0] == rest[1] and manifests[0]["tables"] == manifests[1]["tables"]


def test_the_files_are_those_of_a_folder(tmp_path: Path) -> None:
    extract("run.tape", "local", **WANTED)
    made = extract("run.tape", URL, **WANTED)

    assert same_but_for_times(stored(), files_of(tmp_path / "local"))
    assert CountedStore.put_names[-1] == "/sets/data/manifest.json"
    assert (made.rows, str(made.path)) == ({"states": 31}, URL)
    assert files_of(tmp_path / "staging") == {}
    assert made.table("states").numpy()["tick"].tolist() == list(range(31))


@pytest.mark.parametrize("number", [0, 1])
def test_an_upload_that_failed_leaves_no_data_set_and_can_be_done_again(number: int, tmp_path: Path) -> None:
    CountedStore.failing_puts[number] = PermissionError("not now")
    with pytest.raises(PermissionError, match="does not permit it: not now") as caught:
        extract("run.tape", URL, **WANTED)
    assert caught.value.filename.startswith(URL)
    assert "manifest.json" not in stored()

    extract("run.tape", URL, **WANTED)
    extract("run.tape", "local", **WANTED)
    assert same_but_for_times(stored(), files_of(tmp_path / "local"))


def test_an_upload_that_fails_for_a_moment_is_repeated() -> None:
    CountedStore.failing_puts[0] = OSError(errno.EBUSY, "SlowDown")
    extract("run.tape", URL, **WANTED)
    assert "manifest.json" in stored()


def test_what_is_there_is_not_replaced() -> None:
    extract("run.tape", URL, **WANTED)
    before = stored()
    with pytest.raises(ExtractionError, match=f"{URL} exists already"):
        extract("run.tape", URL, **WANTED)
    assert stored() == before
    CountedStore().pipe_file("/sets/data2/notes.txt", b"mine")
    with pytest.raises(ExtractionError, match=r"data2 holds something else, notes\.txt"):
        extract("run.tape", "counted://sets/data2", **WANTED)
    assert [name for name in CountedStore.store if name.startswith("/sets/data2")] == ["/sets/data2/notes.txt"]


def test_a_url_that_can_only_be_read_is_refused() -> None:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    with pytest.raises(UnreadableError, match="https:// can only be read"):
        extract("run.tape", "https://host/data", **WANTED)


def test_the_command_writes_to_a_url(capsys: pytest.CaptureFixture[str]) -> None:
    line = f"extract run.tape -o {URL} --table states --field x --sim small_worlds:Walkers"
    assert run(main, line) == 0
    assert f"{URL}/states: 31 rows in 1 file" in capsys.readouterr().out
    assert run(main, line) == 2
    assert_one_line(capsys.readouterr(), f"{URL} exists already")
    assert run(main, f"{line} --append") == 2
    assert_one_line(capsys.readouterr(), "rows are added to data sets of this machine alone")
