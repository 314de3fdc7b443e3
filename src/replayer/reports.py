"""What ``replay info`` and ``replay verify`` print, for people and for programs."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recorder.console import bytes_text
from recorder.errors import UnsupportedVersionError
from recorder.format.contents import Damage
from recorder.format.frame import Frame
from recorder.format.gaps import merged
from replayer.desync.dump import difference_lines
from replayer.desync.finding import Finding
from replayer.repair import RepairReport
from replayer.show import to_json
from replayer.tail import Ended, KeyframeSeen, Missed, Seen, Tail
from replayer.tape import Tape
from replayer.verify import Report


def tape_facts(tape: Tape, *, check: bool = True) -> dict[str, Any]:
    """What ``replay info --json`` prints. check: read every block whole, instead of believing the index."""
    if check:
        tape.distrust_index()
    meta = tape.meta
    settings = meta.get("settings") or meta  # Tapes of format 0.1 have them among the rest.
    world = meta.get("world") or {}
    has_state = bool(tape.keyframes)
    fulls = sum(place.is_full for place in tape.keyframes)
    facts = {
        "tape": str(tape.path),
        "run_id": tape.run_id,
        "world": world.get("name"),
        "world_version": world.get("version"),
        "scenario": world.get("config", {}).get("name"),
        "seed": world.get("config", {}).get("seed"),
        "simulation": meta.get("simulation"),
        "mode": meta.get("mode"),
        "first_tick": tape.first_tick if has_state else None,
        "last_tick": tape.last_tick if has_state else None,
        "sealed": tape.sealed,
        "being_written": not tape.sealed and tape.is_being_written(),
        "can_be_resumed": has_state and isinstance(meta.get("settings"), dict),
        "status": tape.status,
        "outcome": to_json(tape.outcome),
        "bytes": tape.size_bytes,
        "segments": [segment.number for segment in tape.segments],
        "missing_segments": tape.missing_segments,
        "journal_ticks": tape.journal_ticks,
        "full_keyframes": fulls,
        "delta_keyframes": len(tape.keyframes) - fulls,
        "keyframe_interval_ticks": settings.get("keyframe_interval_ticks"),
        "durability": settings.get("durability"),
        "notes": to_json(meta.get("notes") or {}),
        "created": meta.get("created"),
        "environment": meta.get("environment"),
        "missing_ticks": [list(missing) for missing in tape.missing_ticks()] if has_state else [],
        "dropped_ticks": [
            {"first_tick": drop.first_tick, "last_tick": drop.last_tick, "why": drop.why} for drop in tape.drops
        ],
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
    if check and has_state:
        _check_contents(tape, facts)
    return facts


def _check_contents(tape: Tape, facts: dict[str, Any]) -> None:
    """Add what reading every block shows to facts."""
    problems = tape.check_blocks()
    facts["damaged_blocks"] = [str(problem) for problem in problems]
    if problems:
        facts["status"] = "corrupt"
        facts["missing_ticks"] = [list(unread) for unread in _ticks_that_fail(tape)]


def _ticks_that_fail(tape: Tape) -> list[tuple[int, int]]:
    """The ranges of ticks whose frames cannot be read."""
    first, last = tape.first_tick + 1, tape.last_tick
    try:
        runs = tape.recording.runs(first, last)
        return merged([(run.first_tick, run.last_tick) for run in runs if run.error is not None])
    except UnsupportedVersionError:  # This program must not read any of them.
        return [(first, last)] if first <= last else []


def print_tape(facts: dict[str, Any]) -> None:
    """Print what ``replay info`` says; facts: of tape_facts."""
    sealed = (
        "sealed"
        if facts["sealed"]
        else "not sealed: "
        + ("it is being recorded" if facts["being_written"] else "the recording did not end properly")
    )
    print(f"{facts['tape']}: {facts['status']}, {sealed}")
    if facts["world"] is not None:
        named = f"{facts['scenario']}, " if facts["scenario"] else ""
        print(f"  world: {facts['world']} version {facts['world_version']} ({named}seed {facts['seed']})")
    else:
        print(f"  simulation: {facts['simulation']} (no registered world; replay it with --sim module:factory)")
    if facts["first_tick"] is None:
        print("  ticks: none that can be reached yet")
    else:
        count = facts["last_tick"] - facts["first_tick"] + 1
        each = facts["bytes"] / max(1, count - 1)
        journal = f", the last {facts['journal_ticks']:,} in the journal" if facts["journal_ticks"] else ""
        print(f"  ticks: {facts['first_tick']:,} to {facts['last_tick']:,}{journal}")
        files = f" in {len(facts['segments'])} files" if len(facts["segments"]) > 1 else ""
        print(f"  size: {bytes_text(facts['bytes'])}{files}, {each:,.0f} bytes a tick")
    print(
        f"  keyframes: {facts['full_keyframes']:,} full, {facts['delta_keyframes']:,} delta, "
        f"every {facts['keyframe_interval_ticks']} ticks"
    )
    if facts["outcome"] is not None:
        outcome = facts["outcome"]
        shown = ", ".join(f"{key} {value}" for key, value in outcome.items()) if isinstance(outcome, dict) else outcome
        print(f"  ended: {shown}")
    if facts["created"] is not None:
        environment = facts["environment"] or {}
        print(f"  recorded: {facts['created']}, " + ", ".join(f"{key} {value}" for key, value in environment.items()))
    print(f"  run: {facts['run_id'] or 'unknown, the file header is damaged'}")
    _print_losses(facts)


def _print_losses(facts: dict[str, Any]) -> None:
    """What is missing, why, and what can be done about it."""
    dropped = {(drop["first_tick"], drop["last_tick"]): drop["why"] for drop in facts["dropped_ticks"]}
    for (first, last), why in dropped.items():
        print(f"  not kept: ticks {first:,} to {last:,}: {why}")
    for first, last in facts["missing_ticks"]:
        if not any(a <= first and last <= b for a, b in dropped):
            print(f"  missing: ticks {first:,} to {last:,}")
    for number in facts["missing_segments"]:
        print(f"  missing: the file of segment {number}")
    for damage in facts["damages"]:
        kind = "torn" if damage["torn"] else "damaged"
        where = f"segment {damage['segment']}, " if damage["segment"] > 0 else ""
        print(f"  {kind}: {where}bytes {damage['offset']:,} to {damage['end_offset']:,}: {damage['what']}")
    for problem in facts.get("damaged_blocks", []):
        print(f"  damaged: {problem}")
    if facts["status"] == "corrupt":
        print(f"next: replay repair {facts['tape']}")
    elif not facts["sealed"] and not facts["being_written"] and facts["can_be_resumed"]:
        how = f"record resume {facts['tape']}" if facts["world"] else f"recorder.resume({facts['tape']!r}, simulation)"
        print(f"next: {how} goes on where it stopped")


def report_facts(report: Report) -> dict[str, Any]:
    """What ``replay verify --json`` prints."""
    return {
        "ok": report.ok,
        "status": report.status,
        "verified_ticks": report.verified_ticks,
        "tick_count": report.tick_count,
        "dropped_ticks": report.dropped_ticks,
        "first_bad": report.first_bad,
        "fields": [difference.field for finding in report.findings for difference in finding.differences],
        "problems": [str(problem) for problem in report.problems],
        "dump": str(report.dump_path) if report.dump_path is not None else None,
    }


def print_report(path: Path, report: Report) -> None:
    """Print what ``replay verify`` says, on one screen."""
    if report.ok:
        if report.dropped_ticks:
            _print_proved_part(path, report)
        else:
            sealed = "" if report.status == "intact" else "; the tape is not sealed"
            print(f"{path}: all {report.tick_count:,} ticks are the same{sealed}")
        return
    if report.first_bad is not None:
        print(f"{path}: DESYNC at tick {report.first_bad:,}; all ticks before it are the same")
        for finding in report.findings:
            _print_finding(finding)
    else:
        print(f"{path}: corrupt; {report.verified_ticks:,} of {report.tick_count:,} ticks are proved the same")
    for problem in report.problems:
        print(f"  {problem}")
    if report.dump_path is not None:
        print(f"  dump: {report.dump_path}")


def _print_proved_part(path: Path, report: Report) -> None:
    """For a tape that says itself that some ticks are missing."""
    unreached = report.tick_count - report.verified_ticks - report.dropped_ticks
    print(
        f"{path}: {report.verified_ticks:,} of {report.tick_count:,} ticks are the same; {report.dropped_ticks:,} were "
        f"not kept, {unreached:,} lie between those and the next keyframe and cannot be reached"
    )


def _print_finding(finding: Finding) -> None:
    print(f"  recorded hash {finding.expected_hash:016x}, replayed {finding.actual_hash:016x}")
    if finding.differences:
        print(f"  at the next recorded keyframe, tick {finding.compared_tick:,}, these fields differ:")
    for difference in finding.differences:
        for line in difference_lines(difference)[:3]:
            print(f"    {line}")
    if finding.note:
        print(f"  note: {finding.note}")
    inputs = next((frame.inputs for frame in finding.frames if frame.tick == finding.tick), None)
    print(f"  inputs of the tick: {json.dumps(to_json(inputs))}")


def repair_facts(report: RepairReport) -> dict[str, Any]:
    """What ``replay repair --json`` prints."""
    return {
        "tape": str(report.path),
        "first_tick": report.first_tick,
        "last_tick": report.last_tick,
        "copied_keyframes": report.copied_keyframes,
        "rebuilt_ticks": report.rebuilt_ticks,
        "lost_keyframes": [{"tick": tick, "why": why} for tick, why in report.lost_keyframe_ticks],
        "lost_ticks": [{"first_tick": first, "last_tick": last, "why": why} for first, last, why in report.lost_ticks],
    }


def print_repair(source: Path, report: RepairReport) -> None:
    """Print what ``replay repair`` did."""
    print(f"{source} → {report.path}: ticks {report.first_tick:,} to {report.last_tick:,}")
    print(f"  keyframes: {report.copied_keyframes:,} copied, {len(report.rebuilt_ticks):,} rebuilt and proved by hash")
    for tick in report.rebuilt_ticks:
        print(f"  rebuilt: the keyframe of tick {tick:,}")
    for tick, why in report.lost_keyframe_ticks:
        print(f"  lost: the keyframe of tick {tick:,}: {why}")
    for first, last, why in report.lost_ticks:
        print(f"  lost: ticks {first:,} to {last:,}: {why}")
    if not report.lost_ticks and not report.lost_keyframe_ticks:
        print("  nothing is lost")
    print(f"next: replay verify {report.path}")


def tail_lines(tail: Tail, last: int, *, follow: bool, as_json: bool) -> Iterator[str]:
    """The lines that ``replay tail`` prints: the last ticks that are there, then what comes."""
    there: deque[Seen] = deque()  # The last ticks, and what stands between them.
    kept, hidden, ended = 0, 0, None
    for seen in tail.news():
        if isinstance(seen, Ended):
            ended = seen
        elif not isinstance(seen, KeyframeSeen) or as_json:
            there.append(seen)
            kept += isinstance(seen, Frame)
        while kept > last or (there and not last):
            if isinstance(there.popleft(), Frame):
                kept, hidden = kept - 1, hidden + 1
    if hidden and not as_json:
        yield f"… {hidden:,} ticks before these"
    yield from (_tail_line(seen, as_json=as_json) for seen in there)
    if ended is not None:
        yield _tail_line(ended, as_json=as_json)
    elif follow:
        yield from (_tail_line(seen, as_json=as_json) for seen in tail.follow())


def _tail_line(seen: Seen, *, as_json: bool) -> str:
    match seen:
        case Frame():
            facts: dict[str, Any] = {
                "tick": seen.tick,
                "state_hash": f"{seen.state_hash:016x}",
                "inputs": to_json(seen.inputs),
            }
            text = f"tick {seen.tick:,}  {seen.state_hash:016x}  {json.dumps(facts['inputs'])}"
        case KeyframeSeen():
            facts = {"keyframe": seen.tick, "full": seen.is_full}
            text = f"{'full' if seen.is_full else 'delta'} keyframe of tick {seen.tick:,}"
        case Missed():
            facts = {"missed": [seen.first_tick, seen.last_tick], "why": seen.why}
            text = f"missing: ticks {seen.first_tick:,} to {seen.last_tick:,}: {seen.why}"
        case Damage():
            facts = {"damaged": [seen.offset, seen.end_offset], "segment": seen.segment, "what": seen.what}
            text = f"damaged: bytes {seen.offset:,} to {seen.end_offset:,}: {seen.what}"
        case Ended():
            facts = {"ended": to_json(seen.outcome)}
            text = f"sealed: {json.dumps(facts['ended'])}"
    return json.dumps(facts) if as_json else text
