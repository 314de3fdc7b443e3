"""What is known of the runs of a corpus: one run, who played in it, how it ended, and what its inputs are worth.

Everything comes from the tape, so that an index of it can be thrown away and made again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

GENERATED, RECORDED = "generated", "recorded"  # By record generate, and in any other way.
WON, LOST, DREW = "won", "lost", "drew"
# What the inputs of a run are worth to somebody who learns from them, the least first; see tier_of.
TIERS = ("unrated", "idle", "random", "scripted", "human")
UNRATED, IDLE, RANDOM, SCRIPTED, HUMAN = TIERS
UNFINISHED_REASONS = ("exception", "interrupted", "terminated", "written out")  # The run itself had not ended.
STATUSES = ("intact", "incomplete", "corrupt", "unreadable")  # The best first.


@attrs.frozen
class PlayerResult:
    """One player of a run.

    Attributes:
        player: by name, as the world calls its agents.
        policy: that played, as the tape notes it; None if it notes none.
        score: at the end of the run, see World.outcome; None if there is none, or the run did not end.
        outcome: won, lost or drew; None without scores of two players at least.
    """

    player: str
    policy: str | None = None
    score: float | None = None
    outcome: str | None = None


@attrs.frozen
class Quality:
    """What was sent in a run, beside what its scenario sends by itself.

    Attributes:
        tier: see TIERS and tier_of.
        inputs: how many, over all ticks.
        ticks_with_inputs: how many ticks had some.
    """

    tier: str
    inputs: int
    ticks_with_inputs: int


@attrs.frozen
class Settings:
    """What runs of one scenario in one corpus have in common, but for the seed and the players.

    Attributes:
        family: the hash of the scenario without its seed, see sim.scenario.config.identity.
        goal_ticks: how far the run was to go; None if the tape does not say.
        keyframe_interval_ticks: ticks from one keyframe to the next.
    """

    family: str
    goal_ticks: int | None
    keyframe_interval_ticks: int | None


@attrs.frozen
class Run:
    """One run of a corpus: a tape, and what is known of it.

    Attributes:
        tape: the file's name in the folder.
        folder: of the corpus.
        run_id: hexadecimal; empty if it is lost.
        scenario, world, version, seed: what was run; None where the tape does not say.
        first_tick, ticks: the first tick and the last one; None if there is none.
        state_hash: at the last tick, hexadecimal; empty if it cannot be had.
        size_bytes: of all files of the tape.
        scenario_hash: see sim.scenario.config.identity; empty if the tape does not say how it was made.
        settings: see Settings; None likewise.
        source: generated or recorded.
        status: intact, incomplete, corrupt or unreadable, as headers and index show it, and the frames that were read.
        sealed: whether the recording was closed properly.
        finished: when the last file of the tape was changed last, in ISO form, UTC; empty if it is not sealed.
        changed_ns: the same, as the system has it; an index is believed as long as it fits.
        reason, text: why the run ended, as it stands on the tape; None if it did not.
        error: what went wrong: of a run that raised, or of a tape that cannot be read; None if nothing did.
        players: who took part.
        quality: None if the inputs were not looked at.
    """

    tape: str
    folder: Path = attrs.field(eq=False)
    run_id: str = ""
    scenario: str | None = None
    world: str | None = None
    version: int | None = None
    seed: int | None = None
    first_tick: int | None = None
    ticks: int | None = None
    state_hash: str = ""
    size_bytes: int = 0
    scenario_hash: str = ""
    settings: Settings | None = None
    source: str = RECORDED
    status: str = "intact"
    sealed: bool = True
    finished: str = ""
    changed_ns: int = 0
    reason: str | None = None
    text: str | None = None
    error: str | None = None
    players: tuple[PlayerResult, ...] = ()
    quality: Quality | None = None

    @property
    def path(self) -> Path:
        """Of the tape."""
        return self.folder / self.tape

    @property
    def ended(self) -> bool:
        """Whether the run came to its end, as opposed to its recording, which may have been stopped or failed."""
        return self.sealed and self.reason is not None and self.reason not in UNFINISHED_REASONS

    @property
    def policies(self) -> dict[str, str]:
        """Policies by player, of those players that have one."""
        return {one.player: one.policy for one in self.players if one.policy is not None}

    @property
    def winner(self) -> str | None:
        """The player who won; None if nobody did."""
        return next((one.player for one in self.players if one.outcome == WON), None)


def players_of(
    agents: Sequence[str], policies: Mapping[str, str], scores: Mapping[str, float]
) -> tuple[PlayerResult, ...]:
    """Who took part: the agents of the world, in its order, then others that the tape names."""
    names = dict.fromkeys([*agents, *policies, *scores])
    outcomes = outcomes_of(scores)
    return tuple(PlayerResult(name, policies.get(name), scores.get(name), outcomes.get(name)) for name in names)


def outcomes_of(scores: Mapping[str, float]) -> dict[str, str]:
    """Who won: the highest score does, equal ones draw; empty if there are not two scores that can be compared."""
    if len(scores) < 2 or not all(math.isfinite(score) for score in scores.values()):
        return {}
    highest = max(scores.values())
    best = WON if sum(score == highest for score in scores.values()) == 1 else DREW
    return {name: best if score == highest else LOST for name, score in scores.items()}


def tier_of(players: Sequence[PlayerResult], inputs: int, *, from_file: bool = False) -> str:
    """What the inputs of a run are worth: as much as those of its weakest player.

    idle: nobody sent anything, or a player has the policy idle, or none while others have one. random: a player has the
    policy random. scripted: all players have policies that look at what they see. human: people played, and the tape
    notes "human" as their policy, since nothing else could tell. unrated: there were inputs, and the tape does not note
    from whom, or they came from a file.
    """
    if not inputs:
        return IDLE
    if from_file or not any(one.policy is not None for one in players):
        return UNRATED
    return min((_tier_of_policy(one.policy) for one in players), key=TIERS.index)


def _tier_of_policy(policy: str | None) -> str:
    if policy is None:
        return IDLE
    return policy if policy in {IDLE, RANDOM, HUMAN} else SCRIPTED
