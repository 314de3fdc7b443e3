"""Compare what parties gave in several runs of one step with what is on the tapes, and with what they gave first."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import attrs

from recorder.text import shown_path
from replayer.diagnose.parties.differences.factor import Factor
from replayer.diagnose.parties.differences.module_files import same_file
from replayer.diagnose.parties.party import Made, Party
from replayer.diagnose.parties.party_explanation import FactorTest
from replayer.diagnose.parties.party_runner import PartyAnswer, PartyFailedError, PartyRun, StepResult


def has_result(answer: PartyAnswer | None, state_hash: int) -> bool:
    """Return True if a run gave the state with this hash."""
    return answer is not None and any(run.result == (state_hash, None) for run in answer.runs)


def are_recorded(answers: Sequence[PartyAnswer | None], recorded: Sequence[int]) -> bool:
    """Return True if the first run of each party that ran at all gives what its tape has."""
    pairs = zip(answers, recorded, strict=True)
    return all(one is None or one.runs[0].result == (state_hash, None) for one, state_hash in pairs)


def chosen_run(answer: PartyAnswer | None, state_hash: int) -> PartyRun | None:
    """The run that is as recorded, otherwise the first one that reached the tick."""
    if answer is None:
        return None
    reached = [run for run in answer.runs if run.result is not None]
    right = [run for run in reached if run.result == (state_hash, None)]
    return next(iter([*right, *reached]), None)


def varying_sides(
    results: Sequence[PartyRun | PartyFailedError], expected: Sequence[StepResult], order: Sequence[int] = ()
) -> tuple[list[int], str | None]:
    """The sides whose repetitions do not all give what is expected, as indices; and why one could not be run.

    results: of all sides, once for each repetition, or of the sides in this order.
    """
    failed = [str(one) for one in results if isinstance(one, PartyFailedError)]
    failed += [one.why_not for one in results if isinstance(one, PartyRun) and one.why_not is not None]
    given = [
        (order[number] if order else number % len(expected), one.result)
        for number, one in enumerate(results)
        if isinstance(one, PartyRun) and one.result is not None
    ]
    return sorted({side for side, result in given if result != expected[side]}), next(iter(failed), None)


def outcome_of(run: PartyRun | PartyFailedError, own: list[StepResult]) -> str | None:
    """Whose result a run gave: A, B, raised (another error than theirs) or other; None if it was not reached."""
    if isinstance(run, PartyFailedError) or run.result is None:
        return None
    if run.result in own:
        return "A" if run.result == own[0] else "B"
    return "raised" if run.raised is not None else "other"


def exchange_test(
    factor: Factor, changed: Sequence[Party], results: Sequence[PartyRun | PartyFailedError], own: list[StepResult]
) -> FactorTest:
    """The test of a difference. changed: A with what B has, and B with what A has. results: of the step by these."""
    outcomes = [outcome_of(one, own) for one in results]
    raised = [one.raised if isinstance(one, PartyRun) else None for one in results]
    failed = [str(one) for one in results if isinstance(one, PartyFailedError)]
    failed += [one.why_not for one in results if isinstance(one, PartyRun) and one.why_not is not None]
    for to, (side, one) in enumerate(zip(changed, results, strict=True)):
        made = one.made if isinstance(one, PartyRun) else None
        if made is not None and (why := not_exchanged(factor, side, to, made)) is not None:
            outcomes[to] = None
            failed.append(f"{side.label}: {why}")
    brought = {name for side, one in zip(changed, results, strict=True) for name in _brought_to(side, one)}
    given = attrs.evolve(factor, brought=tuple(sorted(brought)))
    return FactorTest(given, (outcomes[0], outcomes[1]), failed[0] if failed else None, (raised[0], raised[1]))


def not_exchanged(factor: Factor, side: Party, to: int, made: Made) -> str | None:
    """Why a changed party (to: 0 or 1) did not run with what the other one has; None if it did.

    A program may load modules and make its simulation in ways that do not ask for what is given.
    """
    if factor.parts:
        return next((why for part in factor.parts if (why := not_exchanged(part, side, to, made)) is not None), None)
    if factor.kind == "argument" and not _is_same_literal(made.arguments.get(factor.name), side.arguments[factor.name]):
        return f"the constructor did not get the given {factor.name}"
    for name, *files in factor.modules:
        wanted, loaded = files[1 - to], made.modules.get(name)
        if loaded is None:
            # Of a package, what one party alone has may be loaded in some cases only.
            if wanted is not None and (None not in files or len(factor.modules) == 1):
                return f"it does not load {name}"
        elif wanted is None or not same_file(loaded, wanted):
            return f"it loads {name} from {shown_path(loaded)} all the same"
    return None


def _is_same_literal(one: str | None, other: str) -> bool:
    """Return True for literals of one value: the elements of a set may have another order."""
    return one == other or (one is not None and bool(ast.literal_eval(one) == ast.literal_eval(other)))


def _brought_to(changed: Party, run: PartyRun | PartyFailedError) -> list[str]:
    """The modules that a changed party loaded from the other one, because it has none of these names itself."""
    if isinstance(run, PartyFailedError) or run.made is None:
        return []
    return [name for name, file in changed.lent.items() if run.made.modules.get(name) == file]
