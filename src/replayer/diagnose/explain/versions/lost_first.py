"""What load() of one version of the code loses, where no edit of a line was shown to make the difference."""

from __future__ import annotations

import attrs

from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.cause import Cause


def with_lost_first(explained: Explanation) -> Explanation:
    """Of two versions of the code, none of whose edits was shown to decide: load() of B first, if it loses what differs then.

    What an edited line reads may be what load() should have set, under another name.
    """
    lost, pair = explained.not_given_back, explained.pair
    step = pair[1].step if pair is not None else None
    if not explained.is_unshown or step is None or not lost:
        return explained
    differing = {one.name for one in explained.fields}
    told = [one for one in lost if one.field in differing]
    held = {f".{attribute.partition('.')[2]}" for one in told for attribute in one.held_in}
    lines = [line for one in told for line in one.lines]
    lines += [one.line for one in step.loaded if one.path in held]
    if not lines:
        return explained
    place = lines[0]
    cause = Cause("load", place, None, None, (), None, [], [], is_of_load=True)
    return attrs.evolve(explained, cause=cause)
