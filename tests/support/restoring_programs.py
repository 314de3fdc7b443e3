"""The programs in the folder restoring: which lose something by a restore, what, where; and which are sound."""

from __future__ import annotations

import importlib
from typing import Any

import attrs

from project_paths import SUPPORT

FOLDER = SUPPORT / "restoring"


@attrs.frozen
class Defect:
    """What a restore loses of a program.

    Attributes:
        program: module:class.
        name, kind: as check names it.
        is_proved: True if check can give the copy the live run's value.
        outside: as explain names it in the line that reads it; two names of one object, for those.
    """

    program: str
    name: str
    kind: str
    is_proved: bool
    outside: str


DEFECTS = [
    Defect("dict_orders:SortedBag", "SortedBag.bag", "order of a dict", True, "self.bag"),
    Defect("dict_orders:SortedByLoad", "SortedByLoad.bag", "order of a dict", True, "self.bag"),
    Defect("dict_orders:SortedQueue", "SortedQueue.bag", "order of a dict", True, "self.bag"),
    Defect("split_aliases:SplitLeader", "SplitLeader.leader and SplitLeader.units[2]", "alias", True, "leader, units[2]"),
    Defect("split_aliases:SplitList", "SplitList.queue and SplitList.waiting", "alias", True, "queue, waiting"),
    Defect("split_aliases:SharedDepot", "SharedDepot.near and SharedDepot.far", "alias", True, "near, far"),
    Defect("iterator_positions:RestartedCycle", "RestartedCycle.turns", "iterator", True, "self.turns"),
    Defect("iterator_positions:ForgottenCycle", "ForgottenCycle.turns", "iterator", True, "self.turns"),
    Defect("iterator_positions:RestartedIterator", "RestartedIterator.deck", "iterator", True, "self.deck"),
    Defect("iterator_positions:RestartedEnumerate", "RestartedEnumerate.waves", "iterator", True, "self.waves"),
    Defect("iterator_positions:RestartedGenerator", "RestartedGenerator.spawns", "generator", False, "self.spawns"),
    Defect("class_counts:ClassCount", "Unit.count", "class attribute", True, "Unit.count"),
    Defect("class_counts:ClassIds", "Unit._ids", "class attribute", True, "Unit._ids"),
    Defect("module_memos:MemoOfModule", "module memo_store: COSTS", "module global", True, "memo_store.COSTS"),
    Defect("module_memos:CacheOfModule", "module memo_store: path_cost", "cache", True, "memo_store.path_cost"),
    Defect("module_memos:CacheOfMethod", "CacheOfMethod.way", "cache", True, "CacheOfMethod.way"),
    Defect("module_memos:MemoById", "module memo_store: BY_ID", "module global", True, "memo_store.BY_ID"),
    Defect("weak_members:WeakValuesOrder", "WeakValuesOrder.by_name", "order of a WeakValueDictionary", True, "self.by_name"),
    Defect("weak_members:LostMember", "LostMember.favourite", "weak reference", True, "self.favourite"),
]  # fmt: skip
OTHER_DEFECTS = [
    Defect("module_memos:MemoByUnit", "module memo_store: BY_UNIT", "module global", True, ""),
    Defect("iterator_positions:CycleInTuple", "module iterator_positions: KEPT", "module global", True, ""),
    Defect("iterator_positions:CycleInPartial", "module iterator_positions: draw", "module global", True, ""),
    Defect("set_orders:RebuiltSet", "RebuiltSet.cells", "order of a set", True, ""),  # explain names no set: its order.
    Defect("weak_members:WeakSetOrder", "WeakSetOrder.watched", "order of a WeakSet", False, ""),
    Defect("weak_members:CountedByClass", "Swift.flying", "class attribute", True, ""),
    Defect("weak_members:CountsEnds", "Kite.fallen", "class attribute", True, ""),
]
SOUND = [
    "dict_orders:KeptBag",
    "dict_orders:SummedBag",
    "set_orders:SortedSteps",
    "set_orders:AskedSet",
    "split_aliases:JoinedLeader",
    "split_aliases:ReadLeader",
    "iterator_positions:CountedCycle",
    "iterator_positions:ConstantGenerator",
    "iterator_positions:UnreadIterator",
    "iterator_positions:UnreadSpinner",
    "class_counts:OnlyCounted",
    "class_counts:SavedCount",
    "module_memos:PureCache",
    "module_memos:WrittenMemo",
    "weak_members:SortedWatch",
    "weak_members:UnreadEnds",
    "weak_members:CountedMembers",
]


def program(name: str) -> Any:
    """The class of a program, from a module that is loaded again, with fresh classes, globals and caches."""
    module, _, kind = name.partition(":")
    if module == "module_memos":
        importlib.reload(importlib.import_module("memo_store"))
    return getattr(importlib.reload(importlib.import_module(module)), kind)


def marked_line(name: str) -> str:
    """The line of a program that reads what a restore loses, as file.py:12."""
    kind = name.partition(":")[2]
    for path in sorted(FOLDER.glob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.endswith(f"# HERE: {kind}"):
                return f"{path.name}:{number}"
    raise AssertionError(name)
