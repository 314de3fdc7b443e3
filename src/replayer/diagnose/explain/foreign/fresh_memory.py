"""Values of two traces that are what fresh memory holds: such as the result of np.empty(), which differs from run to run.

That need not have an effect: the next lines may write all of it. Two such values count as equal where the search for a cause goes
past the operation that gave them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from replayer.diagnose.explain.step_trace import Operation, StepTrace

_GIVING = {"empty", "empty_like", "empty_strided"}
_PACKAGES = ("np.", "torch.")
_COMPUTING = ("np.", "ndarray.", "ndarray[")  # Of NumPy: what they give follows from what they get.
_DRAWING = "np.random."
FRESH = 1  # In place of the digest of such a value.

Pairs = Iterable[tuple[int | None, int | None]]  # The records of both traces that correspond.


def gives_fresh_memory(operation: str | None) -> bool:
    """Return True for an operation whose result is memory that nothing was written to."""
    return operation is not None and operation.startswith(_PACKAGES) and operation.rpartition(".")[2] in _GIVING


class FreshMemory:
    """The digests of such values in both traces, and of what NumPy made of them where all else that it got is the same."""

    def __init__(self, traces: tuple[StepTrace, StepTrace], pairs: Pairs) -> None:
        self._found: tuple[set[int], set[int]] = (set(), set())
        own, other = (_by_record(trace) for trace in traces)
        for first, second in pairs:
            if first is not None and second is not None:
                for one, two in zip(own[first], other[second], strict=False):
                    self._follow(one, two)

    def _follow(self, one: Operation, two: Operation) -> None:
        if one.name != two.name:
            return
        is_made = one.name.startswith(_COMPUTING) and not one.name.startswith(_DRAWING)
        if gives_fresh_memory(one.name) or (is_made and self.is_read_by(one) and self.are_same_inputs(one, two)):
            for found, operation in zip(self._found, (one, two), strict=True):
                found.update(operation.outputs)

    def digest(self, variant: int, digest: int | None) -> int | None:
        """A digest of one of the two traces, or FRESH."""
        return FRESH if digest in self._found[variant] else digest

    def is_read_by(self, operation: Operation) -> bool:
        """Return True if an operation of the first trace gets such a value."""
        return any(digest in self._found[0] for digest in operation.inputs)

    def are_same_inputs(self, one: Operation, two: Operation) -> bool:
        """Return True if two operations get the same apart from such values."""
        return self._known(0, one.inputs) == self._known(1, two.inputs)

    def are_same_outputs(self, one: Operation, two: Operation) -> bool:
        """Return True if two operations give the same apart from such values."""
        return self._known(0, one.outputs) == self._known(1, two.outputs)

    def _known(self, variant: int, digests: Sequence[int]) -> list[int | None]:
        return [self.digest(variant, digest) for digest in digests]


def _by_record(trace: StepTrace) -> dict[int, list[Operation]]:
    found = defaultdict[int, list[Operation]](list)
    for operation in trace.operations:
        found[operation.record].append(operation)
    return found
