"""What an upload finds at its URL: no file of another run is lost, and none of this run stays that the tape has not."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from counted_store import CountedStore, empty, put

from recorder import Recorder
from recorder.commands.main import main
from recorder.errors import RecordingError
from recorder.location.tape_url import TapeUrl
from recorder.storage.remote.uploads import ensure_url_is_free, upload_tape
from recorder.upload.tape_upload import TapeUpload

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


@pytest.fixture
def no_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store permits reading and writing, but not listing."""

    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "ListBucket")

    monkeypatch.setattr(CountedStore, "ls", denied)


def stored() -> dict[str, bytes]:
    return {name.removeprefix("/runs/"): file.getvalue() for name, file in CountedStore.store.items()}


def here(name: str = "run.tape") -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path.cwd().glob(f"{name}*")}


def put_all(files: dict[str, bytes]) -> None:
    for name, data in files.items():
        put(name, data)


@pytest.mark.usefixtures("no_listing")
def test_without_a_listing_no_other_tape_is_replaced(tmp_path: Path) -> None:
    record("other.tape", Walkers(4), [None] * 20, trial_ms=0)
    record("run.tape", Walkers(3), [None] * 20, trial_ms=0)
    put("run.tape", Path("other.tape").read_bytes())
    before = stored()

    with pytest.raises(FileExistsError, match="another tape is there"):
        TapeUpload(tmp_path / "run.tape", URL)
    with pytest.raises(FileExistsError, match="exists already"):
        ensure_url_is_free(URL)
    with pytest.raises(FileExistsError, match="exists already"):
        upload_tape(tmp_path / "run.tape", URL)
    assert stored() == before


@pytest.mark.usefixtures("no_listing")
@pytest.mark.parametrize("suffix", [".1", ".journal"])
def test_without_a_listing_later_files_are_asked_for(suffix: str, tmp_path: Path) -> None:
    record("run.tape", Walkers(3), [None] * 20, trial_ms=0)
    put(f"run.tape{suffix}", b"of another upload that has only begun")
    before = stored()
    with pytest.raises(FileExistsError, match="exists already"):
        upload_tape(tmp_path / "run.tape", URL)
    assert stored() == before


@pytest.mark.usefixtures("no_listing")
def test_without_a_listing_an_upload_works_and_continues(tmp_path: Path) -> None:
    record("run.tape", Walkers(3), [None] * 100, **PARTS)
    CountedStore.failing_puts[2] = PermissionError("not now")
    with pytest.raises(PermissionError):
        TapeUpload(tmp_path / "run.tape", URL).upload_all()
    report = TapeUpload(tmp_path / "run.tape", URL).upload_all()

    assert report.uploaded == report.files - 2
    assert stored() == here()


@pytest.mark.usefixtures("no_listing")
def test_a_store_that_tells_nothing_gets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "GetObject")

    monkeypatch.setattr(CountedStore, "info", denied)
    record("run.tape", Walkers(3), [None] * 20, trial_ms=0)
    with pytest.raises(PermissionError, match="does not tell whether a file is there"):
        TapeUpload(tmp_path / "run.tape", URL)
    with pytest.raises(PermissionError, match="does not tell whether a file is there"):
        upload_tape(tmp_path / "run.tape", URL)
    assert run(main, f"upload run.tape {URL.text}") == 2
    assert_one_line(capsys.readouterr(), "does not tell whether a file is there")
    assert CountedStore.put_names == []


@pytest.mark.parametrize("is_listed", [True, False])
def test_files_that_the_tape_has_no_more_are_removed(
    tmp_path: Path, request: pytest.FixtureRequest, *, is_listed: bool
) -> None:
    """As after a torn end: an earlier upload had more files of this run than the tape has now."""
    if not is_listed:
        request.getfixturevalue("no_listing")
    record("run.tape", Walkers(3), [None] * 100, **PARTS)
    files = here()
    put_all(files)
    put_all({f"run.tape.{len(files) + more}": files["run.tape.2"] for more in range(2)})
    put("run.tape2", b"another file")
    upload = TapeUpload(tmp_path / "run.tape", URL)
    assert upload.upload_all().uploaded == 0
    assert stored() == {**files, "run.tape2": b"another file"}


@pytest.mark.parametrize("is_listed", [True, False])
@pytest.mark.parametrize("data", ["another run", b"", b"no tape"])
def test_a_later_file_of_another_run_is_refused(
    data: str | bytes, tmp_path: Path, request: pytest.FixtureRequest, *, is_listed: bool
) -> None:
    """Before anything is sent, whether the tape has a file of this name or not."""
    if not is_listed:
        request.getfixturevalue("no_listing")
    record("run.tape", Walkers(3), [None] * 20, trial_ms=0)
    record("other.tape", Walkers(4), [None] * 100, **PARTS)
    put("run.tape.1", Path("other.tape.1").read_bytes() if isinstance(data, str) else data)
    before = stored()
    with pytest.raises(FileExistsError, match="a file of another tape is there") as caught:
        TapeUpload(tmp_path / "run.tape", URL)
    assert caught.value.filename == f"{URL.text}.1"
    assert stored() == before
    assert CountedStore.put_names == []


def test_a_store_without_times_is_compared_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entries have no mark: a file of the same size is not taken for one that this upload has sent."""
    listed, told = CountedStore.ls, CountedStore.info

    def without_times(entry: dict[str, Any]) -> dict[str, Any]:
        return {key: entry[key] for key in ("name", "size", "type")}

    monkeypatch.setattr(CountedStore, "ls", lambda *a, **k: [without_times(one) for one in listed(*a, **k)])
    monkeypatch.setattr(CountedStore, "info", lambda *a, **k: without_times(told(*a, **k)))
    record("run.tape", Walkers(3), [None] * 100, **PARTS)
    files = here()
    put_all(files)
    put("run.tape.2", files["run.tape.2"][:-8] + bytes(8))
    report = TapeUpload(tmp_path / "run.tape", URL).upload_all()

    assert report.uploaded == 1
    assert stored() == files


def test_a_ring_that_is_recorded_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And uploaded when it is closed."""
    options = {**PARTS, "keep": 20}
    del options["split"]
    with Recorder("run.tape", Walkers(3), **options) as tape:
        for _ in range(100):
            tape.step(None)
        tape.flush()
        with pytest.raises(RecordingError, match="is a ring that is being recorded"):
            TapeUpload(tmp_path / "run.tape", URL)
        assert run(main, f"upload run.tape {URL.text}") == 2
        assert_one_line(capsys.readouterr(), "run.tape is a ring that is being recorded")
        assert CountedStore.put_names == []
    assert TapeUpload(tmp_path / "run.tape", URL).upload_all().is_whole
    assert stored() == here()


@pytest.mark.parametrize("moment", ["before it is looked at", "while it is sent"])
def test_a_file_that_vanishes_is_named(moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record("run.tape", Walkers(3), [None] * 100, **PARTS)
    upload, gone = TapeUpload(tmp_path / "run.tape", URL), tmp_path / "run.tape.2"
    if moment == "while it is sent":
        put_file = CountedStore.put_file

        def put_while_removed(self: CountedStore, source: str, path: str, **options: Any) -> Any:
            if source == str(gone):
                gone.unlink(missing_ok=True)
            return put_file(self, source, path, **options)

        monkeypatch.setattr(CountedStore, "put_file", put_while_removed)
    else:
        numbers = [0, *range(1, len(here()))]
        gone.unlink()
        monkeypatch.setattr("recorder.upload.tape_upload.segment_numbers", lambda _: numbers)
    with pytest.raises(RecordingError, match=r"run\.tape\.2 was removed while the tape was uploaded"):
        upload.upload_all()
