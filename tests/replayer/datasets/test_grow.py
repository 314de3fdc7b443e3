"""Data sets that grow: only new tapes are read, what is there stays, a kill costs nothing, runs can be removed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset
import pytest

import replayer.commands.main
from recorder import Recorder, resume
from replayer import Tape
from replayer.datasets import merge_datasets, remove_runs
from replayer.datasets.append import ADDED
from replayer.datasets.dataset import Dataset, DatasetError
from replayer.datasets.extract import extract
from replayer.datasets.request import ExtractionError

from oracle.command_lines import assert_one_line, files, run
from oracle.live_runs import record_live
from project_paths import SOURCES, SUPPORT
from small_worlds import Saved, Walkers

pytestmark = pytest.mark.share(0.22)

TICKS = 30
ASKED: dict[str, Any] = {
    "world": Walkers,
    "tables": ("states", "actions"),
    "splits": (("train", 0.6), ("test", 0.4)),
}


@pytest.fixture(autouse=True)
def tapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.chdir(tmp_path)
    names = [Path(f"{name}.tape") for name in "abcd"]
    for seed, path in enumerate(names):
        inputs = [[[tick % 20, tick]] for tick in range(TICKS)]
        record_live(path, Walkers(seed), inputs, keyframe_interval_ticks=8)
    return names


def rows(folder: str) -> dict[str, list[Any]]:
    """All rows by table, sorted, through the manifest; they are those of the files that other readers find, too."""
    data = Dataset(folder)
    data.verify()
    found = {}
    for name in data.tables:
        table = data.table(name).to_arrow()
        found[name] = sorted(map(str, table.to_pylist()))
        assert sorted(map(str, pyarrow.dataset.dataset(f"{folder}/{name}").to_table().to_pylist())) == found[name]
    return found


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


class Diary(Walkers):
    """Takes any inputs."""

    def step(self, inputs: Any) -> None:  # noqa: ARG002 - it only walks
        """Walk."""
        super().step([])


@pytest.mark.parametrize("file_format", ["parquet", "arrow"])
def test_appending_gives_the_rows_of_an_extraction_of_all(tapes: list[Path], file_format: str) -> None:
    """The first call makes the data set, later ones read only new tapes; splits and old files stay as they are."""
    for path in tapes:
        shutil.copy(path, f"kept-{path}")
    for count in (1, 3, 4):
        seen: list[int] = []
        before = files(Path("data")) if Path("data").exists() else {}
        made = extract(tapes[:count], "data", append=True, looking=seen.append, file_format=file_format, **ASKED)
        after = files(Path("data"))
        assert len(seen) == {1: 1, 3: 2, 4: 1}[count]
        assert plain(made.manifest) == Dataset("data").manifest
        rewritten = ("manifest.json", "README.md")
        assert all(after[name] == content for name, content in before.items() if name not in rewritten)
        for path in tapes[:count]:  # The next call does not read their rows: they have none now.
            with path.open("r+b") as file:
                file.seek(path.stat().st_size // 2)
                file.write(bytes(50))
    for path in tapes:
        shutil.copy(f"kept-{path}", path)
    whole = extract(tapes, "whole", file_format=file_format, **ASKED)
    if file_format == "parquet":
        assert rows("data") == rows("whole")
    splits = {tape["run"]: tape["split"] for tape in whole.manifest["tapes"]}
    assert {tape["run"]: tape["split"] for tape in Dataset("data").manifest["tapes"]} == splits
    assert [len(entry["runs"]) for entry in Dataset("data").manifest["appended"]] == [2, 1]
    for split in {*splits.values()}:
        one, other = (Dataset(name).table("states", split=split).numpy("x") for name in ("data", "whole"))
        assert isinstance(one, np.ndarray)
        assert isinstance(other, np.ndarray)
        assert one.tobytes() == other.tobytes()


def test_the_same_command_again_changes_nothing(tapes: list[Path]) -> None:
    """All tapes are known."""
    extract(tapes[:2], "data", append=True, **ASKED)
    before = files(Path("data"))
    made = extract(tapes[:2], "data", append=True, **ASKED)
    assert (made.code, files(Path("data"))) == (0, before)


KILLED = """
import sys
from replayer.datasets import plan
from replayer.datasets.extract import extract
from small_worlds import Walkers
plan.PART_TICKS = 8
asked = {asked!r}
extract(["a.tape", "b.tape", "c.tape"], "data", world=Walkers, append=True, **asked,
    progress=lambda *_: print(end=".", flush=True))
"""


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize("progress", [1, 4, 8])
def test_killed_while_it_appends(tapes: list[Path], progress: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed at any time, the old data set is valid, and the same call gives the files of a call that was not killed."""
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 8)
    extract(tapes[:1], "data", **ASKED)
    shutil.copytree("data", "other")
    extract(tapes[:3], "other", append=True, **ASKED)
    asked = {name: value for name, value in ASKED.items() if name != "world"}
    environment = {**os.environ, "PYTHONPATH": f"{SUPPORT}{os.pathsep}{SOURCES}"}
    command = [sys.executable, "-c", KILLED.format(asked=asked)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        process.stdout.read(progress)
        process.send_signal(signal.SIGKILL)
    Dataset("data").verify()
    extract(tapes[:3], "data", append=True, **ASKED)
    assert files(Path("data")) == files(Path("other"))


class StoppedError(Exception):
    """The process ends here."""


@pytest.mark.parametrize(
    "place", ["grow.write_card", "grow.write_file", "grow.shutil.copyfile", "append.shutil.rmtree"]
)
def test_stopped_while_the_rows_are_taken_over(tapes: list[Path], place: str, monkeypatch: Any) -> None:
    """Before the manifest the old data set is valid, after it the new one; the same call completes it."""
    extract(tapes[:1], "data", **ASKED)
    shutil.copytree("data", "other")
    extract(tapes[:3], "other", append=True, **ASKED)

    def stop(*_: Any, **__: Any) -> None:
        raise StoppedError

    with monkeypatch.context() as patch:
        patch.setattr(f"replayer.datasets.{place}", stop)
        with pytest.raises(StoppedError):
            extract(tapes[:3], "data", append=True, **ASKED)
    Dataset("data").verify()
    extract(tapes[:3], "data", append=True, **ASKED)
    assert files(Path("data")) == files(Path("other"))


def test_tables_of_records_get_the_columns_of_both(tapes: list[Path]) -> None:
    """Inputs with other keys, and with values of other kinds, are one table, as of an extraction of all."""
    for name, sent in (("e", {"kind": "dig", "depth": 2}), ("f", {"kind": "dig", "depth": 2.5, "by": [1]}), ("g", 3)):
        with Recorder(f"{name}.tape", Diary()) as tape:
            for _ in range(3):
                tape.step([sent] if isinstance(sent, dict) else sent)
    asked: dict[str, Any] = {"world": Diary, "tables": "actions"}
    for names in ("g", "ge", "gef"):
        extract([f"{name}.tape" for name in names], "data", append=True, **asked)
    extract(["g.tape", "e.tape", "f.tape"], "whole", **asked)
    assert rows("data") == rows("whole")
    assert Dataset("data").manifest["tables"]["actions"]["columns"]["depth"] == {"form": "decimal"}
    assert tapes


def test_runs_are_removed_and_data_sets_merged(tapes: list[Path]) -> None:
    """Without a run the data set is that of the other tapes; merged with it, that of all."""
    extract(tapes, "data", **ASKED)
    extract(tapes[1:], "others", **ASKED)
    extract(tapes[:1], "one", **ASKED)
    with Tape(tapes[0]) as tape:
        gone = str(tape.run_id)
    data = remove_runs("data", gone)
    assert rows("data") == rows("others")
    assert data.rows == Dataset("others").rows
    assert data.manifest["removed"] == [gone]
    assert merge_datasets("data", "one").manifest == Dataset("data").manifest
    extract(tapes, "whole", **ASKED)
    assert rows("data") == rows("whole")
    assert rows("one")
    assert card("data").count("| a.tape |") == card("others").count("| b.tape |") == 1
    with pytest.raises(ExtractionError, match=f"both data sets hold the run {gone}"):
        merge_datasets("data", "one")
    with pytest.raises(ExtractionError, match="has no run zz; runs: "):
        remove_runs("data", "zz")
    with pytest.raises(ExtractionError, match="one has no other runs: remove the folder"):
        remove_runs("one", gone)
    for name in ("data", "one"):
        Dataset(name).verify()
    file = next(Path("one/states").rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-1])
    remove_runs("data", gone)
    with pytest.raises(DatasetError, match="bytes, expected"):
        merge_datasets("data", "one")
    assert rows("data") == rows("others")


def card(folder: str) -> str:
    return Path(folder, "README.md").read_text(encoding="utf-8")


def test_the_card_follows_the_manifest(tapes: list[Path], monkeypatch: Any) -> None:
    """Appended, removed and merged runs are in it or not; stopped before the manifest, the same call completes both."""
    extract(tapes[:2], "data", **ASKED)
    first = card("data")
    assert [f"| {path} |" in first for path in tapes] == [True, True, False, False]
    extract(tapes[:3], "data", append=True, **ASKED)
    assert [f"| {path} |" in card("data") for path in tapes] == [True, True, True, False]
    runs = [tape["run"] for tape in Dataset("data").manifest["tapes"]]
    shutil.copytree("data", "other")
    expected = card(str(remove_runs("other", runs[1]).path))
    assert f"Removed afterwards: the runs {runs[1]}." in expected

    def stop(*_: Any, **__: Any) -> None:
        raise StoppedError

    with monkeypatch.context() as patch:
        patch.setattr("replayer.datasets.grow.write_file", stop)
        with pytest.raises(StoppedError):
            remove_runs("data", runs[1])
    Dataset("data").verify()
    remove_runs("data", runs[1])
    assert card("data") == expected
    assert files(Path("data")) == files(Path("other"))
    Path("data/README.md").unlink()  # As in data sets that older versions made.
    extract(tapes[1:2], "one", **ASKED)
    merge_datasets("data", "one")
    assert [f"| {path} |" in card("data") for path in tapes] == [True, True, True, False]


def test_what_cannot_be_added_is_refused(tapes: list[Path]) -> None:
    """The data set is unchanged, and nothing is left behind."""
    extract(tapes[:2], "data", **ASKED)
    before = files(Path("data"))
    shutil.copy(tapes[0], "longer.tape")
    replayer_resumed(Path("longer.tape"))
    for changed, paths, said in (
        ({"stride": 2}, tapes, r"with a different request \(stride: 1, now 2\)"),
        ({"file_format": "arrow"}, tapes, r"different request \(format: parquet, now arrow\)"),
        ({"splits": ()}, tapes, r"different request \(splits: "),
        ({}, ["longer.tape"], f"longer.tape has ticks to {TICKS + 5}, and data has its run to {TICKS}: remove the run"),
    ):
        with pytest.raises(ExtractionError, match=said):
            extract(paths, "data", append=True, **{**ASKED, **changed})
        assert files(Path("data")) == before
        assert not list(Path("data").glob(f"{ADDED}*"))


def test_other_columns_are_refused() -> None:
    """They are known only after the extraction, of which nothing is left."""
    for width in (2, 7):
        world = Saved()
        world.grid = np.zeros((3, width))
        record_live(Path(f"{width}.tape"), world, [1] * 4)
    asked: dict[str, Any] = {"world": Saved, "tables": "states", "fields": "grid"}
    extract("2.tape", "data", **asked)
    before = files(Path("data"))
    with pytest.raises(ExtractionError, match=r"data and 7\.tape have different columns in table states \(grid\)"):
        extract(["2.tape", "7.tape"], "data", append=True, **asked)
    assert files(Path("data")) == before
    assert not list(Path("data").glob(f"{ADDED}*"))


def replayer_resumed(path: Path) -> None:
    """Record a few more ticks of a run."""
    with resume(path, Walkers()) as tape:
        for _ in range(5):
            tape.step([[1, 1]])


def test_what_all_runs_decide_is_not_appended_to(tapes: list[Path]) -> None:
    """The balance of all runs, and LeRobot's statistics and numbers of frames; the line says what to do."""
    extract(tapes[:1], "data", world=Walkers, tables="states")
    path = Path("data/manifest.json")
    manifest = json.loads(path.read_text(encoding="utf-8"))
    for change, said in (
        ({"format": "lerobot"}, "format lerobot, to which nothing can be added: extract all tapes again"),
        (
            {"mode": "balanced"},
            "data: the mode balanced depends on all runs, so other runs would change which of its rows stay: extract",
        ),
    ):
        request = {**manifest["request"], "mode": change.get("mode", "all")}
        path.write_text(json.dumps({**manifest, "request": request, "format": change.get("format", "parquet")}))
        asked = {"world": Walkers, "tables": "states", "mode": request["mode"]}
        with pytest.raises(ExtractionError, match=said):
            extract(tapes, "data", append=True, **asked)


def test_the_command(tapes: list[Path], capfd: Any) -> None:
    """--append adds; without it, the folder is refused, and the message names the option."""
    line = "extract a.tape b.tape -o data -j 1 --sim small_worlds:Walkers --table states"
    assert run(replayer.commands.main.main, line.replace("b.tape", "")) == 0
    capfd.readouterr()
    assert run(replayer.commands.main.main, line) == 2
    assert_one_line(capfd.readouterr(), "add new tapes to it by append (--append)")
    assert run(replayer.commands.main.main, f"{line} --append") == 0
    assert f"{2 * (TICKS + 1)} rows in 2 files" in capfd.readouterr().out
    assert tapes
