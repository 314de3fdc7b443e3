"""Find out which of several values a copy needs together to continue like the live run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from recorder.ambient.ambient_diff import Candidate

GROUP_RUNS_MAX = 32  # Tries to leave out several at once; each costs a repetition of the period.

Suffices = Callable[[Sequence[Candidate]], bool]  # Of some candidates: a copy that is given these is equal.


def needed_together(
    candidates: Sequence[Candidate], single_count: int, suffices: Suffices
) -> tuple[list[Candidate], list[Candidate]]:
    """Of candidates that suffice together, some that do so too, and those of them of which it is not known.

    None of the others can be left out. single_count: the first candidates, which are left out one by one, after the
    later ones: all of these at once, and where that does not suffice in halves of them.
    """
    needed, untried = list(candidates), list[Candidate]()
    groups, runs = [list(candidates[single_count:])], 0
    while groups:
        group = groups.pop(0)
        rest = _without(needed, group)
        if not group or (runs < GROUP_RUNS_MAX and rest and suffices(rest)):
            needed = rest
        elif runs >= GROUP_RUNS_MAX:
            untried += group
        elif len(group) > 1:
            half = len(group) // 2
            groups += [group[:half], group[half:]]
        runs += bool(group)
    for one in candidates[:single_count]:
        rest = _without(needed, [one])
        if rest and suffices(rest):
            needed = rest
    return needed, untried


def _without(candidates: Sequence[Candidate], left_out: Sequence[Candidate]) -> list[Candidate]:
    return [one for one in candidates if not any(one is other for other in left_out)]
