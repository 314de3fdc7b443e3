"""The benches run, at their smallest: no test depends on a time, but they must not rot."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "tools/bench"


def run(folder: Path, program: str, *arguments: str, figures: bool = True) -> Any:
    """Run a program of the benches in a folder; its JSON."""
    more = ["--json", "figures.json", "--markdown", "page.md"] if figures else []
    done = subprocess.run(
        [sys.executable, BENCH / program, *arguments, *more], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "figures.json").read_text())["figures"] if figures else done.stdout


def lacks(*names: str) -> bool:
    """Whether one of these packages is not installed."""
    return any(importlib.util.find_spec(name) is None for name in names)


def test_every_way_that_is_installed_keeps_what_was(tmp_path: Path) -> None:
    """Each peer's states, read back, are those that were recorded, or the way is named as failed; so is one not there."""
    groups = run(tmp_path, "peer_costs.py", "--only", "states-S", "inputs-S", "--rounds", "1", "--slice", "20")
    states, inputs = groups
    named = {row["way"] for row in states["rows"]} | set(states["absent"])

    assert {"no recorder", "ours", "MCAP zstd", "GSD", "LMDB lz4", "SQLite lz4", "blosc2", "zarr"} <= named
    assert all("is not installed" in why for group in groups for why in group["absent"].values()), groups
    assert all(row["a tick read, ms"] is not None for row in states["rows"] if row["way"] != "no recorder")
    assert {row["way"] for row in inputs["rows"]} >= {"ours", "hash + encode + store", "pickle + lz4"}


@pytest.mark.skipif(lacks("gymnasium"), reason="gymnasium is not installed")
def test_peers_of_one_kind_of_world(tmp_path: Path) -> None:
    """CartPole: alone, ours and Minari, or why not."""
    (group,) = run(tmp_path, "peer_costs.py", "--only", "CartPole", "--rounds", "1", "--slice", "20")
    assert {row["way"] for row in group["rows"]} | set(group["absent"]) == {"alone", "ours", "Minari"}
    assert all("is not installed" in why for why in group["absent"].values()), group


def test_scaling(tmp_path: Path) -> None:
    """Each curve has its points and slopes, and a picture."""
    found = run(tmp_path, "scaling.py", "--quick", "--only", "length", "--plot", "pictures")
    assert len(found["length"]["points"]) == 3
    assert {row["figure"] for row in found["length"]["slopes"]} >= {"file, MB", "open, ms", "recording, MB"}
    assert (tmp_path / "pictures/scaling-length.svg").stat().st_size > 0


def test_whole_ticks(tmp_path: Path) -> None:
    """Three ways on one world."""
    rows = run(tmp_path, "ticks.py", "--only", "numpy-30", "--quick", "--slice", "20", "--plot", "pictures")
    assert [row["way"] for row in rows] == ["no recorder", "ours", "naive thread"]


def test_the_profile_knows_what_a_step_calls(tmp_path: Path) -> None:
    """Every stage that it times is one that Recorder.step still calls."""
    rows = run(tmp_path, "profile_step.py", "--ticks", "300", "--plot", "pictures")
    stages = [row["stage"] for row in rows]
    for what in ("inputs to MessagePack", "hash of the whole state", "the frame into the journal", "the rest"):
        assert any(what in stage for stage in stages), what


def test_a_line_for_a_target(tmp_path: Path) -> None:
    """The table of targets has lines with what was wanted."""
    done = subprocess.run(
        [sys.executable, BENCH / "targets.py", "--only", "T10", "--json", "lines.json"], cwd=tmp_path, check=True
    )
    (line,) = json.loads((tmp_path / "lines.json").read_text())
    assert done.returncode == 0
    assert line["target"] == "T10"
    assert line["wanted"]


def test_the_page_is_made_between_its_marks(tmp_path: Path) -> None:
    """A section is replaced, what stands around it stays; docs/performance.md has all sections."""
    page = tmp_path / "page.md"
    marks = "<!-- {0}: made by tools/bench/page.py -->\n{1}<!-- end of {0} -->\n"
    page.write_text("before\n" + marks.format("profile", "old\n") + "after\n")
    run(tmp_path, "page.py", "--only", "profile", "--quick", "--page", str(page), "--json", "figures", figures=False)

    text = page.read_text()
    assert text.startswith("before\n<!-- profile: made by tools/bench/page.py -->\n")
    assert text.endswith("<!-- end of profile -->\nafter\n")
    assert "old" not in text
    assert "| stage |" in text

    real = (BENCH.parents[1] / "docs/performance.md").read_text()
    for name in ("targets", "profile", "ticks", "scaling", "peers"):
        assert real.count(f"<!-- {name}: made by tools/bench/page.py -->\n") == 1
        assert real.count(f"<!-- end of {name} -->\n") == 1
