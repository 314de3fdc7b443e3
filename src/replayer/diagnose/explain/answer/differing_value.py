"""A value that differs between two traces, with its elements or parts that differ."""

from __future__ import annotations

from replayer.desync.ulps import compare_elements
from replayer.diagnose.explain.cause import DifferingValue
from replayer.diagnose.explain.step_trace import StepTrace
from replayer.diagnose.explain.values.value_parts import differing_parts, named_part

ABSENT, NOT_KEPT = "absent", "not kept"


def differing_value(
    traces: tuple[StepTrace, StepTrace],
    name: str,
    digests: tuple[int | None, int | None],
    missing: tuple[str, str] = (ABSENT, ABSENT),
) -> DifferingValue:
    """A value of both traces, by its digests. name: for people. missing: what to tell of a side whose digest is None."""
    pairs = list(zip(traces, digests, strict=True))
    texts = [
        trace.texts.get(digest, "?") if digest is not None else text
        for (trace, digest), text in zip(pairs, missing, strict=True)
    ]
    arrays = [trace.arrays.get(digest or 0) for trace, digest in pairs]
    elements = compare_elements(arrays[0], arrays[1]) if arrays[0] is not None and arrays[1] is not None else None
    kept = [trace.parts.get(digest or 0, {"": text}) for (trace, digest), text in zip(pairs, texts, strict=True)]
    parts = [(named_part(name, path), one, other) for path, one, other in differing_parts(kept[0], kept[1])]
    return DifferingValue(name, texts[0], texts[1], elements, parts)
