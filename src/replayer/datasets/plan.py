"""From tapes and a request to parts: what one worker does in one go. The same whatever the number of workers.

A part begins where a keyframe is, or where a range of the request begins, so that nothing is simulated twice but the
ticks behind a part's last sample.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from recorder.corpus.inspect_tape import SCORES, plain_scores
from recorder.errors import CorruptError, MissingTickError, RecordingError, TornError
from recorder.exit_codes import CORRUPT, UNREADABLE
from recorder.format.blocks.block import BlockKind
from recorder.processes.pool import Pool, Report, results_in_order
from replayer.datasets.functions import Setting
from replayer.datasets.request import ExtractionError, Request
from replayer.playback.make_simulation import Factory
from replayer.tape.completeness import tape_code
from replayer.tape.digest import tape_digest
from replayer.tape.episodes import find_episodes
from replayer.tape.tape import Tape
from replayer.timeline.timeline import Timeline
from sim.kernel.registry import UnknownWorldError, find_world

PART_TICKS = 3000  # Ten keyframes at their ordinary interval, of which the first is full; some seconds of work.
PART_BYTES = 256 << 20  # Of sampled states: large ones are shared out among workers sooner.
STOPS = ("", "closed", "ticks", "interrupted", "terminated", "exception")  # Ends that are not the world's own.
WON, LOST, DREW = "won", "lost", "drew"
OUTCOMES = ("", WON, LOST, DREW)
ENVIRONMENTS = ("gymnasium", "pettingzoo")  # Adapters of environments that report the end of each episode themselves.
ENDLESS = ("mujoco",)  # Adapters that record resets of simulations in which no episode ever ends.


@attrs.frozen
class TapeInput:
    """A tape that is extracted from.

    Attributes:
        path: of the tape. name: its path as it was given. run: its run id, hexadecimal.
        digest: SHA-256 of its files, see tape_digest. status: of the tape.
        first_tick, last_tick: that can be had.
        reason: why the recording ended; "" if that is not known. is_end: whether it is the world's own end.
        scores: by agent, at the last tick: as the sealed tape has them, or as its world says; empty if nobody knows.
        world: what the tape says of it; None for a simulation of the user's.
        lost_first: the first tick that the tape knew of; ticks from there to first_tick are lost.
        split: to which it belongs; "" without splits.
    """

    path: Path
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

    def outcome(self, agent: str) -> str:
        """Whether an agent won, lost or drew; "" if nobody knows."""
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
    """What one worker does in one go.

    Attributes:
        number: among all parts.
        source: the number of its tape.
        ticks: that are sampled.
        then: the tick at which the last pair ends; None if there is none.
        first, last: ticks whose events belong here.
    """

    number: int
    source: int
    ticks: range
    then: int | None
    first: int
    last: int


@attrs.frozen
class InspectedTapes:
    """What there is to extract from.

    Attributes:
        sources: the tapes. notes: on those that are left out, in words. codes: exit codes for those that should not be.
    """

    sources: list[TapeInput]
    notes: list[str]
    codes: list[int]


def inspect_tapes(
    paths: Sequence[Path], request: Request, factory: Factory | None, pool: Pool, tell: Callable[[int], None]
) -> InspectedTapes:
    """The tapes as sources, in their order; those of which nothing can be had are left out.

    tell: called with how many were looked at. Raises ExtractionError if two runs have one id, OSError, and what is wrong
    with the first tape if nothing can be had of any.
    """
    found: list[TapeInput] = []
    notes: list[str] = []
    codes: list[int] = []
    first_error: RecordingError | None = None
    wanted = request.mode in ("winners", "balanced") or "pairs" in request.tables or not request.tables
    work = partial(_source, factory=factory, scores_wanted=wanted)
    looked = results_in_order(pool, work, paths, name=lambda path: f"looked at {path}")
    for number, (path, source) in enumerate(zip(paths, looked, strict=True), 1):
        tell(number)
        if isinstance(source, RecordingError):
            notes.append(f"{path} is left out: {source}")
            codes.append(CORRUPT if isinstance(source, CorruptError | MissingTickError) else UNREADABLE)
            first_error = first_error or source
            continue
        twin = next((one for one in found if source.run and one.run == source.run), None)
        if twin is not None and twin.digest == source.digest:
            notes.append(f"{source.name} is left out: it is a copy of {twin.name}")
        elif twin is not None:
            raise ExtractionError(f"{source.name} and {twin.name} are of one run, {source.run}: give one of them")
        else:
            found.append(source)
    if first_error is not None and not found:
        raise first_error
    return InspectedTapes(_split(found, request), notes, codes)


def _source(path: Path, _: Report, *, factory: Factory | None, scores_wanted: bool) -> TapeInput | RecordingError:
    """What is known of a tape, all of whose blocks are read; or why nothing can be had of it."""
    try:
        return _readable_source(path, factory, scores_wanted=scores_wanted)
    except RecordingError as error:
        return error


def _readable_source(path: Path, factory: Factory | None, *, scores_wanted: bool) -> TapeInput:
    with Tape(path) as tape:
        is_corrupt = tape_code(tape) == CORRUPT  # All blocks are read, and no index is believed from here on.
        outcome = tape.outcome if isinstance(tape.outcome, dict) else {}
        reason = str(outcome.get("reason", ""))
        world = tape.meta.get("world")
        known = world if isinstance(world, dict) and {"name", "config"} <= world.keys() else None
        tick_limit = ""
        if known is not None and factory is None:
            tick_limit = find_world(known["name"]).tick_limit_reason
        source = TapeInput(
            path,
            str(path),
            tape.run_id or tape_digest(path)[:32],
            tape_digest(path),
            "corrupt" if is_corrupt else tape.status,
            tape.first_tick,
            tape.last_tick,
            reason,
            reason not in (*STOPS, tick_limit),
            {},
            known,
            lost_first=_first_known(tape) if is_corrupt else tape.first_tick,
        )
    told = outcome.get(SCORES)
    if not is_corrupt and isinstance(told, dict) and told:
        return attrs.evolve(source, scores=plain_scores(told))
    return attrs.evolve(source, scores=_scores(source)) if scores_wanted and factory is None else source


def _first_known(tape: Tape) -> int:
    """The tick before the first frame that there was, even if no keyframe leads to it any more."""
    seals = [segment.contents.seal for segment in tape.segments]
    firsts = [seal.first_tick for seal in seals if seal is not None and seal.frame_count]
    for segment in tape.segments:
        firsts += [entry.first_tick for entry in segment.contents.entries if entry.kind == BlockKind.FRAMES]
    return min([tape.first_tick, *(max(first - 1, 0) for first in firsts)])


def _scores(source: TapeInput) -> dict[str, float]:
    """By agent; empty if the world does not say, or the last state cannot be had: then nobody knows."""
    try:
        setting = source.setting(None)
    except UnknownWorldError:
        return {}
    if setting.world is None or setting.world.outcome is None:
        return {}
    with Timeline(source.path) as run:
        try:
            run.seek(-1)
        except RecordingError:
            return {}  # Whatever keeps the last tick from us is told when its samples are missing.
        return {agent: float(score) for agent, score in setting.world.outcome(setting.config, run.state).items()}


def _split(sources: list[TapeInput], request: Request) -> list[TapeInput]:
    """Allot runs to splits: in an order that only the runs' ids and the seed decide, as many as the shares say."""
    if not request.splits:
        return sources
    order = sorted(sources, key=lambda source: _lot(request.seed, source.run))
    bounds, total = [], 0.0
    for _, share in request.splits:
        total += share
        bounds.append(round(total * len(order)))
    names: dict[str, str] = {}
    for place, source in enumerate(order):
        names[source.run] = next(name for (name, _), bound in zip(request.splits, bounds, strict=True) if place < bound)
    return [attrs.evolve(source, split=names[source.run]) for source in sources]


def _lot(seed: int, text: str) -> bytes:
    return hashlib.blake2b(f"{seed}:{text}".encode(), digest_size=16).digest()


def chosen_agents(
    sources: Sequence[TapeInput], agents: Sequence[Sequence[str]], request: Request
) -> list[tuple[str, ...]]:
    """Whose pairs are extracted from each source, by the request's mode. agents: all there are, of each source.

    Balanced: of each outcome as many as there are of the rarest one; which, the seed decides.
    """
    known = [[(agent, source.outcome(agent)) for agent in own] for source, own in zip(sources, agents, strict=True)]
    if request.mode == "winners":
        return [tuple(agent for agent, outcome in own if outcome == WON) for own in known]
    if request.mode != "balanced":
        return [tuple(agent for agent, _ in own) for own in known]
    lots: dict[str, list[tuple[bytes, int, str]]] = {}
    for number, own in enumerate(known):
        for agent, outcome in own:
            if outcome:
                lot = _lot(request.seed, f"{sources[number].run}:{agent}")
                lots.setdefault(outcome, []).append((lot, number, agent))
    if len(lots) < 2:
        there = next(iter(lots), None)
        raise ExtractionError(
            "there is nothing to balance: " + (f"all agents {there}" if there else "the runs have no winners")
        )
    count = min(map(len, lots.values()))
    kept = {(number, agent) for drawn in lots.values() for _, number, agent in sorted(drawn)[:count]}
    return [tuple(agent for agent, _ in own if (number, agent) in kept) for number, own in enumerate(known)]


def open_source(source: TapeInput) -> Tape:
    """The tape, opened; of a damaged one no index is believed."""
    tape = Tape(source.path)
    if source.status == "corrupt":
        tape.distrust_index()
    return tape


def ensure_pairs_hold(source: TapeInput, request: Request) -> None:
    """Raise ExtractionError if training pairs of this tape would join two episodes, or hide that one has ended.

    Pairs take the recording for one episode. The tape of an environment holds many, and each of them ends by itself.
    """
    with open_source(source) as tape:
        adapter = tape.meta.get("adapter")
        name = adapter.get("name") if isinstance(adapter, dict) else None
        resets = [] if name in ENVIRONMENTS else [episode.first_tick for episode in find_episodes(tape)]
    if name in ENVIRONMENTS or (resets and name not in ENDLESS):
        raise ExtractionError(
            f"{source.name}: the adapter {name} recorded episodes, and training pairs of episodes are not supported yet: "
            "they would join the last state before a reset to the first one after it, and terminated would be false at "
            "the end of each episode; use the table states (--table states with --field) and the table actions "
            "(--table actions, which has a row for each reset)"
        )
    for first, last in _ranges(source, request):
        inside = [tick for tick in resets if first < tick <= last]
        if inside:
            starts = [*resets, source.last_tick + 1]
            ways = [f"{begin}..{end - 1}" for begin, end in itertools.pairwise(starts) if end - begin > 1]
            way = f"give --ticks of one episode, such as {ways[0]}" if ways else "use --table states"
            raise ExtractionError(
                f"{source.name}: training pairs from tick {first:,} to {last:,} would run across the reset at tick "
                f"{inside[0]:,}, as if it were a step: {way}"
            )


def make_parts(sources: Sequence[TapeInput], request: Request, part_ticks: int | None = None) -> list[DatasetPart]:
    """All parts, in the order of the sources and of the ranges; of at least PART_TICKS, or part_ticks, where they can be.

    Raises ExtractionError for a range without ticks.
    """
    parts: list[DatasetPart] = []
    for number, source in enumerate(sources):
        with open_source(source) as tape:
            starts = [place.tick for place in tape.keyframes]
            ticks_min = _part_ticks(tape, request.stride) if part_ticks is None else max(part_ticks, request.stride)
        for first, last in _ranges(source, request):
            for ticks, then, until in _cut(source, first, last, request.stride, starts, ticks_min):
                begin = first if ticks.start == first else ticks.start + 1
                parts.append(DatasetPart(len(parts), number, ticks, then, begin, until))
    return parts


def _part_ticks(tape: Tape, stride: int) -> int:
    """How many ticks a part has at least: PART_TICKS, or as many as have samples of PART_BYTES, if these are fewer."""
    for place in tape.keyframes:
        try:
            size_bytes = max(1, tape.snapshot(place).layout.size_bytes)
        except (CorruptError, TornError):
            continue
        return max(stride, min(PART_TICKS, PART_BYTES // size_bytes * stride))
    return max(stride, PART_TICKS)


def _ranges(source: TapeInput, request: Request) -> list[tuple[int, int]]:
    """The ranges of ticks of a source that are asked for, as far as it has them."""
    found = []
    for wanted in request.ranges or ((None, None),):
        first, last = (None if tick is None else tick + source.last_tick + 1 if tick < 0 else tick for tick in wanted)
        first = source.first_tick if first is None else max(first, source.first_tick)
        last = source.last_tick if last is None else min(last, source.last_tick)
        if first <= last:
            found.append((first, last))
    if not found:
        has = f"has ticks {source.first_tick:,} to {source.last_tick:,}"
        raise ExtractionError(f"{source.name} {has}, and none in the ranges that were asked for")
    for (_, before), (after, _) in zip(sorted(found), sorted(found)[1:], strict=False):
        if after <= before:
            raise ExtractionError(f"{source.name}: tick {after:,} is in two of the ranges that were asked for")
    return found


def _cut(
    source: TapeInput, first: int, last: int, stride: int, starts: Sequence[int], ticks_min: int
) -> Iterator[tuple[range, int | None, int]]:
    """Sampled ticks, the end of the last pair, and the last tick, of each part of a range."""
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
            is_open = last == source.last_tick and ticks[-1] < last
            yield ticks, last if is_open else None, last
