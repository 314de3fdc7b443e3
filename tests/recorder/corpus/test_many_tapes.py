"""Folders of many tapes: listed once, read once, and never shown as they were before."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from corpora import duel_folder  # noqa: F401 - a fixture

import recorder
import recorder.commands.main
import recorder.corpus.corpus
import replayer.commands.main
from recorder.corpus import Corpus, Run, examine, glance
from recorder.corpus.corpus import INDEXED_TAPES_MIN, look
from recorder.corpus.database import INDEX_NAME, load_index
from recorder.corpus.folder_listing import FolderListing
from recorder.storage.file_names import following_segments, segment_path
from sim.kernel import registry

from oracle.command_lines import run
from small_worlds import Walkers

LONG_AGO_NS = 1_600_000_000_123_456_789
TAPES = Path("tapes")


def _record(path: Path, seed: int = 1, ticks: int = 3) -> Path:
    with recorder.Recorder(path, Walkers(seed=seed), trial_ms=0) as tape:
        for _ in range(ticks):
            tape.step(None)
    return path


def _age(folder: Path) -> None:
    """Let all files, and then the folder, be changed long ago."""
    for path in [*folder.iterdir(), folder]:
        os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of as many tapes as are indexed unasked, all changed long ago."""
    monkeypatch.chdir(tmp_path)
    TAPES.mkdir()
    first = _record(TAPES / "run-000.tape")
    for number in range(1, INDEXED_TAPES_MIN):
        shutil.copy(first, TAPES / f"run-{number:03}.tape")
    _age(TAPES)
    return TAPES


@pytest.fixture
def read_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tapes that were read, in order."""
    names: list[str] = []

    def counted(path: Path, listing: FolderListing | None) -> Run:
        names.append(path.name)
        return glance(path, listing)

    monkeypatch.setattr(recorder.corpus.corpus, "glance", counted)
    return names


def test_a_folder_is_listed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of listings does not grow with the number of tapes; each tape listed the folder three times."""
    counts: Counter[str] = Counter()

    def counting(name: str) -> Callable[..., object]:
        real = getattr(os, name)

        def call(*arguments: object) -> object:
            counts[name] += 1
            return real(*arguments)

        return call

    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, counting(name))
    assert len(Corpus.open(folder)) == INDEXED_TAPES_MIN
    assert counts.total() <= 3


def test_the_second_look_reads_no_tape(folder: Path, read_names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The first look makes the index, the second one shows the same without reading a tape."""
    assert run(replayer.commands.main.main, f"ls {folder} -j 1") == 0
    first = capsys.readouterr().out
    assert len(read_names) == INDEXED_TAPES_MIN
    assert run(replayer.commands.main.main, f"ls {folder} -j 1") == 0
    assert capsys.readouterr().out == first
    assert len(read_names) == INDEXED_TAPES_MIN


def test_few_tapes_get_no_index(folder: Path) -> None:
    """A listing of few tapes leaves no file behind: an index would save nothing."""
    (folder / "run-000.tape").unlink()
    assert len(look(folder)) == INDEXED_TAPES_MIN - 1
    assert not (folder / INDEX_NAME).exists()


def test_a_folder_without_room_for_an_index(folder: Path) -> None:
    """If the index cannot be written, the listing is complete all the same."""
    (folder / INDEX_NAME).mkdir()  # As a read-only folder: SQLite cannot open the file.
    assert look(folder).runs == Corpus.open(folder).runs == look(folder).runs
    assert len(look(folder)) == INDEXED_TAPES_MIN


def _replace_with_equal_size_and_time(path: Path) -> None:
    """Put a different tape of the same size and time in the place of a tape."""
    for seed in range(2, 60):  # What a recording notes of its process and its time takes a few bytes more or less.
        other = _record(path.with_name("other"), seed=seed)
        if other.stat().st_size == path.stat().st_size:
            break
        other.unlink()
    else:
        pytest.fail("no other tape has the same size")
    os.utime(other, ns=(LONG_AGO_NS, LONG_AGO_NS))
    other.replace(path)


def _lose_a_byte(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1])


def _touch(path: Path) -> None:
    os.utime(path, ns=(LONG_AGO_NS + 1, LONG_AGO_NS + 1))


def _add_a_segment(path: Path) -> None:
    segment_path(path, 1).write_bytes(b"not a segment")


def _add_a_journal(path: Path) -> None:
    path.with_name(f"{path.name}.journal").write_bytes(b"")


CHANGES = [_replace_with_equal_size_and_time, _lose_a_byte, _touch, _add_a_segment, _add_a_journal]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_what_changed_is_read_again(change: Callable[[Path], None], folder: Path, read_names: list[str]) -> None:
    """Every change to the files of a tape shows: the listing is the one that a folder without an index gives."""
    look(folder)
    changed = folder / "run-007.tape"
    change(changed)
    read_names.clear()
    listed = look(folder).runs
    assert read_names == [changed.name]
    (folder / INDEX_NAME).unlink()
    assert listed == Corpus.open(folder).runs


def test_a_time_that_can_hide_a_change_does_not_count(folder: Path, read_names: list[str]) -> None:
    """A tape whose time is not over yet is read each time: it may change again at the same time."""
    young = folder / "run-003.tape"
    future_ns = young.stat().st_mtime_ns + 10**18
    os.utime(young, ns=(future_ns, future_ns))
    look(folder)
    assert load_index(folder)[young.name].stamp == ""
    assert all(run.stamp for run in load_index(folder).values() if run.tape != young.name)
    read_names.clear()
    look(folder)
    assert read_names == [young.name]


def test_a_world_that_is_installed_later(duel_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Scores that a tape lacks come from its world: an entry that was made without the world does not count with it."""
    runs = duel_folder / "runs"
    runs.mkdir()
    tape = runs / "run.tape"
    with monkeypatch.context() as patch:
        patch.setattr("recorder.runs.outcome.scores_of", lambda *_: {})  # As of a tape whose end has no scores.
        assert run(recorder.commands.main.main, f"run heaps.toml --seed 0 --player left=push -q -o {tape}") == 0
    _age(runs)
    complete = examine(tape)
    points = registry._points
    with monkeypatch.context() as patch:
        patch.setattr(registry, "_points", lambda: ())
        (bare,) = recorder.corpus.corpus.refresh_index(runs)[0]
        assert bare != complete
        assert Corpus.open(runs).runs == (bare,)
    assert registry._points is points
    assert Corpus.open(runs, examined=True).runs == (complete,)


def test_examined_runs_are_not_glances(folder: Path) -> None:
    """A query that needs the inputs reads tapes whose index entry lacks them."""
    look(folder)
    assert all(run.quality is None for run in load_index(folder).values())
    assert all(run.quality is not None for run in look(folder, examined=True))
    assert all(run.quality is not None for run in Corpus.open(folder))


def test_a_listing_shows_what_is_there(tmp_path: Path) -> None:
    """After any changes to the folder, one listing gives the same segments as a search for each tape."""
    random_source = random.Random(7)
    names = ["a.tape", "b.tape", "a.tape.1.tape", "c"]
    suffixes = ["", ".1", ".2", ".10", ".01", ".x", ".1.new", ".journal", ".torn-1", ".3.4"]
    listing = FolderListing(tmp_path)
    for turn in range(60):
        path = tmp_path / f"{random_source.choice(names)}{random_source.choice(suffixes)}"
        if path.exists():
            path.unlink()
        else:
            path.touch()
        if turn % 7 == 0:  # A folder that was changed long ago is not listed again until it changes.
            os.utime(tmp_path, ns=(LONG_AGO_NS + turn, LONG_AGO_NS + turn))
        for name in names:
            assert listing.following(name) == following_segments(tmp_path / name)
            assert listing.has_journal(name) == (tmp_path / f"{name}.journal").exists()


@pytest.mark.seldom(0.15)
def test_processes_give_the_same_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several processes read groups of tapes; the runs and their order are those of one process."""
    monkeypatch.setattr(recorder.corpus.corpus, "GLANCED_A_PROCESS", 16)
    alone = [attrs.asdict(run) for run in Corpus.open(folder)]
    assert [attrs.asdict(run) for run in Corpus.open(folder, jobs=2)] == alone
