"""All special kinds: by class, and by their names on a tape."""

from __future__ import annotations

import array
import functools
import itertools
from typing import Any

from sim.adapters.capture.graph.kinds.byte_kinds import ByteArray, MemoryView, NumberArray
from sim.adapters.capture.graph.kinds.dict_iterators import DICT_ITERATORS, DICT_VIEWS
from sim.adapters.capture.graph.kinds.itertools_kinds import Chain, Count, Cycle, Repeat
from sim.adapters.capture.graph.kinds.kind_protocol import SpecialKind
from sim.adapters.capture.graph.kinds.learned.exceptions import ExceptionKind, is_plain_exception
from sim.adapters.capture.graph.kinds.learned.pygame_numbers import PYGAME_KINDS
from sim.adapters.capture.graph.kinds.partial_kind import PartialKind
from sim.adapters.capture.graph.kinds.random_kinds import RANDOM_KINDS
from sim.adapters.capture.graph.kinds.sequence_iterators import SEQUENCE_ITERATORS, Enumerate
from sim.adapters.capture.graph.kinds.weak_references import WEAK_KINDS
from sim.kernel.class_names import module_of


def _is_iterator(value: Any) -> bool:
    return type(value) in _ITERATORS


_ITERATORS: dict[type, SpecialKind] = {
    **SEQUENCE_ITERATORS,
    **DICT_ITERATORS,
    enumerate: Enumerate(_is_iterator),
    itertools.count: Count(),
    itertools.repeat: Repeat(),
    itertools.cycle: Cycle(_is_iterator),
    itertools.chain: Chain(_is_iterator),
}

_EXCEPTION = ExceptionKind()
KINDS: dict[type, SpecialKind] = {
    **_ITERATORS,
    **DICT_VIEWS,
    bytearray: ByteArray(),
    array.array: NumberArray(),
    memoryview: MemoryView(),
    functools.partial: PartialKind(),
    **RANDOM_KINDS,
    **WEAK_KINDS,
}
KINDS_BY_NAME: dict[str, SpecialKind] = {kind.name: kind for kind in (*KINDS.values(), _EXCEPTION)} | PYGAME_KINDS


def learn_kind(kind: type) -> bool:
    """Return True for a class of a kind that is not known by one class; the class is among KINDS from then on."""
    by_name = PYGAME_KINDS.get(f"{module_of(kind)}.{kind.__qualname__}")
    known: SpecialKind | None = _EXCEPTION if is_plain_exception(kind) else by_name
    if known is None:
        return False
    KINDS[kind] = known
    return True
