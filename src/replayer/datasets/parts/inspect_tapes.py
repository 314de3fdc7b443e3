"""Inspect the tapes of an extraction: read each one completely, and find out who won where its functions need that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import attrs

from recorder.corpus.run import is_end_of_run
from recorder.errors import CorruptError, MissingTickError, RecordingError
from recorder.exit_codes import CORRUPT, UNREADABLE
from recorder.location.tape_location import Location
from recorder.processes.pool import Item, Pool, Report, Result, results_in_order
from recorder.runs.scores import SCORES, plain_scores
from replayer.datasets.plan import TAPES_TOGETHER, TapeInput, split_of
from replayer.datasets.request import ExtractionError, Request
from replayer.playback.make_simulation import Factory
from replayer.tape.completeness import tape_code
from replayer.tape.digest import tape_digest
from replayer.tape.environment_calls import ENVIRONMENTS, adapter_name
from replayer.tape.recorded_ticks import first_recorded_tick
from replayer.tape.tape import Tape
from replayer.timeline.timeline import Timeline
from sim.kernel.registry import UnknownWorldError, find_world

STOPS = ("closed", "ticks")  # Ends of a run that are not the world's own.


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
    paths: Sequence[Location],
    request: Request,
    factory: Factory | None,
    pool: Pool,
    on_progress: Callable[[int], None],
    *,
    readers: Pool | None = None,
) -> InspectedTapes:
    """Read all tapes, in their order, and leave out those from which nothing can be extracted.

    on_progress: called with the number of tapes read. readers: the pool that reads them, which simulates nothing; None is
    pool, which also simulates the last states of those whose scores are not on the tape. Raises ExtractionError if two
    tapes have the same run id, OSError, and the error of the first tape if all tapes are left out.
    """
    sources: list[TapeInput] = []
    notes: list[str] = []
    codes: list[int] = []
    first_error: RecordingError | None = None
    needs_scores = request.mode in ("winners", "balanced") or "pairs" in request.tables or not request.tables
    read = list[_Read]()
    for one in _in_batches(readers or pool, partial(_read, factory=factory), paths, lambda path: f"inspected {path}"):
        read.append(one)
        on_progress(len(read))
    found = [one.source for one in read]
    if needs_scores and factory is None:
        unscored = [number for number, one in enumerate(read) if one.lacks_scores]
        sources_of = [one for one in (found[number] for number in unscored) if isinstance(one, TapeInput)]
        scored = _in_batches(pool, _scored, sources_of, lambda source: f"inspected {source.path}")
        for number, source in zip(unscored, scored, strict=True):
            found[number] = source
    for path, source in zip(paths, found, strict=True):
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


def _in_batches(
    pool: Pool, work: Callable[[Item], Result], items: Sequence[Item], name: Callable[[Item], str]
) -> Iterator[Result]:
    batches = [items[start : start + TAPES_TOGETHER] for start in range(0, len(items), TAPES_TOGETHER)]
    results = results_in_order(pool, partial(_each, work), batches, name=lambda batch: name(batch[0]))
    return (result for together in results for result in together)


def _each(work: Callable[[Item], Result], items: Sequence[Item], _: Report) -> list[Result]:
    return [work(item) for item in items]


@attrs.frozen
class _Read:
    """A tape that was read, or the error that makes it unusable. lacks_scores: only its last state has them."""

    source: TapeInput | RecordingError
    lacks_scores: bool = False


def _read(path: Location, factory: Factory | None) -> _Read:
    """Read all blocks of a tape and describe it."""
    try:
        return _readable(path, factory)
    except RecordingError as error:
        return _Read(error)


def _scored(source: TapeInput) -> TapeInput | RecordingError:
    try:
        return attrs.evolve(source, scores=_scores(source))
    except RecordingError as error:
        return error


def _readable(path: Location, factory: Factory | None) -> _Read:
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
        return _Read(source)  # As in ``replay ls``: only the end of a run decides who won.
    recorded_scores = outcome.get(SCORES)
    if not is_corrupt and isinstance(recorded_scores, dict) and recorded_scores:
        return _Read(attrs.evolve(source, scores=plain_scores(recorded_scores)))
    return _Read(source, lacks_scores=registered is not None)


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


def _empty_splits(sources: Sequence[TapeInput], request: Request) -> list[str]:
    """Return a sentence for each split without runs."""
    taken = {source.split for source in sources}
    return [
        f"no run is in split {name}: run ids and the seed decide, so few runs may miss their shares; choose another seed"
        for name, _ in request.splits
        if name not in taken
    ]
