"""Plan an extraction: inspect the tapes and divide the requested ticks into parts, one job of a worker each.

The parts do not depend on the number of workers. A part begins at a keyframe, or where a range of the request begins.
So only the ticks after a part's last sample are simulated twice.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import attrs

from recorder.corpus.run import is_end_of_run
from recorder.errors import CorruptError, MissingTickError, RecordingError, TornError
from recorder.exit_codes import CORRUPT, UNREADABLE
from recorder.location.tape_location import Location
from recorder.processes.pool import Pool, Report, results_in_order
from recorder.runs.scores import SCORES, plain_scores
from replayer.datasets.functions import Setting
from replayer.datasets.request import ExtractionError, Request
from replayer.playback.make_simulation import Factory
from replayer.tape.completeness import tape_code
from replayer.tape.digest import tape_digest
from replayer.tape.environment_calls import ENVIRONMENTS, adapter_name
from replayer.tape.episodes import find_episodes
from replayer.tape.recorded_ticks import first_recorded_tick
from replayer.tape.tape import Tape
from replayer.timeline.timeline import Timeline
from sim.kernel.registry import UnknownWorldError, find_world

PART_TICKS = 3000  # Ten keyframes at the default interval, the first one full: a few seconds of work.
PART_BYTES = 256 << 20  # Of sampled states: large states make shorter parts.
TAPES_TOGETHER = 16  # Read by one process: a new one for each imports what the simulation needs again.
ENVIRONMENT_TAPES = 64  # Of environments: it makes one for all of them, which takes as long as hundreds of steps.
STOPS = ("closed", "ticks")  # Ends of a run that are not the world's own.
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


@attrs.frozen
class InspectedTapes:
    """The tapes to extract from.

    Attributes:
        sources: the usable tapes. notes: a sentence for each tape left out and each empty split. codes: exit codes for unreadable and corrupt tapes.
    """

    sources: list[TapeInput]
    notes: list[str]
    codes: list[int]


def inspect_tapes(
    paths: Sequence[Location], request: Request, factory: Factory | None, pool: Pool, on_progress: Callable[[int], None]
) -> InspectedTapes:
    """Read all tapes, in their order, and leave out those from which nothing can be extracted.

    on_progress: called with the number of tapes read. Raises ExtractionError if two tapes have the same run id, OSError,
    and the error of the first tape if all tapes are left out.
    """
    sources: list[TapeInput] = []
    notes: list[str] = []
    codes: list[int] = []
    first_error: RecordingError | None = None
    needs_scores = request.mode in ("winners", "balanced") or "pairs" in request.tables or not request.tables
    work = partial(_sources, factory=factory, needs_scores=needs_scores)
    batches = [paths[start : start + TAPES_TOGETHER] for start in range(0, len(paths), TAPES_TOGETHER)]
    results = results_in_order(pool, work, batches, name=lambda batch: f"inspected {batch[0]}")
    inspected = (source for together in results for source in together)
    for number, (path, source) in enumerate(zip(paths, inspected, strict=True), 1):
        on_progress(number)
        if isinstance(source, RecordingError):
            notes.append(f"{path} is left out: {source}")
            codes.append(CORRUPT if isinstance(source, CorruptError | MissingTickError) else UNREADABLE)
            first_error = first_error or source
            continue
        twin = next((known for known in sources if source.run and known.run == source.run), None)
        if twin is not None and twin.digest == source.digest:
            notes.append(f"{source.name} is left out: it is a copy of {twin.name}")
        elif twin is not None:
            raise ExtractionError(f"{source.name} and {twin.name} have the same run id {source.run}: give one of them")
        else:
            sources.append(source)
    if first_error is not None and not sources:
        raise first_error
    sources = _split(sources, request)
    return InspectedTapes(sources, notes + _empty_splits(sources, request), codes)


def _sources(
    paths: Sequence[Location], _: Report, *, factory: Factory | None, needs_scores: bool
) -> list[TapeInput | RecordingError]:
    return [_source(path, factory, needs_scores=needs_scores) for path in paths]


def _source(path: Location, factory: Factory | None, *, needs_scores: bool) -> TapeInput | RecordingError:
    """Read all blocks of a tape and describe it, or return the error that makes it unusable."""
    try:
        return _readable_source(path, factory, needs_scores=needs_scores)
    except RecordingError as error:
        return error


def _readable_source(path: Location, factory: Factory | None, *, needs_scores: bool) -> TapeInput:
    with Tape(path) as tape:
        is_corrupt = tape_code(tape) == CORRUPT  # Reads all blocks; the index is not trusted any more.
        outcome = tape.outcome if isinstance(tape.outcome, dict) else {}
        reason = outcome.get("reason") if isinstance(outcome.get("reason"), str) else None
        world = tape.meta.get("world")
        registered = world if isinstance(world, dict) and {"name", "config"} <= world.keys() else None
        tick_limit = ""
        if registered is not None and factory is None:
            tick_limit = find_world(registered["name"]).tick_limit_reason
        source = TapeInput(
            path,
            str(path),
            tape.run_id or tape_digest(path)[:32],
            tape_digest(path),
            "corrupt" if is_corrupt else tape.status,
            tape.first_tick,
            tape.last_tick,
            reason or "",
            is_end_of_run(reason) and reason not in (*STOPS, tick_limit),
            {},
            registered,
            first_recorded_tick(tape) if is_corrupt else tape.first_tick,
            environment=name if (name := adapter_name(tape)) in ENVIRONMENTS else "",
        )
    if not is_end_of_run(reason):
        return source  # As in ``replay ls``: only the end of a run decides who won.
    recorded_scores = outcome.get(SCORES)
    if not is_corrupt and isinstance(recorded_scores, dict) and recorded_scores:
        return attrs.evolve(source, scores=plain_scores(recorded_scores))
    return attrs.evolve(source, scores=_scores(source)) if needs_scores and factory is None else source


def _scores(source: TapeInput) -> dict[str, float]:
    """Compute the scores by agent; empty if the world defines none, or the last state cannot be reached."""
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
            return {}  # The reason is reported with the missing samples.
        return {agent: float(score) for agent, score in setting.world.outcome(setting.config, run.state).items()}


def _split(sources: list[TapeInput], request: Request) -> list[TapeInput]:
    """Assign runs to splits by thresholds of a hash of the run id and the seed: other runs change nothing."""
    if not request.splits:
        return sources
    return [attrs.evolve(source, split=split_of(source.run, request)) for source in sources]


def split_of(run: str, request: Request) -> str:
    """Return the name of the split of a run."""
    place = int.from_bytes(_lot(request.seed, run)) / (1 << 8 * _LOT_BYTES)
    bounds = itertools.accumulate(share for _, share in request.splits)
    names = [name for name, _ in request.splits]
    return next((name for name, bound in zip(names, bounds, strict=True) if place < bound), names[-1])  # Rounding.


def _empty_splits(sources: Sequence[TapeInput], request: Request) -> list[str]:
    """Return a sentence for each split without runs."""
    taken = {source.split for source in sources}
    return [
        f"no run is in split {name}: run ids and the seed decide, so few runs may miss their shares; choose another seed"
        for name, _ in request.splits
        if name not in taken
    ]


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
            raise ExtractionError(f"{source.name}: tick {after:,} is in two of the requested ranges")
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
