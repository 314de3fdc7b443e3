"""Try hash seeds where both parties give one state: which seed makes a difference, and which gives the state of which tape."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import attrs

from replayer.diagnose.explain.variant_choice import SEED, SEEDS
from replayer.diagnose.parties.party import Party
from replayer.diagnose.parties.party_runner import PartyAnswer, StepResult

MORE_SEEDS = tuple(str(number) for number in range(4, 16))  # Once one makes a difference, though not that of the tapes.
_AT_A_TIME = 2

Run = Callable[[Sequence[Party], bool], list[PartyAnswer | None]]  # The step of these parties, traced or not.


@attrs.frozen
class TriedSeeds:
    """The hash seeds that were tried in party A.

    Attributes:
        first: the first one with which the step gives another result than with the parties' own seed.
        own: the seed of the parties' processes.
        of_tapes: with which the step gives the state of tape A, and that of tape B; None where no tried seed does.
        count: the number of those that were tried, with the parties' own.
    """

    first: str
    own: str
    of_tapes: tuple[str | None, str | None]
    count: int

    @property
    def decides(self) -> bool:
        """True if each tape's state is that of a seed: nothing else needs to differ between the parties."""
        return None not in self.of_tapes

    @property
    def changed(self) -> list[str]:
        """The seeds whose results are named, without the parties' own."""
        return [seed for seed in dict.fromkeys((self.first, *self.of_tapes)) if seed not in (None, self.own)]


def own_seed(party: Party) -> str:
    """The hash seed of a party's processes; see PartyRunner."""
    return party.environment.get(SEED) or os.environ.get(SEED, "0")


def seeded_party(party: Party, seed: str) -> Party:
    """The party with a seed."""
    return attrs.evolve(party, environment={**party.environment, SEED: seed})


def try_seeds(
    party: Party, own: StepResult, recorded: Sequence[StepResult], run: Run
) -> tuple[TriedSeeds, dict[str, PartyAnswer]] | None:
    """Try seeds until each tape's result is given; None if none makes a difference. Returns the traced answers as well.

    own: what both parties give. recorded: what the two tapes have.
    """
    answers: dict[str, PartyAnswer] = {}
    base, count = own_seed(party), 1
    of_tapes = [base if own == one else None for one in recorded]

    def note(seed: str, answer: PartyAnswer | None) -> bool:
        """Note an answer; return True if it is of use."""
        result = None if answer is None else answer.runs[0].result
        if answer is None or result in (None, own):
            return False
        is_new = not answers or any(one is None and result == recorded[number] for number, one in enumerate(of_tapes))
        if is_new:
            answers[seed] = answer
            of_tapes[:] = [seed if result == one else known for one, known in zip(recorded, of_tapes, strict=True)]
        return is_new

    for seed in SEEDS:
        count += 1
        note(seed, run([seeded_party(party, seed)], True)[0])
        if answers and None not in of_tapes:
            break
    for first in range(0, len(MORE_SEEDS) if answers and None in of_tapes else 0, _AT_A_TIME):
        batch = MORE_SEEDS[first : first + _AT_A_TIME]
        count += len(batch)
        for seed, answer in zip(batch, run([seeded_party(party, seed) for seed in batch], False), strict=True):
            if note(seed, answer):
                [traced] = run([seeded_party(party, seed)], True)
                answers[seed] = traced if traced is not None else answers[seed]
        if None not in of_tapes:
            break
    if not answers:
        return None
    return TriedSeeds(next(iter(answers)), base, (of_tapes[0], of_tapes[1]), count), answers
