"""A run of a corpus: its tape, its players, its end, and the quality of its inputs.

All facts come from the tape, so an index of them can be deleted and rebuilt.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import attrs

from recorder.format.recording.assembly import NOT_CHECKED
from recorder.location.tape_location import Location

GENERATED, RECORDED = "generated", "recorded"  # Made by record generate, or in any other way.
WON, LOST, DREW = "won", "lost", "drew"
# The quality of a run's inputs as training data, lowest first; see tier_of.
TIERS = ("unrated", "idle", "random", "scripted", "human")
UNRATED, IDLE, RANDOM, SCRIPTED, HUMAN = TIERS
# The recording or the copy ended, the run did not, or its end is unknown.
UNFINISHED_REASONS = (
    "exception",
    "interrupted",
    "terminated",
    "written out",
    "cut out",
    "shrunk",
    "checkpoint",
    "peer desync",
    "repaired",
)
STATUSES = (NOT_CHECKED, "incomplete", "corrupt", "unreadable")  # Best first. A listing reads no complete tape.


@attrs.frozen
class PlayerResult:
    """One player of a run.

    Attributes:
        player: the name of the world's agent.
        policy: the policy noted on the tape; None if it notes none.
        score: the score at the end of the run, see World.outcome; None if there is none, or the run did not end.
        outcome: won, lost or drew; None unless at least two players have scores.
    """

    player: str
    policy: str | None = None
    score: float | None = None
    outcome: str | None = None


@attrs.frozen
class Quality:
    """The inputs of a run, without those that its scenario schedules.

    Attributes:
        tier: the quality, see TIERS and tier_of.
        inputs: their number, over all ticks.
        ticks_with_inputs: the number of ticks that have some.
    """

    tier: str
    inputs: int
    ticks_with_inputs: int


@attrs.frozen
class Settings:
    """The settings that all runs of one scenario in one corpus share; seed and players may differ.

    Attributes:
        family: the hash of the scenario without its seed, see sim.scenario.config.identity.
        goal_ticks: the planned last tick of the run; None if the tape does not state it.
        keyframe_interval_ticks: ticks from one keyframe to the next.
    """

    family: str
    goal_ticks: int | None
    keyframe_interval_ticks: int | None


@attrs.frozen
class Run:
    """One run of a corpus: a tape and its description.

    Attributes:
        tape: the file's name in the folder.
        folder: the folder of the corpus.
        run_id: hexadecimal; empty if it is lost.
        scenario, world, version, seed: facts of the run; None where the tape does not state them. The seed of an environment
            is that of its first reset.
        first_tick, ticks: the first and the last tick; None if there is no state.
        state_hash: the hash of the last tick, hexadecimal; empty if it cannot be read.
        size_bytes: the size of all files of the tape.
        scenario_hash: see sim.scenario.config.identity; empty if the tape does not describe its scenario.
        settings: see Settings; None if the tape does not describe its scenario.
        source: generated or recorded.
        status: not checked (no fault is visible), incomplete, corrupt or unreadable, by headers, index, and the frames
            that were read.
        sealed: True if the recording was closed properly.
        finished: time of the last change to a file of the tape, in ISO form, UTC; empty if the tape is not sealed.
        changed_ns: this time in nanoseconds.
        reason, text: why the run ended, as recorded on the tape; None if it did not end.
        error: the exception of the run, or the reason why the tape cannot be read; None without an error.
        players: the players of the run.
        quality: None if the inputs were not read.
        stamp: the files of the tape when it was read, see tape_stamp; empty if they do not show each change.
        simulation: the name of the environment, or the class of the recorded object; None for a registered world.
    """

    tape: str
    folder: Location = attrs.field(eq=False)
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
    status: str = NOT_CHECKED
    sealed: bool = True
    finished: str = ""
    changed_ns: int = 0
    reason: str | None = None
    text: str | None = None
    error: str | None = None
    players: tuple[PlayerResult, ...] = ()
    quality: Quality | None = None
    stamp: str = attrs.field(default="", eq=False)
    simulation: str | None = None

    @property
    def path(self) -> Location:
        """The path of the tape."""
        return self.folder / self.tape

    @property
    def subject(self) -> str:
        """What was recorded: the scenario, else the world, the environment, or the class; empty if it is not known."""
        return self.scenario or self.world or self.simulation or ""

    @property
    def ended(self) -> bool:
        """True if the run reached its end; False if its recording was stopped or failed before."""
        return self.sealed and is_end_of_run(self.reason)

    @property
    def policies(self) -> dict[str, str]:
        """Policies by player, for players that have one."""
        return {player.player: player.policy for player in self.players if player.policy is not None}

    @property
    def winner(self) -> str | None:
        """The name of the player who won; None if no player did."""
        return next((player.player for player in self.players if player.outcome == WON), None)


def is_end_of_run(reason: str | None) -> bool:
    """Return True if a run ended for this reason, as its sealed tape states it; None if it states none."""
    return reason is not None and reason not in UNFINISHED_REASONS


def players_of(
    agents: Sequence[str], policies: Mapping[str, str], scores: Mapping[str, float]
) -> tuple[PlayerResult, ...]:
    """Return the players of a run: the agents of the world, in its order, then others that the tape names."""
    names = dict.fromkeys([*agents, *policies, *scores])
    outcomes = outcomes_of(scores)
    return tuple(PlayerResult(name, policies.get(name), scores.get(name), outcomes.get(name)) for name in names)


def outcomes_of(scores: Mapping[str, float]) -> dict[str, str]:
    """Return the outcome of each player: the highest score wins, a tie is drawn; empty without two comparable scores."""
    if len(scores) < 2 or not all(math.isfinite(score) for score in scores.values()):
        return {}
    highest = max(scores.values())
    best = WON if sum(score == highest for score in scores.values()) == 1 else DREW
    return {name: best if score == highest else LOST for name, score in scores.items()}


def tier_of(players: Sequence[PlayerResult], inputs: int, *, from_file: bool = False) -> str:
    """Return the quality of a run's inputs, which is that of its weakest player.

    idle: no player sent inputs, or a player has the policy idle, or none while others have one. random: a player has
    the policy random. scripted: all players have policies that react to their view. human: people played, which the tape
    notes as the policy "human". unrated: there were inputs, but the tape does not note the players, or they came from a
    file.
    """
    if not inputs:
        return IDLE
    if from_file or not any(player.policy is not None for player in players):
        return UNRATED
    return min((_tier_of_policy(player.policy) for player in players), key=TIERS.index)


def _tier_of_policy(policy: str | None) -> str:
    if policy is None:
        return IDLE
    return policy if policy in {IDLE, RANDOM, HUMAN} else SCRIPTED
