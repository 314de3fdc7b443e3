"""Extraction is a reader: nothing of the tapes changes, and no file is added next to them."""

from __future__ import annotations

from pathlib import Path

import recorder.commands.main
import replayer.commands.main

from oracle.command_lines import files, run


def test_an_extraction_changes_nothing_of_its_tapes(tmp_path: Path) -> None:
    """All tables of two tapes: the bytes and the times of their files are those of before."""
    folder = tmp_path / "runs"
    folder.mkdir()
    for seed in (1, 2):
        line = f"run arms-race --seed {seed} --ticks 12 --player beetle=greedy -q -o {folder}/{seed}.tape"
        assert run(recorder.commands.main.main, line) == 0
    before = files(folder)
    times = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    for table in ("states", "pairs", "actions"):
        assert run(replayer.commands.main.main, f"extract {folder} --table {table} -o {tmp_path / table}") == 0
    assert files(folder) == before
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == times
