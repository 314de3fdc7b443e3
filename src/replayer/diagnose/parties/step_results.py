"""Compare what parties gave in several runs of one step with what is on the tapes, and with what they gave first."""

from __future__ import annotations

from collections.abc import Sequence

from replayer.diagnose.parties.party import Party
from replayer.diagnose.parties.party_runner import PartyAnswer, PartyFailedError, PartyRun, StepResult


def has_result(answer: PartyAnswer, state_hash: int) -> bool:
    """Return True if a run gave the state with this hash."""
    return any(run.result == (state_hash, None) for run in answer.runs)


def chosen_run(answer: PartyAnswer | None, state_hash: int) -> PartyRun | None:
    """The run that is as recorded, otherwise the first one that reached the tick."""
    if answer is None:
        return None
    reached = [run for run in answer.runs if run.result is not None]
    right = [run for run in reached if run.result == (state_hash, None)]
    return next(iter([*right, *reached]), None)


def varying_sides(
    results: Sequence[PartyRun | PartyFailedError], expected: Sequence[StepResult]
) -> tuple[list[int], str | None]:
    """The sides whose repetitions do not all give what is expected, as indices; and why one could not be run.

    results: of all sides, once for each repetition.
    """
    failed = [str(one) for one in results if isinstance(one, PartyFailedError)]
    failed += [one.why_not for one in results if isinstance(one, PartyRun) and one.why_not is not None]
    given = [
        (number % len(expected), one.result)
        for number, one in enumerate(results)
        if isinstance(one, PartyRun) and one.result is not None
    ]
    return sorted({side for side, result in given if result != expected[side]}), next(iter(failed), None)


def outcome_of(run: PartyRun | PartyFailedError, own: list[StepResult]) -> str | None:
    """Whose result a run gave: A, B or other; None if it was not reached."""
    if isinstance(run, PartyFailedError) or run.result is None:
        return None
    return "A" if run.result == own[0] else "B" if run.result == own[1] else "other"


def brought_to(changed: Party, run: PartyRun | PartyFailedError) -> list[str]:
    """The modules that a changed party loaded from the other one, because it has none of these names itself."""
    if isinstance(run, PartyFailedError) or run.made is None:
        return []
    return [name for name, file in changed.lent.items() if run.made.modules.get(name) == file]
