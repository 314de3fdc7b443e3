"""The folders of the project that tests refer to, so that a test can move to another folder."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
EXAMPLES = ROOT / "examples"
GOLDEN = ROOT / "tests" / "golden"
SUPPORT = ROOT / "tests" / "support"  # On the path of modules while tests run.
