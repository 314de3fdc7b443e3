"""The examples run in an empty folder and print what they found. Each of them compares its results with live runs itself."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from project_paths import ROOT

EXAMPLES = ROOT / "examples"
LESSON = ROOT / "docs/tutorial/1-record.md"
NEEDED = {
    "mesa_model.py": ("mesa",),
    "jax_batch.py": ("gymnasium", "jax", "flax"),
}
PRINTED = {
    "mesa_model.py": ["day 25: 21 ill, as in the live run; all days the same: True", "12 ill, as in a plain loop"],
    "bug_hunt.py": ["no: tick 41 differs", "in Ferry.fare: return FARES[kind]", "bug_hunt.FARES", "FARES: proved"],
    "jax_batch.py": [
        "each seek gives the observations of the live run",
        "all ticks the same: True",
        "1874 transitions",
    ],
}


def run(example: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run an example in a folder."""
    command = [sys.executable, str(EXAMPLES / example), *arguments]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(EXAMPLES)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize(
    "example", [pytest.param(one, marks=pytest.mark.long if "jax" in NEEDED.get(one, ()) else ()) for one in PRINTED]
)
def test_an_example_finds_what_it_promises(example: str, tmp_path: Path) -> None:
    """It ends well and prints its findings."""
    for name in NEEDED.get(example, ()):
        pytest.importorskip(name)
    done = run(example, tmp_path)
    assert done.returncode == 0, done.stderr
    assert [text for text in PRINTED[example] if text not in done.stdout] == [], done.stdout


@pytest.mark.seldom(0.18)
def test_players_in_lockstep_agree_and_see_a_cheat_at_its_turn(tmp_path: Path) -> None:
    """Both tapes hold the same run; where the guest's game differs from turn 60 on, both stop there with a dump."""
    fair = run("lockstep_tcp.py", tmp_path)
    assert fair.returncode == 0, fair.stderr
    scores = set(re.findall(r"200 turns, score (.+)$", fair.stdout, re.MULTILINE))
    assert len(scores) == 1
    sys.path.insert(0, str(EXAMPLES))  # The fixture path_of_modules takes it away.
    game = importlib.import_module("lockstep_tcp")
    plain = game.Arena()  # The same in a loop, without a network and without a recorder.
    for _ in range(game.TURNS):
        plain.turn({role: game.choose(plain, role) for role in game.ROLES})
    assert scores == {str(plain.score)}

    for path in tmp_path.iterdir():
        path.unlink()
    cheated = run("lockstep_tcp.py", tmp_path, "--cheat", "60")
    assert cheated.returncode == 1
    assert cheated.stderr.count("desync with a peer at tick 60") == 2
    assert {path.name for path in tmp_path.iterdir()} == {
        "guest.tape",
        "host.tape",
        "guest.peer-desync-60",
        "host.peer-desync-60",
    }


def test_the_files_of_the_first_lesson_are_the_example() -> None:
    """examples/outpost has the files that a reader saves. The lessons themselves run them."""
    blocks = re.findall(
        r'^```\w+ title="([^"]+)"\n(.+?)^```$', LESSON.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    shown = {name: text for name, text in blocks if name != "crash.py"}
    kept = {path.name: path.read_text(encoding="utf-8") for path in (EXAMPLES / "outpost").glob("*.py")}
    assert kept == shown
    assert set(kept) == {"outpost.py", "players.py", "play.py"}
