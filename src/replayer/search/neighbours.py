"""What is near a value that does not exist: the end of a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from replayer.search.names.printed_keys import can_be_typed
from replayer.search.names.value_names import NameStep, ValueName
from replayer.search.state_values import opened_value, step_in
from replayer.value_text import plain_text
from sim.near_names import did_you_mean, near_names

if TYPE_CHECKING:
    from sim.adapters.object_view.object_tree import ObjectTree
    from sim.adapters.object_view.shown_values import ShownPart

NAMES_SHOWN = 12  # In a message.


def unknown_name(name: ValueName, known: list[str]) -> str:
    """A line about a name that no state has, with those that are near it."""
    first, rest = str(name.steps[0]), "".join(map(str, name.steps[1:]))
    near = did_you_mean(str(name), known)
    if not near and rest and first not in known:
        near = did_you_mean(first, known, after=rest)
    if near:
        return f"there is no {str(name)!r}{near}"
    shown = ", ".join(known[:NAMES_SHOWN]) + (", …" if len(known) > NAMES_SHOWN else "")
    return f"there is no {str(name)!r}; there are {shown}" if known else f"there is no {str(name)!r}"


@attrs.frozen
class Neighbours:
    """What the deepest part of a path holds that a state has.

    Attributes:
        tick: of the state.
        path: that part: ``units[2]`` for ``units[2].helth``.
        steps: of what it holds, as they are written below it: ``.health``, ``['red']``.
        wrong, rest: the step that it lacks, and those after it.
        item_count: of a list that is too short; it has no other names to tell.
    """

    tick: int
    path: str
    steps: tuple[str, ...]
    wrong: str
    rest: str
    item_count: int | None = None

    def hint(self) -> str:
        """The end of a message about the path."""
        if self.item_count is not None:
            items = "no items" if not self.item_count else f"{self.item_count:,} item{'s' * (self.item_count > 1)}"
            return f"; {self.path} has {items} at tick {self.tick:,}"
        if not self.steps:
            return f"; {self.path} has no parts"
        # They are compared without what stands around them: a key of another type is what was meant.
        alike = {
            _bare(step): step for step in reversed(self.steps) if step[:1] == self.wrong[:1] and can_be_typed(step)
        }
        near = near_names(_bare(self.wrong), alike)
        if near:
            return f"; did you mean {' or '.join(plain_text(f'{self.path}{alike[one]}{self.rest}') for one in near)}?"
        shown = ", ".join(plain_text(step.removeprefix(".")) for step in self.steps[:NAMES_SHOWN])
        return f"; {self.path} has {shown}{', …' if len(self.steps) > NAMES_SHOWN else ''}"


def _bare(step: str) -> str:
    """A step without its dot, or without its brackets and quotes."""
    inner = step.removeprefix(".") if not step.startswith("[") else step[1:-1]
    return inner[1:-1] if len(inner) > 1 and inner[0] == inner[-1] and inner[0] in "'\"" else inner


def neighbours_of(tree: ObjectTree | None, tick: int, name: ValueName) -> Neighbours | None:
    """Return what the deepest part of a name holds; None if not even its first part exists, or it holds nothing.

    ``units[:]`` stands for the first item, and so does an index after the end of a list where more steps follow.
    """
    if tree is None:
        return None
    steps = list(name.steps)
    if len(steps) > 1 and f"{steps[0]}." == tree.prefix:
        steps = steps[1:]
    first = _first_entry(tree, steps)
    if first is None:
        return None
    at, entry = first
    short: Neighbours | None = None
    while at < len(steps):
        path = "".join(map(str, steps[:at])).removeprefix(".")
        opened = opened_value(entry.value)
        if isinstance(opened, np.ndarray):
            return None  # It has elements, and no names.
        step, rest = steps[at], "".join(map(str, steps[at + 1 :]))
        if opened is None:
            return Neighbours(tick, path, (), str(step), rest)
        entries = opened.entries
        found = _entry_of(entries, step)
        if found is None and opened.is_list and not opened.is_dict:
            short = short or Neighbours(tick, path, (), str(step), rest, len(entries))
            found = entries[0] if entries and step.kind == "index" else None
            if found is None:
                return short
        if found is None:
            return Neighbours(tick, path, tuple(one.step for one in entries), str(step), rest)
        entry, at = found, at + 1
    return short


def _first_entry(tree: ObjectTree, steps: Sequence[NameStep]) -> tuple[int, ShownPart] | None:
    """The outermost value that the steps begin with, and the number of its steps."""
    texts = list(map(str, steps))
    for length in range(len(texts), 0, -1):
        joined = "".join(texts[:length]).removeprefix(".")
        for entry in tree.entries:
            if entry.step == joined:
                return length, entry
    return None


def _entry_of(entries: Sequence[ShownPart], step: NameStep) -> ShownPart | None:
    if step.kind == "every":
        return entries[0] if entries else None
    if step.kind == "index" and int(step.value) < 0:
        return entries[int(step.value)] if -int(step.value) <= len(entries) else None
    return step_in(entries, step)


def no_such_value(name: ValueName, known: list[str], neighbours: Neighbours | None) -> str:
    """A line about a name that no state has. known: the outermost names."""
    return f"there is no {str(name)!r}{neighbours.hint()}" if neighbours is not None else unknown_name(name, known)
