"""Explain a desync: run the bad tick again on two variants that give different states, and find where they diverge.

The variants are tried in order until two of them differ: the present environment against the requested or the recorded
one, then different processes and hash seeds, then instances that ran from an earlier keyframe.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import attrs

from recorder.errors import MissingTickError, SimulationFailedError
from recorder.exception_text import STEP_RAISED
from recorder.factory_spec import Factory
from recorder.location.tape_location import tape_location
from replayer.desync.causes.seen_between import between_steps
from replayer.desync.code_comparison import compared_code
from replayer.desync.finding import Finding, TestedCause
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.answer.known_differences import with_known_differences
from replayer.diagnose.explain.answer.split_objects import with_joined
from replayer.diagnose.explain.data_files.differing_files import Files
from replayer.diagnose.explain.data_files.tested_files import with_tested_files
from replayer.diagnose.explain.explained_pair import explained_pair, with_memory_tested, with_trace
from replayer.diagnose.explain.given.given_cause import with_given
from replayer.diagnose.explain.other_values.with_generators import with_generators
from replayer.diagnose.explain.outside.deciding_variables import with_deciding_variables
from replayer.diagnose.explain.outside.further_variants import try_further
from replayer.diagnose.explain.outside.kinds_tested import KindsTested
from replayer.diagnose.explain.outside.noted_reads import with_noted
from replayer.diagnose.explain.outside.recorded_search import find_recorded
from replayer.diagnose.explain.outside.tested_settings import settings_tested
from replayer.diagnose.explain.statements.with_lines_run import with_lines_run
from replayer.diagnose.explain.trace_step import without_guesses
from replayer.diagnose.explain.values.process_settings import differing_settings, process_settings
from replayer.diagnose.explain.variant_choice import (
    SEEDS,
    changed_variants,
    choose_pair,
    ensure_finding_of,
    find_tick,
    first_variants,
    seeded,
    stages,
    state_before,
)
from replayer.diagnose.explain.variants import (
    Trees,
    Variant,
    VariantFailedError,
    VariantOutcome,
    VariantRunner,
)
from replayer.diagnose.explain.versions.tested_functions import with_tested_functions
from replayer.diagnose.explain.versions.tested_statement import with_edit_behind, with_tested_statement
from replayer.diagnose.explain.walked.alike_members import with_alike_members
from replayer.tape.tape import Tape
from replayer.timeline.verify import VerificationReport, verify_tape
from sim.kernel.state import Snapshot

Progress = Callable[[float], None]  # The progress of the search for the bad tick, from 0 to 1.
OnStage = Callable[[str], None]


def explain_tape(
    path: str | os.PathLike[str],
    *,
    tick: int | None = None,
    finding: Finding | None = None,
    sim: str | None = None,
    factory: Factory | None = None,
    environment: Mapping[str, str | None] | None = None,
    code: str | None = None,
    progress: Progress = lambda _: None,
    on_stage: OnStage = lambda _: None,
    last_variants: Callable[[], Sequence[Variant]] = tuple,
    seen: str | None = None,
    trees: Trees | None = None,
    changed: Sequence[Files] | None = None,
) -> Explanation:
    """Explain a tick of a tape: the given one, or that of a finding; by default, search the first divergent tick.

    finding: from verify_tape on this tape; ticks that it verified are not verified again.
    sim: module:factory, which other processes can import; factory: the object that it names, or None for a registered
    world. environment, code: the other variant; by default the recorded environment, where it differs. on_stage:
    called with the tick, once it is known, and with the variants that begin to run, in a few words. last_variants:
    called if all variants give the same state, but not the recorded one; a variant of its result counts if it gives
    the recorded state. seen: where replay verify told that the given tick differs; None if that is not known. trees: in
    place of environment and code, two commits, the second of which this process runs; changed: the files that differ between them.

    Raises VariantFailedError if a variant cannot be run, MissingTickError if the tick or the one before is not on the
    tape, ValueError if the finding is not of this tape and tick, UnfitSimulationError and UnknownWorldError as
    make_simulation does.
    """
    with Tape(path) as tape, VariantRunner(tape_location(path), sim, trees) as runner:
        now, others, notes = first_variants(tape, environment or {}, code, trees)
        runner.warm_up([now, *others])
        case = _Case(tape, factory, runner, now, others, notes, asked=bool(environment or code or trees))
        case = attrs.evolve(case, last_variants=last_variants, on_stage=on_stage, seen=seen, changed=changed)
        tick = tick + tape.last_tick + 1 if tick is not None and tick < 0 else tick
        if finding is not None:
            ensure_finding_of(finding, tape, tick)
            tick = finding.tick
        explanation = _explain_first(case, progress) if tick is None else case.explain(tick, finding)
        return with_noted(explanation, tape, is_of_commits=trees is not None)


def _explain_first(case: _Case, progress: Progress) -> Explanation:
    """Search the first divergent tick: verify the tape in this process, then on the other variants, and explain it."""
    # Settings are set right before the step that is explained: a process that verifies all ticks runs as the present one.
    others = [one for one in case.others if one.environment or one.code is not None or not one.settings]
    rest = [*others, *(() if case.asked else map(seeded, SEEDS[:2]))]
    share = 1 / (1 + len(rest))
    try:
        report = _verify_here(case, lambda done, total: progress(share * done / max(1, total)))
    except SimulationFailedError as error:
        return _explain_raised(case, error)
    problems = report.unverified
    explanation = None
    if report.findings:
        explanation = case.explain(report.findings[0].tick, report.findings[0], problems)
        if not explanation.agrees:
            return explanation
        rest = [case.now, *rest]  # This process diverges, and its own variant does not: by its hash seed, or by chance.
    tick, skipped = find_tick(case.runner, rest, lambda done: progress(share + (1 - share) * done))
    if tick is not None:
        return case.explain(tick, problems=skipped, is_found=True)
    if explanation is not None:
        if (here := case.explain_here(explanation, report.findings[0])) is not None:
            return here
        further = case.further(explanation, report.findings[0].before)
        if not further.agrees:
            return further
        note = f"tick {explanation.tick:,} has a different hash when it is verified in this process, and on no variant"
        return attrs.evolve(further, notes=[*explanation.notes, note], is_only_here=True)
    is_complete = report.ok and report.status == "intact" and not skipped
    return Explanation(None, 0, [], None, [], None, [], None, [], case.notes, report=None if is_complete else report)


def _verify_here(case: _Case, progress: Callable[[int, int], None]) -> VerificationReport:
    """Verify the tape in this process, which is the present variant. Raises VariantFailedError, SimulationFailedError."""
    try:
        return verify_tape(case.tape.path, case.factory, progress=progress, tests_causes=False)
    except RuntimeError as error:  # A separate process died in the step.
        raise VariantFailedError(" ".join(str(error).split())) from error


def _explain_raised(case: _Case, error: SimulationFailedError) -> Explanation:
    """Explain a step that raises in the replay. Raises VariantFailedError if no variant gives another result."""
    failed = VariantFailedError(" ".join(str(error).split()))
    if error.why is None or not error.why.startswith(STEP_RAISED):
        raise failed from error
    explanation = case.explain(error.tick)
    if explanation.pair is None and explanation.differs_by is None:
        raise failed from error
    return explanation


@attrs.frozen(eq=False)
class _Case:
    """The tape to explain, and the variants to run.

    Attributes:
        asked: True if the caller named the other variants.
    """

    tape: Tape
    factory: Factory | None
    runner: VariantRunner
    now: Variant
    others: list[Variant]
    notes: list[str]
    asked: bool
    last_variants: Callable[[], Sequence[Variant]] = tuple
    on_stage: OnStage = lambda _: None
    seen: str | None = None
    changed: Sequence[Files] | None = None

    def explain(
        self, tick: int, finding: Finding | None = None, problems: Sequence[str] = (), *, is_found: bool = False
    ) -> Explanation:
        """Explain one tick. Raises as explain_tape does.

        problems: why ticks before it could not be verified. is_found: a variant that verified all ticks found this one.
        """
        code = compared_code(self.tape, self.factory)  # Before a step runs here, which may keep something in a module.
        explained = self._explain(tick, finding, problems, code, is_found=is_found)
        return attrs.evolve(explained, code=explained.code or code)

    def _explain(
        self, tick: int, finding: Finding | None, problems: Sequence[str], code: TestedCause | None, *, is_found: bool
    ) -> Explanation:
        tape, variants = self.tape, [self.now, *self.others]
        if not tape.first_tick < tick <= tape.last_tick:
            raise MissingTickError(tick, f"steps lead to ticks {tape.first_tick + 1:,} to {tape.last_tick:,}")
        recorded_hash = tape.state_hash(tick)
        self.on_stage(f"tick {tick:,}: its step runs again" if finding is None else f"tick {tick:,} differs")
        self.runner.warm_up(variants)
        before = finding.before if finding is not None else None
        if before is None or before.hash() != tape.state_hash(tick - 1):
            before = state_before(tape, self.factory, self.runner, variants, tick)
        is_bad = finding is not None or is_found or self.seen is not None
        outcomes, pair = self._find_pair(tick, before, recorded_hash, is_bad=is_bad)
        ran = [outcome for outcome in outcomes if outcome.step is not None]
        seen = between_steps(tape, tick)  # A change that the recorder saw: no variant repeats it.
        if ran and not ((seen and seen.suspicious) or any(one.result == (recorded_hash, None) for one in ran)):
            last = find_recorded(
                tape,
                self.now,
                outcomes,
                recorded_hash,
                pair,
                self.runner.empty_folder,
                self.last_variants,
                run=self._runs(tick, before),
                asked=self.asked,
            )
            outcomes += last
            if last and last[-1].result == (recorded_hash, None):
                pair = last[-1], ran[0]
        shown = pair if pair is not None else outcomes
        notes = [*self.notes, *(f"some ticks before this one could not be verified: {problem}" for problem in problems)]
        notes += [one.step.note for one in shown if one.step is not None and one.step.note is not None]
        notes += [f"{one.variant.label}: {one.why_not}" for one in outcomes if one.why_not is not None]
        notes = without_guesses(notes)
        if pair is not None:
            return self._explained(tick, outcomes, pair, notes, before)
        if finding is None and all(one.step is None for one in outcomes):
            raise VariantFailedError(f"tick {tick:,}: no variant reached the step: {'; '.join(notes)}")
        explanation = Explanation(
            tick, recorded_hash, outcomes, None, [], None, [], None, [], notes, seen=self.seen, is_found=is_found
        )
        kinds = self._kinds(tick, before)
        if explanation.agrees:  # By chance, perhaps: the tick was asked for, or differed when the tape was verified.
            explanation = attrs.evolve(explanation, depends_on=kinds.depends_on(explanation))
            return self.further(explanation, before) if explanation.is_seen else explanation
        explanation = with_known_differences(tape, self.factory, explanation, finding)
        raised = attrs.evolve(explanation, differs_by=kinds.raises_by(explanation))
        further = self.further(attrs.evolve(raised, depends_on=kinds.depends_on(raised)), before)
        if self.asked:
            return further
        tried = with_lines_run(further, tape, self.runner, self.now, before, code)
        return with_generators(tried, self.runner, self.now, before, code)

    def _kinds(self, tick: int, before: Snapshot) -> KindsTested:
        return KindsTested(self.asked, self._runs(tick, before))

    def _explained(
        self,
        tick: int,
        outcomes: list[VariantOutcome],
        pair: tuple[VariantOutcome, VariantOutcome],
        notes: list[str],
        before: Snapshot,
    ) -> Explanation:
        """The explanation by two outcomes that differ."""
        kinds = self._kinds(tick, before)
        run = self._runs(tick, before, pair)
        explained = explained_pair(tick, self.tape.state_hash(tick), outcomes, pair, notes)
        explained = with_memory_tested(explained, self.now, run)
        explained = attrs.evolve(explained, settings=settings_tested(pair, run), seen=self.seen)
        explained = with_tested_statement(with_tested_functions(with_joined(explained, run), run), run)
        explained = with_tested_files(explained, run, self.changed)
        explained = with_given(explained, before, self.runner.give)
        explained = attrs.evolve(explained, differs_by=kinds.differs_by(explained, pair))
        explained = with_alike_members(explained, lambda one, starts: self.runner.order(one, tick, before, starts))
        if explained.replaced is None and explained.differs_by is None and not explained.is_of_order:
            recorded = self.tape.meta.get("environment") or {}
            explained = with_deciding_variables(explained, recorded, run)
        return with_edit_behind(attrs.evolve(explained, depends_on=kinds.depends_on(explained)), run)

    def further(self, explanation: Explanation, before: Snapshot | None) -> Explanation:
        """Try what makes a difference in some processes alone: what fresh memory holds, and, after a desync, more hash seeds.

        explanation: by variants that all gave one state.
        """
        tick, is_known = explanation.tick, explanation.differs_by or explanation.depends_on
        seen = between_steps(self.tape, tick) if tick is not None else None
        is_explained = bool(self.asked or is_known or (seen and seen.suspicious))
        if is_explained or before is None or tick is None or not explanation.ran:
            return explanation
        found = try_further(explanation, self.now, self._runs(tick, before, explanation.ran))
        outcomes = [*explanation.variants, *found.outcomes]
        if found.pair is None:
            return attrs.evolve(explanation, variants=outcomes, tested=found.tested)
        if found.memory_runs:
            explained = explained_pair(tick, explanation.recorded_hash, outcomes, found.pair, explanation.notes)
            return attrs.evolve(explained, memory_runs=found.memory_runs, seen=explanation.seen)
        explained = self._explained(tick, outcomes, found.pair, explanation.notes, before)
        return attrs.evolve(explained, tested=found.tested)

    def explain_here(self, explanation: Explanation, finding: Finding) -> Explanation | None:
        """Compare with the present variant under the settings of this process, whose step alone gives another state.

        None if those are equal, or do not make the difference.
        """
        tick, outcomes, before = finding.tick, explanation.variants, finding.before
        steps = [one.step for one in outcomes if one.step is not None]
        own = differing_settings(steps[0].trace.settings, process_settings()) if steps else []
        if not own or before is None or before.hash() != self.tape.state_hash(tick - 1):
            return None
        label = f"now, with {', '.join(one.name for one in own)} of this process"
        variant = attrs.evolve(self.now, label=label, settings={one.name: one.second for one in own})
        outcomes = [*outcomes, *self._run_if_possible([variant], tick=tick, before=before)]
        pair = choose_pair(outcomes, explanation.recorded_hash)
        if pair is None:
            return None
        run = self._runs(tick, before, pair)
        explained = explained_pair(tick, explanation.recorded_hash, outcomes, pair, explanation.notes)
        explained, settings = with_memory_tested(explained, self.now, run), settings_tested(pair, run)
        return attrs.evolve(explained, code=explanation.code, settings=settings)

    def _run(
        self,
        variants: Sequence[Variant],
        tick: int,
        before: Snapshot,
        starts: Sequence[int | None] = (None,),
        earlier: Sequence[VariantOutcome] = (),
    ) -> list[VariantOutcome]:
        """Run variants. earlier: outcomes with traces; a variant that gives the result of one of them is not traced."""
        self.on_stage(f"tick {tick:,}: {'; '.join(variant.label.partition(':')[0] for variant in variants)}")
        return self.runner.trace(
            variants, tick, before, starts, {one.result for one in earlier if one.result is not None}
        )

    def _run_if_possible(
        self,
        variants: Sequence[Variant],
        starts: Sequence[int | None] = (None,),
        *,
        tick: int,
        before: Snapshot,
        earlier: Sequence[VariantOutcome] = (),
    ) -> list[VariantOutcome]:
        """Run variants; if one of them cannot be run, each for itself, with the reason of those that cannot."""
        try:
            return self._run(variants, tick, before, starts, earlier)
        except VariantFailedError as error:
            if len(variants) == 1:
                return [VariantOutcome(variants[0], None, str(error).removeprefix(f"{variants[0].label}: "))]
            run = partial(self._run_if_possible, starts=starts, tick=tick, before=before, earlier=earlier)
            alone = [run([one]) for one in variants]
            return [outcome for outcomes in alone for outcome in outcomes]

    def _runs(
        self, tick: int, before: Snapshot, earlier: Sequence[VariantOutcome] = ()
    ) -> Callable[..., list[VariantOutcome]]:
        """Return a function of variants, and of starts, that runs them to a tick. earlier: see _run."""
        return partial(self._run_if_possible, tick=tick, before=before, earlier=earlier)

    def _find_pair(
        self, tick: int, before: Snapshot, recorded_hash: int, *, is_bad: bool
    ) -> tuple[list[VariantOutcome], tuple[VariantOutcome, VariantOutcome] | None]:
        """Run variants until two differ, one as recorded if possible; of those that were asked for, or until all of them agree.

        is_bad: the tick is known to have differed; then those that were asked for are not the only ones.
        """
        outcomes: list[VariantOutcome] = []
        changed: list[VariantOutcome] | None = None  # Only the recorded state makes a pair with one of them.
        for variants, starts in stages(self.tape, self.now, self.others, tick):
            outcomes += self._run(variants, tick, before, starts, outcomes)
            if changed is None and not self.asked and all(one.result != (recorded_hash, None) for one in outcomes):
                others = changed_variants(self.tape, tick, self.others)
                changed = self._run_if_possible(others, tick=tick, before=before, earlier=outcomes) if others else []
                if any(one.result == (recorded_hash, None) for one in changed):
                    return [*outcomes, *changed], choose_pair([*outcomes, *changed], recorded_hash)
            chosen = choose_pair(outcomes, recorded_hash)
            if chosen is not None:
                chosen = chosen[0], with_trace(chosen[1], self.now, self._runs(tick, before))
                outcomes = [chosen[1] if one.variant == chosen[1].variant else one for one in outcomes]
            asked_and_recorded = (
                self.asked and not is_bad and all(one.result == (recorded_hash, None) for one in outcomes)
            )
            if chosen is not None or asked_and_recorded:
                return [*outcomes, *(changed or ())], chosen
        return [*outcomes, *(changed or ())], None
