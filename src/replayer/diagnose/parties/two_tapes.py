"""Explain where two recordings of one run diverge: the first tick, the line, and the difference that does it.

Each party's simulation runs the step to the first differing tick in a process of its own, from the state on which both
tapes agree. Then each difference between the parties is tested alone: A with what B has must give what B gives, and the
reverse. A process with nothing exchanged is the control: it must repeat what the first one gave. Before a difference is
named, both sides run several times more: a step that varies by itself passes a single control by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from recorder.ambient.outside.outside_read import OutsideRead
from replayer.diagnose.compare.tape_diff import TapeDifference, diff_tapes
from replayer.diagnose.explain.cause import without_values
from replayer.diagnose.explain.variant_choice import (
    NEAR_TICKS,
    SEED,
)
from replayer.diagnose.parties.aligned_steps import aligned
from replayer.diagnose.parties.differences.factor import Factor, together
from replayer.diagnose.parties.differences.factors import WHOLES, find_factors, not_compared, untested
from replayer.diagnose.parties.differences.set_factors import names_of, with_places
from replayer.diagnose.parties.one_kind import NotComparableError, ensure_one_kind
from replayer.diagnose.parties.party import Party
from replayer.diagnose.parties.party_explanation import PartyExplanation
from replayer.diagnose.parties.party_runner import (
    PartyAnswer,
    PartyFailedError,
    PartyJob,
    PartyRun,
    PartyRunner,
)
from replayer.diagnose.parties.stages import choices, in_stages
from replayer.diagnose.parties.step_results import are_recorded, chosen_run, exchange_test, has_result, varying_sides
from replayer.diagnose.parties.told.tape_seeds import seeded_party, try_seeds
from replayer.diagnose.parties.told.told_environment import (
    ToldVariable,
    states_seed,
    told_of,
    told_settings,
    version_notes,
    with_told,
)
from replayer.diagnose.parties.told.unnoted_reads import (
    FoundVariable,
    reads_before,
    unnoted_text,
    values_to_try,
    variables_of,
)
from replayer.tape.noted_outside import noted_outside
from replayer.tape.tape import Tape
from sim.kernel.state import Snapshot

REPEATS = 4  # Of three sides for a seed, four for a difference: a fair coin passes that once in 2**12 or 2**16 times.

BEGINS_LATER = "the states differ already at the first tick that both tapes have"

Progress = Callable[[float], None]


def explain_parties(
    first: Party,
    second: Party,
    progress: Progress = lambda _: None,
    on_difference: Callable[[TapeDifference], None] = lambda _: None,
) -> PartyExplanation:
    """Explain the first difference of two tapes. progress: called with a fraction, from 0 to 1.

    on_difference: called once the difference is known, before anything is run, which may take long. Raises
    NotComparableError for tapes without a common tick, or of different simulations; MissingTickError as diff_tapes does.
    """
    parties = first, second
    with Tape(first.tape) as one, Tape(second.tape) as other:
        ensure_one_kind(one, other)
        try:
            difference = diff_tapes(one, other, lambda done, total: progress(0.2 * done / max(1, total)))
        except ValueError as error:
            raise NotComparableError(str(error)) from None
        explanation = PartyExplanation(difference, parties)
        if difference.first_bad is None:
            return explanation
        on_difference(difference)
        with PartyRunner() as runner:
            return _Case((one, other), parties, difference, runner, progress).explain()


@attrs.define(eq=False)
class _Case:
    tapes: tuple[Tape, Tape]
    parties: tuple[Party, Party]
    difference: TapeDifference
    runner: PartyRunner
    progress: Progress
    notes: list[str] = attrs.field(factory=list)
    _base: tuple[PartyRun, ...] = ()
    _before: Snapshot | None = None
    _controls: int = 0  # How often both parties ran again with nothing changed.

    @property
    def tick(self) -> int:
        assert self.difference.first_bad is not None
        return self.difference.first_bad

    def explain(self) -> PartyExplanation:
        recorded = self.tapes[0].state_hash(self.tick), self.tapes[1].state_hash(self.tick)
        is_first = self.tick == self.difference.first_tick
        explanation = PartyExplanation(self.difference, self.parties, recorded, is_first_tick=is_first)
        if is_first:
            states = self.difference.states if self.difference.keyframe_tick == self.tick else None
            explanation = attrs.evolve(explanation, states=states, fields=self.difference.differences if states else ())
            if any(tape.first_tick != self.tick for tape in self.tapes):
                return attrs.evolve(explanation, why_older=BEGINS_LATER)
        answers, told = self._answers(recorded)
        runs = chosen_run(answers[0], recorded[0]), chosen_run(answers[1], recorded[1])
        explanation = attrs.evolve(explanation, runs=runs, parties=self.parties, told=told)
        befores = {one.before.hash() for one in answers if one is not None and one.before is not None}
        if len(befores) > 1:  # Ticks before it are damaged.
            why = f"the tapes differ before tick {self.tick:,} already, in ticks that could not be compared"
            self.notes.append(why)
        elif None not in (runs[0], runs[1]):
            explanation = self._compared(explanation, answers)
        return attrs.evolve(
            explanation,
            notes=[*dict.fromkeys(self.notes), *([] if explanation.deciding else version_notes(self.tapes))],
        )

    # --- running

    def _answers(self, recorded: tuple[int, int]) -> tuple[list[PartyAnswer | None], list[ToldVariable]]:
        """The step of each party: on fresh instances, and if one of these is not as recorded, on some that ran before.

        In between, parties that are not as recorded get the variables that their tapes tell, where the values are known.
        """
        answers, told = self._fresh(), list[ToldVariable]()
        if not are_recorded(answers, recorded):
            notes = list(map(noted_outside, self.tapes))
            runs = list(map(chosen_run, answers, recorded))
            told = [*told_of(self.parties, runs, recorded, notes), *told_settings(runs, self.tapes, self.tick)]
            parties = self.parties
            self.parties = with_told(parties, known := [one for one in told if one.values])
            again = self._fresh() if known else answers
            if None in again and None not in answers:  # With these it does not run.
                self.parties, told = parties, [attrs.evolve(one, values=()) for one in told]
            else:
                answers = again
        before = next((one.before for one in answers if one is not None), None)
        for start in self._starts() if not are_recorded(answers, recorded) else ():
            jobs = [PartyJob(party, self.tick, before, [start], traces=True) for party in self.parties]
            ran = [one if isinstance(one, PartyAnswer) else None for one in self.runner.run(jobs)]
            if all(one is not None and has_result(one, recorded[number]) for number, one in enumerate(ran)):
                answers = ran
                break
        self.progress(0.5)
        right = [has_result(one, state_hash) for one, state_hash in zip(answers, recorded, strict=True)]
        given = {name for party in self.parties for name in party.environment}
        return answers, [one for one in told if one.values or not right[one.party] or one.name in given]

    def _fresh(self) -> list[PartyAnswer | None]:
        """The step of each party on fresh instances."""
        found = self.runner.run([PartyJob(party, self.tick, traces=True) for party in self.parties])
        before = next((one.before for one in found if isinstance(one, PartyAnswer)), None)
        for number, party in enumerate(self.parties):
            if isinstance(found[number], PartyFailedError) and before is not None:
                [found[number]] = self.runner.run([PartyJob(party, self.tick, before, traces=True)])
        self.notes += [str(one) for one in found if isinstance(one, PartyFailedError)]
        return [one if isinstance(one, PartyAnswer) else None for one in found]

    def _starts(self) -> list[int]:
        """Earlier ticks from which instances of both parties may run: the nearest keyframe of both tapes, and the first."""
        ticks = [{place.tick for place in tape.keyframes} for tape in self.tapes]
        common = sorted(tick for tick in ticks[0] & ticks[1] if self.tick - NEAR_TICKS <= tick < self.tick - 1)
        return list(dict.fromkeys([common[-1], common[0]])) if common else []

    def _results(self, parties: Sequence[Party], like: Sequence[int]) -> list[PartyRun | PartyFailedError]:
        """Run the step once more by these parties. like: the index of the party that each is a change of."""
        jobs = [self._job(party, number) for party, number in zip(parties, like, strict=True)]
        answers = self.runner.run(jobs)
        return [one if isinstance(one, PartyFailedError) else one.runs[0] for one in answers]

    def _job(self, party: Party, like: int) -> PartyJob:
        """The step once more, by this change of a party, on an instance like that of its first run."""
        start, made = self._base[like].start, self._base[like].made
        assert made is not None
        return PartyJob(party, self.tick, self._before, [start], class_name=made.class_name, early=made.early)

    # --- comparing

    def _compared(self, explanation: PartyExplanation, answers: list[PartyAnswer | None]) -> PartyExplanation:
        first, second = explanation.runs
        assert first is not None
        assert second is not None
        self._base, self._before = (first, second), next((one.before for one in answers if one is not None), None)
        if first.result == second.result:
            found = self._not_reproduced(explanation, answers)
            return found if found.seeds is not None or found.varies else self._outside_read(found, answers)
        explanation = self._aligned(explanation, answers)
        assert first.made is not None
        assert second.made is not None
        fed = [run.start for run in (first, second)]
        start = min((one for one in fed if one is not None), default=self.tick - 1)
        ticks = range(start + 1, self.tick + 1) if not explanation.is_first_tick else range(0)
        factors = find_factors(self.parties, self.tapes, (first.made, second.made), ticks)
        stages, left = in_stages(factors)
        explanation = self._tested(explanation, stages)
        if left and not explanation.deciding:
            self.notes.append(f"not tested: {', '.join(f'{factor.kind} {factor.name}' for factor in left)}")
        explanation = self._narrowed(self._with_places(explanation), answers)
        if not explanation.deciding and not explanation.varies:
            tested = [test.factor for test in explanation.tests]
            self.notes += [f"not tested: {one}" for one in untested(self.parties, (first.made, second.made), tested)]
        unread = not_compared((first.made, second.made))
        if unread and all(test.factor.kind in WHOLES for test in explanation.deciding):
            self.notes.append(f"not compared, because they are no plain data: the arguments {', '.join(unread)}")
        return explanation

    def _tested(self, explanation: PartyExplanation, stages: Sequence[list[Factor]]) -> PartyExplanation:
        """Test each difference alone; then those that matter together; then the wholes, of which these are parts."""
        parts, sets, wholes = stages
        explanation = self._tried(explanation, parts)
        for choose in choices(sets, wholes):
            if explanation.deciding or explanation.varies:
                break
            if further := choose(explanation.tests):
                rest = self._tried(explanation, further)
                explanation = attrs.evolve(rest, tests=[*explanation.tests, *rest.tests])
        if not explanation.deciding and not explanation.varies:
            explanation = self._repeated(explanation)
        self.progress(1.0)
        return explanation

    def _tried(self, explanation: PartyExplanation, factors: list[Factor]) -> PartyExplanation:
        """Run both parties again with nothing changed, and with each difference exchanged."""
        changed = [factor.give(self.parties[to], 1 - to) for factor in factors for to in (0, 1)]
        results = self._results([*self.parties, *changed], [0, 1, *([0, 1] * len(factors))])
        self._controls += all(isinstance(one, PartyRun) and one.result is not None for one in results[:2])
        own = [run.result for run in self._base]
        unsteady = tuple(
            number
            for number, again in enumerate(results[:2])
            if isinstance(again, PartyRun) and again.result is not None and again.result != own[number]
        )
        pairs = [slice(2 * number, 2 * number + 2) for number in range(len(factors))]
        tests = [
            exchange_test(factor, changed[pair], results[2:][pair], own)
            for factor, pair in zip(factors, pairs, strict=True)
        ]
        found = attrs.evolve(explanation, tests=tests, unsteady=unsteady)
        return self._repeated(found) if found.deciding else found

    def _with_places(self, explanation: PartyExplanation) -> PartyExplanation:
        """Name the lines that set what decides, in each party's process."""
        watched = names_of([test.factor for test in explanation.deciding])
        if not any(watched):
            return explanation
        jobs = [attrs.evolve(self._job(self.parties[number], number), watched=watched) for number in (0, 1)]
        answers = self.runner.run(jobs)
        made = [one.runs[0].made if isinstance(one, PartyAnswer) else None for one in answers]
        tests = [attrs.evolve(test, factor=with_places(test.factor, made)) for test in explanation.tests]
        return attrs.evolve(explanation, tests=tests)

    def _narrowed(self, explanation: PartyExplanation, answers: list[PartyAnswer | None]) -> PartyExplanation:
        """Compare the steps with less that differs: only what decides alone, or all but what was seen to have no effect."""
        if explanation.cause is None:
            return explanation
        idle = [test.factor for test in explanation.tests if test.has_no_effect]
        if explanation.deciding and len(explanation.tests) > 1:
            number, party = 0, explanation.deciding[0].factor.give(self.parties[0], 1)
        elif idle and not explanation.deciding and not explanation.varies:
            number, party = 1, together(idle).give(self.parties[1], 0)
        else:
            return explanation
        [answer] = self.runner.run([attrs.evolve(self._job(party, number), traces=True)])
        if not isinstance(answer, PartyAnswer) or answer.step is None or answer.step.state is None:
            return explanation
        if answer.step.state.hash() != self._base[1].state_hash:
            return explanation
        return self._aligned(explanation, [answers[0], answer])

    def _repeated(self, explanation: PartyExplanation) -> PartyExplanation:
        """Run both parties several times more, unchanged and with what decides: each must repeat its result.

        The controls are of these runs.
        """
        deciding = [test.factor for test in explanation.deciding]
        sides = [
            (f"{self.parties[to].label} with the other one's {factor.kind} {factor.name}".strip(), to, 1 - to, factor)
            for factor in deciding
            for to in (0, 1)
        ]
        changed = [factor.give(self.parties[to], of) for _, to, of, factor in sides]
        own = [run.result for run in self._base]
        expected = [*own, *(own[of] for _, _, of, _ in sides)]
        all_sides, like = [*self.parties, *changed], [0, 1, *(to for _, to, _, _ in sides)]
        order = [
            number
            for time in range(REPEATS)
            for number in range(len(all_sides))
            if number > 1 or time < REPEATS - self._controls
        ]
        results = self._results([all_sides[number] for number in order], [like[number] for number in order])
        varying, failed = varying_sides(results, expected, order)
        unsteady = tuple(number for number in varying if number < 2)
        named = next((sides[number - 2][0] for number in varying if number >= 2), None)
        tests = [
            attrs.evolve(test, outcomes=(None, None), why_not=failed) if failed and test.decides else test
            for test in explanation.tests
        ]
        return attrs.evolve(explanation, tests=tests, unsteady=unsteady, varying=named)

    def _not_reproduced(self, explanation: PartyExplanation, answers: list[PartyAnswer | None]) -> PartyExplanation:
        """Both parties give one result: hash seeds can be tried, unless both tapes state theirs."""
        party, [own, *_] = self.parties[0], [run.result for run in self._base]
        if all(map(states_seed, self.tapes)) or explanation.is_first_tick or answers[0] is None:
            return explanation
        found = try_seeds(party, own, [(tape.state_hash(self.tick), None) for tape in self.tapes], self._run_seeded)
        if found is None:
            return explanation
        seeds, seeded = found
        others = [seeded_party(party, seed) for seed in seeds.changed]
        expected = [own, own, *(seeded[seed].runs[0].result for seed in seeds.changed)]
        results = self._results([*self.parties, *others] * REPEATS, [0, 1, *([0] * len(others))] * REPEATS)
        varying, failed = varying_sides(results, expected)
        if varying:
            unsteady = tuple(number for number in varying if number < 2)
            named = next((f"{party.label} with {SEED}={seeds.changed[one - 2]}" for one in varying if one > 1), None)
            return attrs.evolve(explanation, unsteady=unsteady, varying=named)
        if failed is not None:
            self.notes.append(failed)
            return explanation
        explanation = attrs.evolve(explanation, seeds=seeds)
        if seeds.decides:
            pair = [seeded.get(str(seed), answers[number]) for number, seed in enumerate(seeds.of_tapes)]
            return self._aligned(explanation, pair)
        aligned = self._aligned(explanation, [answers[0], seeded[seeds.first]])
        cause = None if aligned.cause is None else without_values(aligned.cause)  # They are of neither tape.
        return attrs.evolve(aligned, cause=cause, states=None, fields=())

    def _run_seeded(self, parties: Sequence[Party], traces: bool) -> list[PartyAnswer | None]:  # noqa: FBT001
        jobs = [PartyJob(one, self.tick, self._before, [self._base[0].start], traces=traces) for one in parties]
        return [one if isinstance(one, PartyAnswer) else None for one in self.runner.run(jobs)]

    def _outside_read(self, explanation: PartyExplanation, answers: list[PartyAnswer | None]) -> PartyExplanation:
        """Both parties give one result: try environment variables that the step reads, and name what no tape tells."""
        wrong = [number for number in (0, 1) if not explanation.is_recorded(number)]
        steps = [one.step for one in answers if one is not None and one.step is not None]
        reads = list(dict.fromkeys(read for step in steps for read in step.reads))
        before = reads_before(run.made for run in self._base)
        notes, named = list(map(noted_outside, self.tapes)), {one.name for one in explanation.told}
        explanation = attrs.evolve(
            explanation,
            unnoted=unnoted_text(reads, notes),
            unnoted_before=unnoted_text([one for one in before if one.name not in named], notes),
        )
        for read in variables_of([*reads, *before]) if len(wrong) == 1 else ():
            found = self._with_variable(explanation, answers, wrong[0], read)
            if found is not None:
                return found
        return explanation

    def _with_variable(
        self, explanation: PartyExplanation, answers: list[PartyAnswer | None], number: int, read: OutsideRead
    ) -> PartyExplanation | None:
        """Try values of a variable in a party: one with which it gives what is on its tape; None without one."""
        party, start = self.parties[number], self._base[number].start
        present = party.variable(read.name)
        shown = None if present is None else party.shown_variable(read.name)
        values = values_to_try(read, present, note := noted_outside(self.tapes[number]))
        tried = [attrs.evolve(party, environment={**party.environment, read.name: value}) for value in values]
        recorded = self.tapes[number].state_hash(self.tick), None
        results = self._results(tried, [number] * len(tried))
        right = (place for place, one in enumerate(results) if isinstance(one, PartyRun) and one.result == recorded)
        if (place := next(right, None)) is None:
            return None
        expected = [self._base[number].result, recorded]
        repeated = self._results([party, tried[place]] * REPEATS, [number] * 2 * REPEATS)
        if varying_sides(repeated, expected) != ([], None):
            return None
        [answer] = self.runner.run([PartyJob(tried[place], self.tick, self._before, [start], traces=True)])
        pair = list(answers)
        pair[number] = answer if isinstance(answer, PartyAnswer) else None
        is_noted = (note.fact(read.kind, read.name) or (None,))[0] is not None
        found = FoundVariable(number, read.name, values[place], shown, read.place, is_noted, REPEATS)
        return attrs.evolve(self._aligned(explanation, pair), variable=found)

    def _aligned(self, explanation: PartyExplanation, answers: Sequence[PartyAnswer | None]) -> PartyExplanation:
        """Compare the traces and the states of two answers."""
        explanation, notes = aligned(explanation, self.parties, answers)
        self.notes += notes
        return explanation
