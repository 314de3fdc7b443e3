"""check names what a restore loses: orders, names of one object, positions, counts of classes, memos, weak references."""

from __future__ import annotations

import pytest

from replayer import SyncTest
from replayer.diagnose.hidden_state.report import SyncReport, report_lines

from restoring_programs import DEFECTS, FOLDER, OTHER_DEFECTS, SOUND, Defect, marked_line, program

pytestmark = pytest.mark.share(0.22)
ALL_DEFECTS = [*DEFECTS, *OTHER_DEFECTS]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the programs on the path of modules."""
    monkeypatch.syspath_prepend(FOLDER)


def checked(name: str) -> SyncReport:
    """Run the test of a program."""
    return SyncTest(program(name), ticks=60, puts_back=True).run()


@pytest.mark.parametrize("defect", ALL_DEFECTS, ids=lambda defect: defect.program)
def test_what_a_restore_loses_is_named_with_its_line(defect: Defect) -> None:
    """Nothing else is suspected. The line that reads it is among those that ran and name it."""
    report = checked(defect.program)

    assert not report.ok
    assert [(one.name, one.kind, one.proved) for one in report.suspects] == [
        (defect.name, defect.kind, defect.is_proved)
    ]
    assert marked_line(defect.program) in report.suspects[0].lines


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_program_is_not_accused(name: str) -> None:
    """It looks like one that loses something."""
    report = checked(name)
    assert report.ok, "\n".join(report_lines(name, report))


def test_a_cause_outside_of_all_values_is_not_known() -> None:
    """The counts of the garbage collector: nothing is named."""
    report = checked("weak_members:CountsCollections")
    assert (report.ok, report.suspects) == (False, [])


@pytest.mark.parametrize(
    ("name", "contrast"),
    [
        ("dict_orders:SortedBag", "… 'wood', 'salt', 'fish' in the live run, … 'fish', 'salt', 'wood' for the copy"),
        ("split_aliases:SplitList", "one object in the live run, two after the load"),
        ("split_aliases:SharedDepot", "two objects in the live run, one after the load"),
        ("iterator_positions:RestartedCycle", "continues with 8, 3, 5 in the live run, with 3, 5, 8 for the copy"),
        ("iterator_positions:RestartedGenerator", "the position of a generator cannot be saved"),
        ("class_counts:ClassIds", "iterator: continues with 1, 2, 3 in the live run, with 14, 15, 16 for the copy"),
        ("module_memos:MemoById", "its keys are addresses of objects"),
        ("weak_members:LostMember", "refers to birds[3] in the live run, to an object that has ended for the copy"),
    ],
)
def test_the_contrast_is_in_the_users_terms(name: str, contrast: str) -> None:
    """Positions by what comes next, orders by the items, references by the path of their object."""
    [suspect] = checked(name).suspects
    assert contrast in str(suspect)


def test_watching_a_run_that_sees_ends_of_objects_is_not_held_against_it() -> None:
    """Values that are kept for comparison keep members of a WeakSet alive: so none are kept."""
    report = checked("weak_members:CountedMembers")

    assert report.ok
    assert report.tick_count == 60
    assert any("kept for comparison" in note for note in report.notes)


def test_modules_and_classes_can_be_left_as_before() -> None:
    """What is tried next begins as this did."""
    kind = program("class_counts:OnlyCounted")
    unit = kind.step.__globals__["Unit"]

    SyncTest(kind, ticks=20, puts_back=True).run()
    assert unit.count == 0
    SyncTest(kind, ticks=20).run()
    assert unit.count == 20
