"""Every function that writes a file or folder for a user leaves nothing half written behind when the disk fails."""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recorder import Recorder
from recorder.corpus.corpus import add_tape
from recorder.scenarios.batch import RunRecord
from recorder.scenarios.batch_manifest import BatchFolder
from recorder.scenarios.shrink import Minimised, write_minimised
from recorder.scenarios.summary import draw_survival
from recorder.session.lockstep import write_peer_dump
from replayer.datasets.extract import extract
from replayer.diagnose.certify.certificate import keep_certificate
from replayer.export.event_files import write_events
from replayer.export.tables import write_table
from replayer.tape.npz import write_state_whole
from replayer.tape.tape import Tape
from replayer.timeline.verify import verify_tape
from sim.scenario.results.result import Violation

from project_paths import SOURCES
from small_worlds import Kinds, Walkers

OLD = b"the older one"


class Wrong(Walkers):
    """Walkers with an error at tick 29."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if self.state["rng"][2] == 29 * 40:
            self.state["y"][7] ^= 4


@pytest.fixture(scope="module")
def tapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tape of walkers and one with events."""
    folder = tmp_path_factory.mktemp("tapes")
    for name, simulation in (("walkers", Walkers()), ("kinds", Kinds())):
        with Recorder(folder / f"{name}.tape", simulation, keyframe_interval_ticks=10) as tape:
            for tick in range(1, 41):
                tape.step(tick if name == "kinds" else [[tick % 20, 2]])
    return folder


def seek(tapes: Path) -> None:
    """Write a state, as replay seek -o does."""
    with Tape(tapes / "walkers.tape") as tape:
        place = tape.keyframe_at(10)
        assert place is not None
        write_state_whole(Path("old.npz"), tape.snapshot(place))


def certify(_: Path) -> None:
    """Write a certificate, as replay certify does."""
    keep_certificate({"certificate": 1, "cells": ["x" * 100]}, Path("old.json"))


def table(suffix: str) -> Callable[[Path], None]:
    """Write columns, as replay export does."""

    def export(tapes: Path) -> None:
        with Tape(tapes / "walkers.tape") as tape:
            place = tape.keyframe_at(10)
            assert place is not None
            snapshot = tape.snapshot(place)
            write_table({name: snapshot[name] for name in ("x", "y")}, Path(f"old{suffix}"))

    return export


def events(suffix: str) -> Callable[[Path], None]:
    """Write events, as replay export --what events does."""

    def export(tapes: Path) -> None:
        with Tape(tapes / "kinds.tape") as tape:
            write_events(tape.events, Path(f"old{suffix}"))

    return export


def viewer(suffix: str) -> Callable[[Path], None]:
    """Write a file for a viewer, as replay export does."""

    def export(tapes: Path) -> None:
        from replayer.export.viewers.tick_range import TickRange, TickRangeRequest

        with Tape(tapes / "walkers.tape") as tape:
            source = TickRange(tape, None, TickRangeRequest(keyframes=True))
            if suffix == ".mcap":
                from replayer.export.viewers.mcap import Clock, write_mcap

                write_mcap(source, Path("old.mcap"), lambda _: None, Clock.of_seconds(1.0))
            else:
                from replayer.export.viewers.rerun import write_rerun

                write_rerun(source, Path("old.rrd"), lambda _: None)

    return export


def plot(suffix: str) -> Callable[[Path], None]:
    """Draw a picture, as replay plot, replay diff -o and replay ls --plot do."""

    def draw(_: Path) -> None:
        from replayer.export import plot as drawing

        drawing.save(drawing.draw_layers({"grass": np.eye(9)}, "grass"), Path(f"old{suffix}"))

    return draw


def survival(_: Path) -> None:
    """Draw survival curves, as record batch does."""
    draw_survival([RunRecord(0, "x", {}, final_tick=20, extinctions={"owl": 9})], Path("old.png"))


def manifest(_: Path) -> None:
    """Write the manifest of a batch."""
    BatchFolder(Path("batch")).finish([RunRecord(0, "x", {}, final_tick=20)], {})


def smaller(_: Path) -> None:
    """Write a smaller scenario, where there is none yet."""
    write_minimised(
        Path("new.toml"), Minimised({"roles": ["a"]}, Violation("few", 9, "text"), 1, is_minimal=True), None
    )


def added(tapes: Path) -> None:
    """Copy a tape into a corpus, as replay ls --add does."""
    add_tape(Path(), tapes / "walkers.tape")


def dump(tapes: Path) -> None:
    """Write a dump of a desync; if it cannot be written, the report states that instead of raising."""
    report = verify_tape(tapes / "walkers.tape", Wrong, dump_folder=Path())
    if report.dump_path is None:
        raise OSError(errno.EIO, str(report.findings[0].note), "walkers.desync-29")


def peer_dump(tapes: Path) -> None:
    """Leave a dump of a desync with a peer, next to a link to the tape."""
    with Tape(tapes / "walkers.tape") as tape:
        place = tape.keyframe_at(40)
        assert place is not None
        snapshot = tape.snapshot(place)
    write_peer_dump(Path("run.tape"), 35, 1, 2, 30, 40, snapshot)


def data_set(tapes: Path) -> None:
    """Extract a data set; a partial one would be kept to continue, here nothing is."""
    extract(tapes / "walkers.tape", Path("data"), world=Walkers, tables=("states",), fields="x")


SITES: dict[str, Callable[[Path], None]] = {
    "seek": seek,
    "certify": certify,
    **{f"table{suffix}": table(suffix) for suffix in (".csv", ".ndjson", ".parquet")},
    **{f"events{suffix}": events(suffix) for suffix in (".csv", ".ndjson", ".parquet")},
    **{f"viewer{suffix}": viewer(suffix) for suffix in (".mcap", ".rrd")},
    **{f"plot{suffix}": plot(suffix) for suffix in (".png", ".svg", ".pdf")},
    "survival": survival,
    "manifest": manifest,
    "smaller": smaller,
    "added": added,
    "dump": dump,
    "peer_dump": peer_dump,
    "data_set": data_set,
}
NEEDS = {".parquet": "pyarrow", ".mcap": "mcap", ".rrd": "rerun", ".png": "matplotlib", ".svg": "matplotlib"}
NEEDS |= {".pdf": "matplotlib", "survival": "matplotlib", "data_set": "pyarrow"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, tapes: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an older file of each name."""
    monkeypatch.chdir(tmp_path)
    for suffix in (".npz", ".json", ".csv", ".ndjson", ".parquet", ".mcap", ".rrd", ".png", ".svg", ".pdf"):
        Path(f"old{suffix}").write_bytes(OLD)
    Path("batch").mkdir()
    Path("batch/manifest.json").write_bytes(OLD)
    Path("run.tape").symlink_to(tapes / "walkers.tape")
    return tmp_path


@contextmanager
def full_disk() -> Iterator[None]:
    """Limit every file to one byte. The system itself refuses more, also for C code and child processes."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # A copy of this process writes what is left when it ends, into a file that is full then.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def failing(name: str, error: Callable[[], BaseException]) -> Callable[[], Any]:
    """Let one system call of the disk fail."""

    @contextmanager
    def broken() -> Iterator[None]:
        def fail(*_: Any, **__: Any) -> None:
            raise error()

        with pytest.MonkeyPatch.context() as patch:
            for one in name.split():
                patch.setattr(os, one, fail)
            yield

    return broken


DISKS = {
    "full": full_disk,
    "fsync fails": failing("fsync", lambda: OSError(errno.EIO, "Input/output error")),
    "rename fails": failing("rename replace link", lambda: OSError(errno.EIO, "Input/output error")),
    "interrupted": failing("fsync", KeyboardInterrupt),
}


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return everything below a folder; None for folders."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def skip_without_extra(site: str) -> None:
    """Skip if the package that it needs is not installed."""
    needed = next((package for ending, package in NEEDS.items() if site.endswith(ending)), None)
    if needed is not None and importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")


@pytest.mark.sample(18)
@pytest.mark.parametrize("disk", DISKS)
@pytest.mark.parametrize("site", SITES)
@pytest.mark.seldom(0.15)
def test_nothing_half_written_stays(folder: Path, tapes: Path, site: str, disk: str) -> None:
    """Older files stay byte for byte, without any other file; the next attempt succeeds."""
    skip_without_extra(site)
    before = tree(folder)

    with pytest.raises((OSError, KeyboardInterrupt)) as caught, DISKS[disk]():
        SITES[site](tapes)

    after = tree(folder)
    if site == "data_set":  # An extraction that failed can be continued: its folder has a different name.
        after = {name: content for name, content in after.items() if not name.startswith("data.unfinished")}
    assert after == before
    assert not list(folder.rglob("*.part"))
    assert ".part" not in str(caught.value)
    if disk == "interrupted":
        assert isinstance(caught.value, KeyboardInterrupt)
    SITES[site](tapes)
    changed = {name for name, content in tree(folder).items() if before.get(name, b"") != content}
    assert changed
    assert not [name for name in changed if ".part" in name or "unfinished" in name]


@pytest.mark.parametrize("site", SITES)
def test_it_is_synced_before_it_has_its_name(tapes: Path, monkeypatch: pytest.MonkeyPatch, site: str) -> None:
    """Its folder is synced after that: a power cut leaves the old file or the new one."""
    skip_without_extra(site)
    order: list[str] = []

    def watched(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*arguments: Any, **more: Any) -> Any:
            folder = name == "fsync" and os.path.isdir(f"/proc/self/fd/{arguments[0]}")  # noqa: PTH112
            order.append("folder" if folder else name)
            return real(*arguments, **more)

        return call

    for name in ("fsync", "rename", "replace", "link"):
        monkeypatch.setattr(os, name, watched(name))
    SITES[site](tapes)
    names = [place for place, name in enumerate(order) if name in {"rename", "replace", "link"}]
    assert "fsync" in order[: names[-1]]
    assert "folder" in order[names[-1] :]


def test_there_is_one_home_for_it() -> None:
    """No other module syncs, links or renames files; a journal, which is appended to, is not such a file."""
    own = re.compile(r"os\.(fsync|fdatasync|replace|rename|link)\(|\.rename\(|\"\.part\"|savefig\((path|target|output)")
    journal = SOURCES / "recorder/scenarios/batch_manifest.py"
    found = [
        f"{path.relative_to(SOURCES)}: {line.strip()}"
        for path in SOURCES.rglob("*.py")
        if path.parent != SOURCES / "recorder/storage" and path != journal
        for line in path.read_text(encoding="utf-8").splitlines()
        if own.search(line)
    ]
    assert found == []
