"""The index of a corpus: an embedded database of its runs, in one file next to the tapes.

It holds only what the tapes hold, and is used only for tapes that are unchanged since it was written. It saves time and
can be deleted at any moment.

Tables, all keyed by the tape's file name: runs (one row per tape), players (one row per player of a run), outcomes (why
the run ended), quality (the inputs of the run). No column holds a value that a query would have to parse.

The journal is SQLite's rollback journal, not a write-ahead log. Between two transactions the index is one file, which
can be read from a read-only folder. A write-ahead log would need two more files, and readers would have to write to one
of them. One process writes, rarely.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import attrs

from recorder.corpus.run import PlayerResult, Quality, Run, Settings
from recorder.errors import RecordingError
from recorder.storage.file_names import first_free, numbered

INDEX_NAME = "index.sqlite"
# In user_version; it changes with the tables and the words in them. 1: an unread tape was "intact". 2: no simulation. 3: no seed of a reset.
INDEX_VERSION = 4
APPLICATION_ID = 0x7461_7065  # "tape"
BUSY_S = 10.0  # A reader waits this long for a writer; a transaction takes milliseconds.

_RUN_COLUMNS = {
    "tape": "TEXT PRIMARY KEY",
    "run_id": "TEXT NOT NULL",
    "scenario": "TEXT",
    "world": "TEXT",
    "simulation": "TEXT",
    "version": "INTEGER",
    "seed": "INTEGER",
    "first_tick": "INTEGER",
    "ticks": "INTEGER",
    "state_hash": "TEXT NOT NULL",
    "size_bytes": "INTEGER NOT NULL",
    "scenario_hash": "TEXT NOT NULL",
    "family": "TEXT",
    "goal_ticks": "INTEGER",
    "keyframe_interval_ticks": "INTEGER",
    "source": "TEXT NOT NULL",
    "status": "TEXT NOT NULL",
    "sealed": "INTEGER NOT NULL",
    "finished": "TEXT NOT NULL",
    "changed_ns": "INTEGER NOT NULL",
    "stamp": "TEXT NOT NULL",
    "error": "TEXT",
}
_TABLES = {
    "runs": _RUN_COLUMNS,
    "players": {
        "tape": "TEXT NOT NULL",
        "place": "INTEGER NOT NULL",
        "player": "TEXT NOT NULL",
        "policy": "TEXT",
        "score": "REAL",
        "outcome": "TEXT",
        "PRIMARY KEY": "(tape, place)",
    },
    "outcomes": {"tape": "TEXT PRIMARY KEY", "reason": "TEXT", "text": "TEXT"},
    "quality": {
        "tape": "TEXT PRIMARY KEY",
        "tier": "TEXT NOT NULL",
        "inputs": "INTEGER NOT NULL",
        "ticks_with_inputs": "INTEGER NOT NULL",
    },
}
_SETTINGS = tuple(field.name for field in attrs.fields(Settings))
_OWN = tuple(name for name in _RUN_COLUMNS if name not in _SETTINGS)


class ForeignIndexError(RecordingError):
    """The file of the index is a different database, or was written by a newer version."""


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables of an empty database."""
    for table, columns in _TABLES.items():
        connection.execute(f"CREATE TABLE {table} ({', '.join(f'{a} {b}' for a, b in columns.items())}) WITHOUT ROWID")
    connection.execute("CREATE INDEX players_by_outcome ON players (player, outcome)")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {INDEX_VERSION}")


def put_runs(connection: sqlite3.Connection, runs: Iterable[Run]) -> None:
    """Write the rows of runs, replacing those of the same tapes.

    Tapes whose file names are not valid text are skipped, as no database stores them; they are inspected each time.
    """
    for run in filter(_has_plain_name, runs):
        drop_runs(connection, [run.tape])
        settings = attrs.astuple(run.settings) if run.settings is not None else (None,) * len(_SETTINGS)
        row = {name: getattr(run, name) for name in _OWN} | dict(zip(_SETTINGS, settings, strict=True))
        _insert(connection, "runs", [row[name] for name in _RUN_COLUMNS])
        for place, player in enumerate(run.players):
            _insert(connection, "players", [run.tape, place, *attrs.astuple(player)])
        _insert(connection, "outcomes", [run.tape, run.reason, run.text])
        if run.quality is not None:
            _insert(connection, "quality", [run.tape, *attrs.astuple(run.quality)])


def _has_plain_name(run: Run) -> bool:
    try:
        run.tape.encode()
    except UnicodeEncodeError:
        return False
    return True


def drop_runs(connection: sqlite3.Connection, tapes: Iterable[str]) -> None:
    """Delete the rows of tapes."""
    for tape in tapes:
        for table in _TABLES:
            connection.execute(f"DELETE FROM {table} WHERE tape = ?", (tape,))  # noqa: S608 - our own names


def _insert(connection: sqlite3.Connection, table: str, values: Sequence[Any]) -> None:
    placeholders = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO {table} VALUES ({placeholders})", values)  # noqa: S608 - our own names


def read_runs(connection: sqlite3.Connection, folder: Path) -> dict[str, Run]:
    """Return all runs of the tables, by tape. Raises sqlite3.Error."""
    players: dict[str, list[PlayerResult]] = {}
    for tape, _, *rest in connection.execute("SELECT * FROM players ORDER BY tape, place"):
        players.setdefault(tape, []).append(PlayerResult(*rest))
    quality = {tape: Quality(*rest) for tape, *rest in connection.execute("SELECT * FROM quality")}
    ends = {tape: tuple(rest) for tape, *rest in connection.execute("SELECT * FROM outcomes")}
    runs = {}
    for values in connection.execute("SELECT * FROM runs ORDER BY tape"):
        row = dict(zip(_RUN_COLUMNS, values, strict=True))
        settings = [row.pop(name) for name in _SETTINGS]
        tape, row["sealed"] = row["tape"], bool(row["sealed"])
        reason, text = ends.get(tape, (None, None))
        runs[tape] = Run(
            folder=folder,
            settings=Settings(*settings) if settings[0] is not None else None,
            reason=reason,
            text=text,
            players=tuple(players.get(tape, ())),
            quality=quality.get(tape),
            **row,
        )
    return runs


# --- the file


def load_index(folder: Path) -> dict[str, Run]:
    """Return the runs in the index of a folder, by tape. Nothing is written; the folder may be read-only.

    Empty without an index, or if it cannot be read at the moment, as after a power cut during a transaction: the tapes
    hold the same facts. Raises ForeignIndexError.
    """
    path = folder / INDEX_NAME
    if not path.is_file():
        return {}
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_S)) as connection:
            _ensure_ours(connection, path)
            connection.execute("BEGIN")  # A consistent view of all tables during a write.
            return read_runs(connection, folder)
    except (sqlite3.Error, TypeError, ValueError):
        return {}


def _ensure_ours(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and tables:
        raise ForeignIndexError(f"{path} is not an index of tapes: move it out of the way")
    if version > INDEX_VERSION:
        raise ForeignIndexError(
            f"{path} was written by a newer version: expected index version {INDEX_VERSION}, got {version}"
        )
    if version < INDEX_VERSION:
        raise sqlite3.DatabaseError(f"version {version}")  # Outdated: the index is rebuilt.


@contextmanager
def writing_index(folder: Path) -> Iterator[sqlite3.Connection]:
    """Open the index of a folder for writing, and commit on exit. A damaged index is replaced by a new one.

    Raises ForeignIndexError, OSError.
    """
    path = folder / INDEX_NAME
    try:
        connection = _open_for_writing(path)
        with closing(connection), connection:
            yield connection
    except sqlite3.Error as error:
        raise OSError(None, f"{path}: the index cannot be written: {error}") from None


def _open_for_writing(path: Path) -> sqlite3.Connection:
    try:
        return _opened(path)
    except ForeignIndexError:
        raise
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise  # Busy, or a failure of the disk: the index may be intact.
        path.replace(first_free(numbered(path.with_name(f"{path.name}.damaged"))))  # Kept, in case it is needed.
        path.with_name(f"{path.name}-journal").unlink(missing_ok=True)  # SQLite would apply it to the new index.
        return _opened(path)


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S)
    try:
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            connection.execute("PRAGMA journal_mode = DELETE")
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                create_tables(connection)
        _ensure_ours(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection
