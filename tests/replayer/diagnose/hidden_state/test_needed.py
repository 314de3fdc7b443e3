"""Of many values that bring back the state together, those without which they do not are found in few runs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from recorder.ambient.ambient_diff import Candidate
from replayer.diagnose.hidden_state.needed import GROUP_RUNS_MAX, needed_together


@pytest.mark.parametrize("wanted", [(3,), (3, 95), (40, 77), (60, 61, 62)])
def test_what_is_needed_is_found_among_many(wanted: tuple[int, ...]) -> None:
    """Those later in the list too, in few runs."""
    candidates, runs = [Candidate(str(number), "attribute", "", ()) for number in range(100)], []

    def suffices(some: Sequence[Candidate]) -> bool:
        runs.append(len(some))
        return {str(number) for number in wanted} <= {one.name for one in some}

    needed, untried = needed_together(candidates, 16, suffices)
    assert [int(one.name) for one in needed] == sorted(wanted)
    assert untried == []
    assert len(runs) <= 16 + GROUP_RUNS_MAX


def test_what_was_not_tried_is_not_said_to_be_needed() -> None:
    """Where too many cannot be left out, the search ends."""
    candidates = [Candidate(str(number), "attribute", "", ()) for number in range(100)]
    needed, untried = needed_together(candidates, 16, lambda some: len(some) == 100)
    assert needed == candidates
    assert 0 < len(untried) <= 84
    assert not {one.name for one in untried} & {one.name for one in candidates[:16]}
