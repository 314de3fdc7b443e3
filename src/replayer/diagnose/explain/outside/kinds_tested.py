"""The kinds of reads of the outside world on which a step is seen to depend, where nothing else is named already."""

from __future__ import annotations

import attrs

from replayer.diagnose.explain.answer.explanation import DecidingReads, Explanation
from replayer.diagnose.explain.outside.differing_reads import Run, dependent_reads, differing_reads, raising_reads
from replayer.diagnose.explain.variants import VariantOutcome, traced_present


@attrs.frozen
class KindsTested:
    """The tests of one step by stand-ins.

    Attributes:
        asked: True if the caller named the variants: then nothing is tested.
        run: runs variants from these starts.
    """

    asked: bool
    run: Run

    def differs_by(self, explained: Explanation, pair: tuple[VariantOutcome, VariantOutcome]) -> DecidingReads | None:
        """The kind of reads by which two variants differ."""
        present = traced_present(explained.variants)
        is_named = explained.replaced is not None or any(one.proved for one in explained.settings)
        if self.asked or is_named or _is_proved(explained) or present is None or present.step is None:
            return None
        return differing_reads(explained.cause, pair, present.step, self.run)

    def raises_by(self, explanation: Explanation) -> DecidingReads | None:
        """The kind of reads by which the step raises."""
        present = traced_present(explanation.variants)
        return None if self.asked or present is None else raising_reads(present, self.run)

    def depends_on(self, explained: Explanation) -> DecidingReads | None:
        """The kind of reads on which the state depends, if neither a line nor a variant tells the cause."""
        present = traced_present(explained.variants)
        is_known = explained.replaced or explained.differs_by or any(one.proved for one in explained.settings)
        is_told = explained.cause is not None and explained.cause.kind not in ("unseen", "line", "branch")
        if self.asked or is_known or (is_told and not explained.is_refuted) or present is None:
            return None
        return dependent_reads(present, self.run)


def _is_proved(explained: Explanation) -> bool:
    """Return True if a value that one of two instances keeps was seen to make the difference.

    Stand-ins may give both one state only because neither finds what it keeps, such as under the address of an object. An
    order follows from what it is made of: addresses may still be the cause of it.
    """
    proved = explained.given.proved if explained.given is not None else ()
    return any(not one.is_order for one in proved)
