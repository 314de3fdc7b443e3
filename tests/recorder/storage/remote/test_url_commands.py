"""The commands that read give by URL what they give by path; the truth is what they print of the local file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counted_store import CountedStore, empty, put

import recorder
import recorder.commands.main
import replayer
from recorder.commands.upload import upload_beside
from recorder.location.tape_url import TapeUrl
from replayer.branches.parent_run import ParentRun, find_parent
from replayer.commands.main import main

from oracle.command_lines import assert_one_line, run
from small_worlds import Walkers, record

FACTORY = "--sim small_worlds:Walkers"
LOCAL, URL = "run.tape", "counted://runs/run.tape"


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with two runs that differ from tick 31 on, and the same two at a URL."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("recorder.storage.remote.store_errors.FIRST_PAUSE_S", 0)
    empty()
    inputs: list[Any] = [[(2, 5)] if tick % 7 == 0 else None for tick in range(60)]
    record("run.tape", Walkers(0), inputs, keyframe_interval_ticks=20, trial_ms=0)
    inputs[30] = [(4, 9)]
    record("other.tape", Walkers(0), inputs, keyframe_interval_ticks=20, trial_ms=0)
    for name in ("run.tape", "other.tape"):
        put(name, Path(name).read_bytes())
    yield
    empty()


def printed(capsys: pytest.CaptureFixture[str], line: str) -> tuple[int, str]:
    """The exit code and the output of a command, without what differs between two calls."""
    code = run(main, f"{line}")
    out = capsys.readouterr()
    assert "Traceback" not in out.err
    return code, re.sub(r"\d+\.\d+ ms|\"milliseconds\": [\d.]+|in [\d.]+ s", "", out.out)


def test_a_folder_of_tapes_is_called_one(capsys: pytest.CaptureFixture[str]) -> None:
    """With a tape in it, in Python and in a command; what does not exist is still called so."""
    with pytest.raises(IsADirectoryError, match=r"name one tape in it, such as counted://runs/other.tape"):
        replayer.open("counted://runs", Walkers)
    assert run(main, "info counted://runs") == 2
    assert_one_line(capsys.readouterr(), "name one tape in it, such as counted://runs/other.tape")
    for missing in ("counted://elsewhere/run.tape", "counted://runs/none.tape"):
        with pytest.raises(FileNotFoundError):
            replayer.open(missing, Walkers)


@pytest.mark.parametrize(
    "line",
    [
        "info {run} --json",
        "info {run} --fast",
        f"seek {{run}} --tick 33 --field x {FACTORY}",
        f"seek {{run}} --tick -1 --json {FACTORY}",
        f"verify {{run}} --jobs 2 --json {FACTORY}",
        "verify {run} --fast --json",
        "diff {run} {other} --json",
        f"find 'x[2] > 30' {{run}} --json {FACTORY}",
        f"who {{run}} --field x --row 2 --at 40 --json {FACTORY}",
        "results {run}",
        "tail {run} --no-follow --last 70 --json",
        f"follow {{run}} --json {FACTORY}",
        "export events {run} -o events.csv",
    ],
)
def test_a_command_gives_the_same_by_url(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    by_path = printed(capsys, line.format(run=LOCAL, other="other.tape"))
    by_url = printed(capsys, line.format(run=URL, other="counted://runs/other.tape"))

    assert by_url == (by_path[0], by_path[1].replace("other.tape", "counted://runs/other.tape").replace(LOCAL, URL))
    assert len(CountedStore.reads) > 0 or by_path[0] == 2


def test_a_tape_and_a_url_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, f"diff run.tape {URL}")[0] == 0
    assert printed(capsys, "diff run.tape counted://runs/other.tape")[0] == 1


class Slower(Walkers):
    """Another simulation: it differs from tick 1 on."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        self.state["y"][0] += 1


def test_a_dump_of_a_tape_at_a_url_is_in_this_folder(tmp_path: Path) -> None:
    report = replayer.verify_tape(URL, Slower, dump_folder=tmp_path, tests_causes=False)

    assert report.first_bad == 1
    assert report.dump_path is not None
    assert report.dump_path.parent == tmp_path
    assert (report.dump_path / "finding.json").exists()


def test_an_extraction_reads_urls_and_folders(capsys: pytest.CaptureFixture[str]) -> None:
    """The rows are those of the local tapes, and the manifest has their names."""
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    for tapes, output in (("run.tape other.tape", "local"), ("counted://runs", "remote")):
        assert run(main, f"extract {tapes} -o {output} --table states --field x --jobs 2 {FACTORY}") == 0
    capsys.readouterr()
    tables = [pq.ParquetDataset(f"{folder}/states").read() for folder in ("local", "remote")]
    rows = [sorted(map(repr, table.to_pylist())) for table in tables]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 122
    manifest = json.loads(Path("remote/manifest.json").read_text(encoding="utf-8"))
    assert [tape["path"] for tape in manifest["tapes"]] == ["other.tape", "run.tape"]


@pytest.mark.parametrize(
    "line",
    [
        "cut {run} --ticks 20..40 --json -o {new}",
        f"rekey {{run}} --every 5 --json -o {{new}} {FACTORY}",
    ],
)
def test_a_new_tape_is_uploaded(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is that which a local command makes, and nothing of it stays here."""
    by_path = printed(capsys, line.format(run=LOCAL, new="new.tape"))
    by_url = printed(capsys, line.format(run=URL, new="counted://new/new.tape"))

    assert by_url == (0, by_path[1].replace("new.tape", "counted://new/new.tape"))
    with (
        replayer.open("new.tape", world=Walkers) as one,
        replayer.open("counted://new/new.tape", world=Walkers) as other,
    ):
        ticks = range(one.first_tick, one.last_tick + 1)
        assert (other.first_tick, other.last_tick) == (one.first_tick, one.last_tick)
        assert all(one[tick].arena.tobytes() == other[tick].arena.tobytes() for tick in ticks)
        assert other.tape.check_blocks() == []


def test_a_tape_is_copied_to_a_url(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """All of its files, the first one last; the copy is byte for byte the tape."""
    record(
        tmp_path / "parts.tape",
        Walkers(1),
        [None] * 90,
        keyframe_interval_ticks=10,
        split=500,
        deterministic=True,
        trial_ms=0,
    )
    files = {path.name: path.read_bytes() for path in tmp_path.glob("parts.tape*")}
    assert run(main, "ls counted://copies --add parts.tape --json") == 0
    assert [run["path"] for run in json.loads(capsys.readouterr().out)["runs"]] == ["counted://copies/parts.tape"]

    stored = {name: file.getvalue() for name, file in CountedStore.store.items() if name.startswith("/copies/")}
    assert stored == {f"/copies/{name}": data for name, data in files.items()}
    assert len(files) > 2
    assert CountedStore.put_names[-1] == "/copies/parts.tape"


def test_the_runs_of_a_folder_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    put("broken.tape", b"nothing")
    code, out = printed(capsys, "ls counted://runs --json")
    by_url = {run["path"]: run for run in json.loads(out)["runs"]}
    _, out = printed(capsys, "ls . --json")
    by_path = {run["path"]: run for run in json.loads(out)["runs"]}

    assert code == 5
    assert sorted(by_url) == ["counted://runs/broken.tape", "counted://runs/other.tape", URL]
    differing = {"path", "finished", "tape", "changed"}
    plain = [{k: v for k, v in runs.items() if k not in differing} for runs in (by_url[URL], by_path[LOCAL])]
    assert plain[0] == plain[1]
    assert sorted(printed(capsys, "ls counted://runs --paths")[1].split()) == sorted(by_url)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("info counted://runs/none.tape", "counted://runs/none.tape: No such file or directory"),
        ("info nosuch://runs/none.tape", "the scheme nosuch:// is not known"),
        ("info ftp://u:SECRET@127.0.0.1:9/run.tape", "ftp://127.0.0.1:9/run.tape: ftp:// needs options"),
        ("info http://h:notaport/a.tape", "expected the name of a server, and a port that is a number"),
        ("info http://[h/a.tape", "expected the name of a server, and a port that is a number"),
        ("info counted://", "expected the name of a tape or a folder after counted://"),
        ("ls counted://none", "counted://none: No such file or directory"),
        ("ls counted://runs --rebuild", "--rebuild writes an index: name a folder of this machine"),
        ("ls counted://runs --add run.tape", "counted://runs/run.tape: exists already: choose a different name"),
        ("cut run.tape --ticks 0..20 -o counted://runs/other.tape", "counted://runs/other.tape: exists already"),
        ("cut run.tape --ticks 0..20 -o counted://runs/a.tape --pytest t.py", "--pytest needs a tape of this machine"),
        ("bisect counted://runs/run.tape --good a --sim a:b", "expected a path of this machine, not a URL"),
        ("certify counted://runs/none.tape", "counted://runs/none.tape: No such file or directory"),
        ("index counted://runs/run.tape", "expected a path of this machine, not a URL"),
        ("extract counted://nothing -o out", "counted://nothing: No such file or directory"),
    ],
)
def test_a_mistake_is_one_line(line: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(main, line) in (2, 5)
    assert_one_line(capsys.readouterr(), text)
    assert not Path("out").exists()


@pytest.mark.parametrize(
    "line",
    [
        "run quiet-meadow --ticks 3 -o s3://bucket/run.tape",
        "generate quiet-meadow --seeds 0..0 -o s3://bucket/runs",
        "batch quiet-meadow --seeds 0..1 -o s3://bucket/batch",
        "resume s3://bucket/run.tape",
    ],
)
def test_recording_is_on_this_machine(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written, above all no folder ``s3:``."""
    before = sorted(path.name for path in Path.cwd().iterdir())
    assert run(recorder.commands.main.main, line) == 2
    assert_one_line(capsys.readouterr(), "expected a path of this machine, not a URL")
    assert sorted(path.name for path in Path.cwd().iterdir()) == before
    with pytest.raises(ValueError, match=r"s3://bucket/run\.tape: a run is recorded on this machine"):
        recorder.Recorder("s3://bucket/run.tape", Walkers(0))


def test_a_state_is_written_as_the_live_one(capsys: pytest.CaptureFixture[str]) -> None:
    live = Walkers(0)
    for tick in range(33):
        live.step([(2, 5)] if tick % 7 == 0 else None)
    assert run(main, f"seek {URL} --tick 33 -o state.npz {FACTORY}") == 0
    capsys.readouterr()
    with np.load("state.npz") as state:
        assert np.array_equal(state["x"], live.state["x"])


SIGNED = "counted://user:SECRET@runs/run.tape"


@pytest.fixture
def with_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store takes URLs with a password."""
    strip = CountedStore._strip_protocol.__func__

    def stripped(cls: Any, path: str) -> Any:
        return strip(cls, path.replace("user:SECRET@", ""))

    monkeypatch.setattr(CountedStore, "_strip_protocol", classmethod(stripped))


@pytest.mark.usefixtures("with_password")
def test_a_password_is_in_no_file_of_a_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor in its name, or in what the command prints of it; the command is there without it."""
    pytest.importorskip("pyarrow")
    line = f"extract {SIGNED} -o data --table states --field x {FACTORY}"
    monkeypatch.setattr("sys.argv", ["replay", *line.split()])
    assert run(main, line) == 0
    files = [path for path in Path("data").rglob("*") if path.is_file()]
    assert len(files) > 2
    assert [path for path in files if b"SECRET" in path.read_bytes() or "SECRET" in str(path)] == []
    manifest = json.loads(Path("data/manifest.json").read_text(encoding="utf-8"))
    assert manifest["command"][:3] == ["replay", "extract", URL]


@pytest.mark.usefixtures("with_password")
def test_a_password_is_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """By a branch, by a timeline, and by a run that could not be uploaded."""
    assert run(main, f"branch {SIGNED} --at 30 -o branch.tape --json {FACTORY}") == 0
    assert json.loads(capfd.readouterr().out)["parent"] == URL
    with replayer.open(SIGNED, world=Walkers) as found:
        assert repr(found) == f"<Timeline of {URL}: ticks 0 to 60>"
    with upload_beside(Path("run.tape"), TapeUrl("nosuch://user:SECRET@runs/copy.tape")):
        pass
    out = capfd.readouterr()
    assert "continue it with: record upload run.tape nosuch://runs/copy.tape" in out.err
    assert "SECRET" not in out.out + out.err


def test_a_quiet_run_does_not_tell_of_its_upload(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "copy").mkdir()
    with upload_beside(Path("run.tape"), TapeUrl(f"local://{tmp_path}/copy/run.tape"), quiet=True):
        pass
    assert capfd.readouterr() == ("", "")
    assert Path("copy/run.tape").read_bytes() == Path("run.tape").read_bytes()


@pytest.mark.parametrize(
    "path", ["evil?cmd=delete", "a#b", "%2e%2e%2fother.tape", "..", ".", "", "../..", "a\\b", "http://h/x?cmd=delete"]
)
def test_the_name_of_a_parent_leads_to_no_other_place(path: str) -> None:
    """Nothing is asked: a tape may name anything as its parent."""
    for branch in (TapeUrl("http://127.0.0.1:9/a/branch.tape"), TapeUrl(URL)):
        assert find_parent(branch, ParentRun("00" * 16, 3, "0" * 16, path)) is None
    assert CountedStore.listings == []
