"""What was found out about two tapes: their first difference, the parties' runs, and what each difference does alone."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from replayer.desync.state_diff import FieldDifference
from replayer.diagnose.compare.tape_diff import TapeDifference
from replayer.diagnose.explain.cause import Cause
from replayer.diagnose.parties.differences.factor import Factor
from replayer.diagnose.parties.party import Party
from replayer.diagnose.parties.party_runner import PartyRun
from replayer.diagnose.parties.told.tape_seeds import TriedSeeds
from replayer.diagnose.parties.told.told_environment import ToldVariable
from replayer.diagnose.parties.told.unnoted_reads import FoundVariable
from sim.kernel.state import Snapshot


@attrs.frozen(eq=False)
class FactorTest:
    """What one difference does alone.

    Attributes:
        factor: the difference.
        outcomes: of A with what B has, and of B with what A has: "A" or "B" (it gives what that party gives), "raised" (an
            error that neither of them raises), "other" (a third state), or None if it could not be run.
        why_not: why it could not be run; None otherwise.
        raised: the errors that the two runs raised; None for a run without one.
    """

    factor: Factor
    outcomes: tuple[str | None, str | None]
    why_not: str | None = None
    raised: tuple[str | None, str | None] = (None, None)

    @property
    def decides(self) -> bool:
        """True if this difference alone turns A into B, and B into A."""
        return self.outcomes == ("B", "A")

    @property
    def has_no_effect(self) -> bool:
        """True if A stays A with it, and B stays B."""
        return self.outcomes == ("A", "B")


@attrs.frozen(eq=False)
class PartyExplanation:
    """The explanation of two tapes.

    Attributes:
        difference: of the tapes, without any simulation.
        parties: A and B.
        recorded: the hashes of the first differing tick on the tapes; None without one.
        runs: the step to that tick by each party; None for one that could not be run.
        is_first_tick: True if the states differ at the first tick that both tapes have.
        why_older: why no step to the tick can be compared, if the states may have differed before it; None otherwise.
        fields: the differences of the states that the parties give, or that the tapes hold at the first tick.
        states: those states; None if they are not known.
        cause: the line at which the parties' steps diverge; None if it is not known.
        tests: of each difference.
        unsteady: the parties that gave another result when they ran again in another process, as indices.
        varying: a party with something changed that gave different results in several processes; None without one.
        seeds: the hash seeds that were tried, of which one makes a difference; None without one. The cause is of that.
        variable: an environment variable with which a party gives what its tape has; None without one. The cause is of that.
        told: variables of which a tape tells another value than its party has here, or had before it was given that of
            the tape.
        unnoted: what the step reads of the outside world and the tapes do not tell alike; empty if it was not looked for.
        unnoted_before: the environment variables that are read before the step, of which the same holds.
        notes: further remarks, a sentence each.
    """

    difference: TapeDifference
    parties: tuple[Party, Party]
    recorded: tuple[int, int] | None = None
    runs: tuple[PartyRun | None, PartyRun | None] = (None, None)
    is_first_tick: bool = False
    why_older: str | None = None
    fields: Sequence[FieldDifference] = ()
    states: tuple[Snapshot, Snapshot] | None = None
    cause: Cause | None = None
    tests: Sequence[FactorTest] = ()
    unsteady: tuple[int, ...] = ()
    varying: str | None = None
    seeds: TriedSeeds | None = None
    variable: FoundVariable | None = None
    told: Sequence[ToldVariable] = ()
    unnoted: str = ""
    unnoted_before: str = ""
    notes: Sequence[str] = ()

    @property
    def tick(self) -> int | None:
        """The first tick with different states; None if there is none."""
        return self.difference.first_bad

    @property
    def is_reproduced(self) -> bool:
        """True if the two parties give different results."""
        first, second = (run.result if run is not None else None for run in self.runs)
        return first is not None and second is not None and first != second

    @property
    def deciding(self) -> list[FactorTest]:
        """The tests of the differences that alone decide about the result; none if the results vary anyway."""
        return [test for test in self.tests if test.decides] if not self.varies else []

    @property
    def varies(self) -> bool:
        """True if runs of one party in several processes gave different results."""
        return bool(self.unsteady) or self.varying is not None

    def is_recorded(self, party: int) -> bool:
        """Return True if a party (0 or 1) gives what its tape has."""
        run = self.runs[party]
        return run is not None and self.recorded is not None and run.result == (self.recorded[party], None)
