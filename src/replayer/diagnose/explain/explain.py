"""Explain a desync: run the bad tick again on two variants that give different states, and find where they diverge.

The variants are tried in order until two of them differ: the present environment against the requested or the recorded
one, then different processes and hash seeds, then instances that ran from an earlier keyframe.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs

from recorder.ambient.outside.outside_read import OutsideRead
from recorder.ambient.outside.read_functions import starts_thread
from recorder.errors import MissingTickError, RecordingError, SimulationFailedError
from recorder.exception_text import STEP_RAISED
from recorder.factory_spec import Factory
from replayer.desync.finding import Finding, find_desync
from replayer.desync.location import DesyncLocation, place_between, place_of
from replayer.desync.outside_comparison import compare_reads
from replayer.desync.state_diff import FieldDifference
from replayer.desync.tested_causes import between_steps
from replayer.desync.ulps import compare_elements
from replayer.diagnose.explain.align import Alignment
from replayer.diagnose.explain.answer.explanation import DifferingField, Explanation
from replayer.diagnose.explain.answer.writers import lines_that_write
from replayer.diagnose.explain.find_cause import find_cause
from replayer.diagnose.explain.values.identities import differing_identities
from replayer.diagnose.explain.values.load_cause import with_load
from replayer.diagnose.explain.values.process_settings import DifferingSetting, differing_settings, process_settings
from replayer.diagnose.explain.variant_choice import SEEDS, choose_pair, first_variants, seeded, stages
from replayer.diagnose.explain.variant_process import OTHER_THREADS
from replayer.diagnose.explain.variants import Variant, VariantFailedError, VariantOutcome, VariantRunner
from replayer.playback.cursor import Cursor, MismatchError
from replayer.playback.make_simulation import make_simulation
from replayer.tape.noted_outside import noted_outside
from replayer.tape.tape import Tape
from replayer.timeline.verify import VerificationReport, verify_tape
from replayer.value_text import tick_range
from sim.kernel.state import Snapshot

_AT_A_TIME = 2  # Of the last variants: each has a process with its own copy of the state.

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
) -> Explanation:
    """Explain a tick of a tape: the given one, or that of a finding; by default, search the first divergent tick.

    finding: from verify_tape on this tape; ticks that it verified are not verified again.
    sim: module:factory, which other processes can import; factory: the object that it names, or None for a registered
    world. environment, code: the other variant; by default the recorded environment, where it differs. on_stage:
    called with the tick, once it is known, and with the variants that begin to run, in a few words. last_variants:
    called if all variants give the same state, but not the recorded one; a variant of its result counts if it gives
    the recorded state.

    Raises VariantFailedError if a variant cannot be run, MissingTickError if the tick or the one before is not on the
    tape, ValueError if the finding is not of this tape and tick, UnfitSimulationError and UnknownWorldError as
    make_simulation does.
    """
    with Tape(path) as tape, VariantRunner(Path(path), sim) as runner:
        now, others, notes = first_variants(tape, environment or {}, code)
        runner.warm_up([now, *others])
        case = _Case(tape, factory, runner, now, others, notes, asked=bool(environment) or code is not None)
        case = attrs.evolve(case, last_variants=last_variants, on_stage=on_stage)
        if tick is not None and tick < 0:
            tick += tape.last_tick + 1
        if finding is not None:
            _ensure_finding_of(finding, tape, tick)
            explanation = case.explain(finding.tick, finding)
        else:
            explanation = _explain_first(case, progress) if tick is None else case.explain(tick)
        between = None if explanation.tick is None else between_steps(tape, explanation.tick)
        reads, notes = _reads(explanation), list(explanation.notes)
        if any(map(starts_thread, reads)) and OTHER_THREADS not in notes:
            notes.append(OTHER_THREADS)
        compared, cause = compare_reads(noted_outside(tape), reads), explanation.cause
        if cause is not None and cause.kind == "line" and OTHER_THREADS in notes:
            cause = attrs.evolve(cause, kind="unseen")  # Lines of a thread may have given the line what it reads.
        return attrs.evolve(explanation, between=between, outside=compared, notes=notes, cause=cause)


def _reads(explanation: Explanation) -> list[OutsideRead]:
    """What the step read of the outside world on the present variant, or else on the first one that ran it."""
    run = [one for one in explanation.variants if one.step is not None]
    present = next((one for one in run if one.variant.is_present), run[0] if run else None)
    return present.step.reads if present is not None and present.step is not None else []


def _ensure_finding_of(finding: Finding, tape: Tape, tick: int | None) -> None:
    if tick not in (None, finding.tick):
        raise ValueError(f"expected a finding of tick {tick}, got one of tick {finding.tick}")
    if tape.state_hash(finding.tick) != finding.expected_hash:
        raise ValueError(
            f"the finding is of a different tape: {tape.path} has a different hash at tick {finding.tick:,}"
        )


def _explain_first(case: _Case, progress: Progress) -> Explanation:
    """Search the first divergent tick: verify the tape in this process, then on the other variants, and explain it."""
    rest = [*case.others, *(() if case.asked else map(seeded, SEEDS[:2]))]
    share = 1 / (1 + len(rest))
    try:
        report = _verify_here(case, lambda done, total: progress(share * done / max(1, total)))
    except SimulationFailedError as error:
        return _explain_raised(case, error)
    problems = _unverified(report)
    explanation = None
    if report.findings:
        explanation = case.explain(report.findings[0].tick, report.findings[0], problems)
        if not explanation.agrees:
            return explanation
        rest = [case.now, *rest]  # This process diverges, and its own variant does not: by its hash seed, or by chance.
    tick, skipped = _find_tick(case.runner, rest, lambda done: progress(share + (1 - share) * done))
    if tick is not None:
        return case.explain(tick, problems=skipped)
    if explanation is not None:
        here = case.explain_here(explanation, report.findings[0])
        if here is not None:
            return here
        note = f"tick {explanation.tick:,} has a different hash when it is verified in this process, and on no variant"
        return attrs.evolve(explanation, notes=[*explanation.notes, note], is_only_here=True)
    is_complete = report.ok and report.status == "intact" and not skipped
    return Explanation(None, 0, [], None, [], None, [], None, [], case.notes, report=None if is_complete else report)


def _verify_here(case: _Case, progress: Callable[[int, int], None]) -> VerificationReport:
    """Verify the tape in this process, which is the present variant. Raises VariantFailedError, SimulationFailedError."""
    try:
        return verify_tape(case.tape.path, case.factory, progress=progress)
    except RuntimeError as error:  # A separate process died in the step.
        raise VariantFailedError(" ".join(str(error).split())) from error


def _explain_raised(case: _Case, error: SimulationFailedError) -> Explanation:
    """Explain a step that raises in the replay. Raises VariantFailedError if no variant shows that the simulation fits."""
    failed = VariantFailedError(" ".join(str(error).split()))
    if error.why is None or not error.why.startswith(STEP_RAISED):
        raise failed from error
    explanation = case.explain(error.tick)
    if explanation.pair is None and error.tick <= case.tape.first_tick + 1:
        raise failed from error
    return explanation


def _unverified(report: VerificationReport) -> list[str]:
    """Why ticks before the first divergent one could not be verified."""
    unreached = [f"{tick_range(ticks.first_tick, ticks.last_tick)}: {ticks.why}" for ticks in report.unreached]
    return [*map(str, report.problems), *unreached]


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

    def explain(self, tick: int, finding: Finding | None = None, problems: Sequence[str] = ()) -> Explanation:
        """Explain one tick. problems: why ticks before it could not be verified. Raises as explain_tape does."""
        tape, variants = self.tape, [self.now, *self.others]
        if not tape.first_tick < tick <= tape.last_tick:
            raise MissingTickError(tick, f"steps lead to ticks {tape.first_tick + 1:,} to {tape.last_tick:,}")
        recorded_hash = tape.state_hash(tick)
        self.on_stage(f"tick {tick:,}: its step runs again" if finding is None else f"tick {tick:,} differs")
        self.runner.warm_up(variants)
        before = finding.before if finding is not None else None
        if before is None or before.hash() != tape.state_hash(tick - 1):
            before = _state_before(tape, self.factory, self.runner, variants, tick)
        outcomes, pair = self._find_pair(tick, before, recorded_hash)
        ran = [outcome for outcome in outcomes if outcome.step is not None]
        if pair is None and any(outcome.result != (recorded_hash, None) for outcome in ran):
            last = self._find_recorded(tick, before, recorded_hash)
            outcomes += last
            pair = (last[-1], ran[0]) if last and last[-1].result == (recorded_hash, None) else None
        shown = pair if pair is not None else outcomes
        notes = [*self.notes, *(f"some ticks before this one could not be verified: {problem}" for problem in problems)]
        notes += [one.step.note for one in shown if one.step is not None and one.step.note is not None]
        notes += [f"{one.variant.label}: {one.why_not}" for one in outcomes if one.why_not is not None]
        notes = list(dict.fromkeys(notes))
        if pair is not None:
            explained = _explained(tick, recorded_hash, outcomes, pair, notes)
            return attrs.evolve(explained, settings=self._settings(pair, tick, before))
        if finding is None and all(one.step is None for one in outcomes):
            raise VariantFailedError(f"tick {tick:,}: no variant reached the step: {'; '.join(notes)}")
        explanation = Explanation(tick, recorded_hash, outcomes, None, [], None, [], None, [], notes)
        return explanation if explanation.agrees else _unexplained(tape, self.factory, explanation, finding)

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
        outcomes = [*outcomes, *self._run_if_possible([variant], tick, before)]
        pair = choose_pair(outcomes, explanation.recorded_hash)
        if pair is None:
            return None
        explained = _explained(tick, explanation.recorded_hash, outcomes, pair, explanation.notes)
        return attrs.evolve(explained, settings=self._settings(pair, tick, before))

    def _run(
        self, variants: Sequence[Variant], tick: int, before: Snapshot, starts: Sequence[int | None] = (None,)
    ) -> list[VariantOutcome]:
        self.on_stage(f"tick {tick:,}: {'; '.join(variant.label.partition(':')[0] for variant in variants)}")
        return self.runner.trace(variants, tick, before, starts)

    def _run_if_possible(
        self, variants: Sequence[Variant], tick: int, before: Snapshot, starts: Sequence[int | None] = (None,)
    ) -> list[VariantOutcome]:
        """Run variants; if one of them cannot be run, each for itself, with the reason of those that cannot."""
        try:
            return self._run(variants, tick, before, starts)
        except VariantFailedError as error:
            if len(variants) == 1:
                return [VariantOutcome(variants[0], None, str(error).removeprefix(f"{variants[0].label}: "))]
            return [outcome for one in variants for outcome in self._run_if_possible([one], tick, before)]

    def _find_pair(
        self, tick: int, before: Snapshot, recorded_hash: int
    ) -> tuple[list[VariantOutcome], tuple[VariantOutcome, VariantOutcome] | None]:
        """Run variants until two differ, one as recorded if possible; if asked, or until the first ones all agree."""
        outcomes: list[VariantOutcome] = []
        chosen = None
        for variants, starts in stages(self.tape, self.now, self.others, tick):
            outcomes += self._run(variants, tick, before, starts)
            chosen = choose_pair(outcomes, recorded_hash)
            asked_and_recorded = self.asked and all(one.result == (recorded_hash, None) for one in outcomes)
            if chosen is not None or asked_and_recorded:
                break
        return outcomes, chosen

    def _settings(
        self, pair: tuple[VariantOutcome, VariantOutcome], tick: int, before: Snapshot
    ) -> list[DifferingSetting]:
        """The settings of the process that differed before the step, each tested: B runs once more, with that of A."""
        steps = [one.step for one in pair if one.step is not None]
        tested = []
        for one in differing_settings(steps[0].trace.settings, steps[1].trace.settings):
            variant = attrs.evolve(pair[1].variant, settings={**pair[1].variant.settings, one.name: one.first})
            outcomes = self._run_if_possible([variant], tick, before, [variant.start])
            reached = [outcome.result for outcome in outcomes if outcome.step is not None]
            tested.append(attrs.evolve(one, proved=pair[0].result in reached if reached else None))
        return tested

    def _find_recorded(self, tick: int, before: Snapshot, recorded_hash: int) -> list[VariantOutcome]:
        """Run the last variants, some at a time, up to the first one that gives the recorded state."""
        variants, outcomes = list(self.last_variants()), list[VariantOutcome]()
        for first in range(0, len(variants), _AT_A_TIME):
            batch = [
                attrs.evolve(variant, environment={**self.now.environment, **variant.environment})
                for variant in variants[first : first + _AT_A_TIME]
            ]
            outcomes += self._run_if_possible(batch, tick, before)
            recorded = [outcome for outcome in outcomes if outcome.result == (recorded_hash, None)]
            if recorded:
                return [*(outcome for outcome in outcomes if outcome is not recorded[0]), recorded[0]]
        return outcomes


def _find_tick(runner: VariantRunner, variants: list[Variant], progress: Progress) -> tuple[int | None, list[str]]:
    """The first bad tick on any variant, in the order of the variants, and why ticks could not be verified."""
    problems: list[str] = []
    for number, variant in enumerate(variants):
        result = runner.search(variant, lambda done, number=number: progress((number + done) / len(variants)))  # type: ignore[misc]
        if result.first_bad is not None:
            return result.first_bad, result.problems
        problems += result.problems
    return None, problems


def _state_before(
    tape: Tape, factory: Factory | None, runner: VariantRunner, variants: list[Variant], tick: int
) -> Snapshot:
    """The state at tick - 1, with the recorded hash: made in this process, or else on one of the variants."""
    cursor = Cursor(tape, make_simulation(tape, factory))
    try:
        cursor.seek(tick - 1)
        return cursor.state.snapshot()
    except MismatchError:
        for variant in (*variants, *(seeded(seed) for seed in SEEDS)):
            snapshot = runner.state(variant, tick - 1)
            if snapshot is not None:
                return snapshot
    raise VariantFailedError(
        f"tick {tick:,}: no variant gives the recorded state of the tick before it: an earlier tick is the first bad "
        "one; omit --tick to search for it"
    )


# --- explanations


def _explained(
    tick: int,
    recorded_hash: int,
    outcomes: list[VariantOutcome],
    pair: tuple[VariantOutcome, VariantOutcome],
    notes: list[str],
) -> Explanation:
    first, second = pair[0].step, pair[1].step
    assert first is not None
    assert second is not None
    fields = []
    if first.state is not None and second.state is not None:
        for name in dict.fromkeys([*first.state, *second.state]):
            left, right = (state[name] if name in state.layout.slots else None for state in (first.state, second.state))
            elements = compare_elements(left, right) if left is not None and right is not None else None
            if elements is None or elements.count:
                fields.append(DifferingField(name, elements))
    alignment = Alignment(first.trace, second.trace)
    limits = {step.trace.limited for step in (first, second)} - {None}
    notes += sorted(map(str, limits))
    place = place_between([field.name for field in fields], first.phases, second.phases)
    cause = find_cause(alignment)
    identities = list(differing_identities(first.trace.identities, second.trace.identities))
    if cause is not None and any(one.is_cause(cause) for one in identities):
        cause = attrs.evolve(cause, kind="identity", outside=[])
    lost = [] if first.not_given_back else second.not_given_back
    if cause is not None and cause.kind == "outside":
        cause = with_load(cause, lost, second.loaded)
    explanation = Explanation(tick, recorded_hash, outcomes, pair, fields, cause, [], None, [], notes, place)
    return attrs.evolve(explanation, identities=identities, not_given_back=lost)


def _unexplained(tape: Tape, factory: Factory | None, explanation: Explanation, finding: Finding | None) -> Explanation:
    """All variants agree, but not with the tape: add the known differences, and the lines that write these fields."""
    assert explanation.tick is not None
    step = explanation.ran[0].step if explanation.ran else None
    fields: list[FieldDifference] = []
    known_tick, known_states, notes, place = None, None, list(explanation.notes), DesyncLocation()
    if step is None and finding is not None:
        place, fields = finding.place, finding.differences
        known_tick, known_states = finding.compared_tick, finding.compared_states
        notes += [finding.note] if finding.note is not None else []
    if step is not None and step.state is not None:
        place = place_of(tape.frame(explanation.tick), step.state, step.phases)
        try:
            state_hash = step.state.hash()
            if finding is None or finding.replayed.hash() != state_hash:  # The present variant gives yet another state.
                cursor = Cursor(tape, make_simulation(tape, factory))
                finding = find_desync(cursor, explanation.tick, state_hash)
            fields, known_tick, known_states = finding.differences, finding.compared_tick, finding.compared_states
            notes += [finding.note] if finding.note is not None else []
        except RecordingError as error:
            notes.append(f"the next keyframe cannot be compared: {error}")
    names = {f"s:{name}" for name in place.fields or [difference.field for difference in fields]}
    shown = lines_that_write(step.trace, names) if step is not None else []
    return attrs.evolve(
        explanation,
        known_fields=fields,
        known_tick=known_tick,
        known_states=known_states,
        writers=shown,
        notes=notes,
        place=place,
    )
