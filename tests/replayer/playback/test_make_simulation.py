"""Naming a simulation on the command line, and worlds in other versions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import attrs
import pytest

import replayer.playback.make_simulation
from recorder import Recorder
from recorder.factory_spec import load_factory
from replayer import Tape
from replayer.playback.make_simulation import version_note
from sim import find_world
from sim.scenario.scenario_file import load_scenario


def test_a_factory_is_found_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """module:attribute, also with nested attributes, is imported from the current folder."""
    (tmp_path / "my_walks.py").write_text("class Outer:\n    class Walk:\n        steps = 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    assert load_factory("my_walks:Outer.Walk")().steps == 3


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("walks", "expected module:factory"),
        (":Walk", "expected module:factory"),
        ("walks:", "expected module:factory"),
        ("no_such_module_anywhere:Walk", "No module named 'no_such_module_anywhere'"),
        ("json:no_such_name", "has no attribute 'no_such_name'"),
        ("json:__name__", "json:__name__: expected a class or function to call, got str"),
    ],
)
def test_what_is_no_factory_is_refused_in_a_sentence(spec: str, text: str) -> None:
    """The message repeats the argument and states what is wrong."""
    with pytest.raises(ValueError, match=text):
        load_factory(spec)


def test_a_users_file_with_the_name_of_a_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For --sim sim:Mine with sim.py in the current folder, the message states how the file is named."""
    (tmp_path / "sim.py").write_text("class Mine: ...\n")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ValueError, match=r"sim:Mine: sim is one of our packages; name your file as \./sim\.py:Mine"):
        load_factory("sim:Mine")


def test_a_different_version_of_the_world_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tape of one version under another installed version gets a sentence; under the same version none."""
    scenario = load_scenario("quiet-meadow")
    with Recorder(tmp_path / "run.tape", scenario.world.make(scenario.config)) as recorder:
        recorder.step([])
    with Tape(tmp_path / "run.tape") as tape:
        assert version_note(tape) is None
        newer = attrs.evolve(find_world("meadow"), version=99)
        monkeypatch.setattr(replayer.playback.make_simulation, "find_world", lambda _: newer)

        assert version_note(tape) == ("recorded with version 4 of meadow, version 99 is installed: expect a desync")


IMPORTING = """
import sys
from pathlib import Path
import recorder

Path("herd.py").write_text("class Herd:\\n    def __init__(self):\\n        self.heads = [1, 2]\\n"
                           "    def step(self, inputs):\\n        self.heads.append(3)\\n")
sys.path.insert(0, ".")
import herd
with recorder.record(herd.Herd(), "herd.tape", trial_ms=0, quiet=True) as run:
    run.step(None)
"""
MAKING = """
import sys
sys.path.insert(0, ".")
import herd
from replayer.playback.make_simulation import import_adapters, make_simulation
from replayer.tape.tape import Tape

with Tape("herd.tape") as tape:
    import_adapters(tape)
    before = set(sys.modules)
    make_simulation(tape, herd.Herd)
print(*sorted(set(sys.modules) - before))
"""


def test_copies_of_a_process_import_nothing_to_make_an_object(tmp_path: Path) -> None:
    """Each copy would import it again: that took most of its time."""
    for code in (IMPORTING, MAKING):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout == "\n"
