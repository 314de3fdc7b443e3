"""The lines of ``replay seek --changes``."""

from __future__ import annotations

from replayer.desync.object_diff import ObjectDiff
from replayer.report.difference_text import StepChanges
from sim.adapters.object_view.object_comparison import ObjectDifference


def test_values_come_before_orders() -> None:
    """The first lines are all that is shown without --all."""
    orders = [ObjectDifference("order", f"seen[{number}]", "1, 2", "2, 1") for number in range(9)]
    hp = ObjectDifference("value", "units[12].hp", "30", "37")
    changes = StepChanges(4, ObjectDiff([*orders, hp], False, set()), [], False)
    assert changes.lines(whole=False)[1] == "  units[12].hp: before 30, after 37"
    assert changes.lines(whole=True)[-1].startswith("  order of seen[8]")


def test_the_cells_of_a_map_have_one_line() -> None:
    """What else changed is not hidden behind them; --all shows each."""
    cells = [ObjectDifference("value", f"fog[{number // 9}][{number % 9}]", "0", "1") for number in range(80)]
    gold = ObjectDifference("value", "gold", "3", "4")
    changes = StepChanges(4, ObjectDiff([*cells, gold], False, set()), [], False)
    assert changes.lines(whole=False)[1:] == [
        "  gold: before 3, after 4",
        "  fog[:][:]: 80 values changed, the first is fog[0][0]: before 0, after 1",
    ]
    assert len(changes.lines(whole=True)) == 82
    more = StepChanges(4, ObjectDiff(cells, True, set()), [], False)
    assert more.lines(whole=False)[1:] == [
        "  fog[:][:]: 80 or more values changed, the first is fog[0][0]: before 0, after 1",
        "  … and more: --all",
    ]


def test_what_was_asked_for_comes_first_and_the_rest_is_counted() -> None:
    """Also a value inside it, and an item of a set; a name that only begins alike is another one."""
    values = [ObjectDifference("value", f"units[{number}].hp", "1", "2") for number in range(30)]
    values += [ObjectDifference("value", f"{name}", "1", "2") for name in "abcdefghijkl"]
    values += [ObjectDifference("value", "goldsmith", "5", "6"), ObjectDifference("value", "gold", "3", "4")]
    values.append(ObjectDifference("value", "'ring' in items", "absent", "present"))
    changes = StepChanges(4, ObjectDiff(values, False, set()), [], False)
    shown = changes.lines(whole=False, asked=["gold", "items"])
    assert shown[1:3] == ["  gold: before 3, after 4", "  'ring' in items: before absent, after present"]
    whole = changes.lines(whole=True, asked=["gold"])
    assert whole[1] == "  gold: before 3, after 4"
    assert shown[-1] == f"  … and {2 + 12 + 1 + 1 - (len(shown) - 2)} more: --all"  # The thirty have one line.
