"""Search the first bad commit as ``git bisect`` does: over the ancestry, by halves, around commits that cannot be tried.

Git orders the candidates; here is only what a try says about them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import attrs

from replayer.diagnose.bisect.repository import Commit, Repository

Verdict = Literal["good", "bad", "skipped"]
_RANDOM_RANGE = 1 << 15


@attrs.frozen
class TriedCommit:
    """A commit, and how the tape verifies under it.

    Attributes:
        commit: the commit.
        verdict: "good" if the tape verifies, "bad" if not, "skipped" if the simulation cannot be run.
        why: for a skipped one, the reason in one line.
        status: of the tape; None if it was not verified.
        first_bad: the first tick whose state differs; None for a commit that restores other values, and for a good one.
        fields: the fields that are known to differ at that tick.
        lines: where it differs and which values do, for people.
        is_form: True if no value was found to differ at the next keyframe, of which that is known.
    """

    commit: Commit
    verdict: Verdict
    why: str | None = None
    status: str | None = None
    first_bad: int | None = None
    fields: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    is_form: bool = False


@attrs.frozen
class SuspectCommit:
    """A commit that is the first bad one, or may be.

    Attributes:
        commit: the commit.
        files: the files that it changed.
        skipped: why it could not be tried; None for the one that is bad.
    """

    commit: Commit
    files: tuple[str, ...]
    skipped: str | None


@attrs.frozen
class Bisection:
    """The result of a search.

    Attributes:
        tried: the commits that were tried, in this order.
        suspects: the first bad commit; several, the oldest first, if those before it could not be tried; empty if there
            is none.
        bad: the result of the first bad commit, or of the oldest one that is known to be bad; None if there is none.
    """

    tried: list[TriedCommit]
    suspects: list[SuspectCommit]
    bad: TriedCommit | None


class BisectError(RuntimeError):
    """The two commits that were named leave nothing to search; the message says why."""


def search(repository: Repository, good: Commit, bad: Commit, try_commit: Callable[[Commit], TriedCommit]) -> Bisection:
    """Find the first bad commit after good, which is an ancestor of bad.

    Raises BisectError if good is not good, or bad cannot be tried, RepositoryError; and what try_commit raises.
    """
    tried = [try_commit(good)]
    if tried[0].verdict == "skipped":
        raise BisectError(
            _cannot_run_text("--good", tried[0], "name another one before --bad, under which it verifies")
        )
    if tried[0].verdict == "bad":
        raise BisectError(_not_good_text(tried[0], try_commit(bad)))
    tried.append(try_commit(bad))
    if tried[1].verdict == "skipped":
        raise BisectError(_cannot_run_text("--bad", tried[1], "name a commit under which it runs"))
    if tried[1].verdict == "good":
        return Bisection(tried, [], None)
    first_bad, goods, skipped = tried[1], [good.id], dict[str, TriedCommit]()
    while True:
        candidates = repository.candidates(first_bad.commit.id, goods)
        number = _next_to_try(candidates, skipped)
        if number == first_bad.commit.id:
            break
        result = try_commit(repository.described(number))
        tried.append(result)
        match result.verdict:
            case "good":
                goods.append(number)
            case "bad":
                first_bad = result
            case "skipped":
                skipped[number] = result
    left = repository.oldest_first(first_bad.commit.id, goods)
    suspects = [
        SuspectCommit(one, tuple(repository.changed_files(one)), skipped[one.id].why if one.id in skipped else None)
        for one in left
    ]
    return Bisection(tried, suspects, first_bad)


def _next_to_try(candidates: Sequence[str], skipped: dict[str, Any]) -> str:
    """The best candidate; the bad commit, which is the last one, if no other is left.

    If the best one was skipped, its neighbours probably cannot be tried either: then one some way from it, drawn as
    ``git bisect skip`` does, nearer ones more often.
    """
    left = [number for number in candidates if number not in skipped]
    if left[0] == candidates[0]:
        return left[0]
    drawn = ((len(left) * 1103515245 + 12345) % (1 << 32) >> 16) % _RANDOM_RANGE
    place = len(left) * drawn // _RANDOM_RANGE * math.isqrt(drawn) // math.isqrt(_RANDOM_RANGE)
    return left[place - 1] if place == len(left) - 1 and place else left[place]


def _name(option: str, tried: TriedCommit) -> str:
    return f"{option} {tried.commit.short_id} ({tried.commit.subject})"


def _cannot_run_text(option: str, tried: TriedCommit, advice: str) -> str:
    return f"the simulation cannot be run under {_name(option, tried)}: {tried.why}; {advice}"


def _not_good_text(good: TriedCommit, bad: TriedCommit) -> str:
    """Why there is nothing to search if the tape does not verify under the good commit, by what it does under the bad one."""
    where = f" from tick {good.first_bad:,} on" if good.first_bad is not None else ""
    text = f"the tape does not verify under {_name('--good', good)}{where}"
    advice = "name a commit before --bad under which it verifies, such as that of the recording"
    if bad.verdict == "bad":
        return f"{text} either: {advice}"
    if bad.verdict == "good":
        return f"{text}, but under {_name('--bad', bad)}: name as --good a commit under which it verifies, and as --bad a later one"
    return f"{text}: {advice}"
