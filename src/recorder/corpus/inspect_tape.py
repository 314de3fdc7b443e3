"""What a tape alone tells of its run: at a glance, from headers and index, or by reading its inputs and its last state.

Nothing is written here. A tape that is damaged, or no tape at all, gives a Run that says so: a folder is listed whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from recorder.corpus.run import GENERATED, RECORDED, Quality, Run, Settings, players_of, tier_of
from recorder.errors import RecordingError
from recorder.format.recording.assembly import Assembled
from recorder.storage.file_names import following_segments, segment_path
from recorder.storage.open_tape import OpenTape
from sim.kernel.registry import ConfigError, UnknownWorldError, World, find_world
from sim.kernel.state import State
from sim.scenario.config.identity import scenario_hash

SOURCE_NOTE, SCENARIO_NOTE, SCORES = "source", "scenario", "scores"  # What record generate leaves on a tape.
_WHOLE_MAX = (1 << 63) - 1  # What a database takes.


def glance(path: Path) -> Run:
    """What headers and index tell of a tape; inputs and, if they are not on the tape, scores are left out."""
    return _look(path, lambda _, run: run)


def examine(path: Path) -> Run:
    """The same, and what only reading shows: how much was sent, and the scores at the end of the run.

    Scores that the tape does not have are asked of its world, if it is installed; then the last state is made by
    re-simulating from the nearest keyframe.
    """
    return _look(path, _examined)


def _look(path: Path, further: Callable[[Assembled, Run], Run]) -> Run:
    run = Run(path.name, path.parent, status="unreadable", sealed=False)
    try:
        size_bytes, changed_ns = stamp_of(path)
        run = attrs.evolve(run, size_bytes=size_bytes, changed_ns=changed_ns)
        with OpenTape(path) as opened:
            assembled = opened.assemble()
            return further(assembled, _described(assembled, run))
    except OSError as error:
        return attrs.evolve(run, error=error.strerror or type(error).__name__)
    except RecordingError as error:
        return attrs.evolve(run, error=str(error).removeprefix(f"{path}: "))


def stamp_of(path: Path) -> tuple[int, int]:
    """Bytes of all files of a tape, and when the last of them was changed. Raises OSError."""
    found = [path.stat(), *(segment_path(path, number).stat() for number in following_segments(path))]
    return sum(one.st_size for one in found), max(one.st_mtime_ns for one in found)


def _described(assembled: Assembled, run: Run) -> Run:
    """What META, END and the index say."""
    meta, recording = assembled.meta, assembled.recording
    world = meta.get("world") or {}
    notes = meta.get("notes") or {}
    has_state = bool(recording.keyframes)
    seal = recording.segments[-1].contents.seal if assembled.final else None
    end = seal.outcome if seal is not None else None
    finished = (
        datetime.fromtimestamp(run.changed_ns / 1e9, UTC).isoformat(timespec="seconds") if assembled.final else ""
    )
    told = end if isinstance(end, Mapping) else {}
    run = attrs.evolve(
        run,
        run_id=assembled.run_id.hex(),
        scenario=_scenario_name(meta, notes),
        world=_text(world.get("name")),
        version=_whole(world.get("version")),
        seed=_whole(_seed(meta)),
        first_tick=_whole(recording.first_tick) if has_state else None,
        ticks=_whole(recording.last_tick) if has_state else None,
        scenario_hash=_hash_of(meta) if meta else "",
        settings=_settings(meta, notes),
        source=GENERATED if notes.get(SOURCE_NOTE) == GENERATED else RECORDED,
        status=assembled.status,
        sealed=assembled.final,
        finished=finished,
        reason=_text(told.get("reason")),
        text=_text(told.get("text")),
        error=_text(told.get("exception")),
    )
    run = attrs.evolve(run, players=players_of(_agents(meta), _policies(notes), _scores(told) if run.ended else {}))
    try:
        state_hash = f"{recording.state_hash(recording.last_tick):016x}" if has_state else ""
    except RecordingError as error:
        return attrs.evolve(run, status="corrupt", error=run.error or str(error))
    return attrs.evolve(run, state_hash=state_hash)


def _scenario_name(meta: Mapping[str, Any], notes: Mapping[str, Any]) -> str | None:
    config = (meta.get("world") or {}).get("config") or {}
    scenario = meta.get("scenario")
    own = scenario.get("name") if isinstance(scenario, Mapping) else None
    return next((one for one in (notes.get(SCENARIO_NOTE), config.get("name"), own) if isinstance(one, str)), None)


def _seed(meta: Mapping[str, Any]) -> Any:
    for part in ((meta.get("world") or {}).get("config"), meta.get("scenario")):
        if isinstance(part, Mapping) and "seed" in part:
            return part["seed"]
    return None


def _settings(meta: Mapping[str, Any], notes: Mapping[str, Any]) -> Settings | None:
    if not meta:
        return None
    settings = meta.get("settings") or meta  # Tapes of format 0.1 have them among the rest.
    interval = _whole(settings.get("keyframe_interval_ticks"))
    return Settings(family_of(meta), _whole(notes.get("ticks")), interval)


def family_of(meta: Mapping[str, Any]) -> str:
    """The scenario's hash whatever the seed."""
    world, scenario = meta.get("world"), meta.get("scenario")
    if isinstance(scenario, Mapping):
        scenario = {key: value for key, value in scenario.items() if key != "seed"}
    if world:
        config = {key: value for key, value in world["config"].items() if key != "seed"}
        world = {"name": world["name"], "version": world["version"], "config": config}
    return _hash_of({**meta, "world": world, "scenario": scenario})


def _hash_of(meta: Mapping[str, Any]) -> str:
    """Empty for what no scenario is: a tape may hold anything."""
    scenario = meta.get("scenario")
    try:
        return scenario_hash({**meta, "scenario": scenario if isinstance(scenario, Mapping) else None})
    except TypeError:
        return ""


def _policies(notes: Mapping[str, Any]) -> dict[str, str]:
    players = notes.get("players")
    given = players.items() if isinstance(players, Mapping) else ()
    return {name: policy for name, policy in given if isinstance(name, str) and isinstance(policy, str)}


def _scores(told: Mapping[str, Any]) -> dict[str, float]:
    scores = told.get(SCORES)
    return plain_scores(scores) if isinstance(scores, Mapping) else {}


def plain_scores(scores: Mapping[Any, Any]) -> dict[str, float]:
    """Those scores that are finite numbers, by name."""
    numbers = {name: score for name, score in scores.items() if isinstance(name, str) and _is_number(score)}
    return {name: float(score) for name, score in numbers.items()}


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool | str | bytes) and math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: Any) -> int | None:
    """A whole number that a database takes; a tape may hold anything in its place."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _WHOLE_MAX else None


def _world_of(meta: Mapping[str, Any]) -> tuple[World, dict[str, Any]] | None:
    """The tape's world as it is installed, and its configuration; None if there is none of this version."""
    match meta.get("world"):
        case {"name": str(name), "version": int(version), "config": dict(config)}:
            try:
                world = find_world(name)
            except UnknownWorldError:
                return None
            return (world, config) if world.version == version else None
    return None


def _agents(meta: Mapping[str, Any]) -> Sequence[str]:
    found = _world_of(meta)
    if found is None or found[0].agents is None:
        return ()
    try:
        return found[0].agents(found[1])
    except ConfigError:
        return ()  # A tape's configuration may be anybody's.


# --- what only reading shows


def _examined(assembled: Assembled, run: Run) -> Run:
    run, inputs, ticks = _with_inputs(assembled, run)
    if run.ended and run.status != "corrupt" and all(one.score is None for one in run.players):
        run = _with_scores(assembled, run)
    from_file = "inputs" in (assembled.meta.get("notes") or {})
    return attrs.evolve(run, quality=Quality(tier_of(run.players, inputs, from_file=from_file), inputs, ticks))


def _with_inputs(assembled: Assembled, run: Run) -> tuple[Run, int, int]:
    """How many inputs there were, and in how many ticks; the run is corrupt if some cannot be read."""
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
        return attrs.evolve(run, status="corrupt", error=run.error or str(error)), inputs, ticks
    return run, inputs, ticks


def count_inputs(inputs: Any, *, by_role: bool) -> int:
    """How many inputs one tick had: the length of a list, or of all lists of a table by role; anything else is one."""
    if inputs is None:
        return 0
    if isinstance(inputs, list | tuple):
        return len(inputs)
    if by_role and isinstance(inputs, Mapping):
        return sum(count_inputs(one, by_role=False) for one in inputs.values())
    return 1


def _scheduled(meta: Mapping[str, Any]) -> Callable[[int], int]:
    """How many of a tick's inputs are the scenario's own; those of a world that is not installed are not known."""
    found = _world_of(meta)
    if found is None:
        return lambda _: 0
    try:
        source = found[0].inputs(found[1])
    except ConfigError:
        return lambda _: 0
    return lambda tick: len(source(tick))


def _with_scores(assembled: Assembled, run: Run) -> Run:
    """The scores of the last state, if its world gives any and the state can be made and proved by its hash."""
    found = _world_of(assembled.meta)
    if found is None or found[0].outcome is None:
        return run
    from recorder.reopen.resume import make_world, restore_last_tick  # noqa: PLC0415 - loads the whole recorder

    try:
        simulation = make_world(assembled)
        restore_last_tick(assembled, simulation, None)
    except (RecordingError, ConfigError, TypeError) as error:
        return attrs.evolve(run, error=run.error or f"the last state cannot be made: {error}")
    scores = scores_of(found[0], found[1], simulation.state)
    agents = [one.player for one in run.players]
    return attrs.evolve(run, players=players_of(agents, run.policies, scores))


def scores_of(world: World, config: Mapping[str, Any], state: State) -> dict[str, float]:
    """What the world says that each player's run was worth; empty if it does not say."""
    return plain_scores(world.outcome(config, state)) if world.outcome is not None else {}
