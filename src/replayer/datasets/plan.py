"""Plan an extraction: divide the requested ticks of the tapes into parts, one job of a worker each.

The parts do not depend on the number of workers. A part begins at a keyframe, or where a range of the request begins.
So only the ticks after a part's last sample are simulated twice.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from recorder.errors import CorruptError, TornError
from recorder.location.tape_location import Location
from replayer.datasets.functions import Setting
from replayer.datasets.request import ExtractionError, Request
from replayer.playback.make_simulation import Factory
from replayer.tape.environment_calls import ENVIRONMENTS, adapter_name
from replayer.tape.episodes import find_episodes
from replayer.tape.tape import Tape
from sim.kernel.registry import find_world

PART_TICKS = 3000  # Ten keyframes at the default interval, the first one full: a few seconds of work.
PART_BYTES = 256 << 20  # Of sampled states: large states make shorter parts.
TAPES_TOGETHER = 16  # Read by one process: a new one for each imports what the simulation needs again.
ENVIRONMENT_TAPES = 64  # Of environments: it makes one for all of them, which takes as long as hundreds of steps.
_LOT_BYTES = 16
WON, LOST, DREW = "won", "lost", "drew"
LOST_KEYFRAME = "the keyframe that led to them is lost"
OUTCOMES = ("", WON, LOST, DREW)
ENDLESS = ("mujoco",)  # Adapters that record resets of simulations in which no episode ever ends.


@attrs.frozen
class TapeInput:
    """A tape to extract from.

    Attributes:
        path: of the tape. name: its path as the user gave it. run: its run id, hexadecimal.
        digest: SHA-256 of its files, see tape_digest. status: of the tape.
        first_tick, last_tick: the ticks that can be reached.
        reason: why the recording ended; "" if unknown. is_end: True if the world itself ended the run.
        scores: by agent, at the end of the run, from the sealed tape or from its world; empty if unknown.
        world: its entry in META; None for the user's own simulation.
        environment: the adapter of a tape of environments; "" for any other tape.
        lost_first: the first tick that was recorded.
        split: the name of its split; "" without splits.
    """

    path: Location
    name: str
    run: str
    digest: str
    status: str
    first_tick: int
    last_tick: int
    reason: str
    is_end: bool
    scores: dict[str, float]
    world: dict[str, Any] | None
    lost_first: int = 0
    split: str = ""
    environment: str = ""

    @property
    def lost_ticks(self) -> tuple[int, int] | None:
        """The ticks, first and last, before those that can be reached: the keyframe that led to them is lost."""
        return (self.lost_first, self.first_tick - 1) if self.lost_first < self.first_tick else None

    def outcome(self, agent: str) -> str:
        """The agent's outcome: won, lost or drew; "" if unknown."""
        if agent not in self.scores or len(self.scores) < 2:
            return ""
        best = max(self.scores.values())
        winners = [name for name, score in self.scores.items() if score == best]
        if agent not in winners:
            return LOST
        return WON if len(winners) == 1 else DREW

    def setting(self, factory: Factory | None) -> Setting:
        """The world and the configuration that functions are made for."""
        if factory is not None or self.world is None:
            return Setting(None, {})
        return Setting(find_world(self.world["name"]), self.world["config"])


@attrs.frozen
class DatasetPart:
    """A job of one worker: some ticks of one tape.

    Attributes:
        number: among all parts.
        source: the number of its tape.
        ticks: the sampled ones.
        then: the tick at which the last pair ends; None if there is none.
        first, last: the range of ticks whose events belong to this part.
        share: its work as a part of that of the least full part of its tape; 1 or more if it was cut from others.
    """

    number: int
    source: int
    ticks: range
    then: int | None
    first: int
    last: int
    share: float = 1.0


def split_of(run: str, request: Request) -> str:
    """Return the name of the split of a run."""
    place = int.from_bytes(_lot(request.seed, run)) / (1 << 8 * _LOT_BYTES)
    bounds = itertools.accumulate(share for _, share in request.splits)
    names = [name for name, _ in request.splits]
    return next((name for name, bound in zip(names, bounds, strict=True) if place < bound), names[-1])  # Rounding.


def _lot(seed: int, text: str) -> bytes:
    return hashlib.blake2b(f"{seed}:{text}".encode(), digest_size=_LOT_BYTES).digest()


def chosen_agents(
    sources: Sequence[TapeInput], agents: Sequence[Sequence[str]], request: Request
) -> list[tuple[str, ...]]:
    """Choose the agents of each source by the request's mode. agents: all agents of each source.

    In the mode balanced, each outcome gets as many agents as the rarest one has; the seed decides which.
    """
    outcomes = [[(agent, source.outcome(agent)) for agent in own] for source, own in zip(sources, agents, strict=True)]
    if request.mode == "winners":
        return [tuple(agent for agent, outcome in own if outcome == WON) for own in outcomes]
    if request.mode != "balanced":
        return [tuple(agent for agent, _ in own) for own in outcomes]
    lots: dict[str, list[tuple[bytes, int, str]]] = {}
    for number, own in enumerate(outcomes):
        for agent, outcome in own:
            if outcome:
                lot = _lot(request.seed, f"{sources[number].run}:{agent}")
                lots.setdefault(outcome, []).append((lot, number, agent))
    if len(lots) < 2:
        outcome = next(iter(lots), "")
        raise ExtractionError(
            "there is nothing to balance: " + (f"all agents {outcome}" if outcome else "the runs have no winners")
        )
    count = min(map(len, lots.values()))
    kept = {(number, agent) for drawn in lots.values() for _, number, agent in sorted(drawn)[:count]}
    return [tuple(agent for agent, _ in own if (number, agent) in kept) for number, own in enumerate(outcomes)]


def open_source(source: TapeInput) -> Tape:
    """Open a tape; the index of a damaged one is not trusted."""
    tape = Tape(source.path)
    if source.status == "corrupt":
        tape.distrust_index()
    return tape


def ensure_pairs_hold(source: TapeInput, request: Request) -> None:
    """Raise ExtractionError if training pairs of this tape would join two episodes, or hide the end of one.

    Pairs treat the recording as one episode. The tape of an environment holds many, each with its own end.
    """
    with open_source(source) as tape:
        name = adapter_name(tape)
        resets = [] if name in ENVIRONMENTS else [episode.first_tick for episode in find_episodes(tape)]
    if name in ENVIRONMENTS or (resets and name not in ENDLESS):
        raise ExtractionError(
            f"{source.name}: the adapter {name} recorded episodes, and pairs would join the last state before a reset to "
            "the first one after it: use the table transitions (the default; it takes no --observe, --reward, --action "
            "and --mode), or the tables states and actions"
        )
    for first, last in ranges_of(source, request):
        inside = [tick for tick in resets if first < tick <= last]
        if inside:
            starts = [*resets, source.last_tick + 1]
            ranges = [f"{begin}..{end - 1}" for begin, end in itertools.pairwise(starts) if end - begin > 1]
            fix = f"give --ticks of one episode, such as {ranges[0]}" if ranges else "use --table states"
            raise ExtractionError(
                f"{source.name}: training pairs from tick {first:,} to {last:,} would treat the reset at tick "
                f"{inside[0]:,} as a step: {fix}"
            )


def make_parts(
    sources: Sequence[TapeInput],
    request: Request,
    part_ticks: int | None = None,
    starts_of: Callable[[int, Tape], Sequence[int]] | None = None,
) -> list[DatasetPart]:
    """Make all parts, in the order of the sources and of the ranges.

    A part has at least PART_TICKS, or part_ticks, if the range allows it. starts_of: from the number of a source and its
    tape to the ticks at which a part may begin; by default its keyframes. Raises ExtractionError for a range without
    ticks.
    """
    parts: list[DatasetPart] = []
    for number, source in enumerate(sources):
        with open_source(source) as tape:
            starts = _keyframe_ticks(number, tape) if starts_of is None else starts_of(number, tape)
            ticks_min = _part_ticks(tape, request.stride) if part_ticks is None else max(part_ticks, request.stride)
        for first, last in ranges_of(source, request):
            for ticks, then, until in _cut(first, last, request.stride, starts, ticks_min):
                begin = first if ticks.start == first else ticks.start + 1
                share = (until - begin + 1) / ticks_min
                parts.append(DatasetPart(len(parts), number, ticks, then, begin, until, share))
    return parts


def _keyframe_ticks(_: int, tape: Tape) -> list[int]:
    return [keyframe.tick for keyframe in tape.keyframes]


def _part_ticks(tape: Tape, stride: int) -> int:
    """Return the least number of ticks of a part: PART_TICKS, or fewer if their samples exceed PART_BYTES."""
    for keyframe in tape.keyframes:
        try:
            size_bytes = max(1, tape.snapshot(keyframe).layout.size_bytes)
        except (CorruptError, TornError):
            continue
        return max(stride, min(PART_TICKS, PART_BYTES // size_bytes * stride))
    return max(stride, PART_TICKS)


def ranges_of(source: TapeInput, request: Request) -> list[tuple[int, int]]:
    """Return the requested ranges of ticks of a source, cut to the ticks that it has."""
    ranges = []
    for bounds in request.ranges or ((None, None),):
        first, last = (None if tick is None else tick + source.last_tick + 1 if tick < 0 else tick for tick in bounds)
        first = source.first_tick if first is None else max(first, source.first_tick)
        last = source.last_tick if last is None else min(last, source.last_tick)
        if first <= last:
            ranges.append((first, last))
    if not ranges:
        has = f"has ticks {source.first_tick:,} to {source.last_tick:,}"
        raise ExtractionError(f"{source.name} {has}, and none of them in the requested ranges")
    for (_, before), (after, _) in itertools.pairwise(sorted(ranges)):
        if after <= before:
            raise ExtractionError(
                f"{source.name}: tick {after:,} is in two of the requested ranges: give ranges without common ticks"
            )
    return ranges


def _cut(
    first: int, last: int, stride: int, starts: Sequence[int], ticks_min: int
) -> Iterator[tuple[range, int | None, int]]:
    """Yield the sampled ticks, the end of the last pair and the last tick of each part of a range."""
    cuts = [first]
    for tick in starts:
        if tick - cuts[-1] >= ticks_min and tick <= last:
            cuts.append(tick)
    bounds = [first + -(-(cut - first) // stride) * stride for cut in cuts]  # Up to the next sampled tick.
    bounds = [bound for bound in bounds if bound <= last]
    ends = [*bounds[1:], None]
    for start, end in zip(bounds, ends, strict=True):
        if end is not None:
            yield range(start, end, stride), end, end
        else:
            ticks = range(start, last + 1, stride)
            yield ticks, last if ticks[-1] < last else None, last  # The last pair may be shorter, in every run.
