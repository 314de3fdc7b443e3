"""Let the functions that count processors tell the code of this process another number."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from replayer.diagnose.explain.outside.replaced_files import replace_files

AFFINITY = "os.sched_getaffinity"
COUNTS = ("os.cpu_count", "os.process_cpu_count", AFFINITY)


def tell_counts(counts: Mapping[str, int], is_own: Callable[[str], bool]) -> None:
    """Replace these functions in os and the user's modules. Only in a copy. is_own: see OwnCode."""
    substitutes: dict[int, tuple[Any, Any]] = {}
    for name, count in counts.items():
        original = getattr(os, name.removeprefix("os."), None)
        if original is not None:
            told = _processors(original, count) if name == AFFINITY else _number(count)
            substitutes[id(original)] = original, told
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if not isinstance(names, dict) or not (module is os or is_own(getattr(module, "__file__", None) or "")):
            continue
        for name, value in list(names.items()):
            if id(value) in substitutes and substitutes[id(value)][0] is value:
                names[name] = substitutes[id(value)][1]


def replace_reads(replaced: Sequence[Any], is_own: Callable[[str], bool]) -> None:
    """Replace files and counts of processors, as a job of a variant tells them."""
    missing, times_ns, folder, emptied, counts = replaced
    replace_files(missing, times_ns, Path(folder), is_own, emptied)
    tell_counts(counts, is_own)


def _number(count: int) -> Callable[..., int]:
    return lambda *_, **__: count


def _processors(original: Any, count: int) -> Callable[..., set[int]]:
    """Which ones they were is not known: the usable ones, and the next numbers."""

    def substitute(*arguments: Any) -> set[int]:
        usable = sorted(original(*arguments))
        more = (number for number in range(len(usable) + count) if number not in usable)
        return {*usable[:count], *(next(more) for _ in range(count - len(usable)))}

    return substitute
