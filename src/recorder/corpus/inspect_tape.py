"""Describe the run of a tape: quickly, from headers and index, or by reading its inputs and its last state.

Nothing is written here. A damaged file, or one that is not a tape, gives a Run with that status: every file is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from recorder.corpus.folder_listing import FolderListing
from recorder.corpus.run import GENERATED, RECORDED, Quality, Run, Settings, players_of, tier_of
from recorder.corpus.tape_stamp import stamp_of
from recorder.errors import MemoryBudgetError, RecordingError
from recorder.format.blocks.full_keyframe import decode_head
from recorder.format.recording.assembly import Assembled
from recorder.format.recording.recording import Recording
from recorder.location.tape_url import TapeUrl
from recorder.runs.scores import SCORES, plain_scores, scores_of, world_of
from recorder.storage.file_names import SEGMENT_NUMBER_OF
from recorder.storage.open_tape import OpenTape
from recorder.storage.remote.range_reads import FileVersion
from recorder.storage.remote.url_files import UrlFiles
from recorder.storage.run_seed import meta_seed, run_seed
from sim.kernel.registry import ConfigError, UnknownWorldError, find_world
from sim.scenario.config.identity import scenario_hash

SOURCE_NOTE, SCENARIO_NOTE = "source", "scenario"  # Keys that record generate writes to a tape.
_WHOLE_MAX = (1 << 63) - 1  # The largest integer of the database.


def glance(path: Path, listing: FolderListing | None = None) -> Run:
    """Describe a tape from its headers and index, without the quality of its inputs, and scores that it does not hold.

    listing: of the folder of the tape, if many of its tapes are described.
    Raises nothing for a tape that cannot be read: its status is "unreadable", and its error the reason.
    """
    return _inspect(path, listing, lambda _, run: run)


def examine(path: Path, listing: FolderListing | None = None) -> Run:
    """Describe a tape with the quality of its inputs and the scores at the end of the run, by reading it.

    Scores that the tape does not hold come from its world, if it is installed; the last state is then re-simulated from
    the nearest keyframe. listing, and a tape that cannot be read: as in glance.
    """
    return _inspect(path, listing, _examined)


def inspect_url(url: TapeUrl, listed: Mapping[str, FileVersion], *, examined: bool) -> Run:
    """Describe a tape at a URL as glance does, or as examine does.

    listed: the files of its folder, with the version of each. A server of web pages tells no sizes: it is asked again.
    """
    own = {name: version for name, version in listed.items() if name.startswith(url.name)}
    segments = [
        version
        for name, version in own.items()
        if name == url.name or SEGMENT_NUMBER_OF.fullmatch(name[len(url.name) :]) is not None
    ]
    has_sizes = all(version.size_bytes >= 0 for version in own.values())
    run = Run(url.name, url.parent, status="unreadable", sealed=False)
    if has_sizes:
        changed_ns = max(version.changed_ns for version in segments)
        run = attrs.evolve(run, size_bytes=sum(one.size_bytes for one in segments), changed_ns=changed_ns)
    try:
        with OpenTape(url, folder=UrlFiles(url, own if has_sizes else None)) as opened:
            assembled = opened.assemble()
            sizes = [segment.contents.size_bytes for segment in assembled.recording.segments]
            run = _described(assembled, run if has_sizes else attrs.evolve(run, size_bytes=sum(sizes)))
            return _examined(assembled, run) if examined else run
    except OSError as error:
        return attrs.evolve(run, error=error.strerror or type(error).__name__)
    except RecordingError as error:
        return attrs.evolve(run, error=str(error).removeprefix(f"{url}: "))


def _inspect(path: Path, listing: FolderListing | None, complete: Callable[[Assembled, Run], Run]) -> Run:
    run = Run(path.name, path.parent, status="unreadable", sealed=False)
    files = listing or FolderListing(path.parent)
    try:
        stamp = stamp_of(path, files)  # Before the content: a change from now on changes it.
        run = attrs.evolve(run, size_bytes=stamp.size_bytes, changed_ns=stamp.changed_ns, stamp=stamp.text)
        with OpenTape(path, following=lambda: files.following(path.name)) as opened:
            assembled = opened.assemble()
            run = _described(assembled, run)
            run = attrs.evolve(run, stamp=with_world(stamp.text, run.world, run.version))
            return complete(assembled, run)
    except OSError as error:
        return attrs.evolve(run, error=error.strerror or type(error).__name__)
    except RecordingError as error:
        return attrs.evolve(run, error=str(error).removeprefix(f"{path}: "))


def with_world(stamp: str, name: str | None, version: int | None) -> str:
    """Add to the stamp of a tape if its world is installed, which describes the players; an empty stamp stays so."""
    try:
        is_installed = name is not None and find_world(name).version == version
    except UnknownWorldError:
        is_installed = False
    return f"{stamp} world" if stamp and is_installed else stamp


def _described(assembled: Assembled, run: Run) -> Run:
    """Fill in the facts of META, END and the index."""
    meta, recording = assembled.meta, assembled.recording
    world = meta.get("world") or {}
    notes = meta.get("notes") or {}
    has_state = bool(recording.keyframes)
    seal = recording.segments[-1].contents.seal if assembled.final else None
    end = seal.outcome if seal is not None else None
    finished = (
        datetime.fromtimestamp(run.changed_ns / 1e9, UTC).isoformat(timespec="seconds") if assembled.final else ""
    )
    outcome = end if isinstance(end, Mapping) else {}
    run = attrs.evolve(
        run,
        run_id=assembled.run_id.hex(),
        scenario=_scenario_name(meta, notes),
        world=_text(world.get("name")),
        simulation=None if world else _simulation_name(meta),
        version=_whole(world.get("version")),
        seed=_whole(_seed(meta, recording) if has_state else meta_seed(meta)),
        first_tick=_whole(recording.first_tick) if has_state else None,
        ticks=_whole(recording.last_tick) if has_state else None,
        scenario_hash=_hash_of(meta) if meta else "",
        settings=_settings(meta, notes),
        source=GENERATED if notes.get(SOURCE_NOTE) == GENERATED else RECORDED,
        status=assembled.status,
        sealed=assembled.final,
        finished=finished,
        reason=_text(outcome.get("reason")),
        text=_text(outcome.get("text")),
        error=_text(outcome.get("exception")),
    )
    run = attrs.evolve(run, players=players_of(_agents(meta), _policies(notes), _scores(outcome) if run.ended else {}))
    try:
        state_hash = _last_hash(recording) if has_state else ""
    except RecordingError as error:
        return _with_error(run, error)
    return attrs.evolve(run, state_hash=state_hash)


def _seed(meta: Mapping[str, Any], recording: Recording) -> Any:
    """The seed of META, or that of the first reset of an environment, if that is the first recorded call."""
    seed = meta_seed(meta)
    if seed is not None or recording.last_tick == recording.first_tick:
        return seed
    try:
        return run_seed(meta, recording, recording.first_tick + 1)
    except RecordingError:
        return None  # The frame cannot be read; the seed is then not known.


def _with_error(run: Run, error: RecordingError) -> Run:
    """The run with an error of reading it. It is corrupt, unless the reader only lacks memory."""
    status = run.status if isinstance(error, MemoryBudgetError) else "corrupt"
    return attrs.evolve(run, status=status, error=run.error or str(error))


def _last_hash(recording: Recording) -> str:
    """The hash of the last tick as it is recorded, without its state; empty if only a chained hash is recorded.

    Raises CorruptError and others as Recording.frame does.
    """
    tick = recording.last_tick
    place = recording.keyframe_at(tick)
    if place is not None and (tick == recording.first_tick or recording.frame(tick).state_hash is None):
        segment = next(segment for segment in recording.segments if segment.number == place.segment)
        head = decode_head(segment.pieces(place.entry, place.end_offset), place.entry.offset)
        return f"{head['state_hash']:016x}"
    state_hash = recording.frame(tick).state_hash
    return "" if state_hash is None else f"{state_hash:016x}"


def _scenario_name(meta: Mapping[str, Any], notes: Mapping[str, Any]) -> str | None:
    config = (meta.get("world") or {}).get("config") or {}
    scenario = meta.get("scenario")
    scenario_name = scenario.get("name") if isinstance(scenario, Mapping) else None
    names = (notes.get(SCENARIO_NOTE), config.get("name"), scenario_name)
    return next((name for name in names if isinstance(name, str)), None)


def _simulation_name(meta: Mapping[str, Any]) -> str | None:
    """The name under which an environment is made, else the class of the recorded object."""
    adapter = meta.get("adapter")
    subject = adapter.get("subject") if isinstance(adapter, Mapping) else None
    name = _text(subject.get("id")) if isinstance(subject, Mapping) else None
    return name or _text(meta.get("simulation"))


def _settings(meta: Mapping[str, Any], notes: Mapping[str, Any]) -> Settings | None:
    if not meta:
        return None
    settings = meta.get("settings") or meta  # Tapes of format 0.1 have them at the top level.
    interval = _whole(settings.get("keyframe_interval_ticks"))
    return Settings(family_of(meta), _whole(notes.get("ticks")), interval)


def family_of(meta: Mapping[str, Any]) -> str:
    """Return the hash of the scenario without its seed."""
    world, scenario = meta.get("world"), meta.get("scenario")
    if isinstance(scenario, Mapping):
        scenario = {key: value for key, value in scenario.items() if key != "seed"}
    if world:
        config = {key: value for key, value in world["config"].items() if key != "seed"}
        world = {"name": world["name"], "version": world["version"], "config": config}
    return _hash_of({**meta, "world": world, "scenario": scenario})


def _hash_of(meta: Mapping[str, Any]) -> str:
    """Return the hash of the scenario; empty if META is not valid, since a tape may hold any value."""
    scenario = meta.get("scenario")
    try:
        return scenario_hash({**meta, "scenario": scenario if isinstance(scenario, Mapping) else None})
    except TypeError:
        return ""


def _policies(notes: Mapping[str, Any]) -> dict[str, str]:
    players = notes.get("players")
    items = players.items() if isinstance(players, Mapping) else ()
    return {name: policy for name, policy in items if isinstance(name, str) and isinstance(policy, str)}


def _scores(outcome: Mapping[str, Any]) -> dict[str, float]:
    scores = outcome.get(SCORES)
    return plain_scores(scores) if isinstance(scores, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: Any) -> int | None:
    """Return the value if it is an integer that the database can store; a tape may hold any value."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _WHOLE_MAX else None


def _agents(meta: Mapping[str, Any]) -> Sequence[str]:
    installed = world_of(meta)
    if installed is None or installed[0].agents is None:
        return ()
    try:
        return installed[0].agents(installed[1])
    except ConfigError:
        return ()  # The configuration on a tape may be invalid.


# --- facts that need reading


def _examined(assembled: Assembled, run: Run) -> Run:
    run, inputs, ticks = _with_inputs(assembled, run)
    if not run.state_hash and run.ticks is not None and run.status != "corrupt":
        try:
            run = attrs.evolve(run, state_hash=f"{assembled.recording.state_hash(run.ticks):016x}")
        except RecordingError as error:
            run = _with_error(run, error)
    if run.ended and run.status != "corrupt" and all(player.score is None for player in run.players):
        run = _with_scores(assembled, run)
    from_file = "inputs" in (assembled.meta.get("notes") or {})
    return attrs.evolve(run, quality=Quality(tier_of(run.players, inputs, from_file=from_file), inputs, ticks))


def _with_inputs(assembled: Assembled, run: Run) -> tuple[Run, int, int]:
    """Count the inputs, and the ticks that have some; the run becomes corrupt if some cannot be read."""
    if run.first_tick is None or run.ticks is None:
        return run, 0, 0
    scheduled, by_role = _scheduled(assembled.meta), assembled.meta.get("scenario") is not None
    inputs = ticks = 0
    try:
        for piece in assembled.recording.runs(run.first_tick + 1, run.ticks):
            if piece.error is not None and not assembled.recording.drop_at(piece.first_tick):
                run = attrs.evolve(run, status="corrupt", error=run.error or str(piece.error))
            for frame in piece.frames:
                sent = max(0, count_inputs(frame.inputs, by_role=by_role) - scheduled(frame.tick))
                inputs, ticks = inputs + sent, ticks + (sent > 0)
    except RecordingError as error:
        return _with_error(run, error), inputs, ticks
    return run, inputs, ticks


def count_inputs(inputs: Any, *, by_role: bool) -> int:
    """Count the inputs of one tick: the length of a list, or of all lists of a table by role; any other value is one."""
    if inputs is None:
        return 0
    if isinstance(inputs, list | tuple):
        return len(inputs)
    if by_role and isinstance(inputs, Mapping):
        return sum(count_inputs(items, by_role=False) for items in inputs.values())
    return 1


def _scheduled(meta: Mapping[str, Any]) -> Callable[[int], int]:
    """Return a function that counts the scheduled inputs of a tick; it gives 0 if the world is not installed."""
    installed = world_of(meta)
    if installed is None:
        return lambda _: 0
    try:
        source = installed[0].inputs(installed[1])
    except ConfigError:
        return lambda _: 0
    return lambda tick: len(source(tick))


def _with_scores(assembled: Assembled, run: Run) -> Run:
    """Add the scores of the last state, if its world has scores and the state can be rebuilt and checked by its hash."""
    installed = world_of(assembled.meta)
    if installed is None or installed[0].outcome is None:
        return run
    from recorder.reopen.last_tick import restore_last_tick  # noqa: PLC0415 - loads the whole recorder
    from recorder.reopen.resume import make_world  # noqa: PLC0415

    try:
        simulation = make_world(assembled)
        restore_last_tick(assembled, simulation, None)
    except (RecordingError, ConfigError, TypeError) as error:
        return attrs.evolve(run, error=run.error or f"the last state cannot be rebuilt: {error}")
    scores = scores_of(*installed, simulation.state)
    agents = [player.player for player in run.players]
    return attrs.evolve(run, players=players_of(agents, run.policies, scores))
