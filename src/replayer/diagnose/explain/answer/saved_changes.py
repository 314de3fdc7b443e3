"""The changes that a step made to what save() reads, and in place to what differed before it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from replayer.diagnose.explain.align import HERE, HIDDEN, Alignment, ValueOrigin
from replayer.diagnose.explain.cause import SourceLocation, is_save

_ELEMENTS = re.compile(
    r"\s*([\w.]+)\[.*\]\s*(?:[-+*/%&|^@]|//|\*\*|<<|>>)="
)  # An assignment that reads and writes them.
Parents = Callable[[int], Iterable[tuple[str, ValueOrigin]]]  # Values that an item reads and that differ, with origins.


def changed_before_save(
    alignment: Alignment, item: int, outside: Sequence[str], parents: Parents
) -> tuple[str, ValueOrigin] | None:
    """Of values that a line of save() reads, and that differed before the step: the first change by the step.

    Preferred is a change by a line that reads more that differs, such as the variable of a loop. None if the item is not
    of save(), or nothing was changed.
    """
    records = [None if one.first is None else alignment.first.records[one.first] for one in alignment.items]
    saving = records[item]
    if saving is None or not is_save(saving.function):
        return None
    changes = [
        (name, ValueOrigin(HERE, place))
        for place, record in enumerate(records[:item])
        if record is not None and not is_save(record.function)
        for name in outside
        if name in record.after
    ]
    telling = (one for one in changes if any(where.kind != HIDDEN for _, where in parents(one[1].item)))
    return next(telling, changes[0] if changes else None)


def changed_in_place(alignment: Alignment, names: Sequence[str], before: SourceLocation) -> list[tuple[int, str]]:
    """Items that change elements of a value which differed before the step, with its name, as grid[2:5] += 1 does: one of each line.

    names: of values that differed before the step. before: the line at which the search ends; later ones are left out.
    """
    found: dict[tuple[str, int], tuple[int, str]] = {}
    for item, pair in enumerate(alignment.items):
        if pair.first is None or pair.second is None:
            continue
        one, other = alignment.first.records[pair.first], alignment.second.records[pair.second]
        statement = alignment.source(one.path).statement(one.line)
        first_line = one.line if statement is None else statement.first_line
        if (one.path, first_line) == (before.path, before.line):
            break
        target = _ELEMENTS.match(alignment.source(one.path).statement_text(one.line))
        for name in names if target is not None else ():
            is_target = target is not None and target[1].rpartition(".")[2] == name.rpartition(":")[2]
            if is_target and name in one.after and name in map(alignment.name_in_first, other.after):
                found.setdefault((one.path, first_line), (item, name))
    return list(found.values())
