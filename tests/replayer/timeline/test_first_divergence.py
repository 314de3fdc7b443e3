"""The first tick that differs, of a step that draws from a table of its module: a second run goes on where the first ended."""

from __future__ import annotations

import copy
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import recorder
import replayer
from recorder.errors import DesyncError
from replayer.commands.main import main

MODULE, TICKS, ASKED = "gaming_table", 60, 50
SOURCE = """
TABLE = [0, 1, 2, 3, 4, 1, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]
DRAWN = [0]


class Boat:
    def __init__(self):
        self.now, self.hull = 0, 100

    def step(self):
        self.now += 1
        if self.now in (5, 45, 46, 47, 48, 50):
            self.hull -= TABLE[DRAWN[0]]
            DRAWN[0] += 1
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / f"{MODULE}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    return importlib.import_module(MODULE)


@pytest.fixture
def tape(tmp_path: Path, module: ModuleType) -> Path:
    path = tmp_path / "boat.tape"
    boat: Any = recorder.record(module.Boat(), path, keyframe_interval_ticks=20, trial_ms=0)
    for _ in range(TICKS):
        boat.step()
    boat.close()
    module.DRAWN[0] = 0  # As in a new process.
    return path


def first_of_a_plain_run(module: ModuleType) -> int:
    """The first tick that differs where a copy of tick 40 steps in a new process."""
    live, hulls, saved = module.Boat(), [100], None
    for tick in range(1, TICKS + 1):
        live.step()
        hulls.append(live.hull)
        saved = copy.deepcopy(live) if tick == 40 else saved
    module.DRAWN[0] = 0
    assert saved is not None
    for tick in range(41, TICKS + 1):
        saved.step()
        if saved.hull != hulls[tick]:
            module.DRAWN[0] = 0
            return tick
    raise AssertionError


def test_a_seek_names_the_first_tick(tape: Path, module: ModuleType) -> None:
    first = first_of_a_plain_run(module)
    assert first == 45
    with replayer.open(tape, world=module.Boat) as run, pytest.raises(DesyncError, match="desync at tick 45: ") as told:
        run.seek(ASKED)
    assert told.value.tick == first
    assert told.value.finding.latest_tick is None


def test_a_factory_that_no_other_process_has(tape: Path, module: ModuleType, tmp_path: Path) -> None:
    def make() -> Any:
        return module.Boat()

    said = "desync at or before tick 50; at tick 46 of a later run: "
    with (
        replayer.open(tape, world=make, dump_folder=tmp_path / "dumps") as run,
        pytest.raises(DesyncError, match=said) as told,
    ):
        run.seek(ASKED)
    assert told.value.finding.latest_tick == ASKED
    assert "at or before tick 50" in (told.value.dump_path / "report.md").read_text()


@pytest.mark.usefixtures("module")
def test_who_says_it_in_one_line(tape: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["who", str(tape), "--field", "hull", "--at", str(ASKED), "--sim", f"{MODULE}:Boat"])
    captured = capsys.readouterr()
    assert (stopped.value.code, captured.out) == (1, "")
    (line,) = captured.err.splitlines()
    assert line.startswith("error: desync at tick 45: recorded hash ")
