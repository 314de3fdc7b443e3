"""The changes that a step made to what save() reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from replayer.diagnose.explain.align import HERE, HIDDEN, Alignment, ValueOrigin
from replayer.diagnose.explain.cause import is_save

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
