"""What ``replay info`` and ``replay verify`` print, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recorder.console import bytes_text
from replayer.desync.dump import difference_lines
from replayer.desync.finding import Finding
from replayer.show import to_json
from replayer.tape import Tape
from replayer.verify import Report


def tape_facts(tape: Tape) -> dict[str, Any]:
    """What ``replay info --json`` prints."""
    meta = tape.meta
    settings = meta.get("settings") or meta  # Tapes of format 0.1 have them among the rest.
    world = meta.get("world") or {}
    has_state = bool(tape.keyframes)
    fulls = sum(place.is_full for place in tape.keyframes)
    return {
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


def print_tape(tape: Tape, facts: dict[str, Any]) -> None:
    """Print what ``replay info`` says; facts: of tape_facts."""
    sealed = "sealed" if facts["sealed"] else "not sealed: the recording did not end properly, or is still going on"
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
        print(f"  ticks: {facts['first_tick']:,} to {facts['last_tick']:,}")
        print(f"  size: {bytes_text(facts['bytes'])}, {each:,.0f} bytes a tick")
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
    for first, final in facts["missing_ticks"]:
        print(f"  missing: ticks {first:,} to {final:,}")
    for damage in tape.damages:
        kind = "torn" if damage.torn else "damaged"
        print(f"  {kind}: bytes {damage.offset:,} to {damage.end_offset:,}: {damage.what}")


def report_facts(report: Report) -> dict[str, Any]:
    """What ``replay verify --json`` prints."""
    return {
        "ok": report.ok,
        "status": report.status,
        "verified_ticks": report.verified_ticks,
        "tick_count": report.tick_count,
        "first_bad": report.first_bad,
        "fields": [difference.field for finding in report.findings for difference in finding.differences],
        "problems": [str(problem) for problem in report.problems],
        "dump": str(report.dump_path) if report.dump_path is not None else None,
    }


def print_report(path: Path, report: Report) -> None:
    """Print what ``replay verify`` says, on one screen."""
    if report.ok:
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
