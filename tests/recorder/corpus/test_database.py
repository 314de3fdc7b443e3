"""The index: a rebuilt index has the same rows, and an index is used only for unchanged tapes."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import attrs
import pytest
from corpora import change, copy_of_corpus, duel_folder, generate, rows  # noqa: F401 - a fixture

import recorder.corpus.corpus
import replayer.commands.main
from recorder.corpus import Corpus, Run, examine
from recorder.corpus.corpus import refresh_index
from recorder.corpus.database import APPLICATION_ID, INDEX_NAME, INDEX_VERSION, load_index, writing_index

from oracle.command_lines import assert_one_line, run

pytestmark = pytest.mark.usefixtures("corpus")
RUNS = Path("runs")
INDEX = RUNS / INDEX_NAME


@pytest.fixture
def corpus(duel_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001, F811
    """A corpus with runs of two scenarios, one of which raises."""
    change("bad", raise_at=7)
    lines = ["heaps.toml bad.toml --seeds 0..2 --player left=push,lazy --player right=random"]
    return copy_of_corpus("one-raises", lines, tmp_path_factory)


def test_a_rebuilt_index_is_the_same() -> None:
    """A rebuild from the tapes alone gives the same rows in every table."""
    before, listed = rows(RUNS), Corpus.open(RUNS).runs
    assert len(before["runs"]) == 12
    assert len(before["players"]) == 24
    INDEX.unlink()
    assert run(replayer.commands.main.main, "ls runs --rebuild -j 1") == 0
    assert rows(RUNS) == before
    assert Corpus.open(RUNS).runs == listed
    assert run(replayer.commands.main.main, "ls runs --rebuild -j 1") == 0
    assert rows(RUNS) == before


def test_runs_go_in_and_come_out() -> None:
    """The runs loaded from the index equal the descriptions of the tapes."""
    assert load_index(RUNS) == {path.name: examine(path) for path in RUNS.glob("*.tape")}


def test_it_says_what_it_is() -> None:
    """The index has a version, an application id and one file; readers need no journal."""
    connection = sqlite3.connect(INDEX)
    assert connection.execute("PRAGMA user_version").fetchone() == (INDEX_VERSION,)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()
    assert [path.name for path in RUNS.iterdir() if path.name.startswith("index")] == [INDEX_NAME]


def test_reading_writes_nothing() -> None:
    """Reading writes nothing, even if some tapes need an inspection."""
    (RUNS / "odd.tape").write_bytes(b"odd")
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in RUNS.iterdir()}
    assert run(replayer.commands.main.main, "ls runs --stats -j 1") == 5
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in RUNS.iterdir()} == before
    INDEX.unlink()
    assert run(replayer.commands.main.main, "ls runs --won left -j 1") == 0
    assert not INDEX.exists()


def test_an_index_is_used_for_unchanged_tapes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed, replaced and added tapes are inspected, missing ones are not listed; no other tape is opened."""
    names = sorted(path.name for path in RUNS.glob("*.tape"))
    looked: list[str] = []
    monkeypatch.setattr(
        recorder.corpus.corpus, "glance", lambda path, _: looked.append(path.name) or Run(path.name, path.parent)
    )
    assert [run.tape for run in Corpus.open(RUNS)] == [run.tape for run in sorted(load_index(RUNS).values(), key=_key)]
    assert looked == []

    (RUNS / names[0]).unlink()
    shutil.copy2(RUNS / names[2], RUNS / "copy.tape")
    os.utime(RUNS / names[1])
    content = (RUNS / names[3]).read_bytes()
    (RUNS / names[3]).write_bytes(content[:-1])
    found = {run.tape for run in Corpus.open(RUNS)}
    assert sorted(looked) == sorted(["copy.tape", names[1], names[3]])
    assert found == {*names[1:], "copy.tape"}


def _key(run: Run) -> tuple[str, int, str]:
    return (run.scenario or "", run.seed or 0, run.tape)


def test_only_what_changed_is_read_again() -> None:
    """An update of the index drops the rows of missing tapes."""
    names = sorted(path.name for path in RUNS.glob("*.tape"))
    before = rows(RUNS)
    os.utime(RUNS / names[1], ns=(5, 5))
    (RUNS / names[0]).unlink()
    found, count = refresh_index(RUNS)
    assert (len(found), count) == (11, 1)
    after = rows(RUNS)
    assert [row for row in after["runs"] if row[0] != names[1]] == [
        row for row in before["runs"] if row[0] not in names[:2]
    ]
    assert {row[0] for table in after.values() for row in table} == set(names[1:])


@pytest.mark.parametrize("content", [b"not a database", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_index_is_as_good_as_none(content: bytes) -> None:
    """The tapes hold the same facts; a new index replaces the damaged one, which is kept under a different name."""
    before, listed = rows(RUNS), Corpus.open(RUNS).runs
    INDEX.write_bytes(content)
    assert [attrs.evolve(run, quality=None) for run in listed] == list(Corpus.open(RUNS).runs)
    assert run(replayer.commands.main.main, "ls runs --rebuild -j 1") == 0
    assert rows(RUNS) == before
    assert (RUNS / f"{INDEX_NAME}.damaged").read_bytes() == content


def test_a_foreign_database_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """A database of another program, or of a newer version, is not changed."""
    for script, said in (
        ("CREATE TABLE recipes (name)", "runs/index.sqlite is not an index of tapes: move it out of the way"),
        (
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 99; CREATE TABLE runs (name)",
            f"runs/index.sqlite was written by a newer version: expected index version {INDEX_VERSION}, got 99",
        ),
    ):
        INDEX.unlink()
        connection = sqlite3.connect(INDEX)
        connection.executescript(script)
        connection.close()
        content = INDEX.read_bytes()
        capsys.readouterr()
        for line in ("ls runs --paths", "ls runs --rebuild --paths -j 1"):
            assert run(replayer.commands.main.main, line) == 2
            assert_one_line(capsys.readouterr(), said)
        assert generate("heaps.toml --seeds 0 -j 1 --json") == 2
        assert_one_line(capsys.readouterr(), said)
        assert INDEX.read_bytes() == content


def test_a_power_cut_in_a_transaction() -> None:
    """A half-written transaction is never read: readers inspect the tapes, the next writer rolls it back."""
    before, listed = rows(RUNS), Corpus.open(RUNS).runs
    connection = sqlite3.connect(INDEX)
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("PRAGMA cache_spill = 1")
    connection.execute("DELETE FROM players")
    connection.execute("UPDATE runs SET scenario = 'lies' || hex(zeroblob(3000))")
    broken = {path.name: path.read_bytes() for path in RUNS.iterdir() if path.name.startswith(INDEX_NAME)}
    assert len(broken) == 2  # The index, half written, and its rollback journal.
    connection.rollback()
    connection.close()
    for name, content in broken.items():
        (RUNS / name).write_bytes(content)

    assert "lies" not in {run.scenario[:4] for run in Corpus.open(RUNS) if run.scenario}
    with writing_index(RUNS):
        pass
    assert rows(RUNS) == before
    assert Corpus.open(RUNS).runs == listed


def test_a_read_only_folder(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A read-only folder is listed; creating an index there fails with one line."""
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    corpus.chmod(0o500)
    try:
        assert run(replayer.commands.main.main, "ls runs --paths") == 0
        capsys.readouterr()
        assert run(replayer.commands.main.main, "ls runs --rebuild --paths -j 1") == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    finally:
        corpus.chmod(0o700)


def test_names_that_are_no_text() -> None:
    """Tapes whose names are not valid text are listed without the index."""
    strange = Path(os.fsdecode(b"runs/odd-\xff.tape"))
    shutil.copy(next(RUNS.glob("heaps*.tape")), strange)
    found, _ = refresh_index(RUNS)
    assert strange.name in {run.tape for run in found}
    assert strange.name in {run.tape for run in Corpus.open(RUNS)}
    assert strange.name not in load_index(RUNS)
