"""The trial before a recording names what a restore loses, and accuses no sound program."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import recorder
import replayer
from recorder.trial.trial import try_simulation
from sim.adapters import NotCapturedError
from sim.kernel.simulation import as_simulation

from restoring_programs import DEFECTS, FOLDER, SOUND, Defect, program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a trial needs Linux")
UNKNOWN = {"LostMember"}  # In copies of one process the object lives on: no test shows that the reference is lost.
TRIAL_MS = 2000


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the programs on the path of modules."""
    monkeypatch.syspath_prepend(FOLDER)


@pytest.mark.share(0.2)
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.program)
def test_what_a_restore_loses_is_named(defect: Defect) -> None:
    """By its path and kind; two names of one object by what became of them."""
    report = try_simulation(as_simulation(program(defect.program)()), TRIAL_MS)

    kinds = {
        "SplitLeader": "one object in the live run, two after the load",
        "SplitList": "one object in the live run, two after the load",
        "SharedDepot": "two objects in the live run, one after the load",
    }
    name = defect.program.partition(":")[2]
    expected = () if name in UNKNOWN else (f"{defect.name} ({kinds.get(name, defect.kind)})",)
    assert [finding.causes for finding in report.findings] == [expected]


@pytest.mark.share(0.15)
@pytest.mark.parametrize("name", SOUND)
def test_a_sound_program_is_not_accused(name: str) -> None:
    """Nothing is found."""
    report = try_simulation(as_simulation(program(name)()), TRIAL_MS)
    assert report.is_tested
    assert report.findings == ()


@pytest.mark.share(0.22)
@pytest.mark.parametrize("kind", ["Orders", "Names", "Positions"])
def test_recorded_games_keep_orders_names_and_positions(kind: str, tmp_path: Path) -> None:
    """What is lost by hand-written saves is saved of a recorded object."""
    make = program(f"recorded_games:{kind}")
    with recorder.record(make(), tmp_path / "run.tape", keyframe_interval_ticks=7, quiet=True) as game:
        for _ in range(40):
            game.step()

    with replayer.open(tmp_path / "run.tape", world=make) as run:
        assert run.verify().ok


@pytest.mark.tried
@pytest.mark.share(0.22)
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("RunningGenerator", r"RunningGenerator\.spawns \(generator\)"),
        ("MapAndZip", r"MapAndZip\.spawns \(map\)"),
        ("ClassMade", r"a step reads Unit\.made \(class attribute\)"),
        ("Memo", r"a step reads module memo_store: COSTS \(module global\)"),
        ("OwnCache", r"a step reads OwnCache\.cost \(cache\)"),
    ],
)
def test_what_cannot_be_saved_of_a_game_is_refused_by_name(kind: str, reason: str, tmp_path: Path) -> None:
    """Positions that Python does not give away, and values of classes and modules that a step reads."""
    program("module_memos:PureCache")  # With fresh memos.
    with pytest.raises(NotCapturedError, match=reason):
        recorder.record(program(f"recorded_games:{kind}")(), tmp_path / "run.tape", quiet=True, trial_ms=TRIAL_MS)
