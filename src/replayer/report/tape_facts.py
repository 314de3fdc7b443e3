"""Output of ``replay info``, as text and as JSON."""

from __future__ import annotations

import bisect
import json
import shlex
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import attrs

from recorder.factory_spec import sim_option
from recorder.format.recording.change_replay import ChangeLog
from recorder.text import bytes_text, counted
from recorder.visible_text import print_visible
from replayer.branches.parent_run import parent_of
from replayer.report.note_lines import note_facts, note_lines
from replayer.tape.episodes import episode_facts, episodes_line, find_episodes
from replayer.tape.noted_outside import noted_outside
from replayer.tape.tape import Tape
from replayer.value_text import plain_text, tick_range, to_json


def tape_facts(tape: Tape, *, check: bool = True, with_episodes: bool = True) -> dict[str, Any]:
    """The JSON object of ``replay info --json``.

    check: read every block instead of trusting the index. with_episodes: find the episodes, which reads all inputs.
    """
    problems = tape.check_blocks() if check else []  # First: ticks and status then come from all blocks.
    meta = tape.meta
    settings = meta.get("settings") or meta  # Tapes of format 0.1 have them among the rest.
    world = meta.get("world") or {}
    has_state = bool(tape.keyframes)
    fulls = sum(place.is_full for place in tape.keyframes)
    config = world.get("config") or {}
    facts = {
        "tape": str(tape.path),
        "run_id": tape.run_id,
        "world": world.get("name"),
        "world_version": world.get("version"),
        "scenario": config.get("name"),
        "seed": config.get("seed"),
        "simulation": meta.get("simulation"),
        "mode": meta.get("mode"),
        "hashes": (meta.get("settings") or {}).get("hashes", "states"),
        "level": meta.get("level"),
        "adapter": _adapter_name(meta),
        "parent": parent.to_meta() if (parent := parent_of(meta)) is not None else None,
        "episodes": episode_facts(find_episodes(tape)) if has_state and with_episodes else [],
        "first_tick": tape.first_tick if has_state else None,
        "last_tick": tape.last_tick if has_state else None,
        "sealed": tape.sealed,
        "being_written": not tape.sealed and tape.is_being_written(),
        "can_be_resumed": has_state and _can_be_resumed(tape),
        "status": tape.status,
        "outcome": tape.outcome,
        **({"shrunk": meta["shrunk"]} if isinstance(meta.get("shrunk"), dict) else {}),
        "bytes": tape.size_bytes,
        "segments": [segment.number for segment in tape.segments],
        "missing_segments": tape.missing_segments,
        "journal_ticks": tape.journal_ticks,
        "full_keyframes": fulls,
        "delta_keyframes": len(tape.keyframes) - fulls,
        "keyframe_interval_ticks": settings.get("keyframe_interval_ticks"),
        "keyframe_interval_max_ticks": settings.get("keyframe_interval_max_ticks"),
        "keyframe_distances": _distances(tape),
        "seek_budget_ms": settings.get("seek_budget_ms"),
        "keyframe_after_ms": settings.get("keyframe_after_ms"),
        "durability": settings.get("durability"),
        "notes": meta.get("notes") or {},
        **({"shard": shard} if (shard := _shard_of(meta)) is not None else {}),
        "created": meta.get("created"),
        "environment": meta.get("environment"),
        "outside": note_facts(noted_outside(tape)),
        "missing_ticks": [list(missing) for missing in tape.missing_ticks()] if has_state else [],
        "dropped_ticks": [attrs.asdict(drop) for drop in tape.drops],
        "checked": check,
        "damages": [
            {
                "segment": damage.segment,
                "offset": damage.offset,
                "end_offset": damage.end_offset,
                "what": damage.what,
                "torn": damage.torn,
            }
            for damage in tape.damages
        ],
    }
    if check:
        listed = {str(damage.as_error()) for damage in tape.damages}
        facts["damaged_blocks"] = [str(problem) for problem in problems if str(problem) not in listed]
    if check and has_state:
        _add_what_reading_shows(tape, facts)
    return dict(to_json(facts))  # META and the outcome may hold anything that plain data can be.


def _adapter_name(meta: dict[str, Any]) -> str | None:
    match meta.get("adapter"):
        case {"name": str(name)}:
            return name
    return None


def _distances(tape: Tape) -> tuple[int, int] | None:
    """The least and the greatest number of ticks between two keyframes; None for a single one."""
    ticks = sorted({place.tick for place in tape.keyframes})
    apart = [later - before for before, later in pairwise(ticks)]
    return (min(apart), max(apart)) if apart else None


def _shard_of(meta: dict[str, Any]) -> dict[str, int] | None:
    """Which shard of how many the tape is of; None for any other tape."""
    match meta.get("notes"):
        case {"shard": int(number), "shards": int(count), "whole": dict()}:
            return {"number": number, "count": count}
    return None


def _can_be_resumed(tape: Tape) -> bool:
    """Return True if a recorder can resume the tape; False for a later file of a tape that was opened alone."""
    header = tape.segments[0].contents.header
    return (header is None or header.segment == 0) and isinstance(tape.meta.get("settings"), dict)


def _add_what_reading_shows(tape: Tape, facts: dict[str, Any]) -> None:
    """Add the facts of a tape with states that only the content of its blocks tells."""
    if tape.has_events:
        facts["events"] = sum(1 for _ in tape.events())
        facts["missing_event_ticks"] = [list(missing) for missing in tape.missing_event_ticks()]
        facts["events_by_function"] = tape.has_function_for("events")
    if tape.aux:
        first, last = tape.first_tick, tape.last_tick
        facts["aux"] = {"names": tape.aux.names(), "changes": sum(1 for _ in tape.aux.changes(first, last))}
        facts["missing_aux_ticks"] = [list(missing) for missing in tape.aux.missing_ticks(first, last)]
    if tape.logs_changes:
        facts["ticks_without_changes"] = [list(missing) for missing in ChangeLog(tape.recording).missing_ticks()]


def print_tape(facts: dict[str, Any]) -> None:
    """Print ``replay info``. facts: as tape_facts returns them."""
    lines = [*_description(facts), *_losses(facts), *_next_step(facts)]
    print_visible("\n".join(plain_text(line) for line in lines))


def _origin(facts: dict[str, Any]) -> Iterator[str]:
    if facts["world"] is not None:
        named = f"{facts['scenario']}, " if facts["scenario"] else ""
        yield f"  world: {facts['world']} version {facts['world_version']} ({named}seed {facts['seed']})"
    elif facts["adapter"] is not None:
        yield f"  simulation: {facts['simulation']}"
    else:
        yield f"  simulation: {facts['simulation']} (no registered world; {_replay_hint(facts)})"
    if facts["parent"] is not None:
        yield f"  branch: a branch of {facts['parent']['path']} at tick {facts['parent']['tick']:,}"


def _replay_hint(facts: dict[str, Any]) -> str:
    shard = facts.get("shard")
    if shard is not None:
        return f"shard {shard['number']} of {shard['count']} of a run: its steps are those of the whole"
    option = sim_option(facts["simulation"])
    return f"its steps run with {option}" if facts["mode"] == "changes" else f"replay it with {option}"


def _description(facts: dict[str, Any]) -> Iterator[str]:
    sealed = (
        "sealed"
        if facts["sealed"]
        else "not sealed: "
        + ("it is being recorded" if facts["being_written"] else "the recording did not end properly")
    )
    yield f"{facts['tape']}: {facts['status']}, {sealed}"
    yield from _origin(facts)
    if facts["first_tick"] is None:
        yield "  ticks: none available yet"
    else:
        count = facts["last_tick"] - facts["first_tick"] + 1
        each = facts["bytes"] / max(1, count - 1)
        journal = f", the last {facts['journal_ticks']:,} in the journal" if facts["journal_ticks"] else ""
        yield f"  ticks: {facts['first_tick']:,} to {facts['last_tick']:,}{journal}"
        files = f" in {len(facts['segments'])} files" if len(facts["segments"]) > 1 else ""
        yield f"  size: {bytes_text(facts['bytes'])}{files}, {each:,.0f} bytes a tick"
    yield (
        f"  keyframes: {facts['full_keyframes']:,} full, {facts['delta_keyframes']:,} delta, "
        + (_interval_text(facts) if facts["seek_budget_ms"] is None else f"for seeks of {facts['seek_budget_ms']:g} ms")
    )
    if facts["mode"] == "changes":
        yield "  mode: changes (the changes of each tick are on the tape: a seek runs no step)"
    if facts["hashes"] == "changes":
        yield "  hashes: a chained hash of the changes for each tick, a hash of the complete state for each keyframe"
    if facts["adapter"] is not None:
        yield f"  adapter: {facts['adapter']}, level {facts['level']}"
    if facts["episodes"]:
        yield f"  {episodes_line(facts['episodes'])}"
    yield from _outputs(facts)
    if facts["outcome"] is not None:
        yield f"  ended: {outcome_text(facts['outcome'])}"
    yield from _shrunk_line(facts.get("shrunk"))
    if facts["created"] is not None:
        environment = facts["environment"] or {}
        yield ", ".join([f"  recorded: {facts['created']}", *(f"{key} {value}" for key, value in environment.items())])
    yield from (f"  {line}" for line in note_lines(facts["outside"]))
    yield f"  run: {facts['run_id'] or 'unknown, the file header is damaged'}"


def _shrunk_line(shrunk: Any) -> Iterator[str]:
    match shrunk:
        case {"from": str(origin), "failure": str(failure), "tick": int(tick), "inputs": [int(before), int(left)]}:
            yield f"  shrunk from {origin}: {failure} at tick {tick:,}, with {left:,} of {counted(before, 'input')}"


def _outputs(facts: dict[str, Any]) -> Iterator[str]:
    """Lines about events, and about sections that others kept beside the state."""
    if "events" in facts:
        yield f"  events: {facts['events']:,}"
    if "aux" in facts:
        yield f"  aux: {', '.join(facts['aux']['names']) or 'no section'}; {counted(facts['aux']['changes'], 'change')}"


def outcome_text(outcome: Any) -> str:
    """The reason for a recording's end, as text. outcome: as to_json returns it."""
    match outcome:
        case {"between_steps": {"count": int(count)} as between, **rest} if rest:
            return outcome_text(rest) + (f"; {_between_text(between)}" if count else "")
        case {"output_functions": dict(functions), **rest} if rest:
            raised = [f"{one['text']}, at {counted(one['count'], 'tick')}" for one in functions.values()]
            return "; ".join([outcome_text(rest), *raised])
        case {"outside": dict(), **rest} if rest:
            return outcome_text(rest)  # It has a line of its own.
        case {"scores": dict(scores), **rest} if rest:
            listed = ", ".join(f"{name} {score}" for name, score in scores.items())
            return f"{outcome_text(rest)}; scores: {listed}"
        case {"reason": "ticks", "ticks": int(ticks), **rest} if not rest:
            return f"after {counted(ticks, 'tick')}, as requested"
        case {"reason": "exception", "exception": str(exception), **rest} if not rest:
            return f"by {exception}"
        case {"reason": "exception", "exception": str(exception), "step": {"tick": int(tick)}, **rest} if not rest:
            return f"by {exception}, in the step to tick {tick:,}"
        case {"reason": "written out", **rest} if not rest:
            return "written out of a recording that continued"
        case {"reason": str(reason), "text": str(text), "ticks": int(ticks), **rest} if not rest:
            return f"at tick {ticks:,} by {reason}: {text}"
        case {"reason": str(reason), "episode": dict(episode), **rest} if not rest:
            return f"{reason}, {_episode_text(episode)}"
        case {"reason": str(reason), **rest}:
            return ", ".join([reason, *(f"{key}: {value}" for key, value in rest.items())])
    return json.dumps(outcome)


def _between_text(between: dict[str, Any]) -> str:
    """What is known of changes between two steps: their number, or the least number if not all steps were compared."""
    times = counted(between["count"], "time")
    match between:
        case {"first_tick": int(first), "last_tick": int(last)}:
            compared = f"compared only before the steps to {tick_range(first, last)}"
            return (
                f"changed at least {times} between two steps by other code ({compared}); if the next step reads what was "
                "changed, a replay differs: replay verify tells"
            )
        case {"first_tick": int()}:
            return f"changed {times} between two steps"
    return f"changed at least {times} between two steps"


def _episode_text(episode: dict[str, Any]) -> str:
    """What is recorded of the last episode: how long it was, and if it was over when the recording ended."""
    steps = counted(int(episode.get("steps", 0)), "step")
    match episode.get("over"):
        case True:
            flags = [flag for flag in ("terminated", "truncated") if episode.get(flag) is True]
            return f"after an episode of {steps} that was {' and '.join(flags) or 'over'}"
        case False:
            return f"in an episode that was not over, after {steps}"
        case _:
            return f"after {steps} of an episode"


def _interval_text(facts: dict[str, Any]) -> str:
    """The distance of keyframes: as it was set, or as it is if one came sooner or later."""
    least, most = facts["keyframe_interval_ticks"], facts["keyframe_interval_max_ticks"]
    set_to = f"{least}" if most is None else f"{least} to {most:,}"
    after_ms = facts["keyframe_after_ms"]
    early = "" if after_ms is None else f", sooner after steps of {after_ms:g} ms in all"
    apart = facts["keyframe_distances"]
    if apart is None or least is None or least <= apart[0] <= apart[1] <= (most or least):
        return f"every {set_to} ticks{early}"
    found = f"{apart[0]:,}" if apart[0] == apart[1] else f"{apart[0]:,} to {apart[1]:,}"
    if after_ms is not None:
        rule = f"or sooner, once the steps since the last one have taken {after_ms:g} ms"
        return f"{found} ticks apart (set to every {set_to} ticks, {rule})"
    return f"{found} ticks apart (set to {set_to})"


def _losses(facts: dict[str, Any]) -> Iterator[str]:
    """Lines about missing ticks, missing files and damage, with the reasons."""
    dropped = {(drop["first_tick"], drop["last_tick"]): drop["why"] for drop in facts["dropped_ticks"]}
    for (first, last), why in dropped.items():
        yield f"  dropped: {tick_range(first, last)}: {why}"
    starts = sorted(dropped)
    for first, last in facts["missing_ticks"]:
        before = bisect.bisect_right(starts, (first, last)) - 1
        if before < 0 or not starts[before][0] <= first <= last <= starts[before][1]:
            yield f"  missing: {tick_range(first, last)}"
    for first, last in facts.get("ticks_without_changes", []):
        yield f"  without changes: {tick_range(first, last)}; a seek to them re-simulates"
    for first, last in facts.get("missing_event_ticks", []):
        how = "" if facts["events_by_function"] else "; replayer.rebuild_events rebuilds them"
        yield f"  without events: {tick_range(first, last)}{how}"
    for first, last in facts.get("missing_aux_ticks", []):
        yield f"  without aux: {tick_range(first, last)}"
    for number in facts["missing_segments"]:
        yield f"  missing: the file of segment {number}"
    for damage in facts["damages"]:
        kind = "torn" if damage["torn"] else "damaged"
        where = f"segment {damage['segment']}, " if damage["segment"] > 0 else ""
        yield f"  {kind}: {where}bytes {damage['offset']:,} to {damage['end_offset']:,}: {damage['what']}"
    for problem in facts.get("damaged_blocks", []):
        yield f"  damaged: {problem}"


def _next_step(facts: dict[str, Any]) -> Iterator[str]:
    """The next command, ready to paste into a shell or a script."""
    path = shlex.quote(facts["tape"])
    if facts["status"] == "corrupt" or (facts["sealed"] and facts["damages"]):
        yield f"next: replay repair {path}"
    elif not facts["sealed"] and not facts["being_written"] and facts["can_be_resumed"]:
        subject = "simulation" if not facts.get("adapter") else "an object made as the recorded one"
        how = f"record resume {path}" if facts["world"] else f"recorder.resume({facts['tape']!r}, {subject})"
        yield f"next: {how}  # continues where it stopped"
