"""The example of branches runs: it compares each of its branches, and its best fork, with plain loops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from project_paths import ROOT


def test_the_caravan_has_other_ways(tmp_path: Path) -> None:
    """Its tapes verify, and the family is complete."""
    example = ROOT / "examples" / "branch_caravan.py"
    assert len(example.read_text(encoding="utf-8").splitlines()) > 100
    done = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("as in a plain loop") == 2
    assert {path.name for path in tmp_path.iterdir()} == {"caravan.tape", "careful.tape", "lazy.tape"}
