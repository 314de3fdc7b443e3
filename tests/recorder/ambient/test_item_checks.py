"""One look at the items of many mappings tells what a look at each tells."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from recorder.ambient.outside.outside_checks import ItemChecks, SameItems, SameNames
from sim.kernel.memory import object_memory


class Held:
    """A class with an attribute."""

    flag: Any = 0


@pytest.fixture(params=[True, False], ids=["by memory", "by id"])
def mappings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A namespace of a module and of a class, and two dicts."""
    if not request.param:
        monkeypatch.setattr(object_memory, "pointers_are_known", lambda: False)
    module = ModuleType("held")
    vars(module).update(a=[1], b=2.5, __doc__="text")
    monkeypatch.setattr(Held, "flag", 0)
    return {"module": vars(module), "class": vars(Held), "dict": {"x": 1.5, "y": (1,)}, "empty": {}}


def _checks(mappings: dict[str, Any]) -> ItemChecks:
    return ItemChecks(
        [
            SameNames(mappings["module"]),
            SameNames(mappings["class"]),
            *map(SameItems, (mappings["dict"], mappings["empty"])),
        ]
    )


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("module", lambda one: one.update(b=float("2.5"))),  # Equal is not the same.
        ("module", lambda one: one.update(c=None)),
        ("class", lambda _: setattr(Held, "flag", 1)),
        ("dict", lambda one: one.update(x=-0.0)),
        ("dict", lambda one: one.update(x=one.pop("x"))),  # The order.
        ("dict", lambda one: one.update({"z": one.pop("y")})),
        ("empty", lambda one: one.update(x=1)),
        ("dict", lambda one: one.clear()),
    ],
)
def test_each_change_is_seen(mappings: dict[str, Any], name: str, change: Any) -> None:
    check = _checks(mappings)
    assert check()
    assert check()
    change(mappings[name])
    assert not check()


def test_names_that_python_writes_itself_may_come_and_go(mappings: dict[str, Any]) -> None:
    check = _checks(mappings)
    mappings["module"]["__warningregistry__"] = {}
    assert check()
    mappings["module"]["a"] = [1]
    assert not check()


def test_an_item_that_moves_to_the_next_mapping_is_seen() -> None:
    """The items of all together are the same ones, in the same order."""
    value = 1.5
    one, other = {"x": value}, {}
    check = ItemChecks([SameItems(one), SameItems(other)])
    other["x"] = one.pop("x")
    assert not check()
