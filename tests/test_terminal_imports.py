"""Only commands load terminal packages: all other modules are imported without cyclopts and rich."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"
PACKAGES = ("sim", "recorder", "replayer")
# Folders whose modules may use a terminal, at any level. Nothing is asserted until all of them exist.
TERMINAL = {"commands", "console"}
ROOMS = ("recorder/commands", "recorder/console", "replayer/commands")

# A package that is None in sys.modules cannot be imported. Each module is tried, so an earlier one hides none.
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
            raise  # The others are optional packages.
assert sys.modules["cyclopts"] is None and sys.modules["rich"] is None
print(json.dumps(found))
"""


def modules_of(package: str) -> list[str]:
    """Return all modules of a package outside of the folders of TERMINAL."""
    names = []
    for path in sorted((SRC / package).rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        if not TERMINAL & set(parts):
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


@pytest.mark.sample(1)
@pytest.mark.skipif(
    not all((SRC / room).is_dir() for room in ROOMS),
    reason=f"the commands have no folders of their own: {', '.join(ROOMS)}",
)
@pytest.mark.parametrize("package", PACKAGES)
def test_only_commands_load_what_speaks_to_a_terminal(package: str) -> None:
    """In its own process; a failure names the module and the file that imported it."""
    names = modules_of(package)
    assert len(names) > 10
    finished = subprocess.run(
        [sys.executable, "-c", IMPORTING], input=json.dumps(names), capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout.splitlines()[-1]) == {}


SEEKING = """
import sys
from simulation_flight_recorder import replay
sys.argv[:] = ["replay", "seek", sys.argv[1], "--tick", "3"]
try:
    replay()
except SystemExit as end:
    assert not end.code, end.code
unwanted = {"rich", "sim.worlds.meadow.shards.meadow_shard", "replayer.timeline.verify", "replayer.desync.finding"}
unwanted |= {"replayer.commands.seek_picture", "replayer.view.states.shown_layers"}
unwanted |= {"replayer.search.state_values", "replayer.report.tape_facts"}
print(*sorted(unwanted & set(sys.modules)), file=sys.stderr)
"""


def test_a_seek_starts_without_what_it_does_not_use(tmp_path: Path) -> None:
    """What other questions and worlds need takes longer to import than the seek itself."""
    tape = tmp_path / "run.tape"
    made = [sys.executable, "-m", "recorder", "run", "quiet-meadow", "--ticks", "5", "-q", "-o", str(tape)]
    subprocess.run(made, check=True, cwd=tmp_path)
    sought = [sys.executable, "-c", SEEKING, str(tape)]
    done = subprocess.run(sought, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr.strip()) == (0, "")
