"""Small corpora for tests: a working folder with the world duel installed, for this process and its children."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duel_world
import pytest

import recorder.commands.main
from recorder.corpus.database import INDEX_NAME, writing_index
from recorder.corpus.folder_listing import FolderListing
from recorder.corpus.inspect_tape import with_world
from recorder.corpus.tape_stamp import stamp_of
from sim.kernel import registry

from oracle.command_lines import run
from project_paths import SOURCES, SUPPORT

_MADE: dict[str, Path] = {}
TABLES = ("runs", "players", "outcomes", "quality")


@pytest.fixture
def duel_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder that holds only a scenario."""
    installed = duel_world.install(tmp_path / "installed")
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (SOURCES, SUPPORT, installed))))
    registry._points.cache_clear()
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    Path("heaps.toml").write_text(duel_world.SCENARIO)
    yield work
    registry._points.cache_clear()


def generate(line: str) -> int:
    """Run ``record generate`` in this process."""
    return run(recorder.commands.main.main, f"generate {line}")


def start_generating(line: str) -> subprocess.Popen[bytes]:
    """Start ``record generate`` in a separate process."""
    command = [
        sys.executable,
        "-c",
        "import recorder.commands.main; recorder.commands.main.main()",
        "generate",
        *line.split(),
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def copy_of_corpus(name: str, lines: list[str], pool: pytest.TempPathFactory) -> Path:
    """Make the folder ``runs`` with these commands: it is made once and then copied with its times."""
    if name not in _MADE:
        _MADE[name] = pool.mktemp(name) / "runs"
        for line in lines:
            generate(f"{line} -j 1 -o {_MADE[name]}")
    shutil.copytree(_MADE[name], "runs")
    _stamp_again(Path("runs"))
    return Path("runs").absolute()


def _stamp_again(folder: Path) -> None:
    """Give the index of a copied folder the stamps of the copies, as if it had been made here."""
    listing = FolderListing(folder)
    with writing_index(folder) as connection:
        for tape, world, version in connection.execute("SELECT tape, world, version FROM runs").fetchall():
            stamp = with_world(stamp_of(folder / tape, listing).text, world, version)
            connection.execute("UPDATE runs SET stamp = ? WHERE tape = ?", (stamp, tape))


def rows(folder: Path) -> dict[str, list[Any]]:
    """Return all rows of the index of a folder."""
    connection = sqlite3.connect(folder / INDEX_NAME)
    try:
        return {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in TABLES}
    finally:
        connection.close()


def tapes(folder: Path) -> dict[str, bytes]:
    """Return the tapes of a folder, by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.tape"))}


def change(name: str, **keys: Any) -> Path:
    """Write a copy of the scenario with changed keys."""
    path = Path(f"{name}.toml")
    text = duel_world.SCENARIO.replace('"heaps"', f'"{name}"')
    for key, value in keys.items():
        kept = [line for line in text.splitlines() if not line.startswith(f"{key} =")]
        text = "\n".join([*kept, f"{key} = {value}"]) + "\n"
    path.write_text(text)
    return path
