"""The explanation of one bad tick, as data."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from replayer.desync.finding import TestedCause
from replayer.desync.location import DesyncLocation
from replayer.desync.outside_comparison import ReadComparison
from replayer.desync.state_diff import FieldDifference
from replayer.desync.ulps import DifferingElements
from replayer.diagnose.explain.cause import OPEN, Cause, SourceLocation
from replayer.diagnose.explain.lines_run.found_values import ValuesPutIn
from replayer.diagnose.explain.lines_run.run_lines import RunBefore, SharedResult
from replayer.diagnose.explain.trace_step import NOT_REPEATABLE
from replayer.diagnose.explain.values.given_values import GivenFunctions, GivenValues
from replayer.diagnose.explain.values.identities import DifferingIdentity
from replayer.diagnose.explain.values.process_settings import DifferingSetting
from replayer.diagnose.explain.values.reloaded import NotGivenBack
from replayer.diagnose.explain.variants import Replaced, VariantOutcome
from replayer.timeline.verify import VerificationReport
from sim.kernel.state import Snapshot


@attrs.frozen(eq=False)
class DifferingField:
    """A field in which the two variants differ.

    Attributes:
        name: of the field.
        elements: the elements that differ; None if its size differs.
    """

    name: str
    elements: DifferingElements | None


@attrs.frozen
class DecidingReads:
    """A kind of reads of the outside world that decides which state a step gives.

    Attributes:
        what: the kind, with the names and lines of its reads.
        test: what was run, and what it gave.
    """

    what: str
    test: str


@attrs.frozen
class DecidingVariables:
    """Environment variables with which alone a step gives the recorded state.

    Attributes:
        values: by name, the value with which it does, and the one with which it gives another state; None for not set.
        runs: the number of processes in which it did so with each.
        is_recorded: True if the first values are those of the recording.
        is_noted: False if a hash seed is among them, and the recording had drawn its own.
    """

    values: Mapping[str, tuple[str | None, str | None]] = attrs.field(hash=False)
    runs: int
    is_recorded: bool
    is_noted: bool


@attrs.frozen(eq=False)
class Explanation:
    """The explanation of one bad tick.

    Attributes:
        tick: the bad tick; None if every variant verifies the complete tape.
        recorded_hash: of the tick, on the tape.
        variants: all outcomes.
        pair: the two that are compared; None if all gave the same state.
        fields: the fields in which the two differ, in the arena's order.
        cause: the line at which they diverge; None if it is not known.
        known_fields: if no variant gives the recorded state: the differences at the next recorded keyframe.
        known_tick: the tick of that keyframe; None if there is none.
        known_states: the recorded and the replayed state of that tick; None without them.
        writers: the lines that write the fields that differ at this tick, in their order. If the tape does not name
            those: the fields that differ at the next recorded keyframe. If none differ there: all fields.
        notes: further remarks, a sentence each.
        place: phase and fields in which the two variants differ, or in which all of them differ from the tape.
        report: of verifying a tape that is damaged or not sealed, if no bad tick was found on it; else None.
        identities: pairs of names that led to one object before the step in one of the two, and to two in the other.
        between: the comparison that the recorder made before the step to the tick, or a change of the state before it
            with which the step gives the recorded one; None without either.
        is_maybe_in_step: True if that change may be made in the step itself as well.
        changing_lines: lines of the user's code, not seen to be of the step, that make such a change.
        run_before: statements of the program with which, run before the step, it gives the recorded state; None without.
        other_values: values outside the state with others of which the step gives the recorded state; None without.
        shared: what the step before returned and the state holds, too; None if nothing was seen.
        code: the comparison of the loaded code with the recorded one; None without a note of that.
        outside: what the step reads of the outside world, compared with the recording; differences first.
        settings: of the whole process, that differed before the step.
        not_given_back: fields that load() did not give back before the step, in B alone.
        differs_by: a kind of reads of the outside world: with the same stand-ins for it, the two variants give one state,
            or, without a pair, the step does not raise.
        depends_on: a kind of reads of the outside world: with two sets of stand-ins for it, the step gives two states, the same
            with each set; or threads that give one state in each order, and another one at the same time.
        variables: environment variables with which alone the step gives the recorded state; None without.
        given: the test of values outside the state, of which those of A were put into B; None if it was not made.
        set_by_load: the lines of load() that set the values that were proved by that test.
        left_by_load: the head of load(), if that leaves all that was proved by that test as it is in a new instance.
        functions: the test of functions of A's version of the code in B; None if it was not made.
        is_only_here: True if the tick differs when it is verified in this process, and on no variant.
        is_found: True if a variant that verified all ticks found this one.
        seen: where replay verify told that the tick differs; None if that is not known.
        memory_runs: the number of processes in which the step gave the same with each of two patterns in fresh memory, and
            another state with the other one; 0 if it was not seen to.
        tested: further causes that were tested because no line is known to be the cause; see diagnose/investigation.
        walked: of sets whose members look alike, whether the order in which a line goes through them decides; see walked.
        changed_settings: settings of the process that were changed while the run was recorded, in words.
        knows_settings: True if these are known to be all, up to a keyframe after the tick.
    """

    tick: int | None
    recorded_hash: int
    variants: list[VariantOutcome]
    pair: tuple[VariantOutcome, VariantOutcome] | None
    fields: list[DifferingField]
    cause: Cause | None
    known_fields: list[FieldDifference]
    known_tick: int | None
    writers: list[tuple[SourceLocation, list[str]]]
    notes: list[str]
    place: DesyncLocation = attrs.field(factory=DesyncLocation)
    report: VerificationReport | None = None
    known_states: tuple[Snapshot, Snapshot] | None = None
    between: TestedCause | None = None
    is_maybe_in_step: bool = False
    changing_lines: list[SourceLocation] = attrs.field(factory=list)
    run_before: RunBefore | None = None
    other_values: ValuesPutIn | None = None
    shared: SharedResult | None = None
    code: TestedCause | None = None
    outside: list[ReadComparison] = attrs.field(factory=list)
    identities: list[DifferingIdentity] = attrs.field(factory=list)
    settings: list[DifferingSetting] = attrs.field(factory=list)
    not_given_back: list[NotGivenBack] = attrs.field(factory=list)
    differs_by: DecidingReads | None = None
    depends_on: DecidingReads | None = None
    variables: DecidingVariables | None = None
    given: GivenValues | None = None
    set_by_load: list[SourceLocation] = attrs.field(factory=list)
    left_by_load: SourceLocation | None = None
    functions: GivenFunctions | None = None
    is_only_here: bool = False
    is_found: bool = False
    seen: str | None = None
    memory_runs: int = 0
    tested: list[TestedCause] = attrs.field(factory=list)
    walked: list[TestedCause] = attrs.field(factory=list)
    changed_settings: list[str] = attrs.field(factory=list)
    knows_settings: bool = False

    @property
    def replaced(self) -> Replaced | None:
        """What was replaced of the outside world, where only that gave the recorded state; None if nothing was."""
        first = self.pair[0] if self.pair is not None else None
        return first.variant.replaced if first is not None and self.is_recorded(first) else None

    @property
    def is_refuted(self) -> bool:
        """True if the line reads hidden state, and B with what could be put into it of that of A does not give A's state."""
        kind = None if self.cause is None else self.cause.kind
        return (
            kind in ("outside", "inexact")
            and self.given is not None
            and self.given.why_not is None
            and not self.given.proved
        )

    @property
    def is_untested(self) -> bool:
        """True if the line reads what differs before the step, and nothing shows an effect: it could not be put into B.

        What two environments have given other values is the cause without that, and what load() was seen to set.
        """
        if self.cause is None or self.given is None or self.given.why_not is None:
            return False
        is_of_code = self.pair is not None and self.pair[0].variant.code != self.pair[1].variant.code
        is_hidden = self.cause.kind == "outside" and self.cause.loaded_at is None
        return is_hidden or (self.cause.kind == "version" and is_of_code)

    @property
    def is_open(self) -> bool:
        """True if the cause of the line is not known, though one differs before it."""
        return self.is_refuted or self.is_unproved or self.is_untested or self.is_of_memory

    @property
    def is_of_order(self) -> bool:
        """True if the order in which the line goes through a set was shown to decide."""
        return any(one.suspicious for one in self.walked)

    @property
    def is_of_memory(self) -> bool:
        """True if an operation gets what differs in fresh memory alone, and no test shows that this has no effect."""
        return self.cause is not None and self.cause.memory == OPEN

    @property
    def is_unproved(self) -> bool:
        """True if the line is of a function that leaves B as it was if it is taken from A's version of the code."""
        return self.functions is not None and not self.functions.names and not self.functions.has_effect

    @property
    def is_of_lost(self) -> bool:
        """True if load() was seen not to give back fields, and that they make the difference was not."""
        return self.cause is not None and self.cause.kind == "load" and self.cause.is_of_load

    @property
    def is_unshown(self) -> bool:
        """True if two versions of the code differ in the line, and no test showed that this makes the difference."""
        if self.cause is None or self.cause.kind != "edited" or self.cause.is_shown:
            return False
        return self.functions is None or not self.functions.names

    @property
    def agrees(self) -> bool:
        """True if every variant that ran gives the recorded state, and one did."""
        return self.tick is None or (self.pair is None and bool(self.ran) and all(map(self.is_recorded, self.ran)))

    @property
    def is_seen(self) -> bool:
        """True if the tick is known to have differed somewhere, whatever the variants give."""
        return self.is_only_here or self.is_found or self.seen is not None or NOT_REPEATABLE in self.notes

    @property
    def ran(self) -> list[VariantOutcome]:
        """The outcomes of variants that reached the step."""
        return [outcome for outcome in self.variants if outcome.step is not None]

    def is_recorded(self, outcome: VariantOutcome) -> bool:
        """Return True if a variant gives the recorded state."""
        return outcome.result == (self.recorded_hash, None)
