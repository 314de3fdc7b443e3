"""Only commands load what speaks to a terminal: all other modules are imported without cyclopts and rich."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"
PACKAGES = ("sim", "recorder", "replayer")
# Folders whose modules may speak to a terminal, wherever they lie. Until all of these are there, nothing is asserted.
TERMINAL = {"commands", "console"}
ROOMS = ("recorder/commands", "recorder/console", "replayer/commands")

# A package that is None in sys.modules cannot be imported: so each module is asked, and none hides behind an earlier one.
IMPORTING = """
import importlib, json, sys, traceback
for barred in ("cyclopts", "rich"):
    sys.modules[barred] = None
found = {}
for name in json.load(sys.stdin):
    try:
        importlib.import_module(name)
    except ImportError as error:
        asked = (error.name or "").partition(".")[0]
        if asked in ("cyclopts", "rich"):
            found[name] = [frame.filename for frame in traceback.extract_tb(error.__traceback__)][-1]
        elif asked in ("sim", "recorder", "replayer") or not isinstance(error, ModuleNotFoundError):
            raise  # What is left are packages that are extras.
assert sys.modules["cyclopts"] is None and sys.modules["rich"] is None
print(json.dumps(found))
"""


def modules_of(package: str) -> list[str]:
    """All modules of a package but those in the folders of TERMINAL."""
    names = []
    for path in sorted((SRC / package).rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        if not TERMINAL & set(parts):
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


@pytest.mark.skipif(
    not all((SRC / room).is_dir() for room in ROOMS),
    reason=f"the commands have no folders of their own: {', '.join(ROOMS)}",
)
@pytest.mark.parametrize("package", PACKAGES)
def test_only_commands_load_what_speaks_to_a_terminal(package: str) -> None:
    """In a process of its own; the module is named with the file that asked for it."""
    names = modules_of(package)
    assert len(names) > 10
    finished = subprocess.run(
        [sys.executable, "-c", IMPORTING], input=json.dumps(names), capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout.splitlines()[-1]) == {}
