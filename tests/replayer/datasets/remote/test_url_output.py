"""Data sets at URLs: the files are those of an extraction into a folder, and there is all of it or no data set."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from optional_packages import needs

needs("fsspec", "pyarrow")

from counted_store import CountedStore, empty  # noqa: E402

from recorder.errors import UnreadableError  # noqa: E402
from replayer import extract  # noqa: E402
from replayer.commands.main import main  # noqa: E402
from replayer.datasets.dataset import Dataset  # noqa: E402
from replayer.datasets.request import ExtractionError  # noqa: E402

from oracle.command_lines import assert_one_line, run  # noqa: E402
from small_worlds import Walkers, record  # noqa: E402

URL = "counted://sets/data"
WANTED: dict[str, Any] = {"tables": ("states",), "fields": ("x", "y"), "world": Walkers}


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
    assert same_but_for_times(without_digests(stored()), files_of(tmp_path / "local"))


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


class Told(Walkers):
    """Walkers that are told something in each tick."""

    def step(self, _: Any) -> None:
        super().step(None)


TOLD = {**WANTED, "world": Told}


@pytest.fixture
def three() -> list[str]:
    """Tapes of different lengths; the inputs of the last ones are records with different keys."""
    for seed, ticks, told in ((1, 12, {"kind": "dig", "depth": 2}), (2, 8, {"kind": "dig", "depth": 2.5, "by": [1]})):
        record(f"{seed}.tape", Told(seed), [[told]] * ticks, keyframe_interval_ticks=10, trial_ms=0)
    return ["run.tape", "1.tape", "2.tape"]


def without_digests(files: dict[str, bytes]) -> dict[str, bytes]:
    """Files with the names that they have in a folder."""
    digest = re.compile(rb"(part-\d+)-[0-9a-f]{12}")
    return {
        digest.sub(rb"\1", name.encode()).decode(): data if name.startswith("states/") else digest.sub(rb"\1", data)
        for name, data in files.items()
    }


def test_rows_are_added_to_a_data_set(three: list[str], tmp_path: Path) -> None:
    """As in a folder, file by file; also where a file of records gets other columns, and none is left of before."""
    wanted = {**TOLD, "tables": ("states", "actions")}
    for output in ("local", URL):
        for count in (1, 2, 3):
            made = extract(three[:count], output, append=True, **wanted)
        assert made.rows["states"] == 53
    here, there = files_of(tmp_path / "local"), without_digests(stored())
    assert here.keys() == there.keys()
    assert same_but_for_times(there, here)
    assert CountedStore.put_names[-1] == "/sets/data/manifest.json"
    assert files_of(tmp_path / "staging") == {}
    sent = len(CountedStore.put_names)
    assert extract(three, URL, append=True, **wanted).rows == made.rows
    assert len(CountedStore.put_names) == sent
    Dataset(URL).verify()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_rows_that_could_not_be_uploaded_are_added_by_the_same_call(
    three: list[str], number: int, tmp_path: Path
) -> None:
    """Until then readers find the data set as it was."""
    extract(three[0], URL, **TOLD)
    before = json.loads(stored()["manifest.json"])
    CountedStore.failing_puts[len(CountedStore.put_names) + number] = PermissionError("not now")
    with pytest.raises(PermissionError, match="not now"):
        extract(three, URL, append=True, **TOLD)
    assert json.loads(stored()["manifest.json"]) == before
    Dataset(URL).verify()

    extract(three, URL, append=True, **TOLD)
    Dataset(URL).verify()
    for count in (1, 3):
        extract(three[:count], "local", append=True, **TOLD)
    assert same_but_for_times(without_digests(stored()), files_of(tmp_path / "local"))


def test_an_append_that_was_stopped_continues(
    three: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the parts that it has."""
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 8)
    extract(three[0], URL, **TOLD)
    before = stored()

    def stop(done: int, _: int) -> None:
        if done > 13:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(three, URL, append=True, progress=stop, **TOLD)
    assert stored() == before
    parts = {path: path.stat().st_ino for path in (tmp_path / "staging").rglob("part-*.json")}
    assert parts

    def look(*_: int) -> None:
        assert {path: path.stat().st_ino for path in parts} == parts

    extract(three, URL, append=True, progress=look, **TOLD)
    Dataset(URL).verify()
    assert sorted(Dataset(URL).table("states").numpy()["tick"].tolist()) == sorted([*range(31), *range(13), *range(9)])


def test_a_data_set_that_is_changed_meanwhile_stays_as_it_is(three: list[str]) -> None:
    extract(three[0], URL, **TOLD)
    store = CountedStore()

    def change(_: int, __: int) -> None:
        text = store.cat_file("/sets/data/manifest.json") + b" "
        store.pipe_file("/sets/data/manifest.json", text)

    with pytest.raises(ExtractionError, match=f"{URL} was changed while rows were added to it"):
        extract(three, URL, append=True, progress=change, **TOLD)
    assert len(json.loads(stored()["manifest.json"])["tapes"]) == 1


def test_of_two_that_add_rows_at_once_the_first_is_whole(
    three: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one, of a different machine, overwrites no file that the first one published, and says so."""
    extract(three[0], URL, **TOLD)
    published: list[dict[str, bytes]] = []

    def be_second(_: int, __: int) -> None:
        if not published:
            published.append({})
            monkeypatch.setenv("REPLAY_STAGING", str(tmp_path / "other"))
            extract([three[0], three[2]], URL, append=True, **TOLD)
            published[0] = stored()
            monkeypatch.setenv("REPLAY_STAGING", str(tmp_path / "staging"))

    with pytest.raises(ExtractionError, match=f"{URL} was changed while rows were added to it"):
        extract(three[:2], URL, append=True, progress=be_second, **TOLD)
    assert published[0] == stored()
    Dataset(URL).verify()
    extract(three, URL, append=True, **TOLD)
    Dataset(URL).verify()
    assert sorted(Dataset(URL).table("states").numpy()["tick"].tolist()) == sorted([*range(31), *range(13), *range(9)])


@pytest.mark.parametrize(
    ("made", "asked", "text"),
    [
        ({}, {"fields": ("x",)}, rf"{URL} was made with a different request \(fields: "),
        ({"file_format": "zarr"}, {}, rf"{URL} is a data set of format zarr, whose files change as rows are added"),
    ],
)
def test_rows_that_cannot_be_added(three: list[str], made: dict[str, Any], asked: dict[str, Any], text: str) -> None:
    """The message names the URL, and nothing is written there."""
    if made:
        pytest.importorskip("zarr")
    extract(three[0], URL, **TOLD, **made)
    before = stored()
    with pytest.raises(ExtractionError, match=text):
        extract(three, URL, append=True, **{**TOLD, **made, **asked})
    assert stored() == before


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
    before = stored()
    assert run(main, f"{line} --append") == 0
    assert stored() == before
    record("other.tape", Walkers(1), [None] * 12, keyframe_interval_ticks=10, trial_ms=0)
    assert run(main, f"{line.replace('run.tape', 'run.tape other.tape')} --append") == 0
    assert f"{URL}/states: 44 rows in 2 files" in capsys.readouterr().out
