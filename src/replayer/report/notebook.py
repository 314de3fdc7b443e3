"""HTML summaries of tapes, seeks, verifications and data sets for notebooks; nothing is simulated.

The index of a tape is read, and its first keyframe for the list of fields, unless that one is large.
recorder.notebook.html makes the HTML and escapes texts of the tape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recorder.errors import RecordingError
from recorder.format.recording.assembly import NOT_CHECKED
from recorder.notebook.html import AMBER, GREEN, RED, Badge, Strip, card, facts_table, fields_part, folded, wide_table
from recorder.text import bytes_text, counted
from replayer.desync.object_diff import object_difference_lines, shown_fields
from replayer.html_renderers import renders
from replayer.report.tape_facts import outcome_text
from replayer.tape.tape import Tape
from replayer.timeline.timeline import SeekReport, Timeline
from replayer.timeline.verify import VerificationReport
from replayer.value_text import tick_range, to_json
from sim.kernel.schema import Layout

KEYFRAME_BYTES_MAX = 16 << 20  # On the disk. Reading a larger one would delay the notebook.
LOSSES_SHOWN = 5

_COLOURS = {"intact": GREEN, NOT_CHECKED: GREEN, "incomplete": AMBER, "corrupt": RED}


@renders(Tape)
def tape_html(tape: Tape, *, here: int | None = None, layout: Layout | None = None) -> str:
    """Summary of a tape. here: a tick to mark on the strip. layout: layout of its states, if it is known."""
    try:
        status = tape.status
        parts = [facts_table(_facts(tape)), *_strip(tape, here), *_losses(tape)]
        layout = layout or _layout(tape)
    except (RecordingError, OSError, ValueError) as error:  # It was closed or removed; the notebook must not fail.
        return card(str(tape.path), Badge("cannot be read", RED), facts_table([("why", error)]))
    if layout is not None:
        parts.append(fields_part(layout))
    world = tape.meta.get("world")
    if isinstance(world, dict) and isinstance(world.get("config"), dict):
        parts.append(
            folded("configuration", facts_table((key, _short(value)) for key, value in world["config"].items()))
        )
    return card(str(tape.path), Badge(status, _COLOURS[status]), *parts)


@renders(Timeline)
def timeline_html(timeline: Timeline) -> str:
    """Summary of a tape, with the timeline's tick marked."""
    layout = timeline.state.layout if timeline.tick is not None else None
    return tape_html(timeline.tape, here=timeline.tick, layout=layout)


@renders(SeekReport)
def seek_html(report: SeekReport) -> str:
    """Summary of a seek."""
    rows = [
        ("state hash", f"{report.state_hash:016x}, as recorded"),
        ("from tick", f"{report.keyframe_tick:,}, {counted(report.simulated_ticks, 'tick')} re-simulated"),
        ("took", f"{report.milliseconds:.1f} ms"),
    ]
    return card(f"tick {report.tick:,}", None, facts_table(rows))


@renders(VerificationReport)
def report_html(report: VerificationReport) -> str:
    """Summary of a verification."""
    rows: list[tuple[str, object]] = [
        ("verified", f"{report.verified_ticks:,} of {counted(report.tick_count, 'tick')}"),
    ]
    if report.dropped_ticks:
        rows.append(("dropped", counted(report.dropped_ticks, "tick")))
    for finding in report.findings:
        differing = [difference.field for difference in finding.differences]
        values, rest = object_difference_lines(finding.compared_states, differing)
        fields = ", ".join(shown_fields(finding.place.fields or ([] if values else rest)))
        phase = f"; phase {finding.place.phase}" if finding.place.phase else ""
        rows.append(("first divergent tick", f"{finding.tick:,}{f': {fields}' if fields else ''}{phase}"))
        rows += [(f"at tick {finding.compared_tick:,}", value) for value in values]
    if report.proved_keyframes:
        rows.append(("restored values", f"as recorded at {counted(report.proved_keyframes, 'keyframe')}"))
    if report.not_read:
        rows.append(("values that cannot be read", f"those of {', '.join(report.not_read)}"))
    if report.not_repeated is not None:
        count = counted(report.unrepeated_keyframes, "keyframe")
        rows.append(("values prove nothing", f"at {count}: {report.not_repeated} differed between two repeats"))
    rows += [("other values", str(values)) for values in report.wrong_keyframes[:LOSSES_SHOWN]]
    rows += [("damaged", problem) for problem in report.problems[:LOSSES_SHOWN]]
    rows += [
        ("not reached", f"{tick_range(lost.first_tick, lost.last_tick)}: {lost.why}")
        for lost in report.unreached[:LOSSES_SHOWN]
    ]
    if report.dump_path is not None:
        rows.append(("dump", report.dump_path))
    if report.ok:
        badge = Badge("verified", GREEN)
    elif report.first_bad is not None:
        badge = Badge("desync", RED)
    else:
        badge = Badge("damaged" if report.problems or report.unreached else "other values", RED)
    return card("verification", badge, facts_table(rows))


def dataset_html(path: object, manifest: Mapping[str, Any]) -> str:
    """Summary of an extracted data set."""
    tables = manifest.get("tables") or {}
    rows = [
        (name, f"{table['rows']:,}", ", ".join(table["columns"]) if isinstance(table.get("columns"), Mapping) else "")
        for name, table in tables.items()
    ]
    missing = manifest.get("missing") or []
    badge = Badge("something is missing", AMBER) if missing else None
    facts = facts_table([("format", manifest.get("format")), ("tapes", len(manifest.get("tapes") or ()))])
    return card(str(path), badge, facts, wide_table(("table", "rows", "columns"), rows))


def _facts(tape: Tape) -> list[tuple[str, object]]:
    meta, world = tape.meta, tape.meta.get("world")
    rows: list[tuple[str, object]] = []
    if isinstance(world, dict):
        config = world.get("config")
        settings = config if isinstance(config, dict) else {}
        named = "".join(f", {key} {_short(settings[key])}" for key in ("name", "seed") if key in settings)
        rows.append(("world", f"{world.get('name')} version {world.get('version')}{named}"))
    else:
        rows.append(("simulation", meta.get("simulation", "unknown")))
    rows.append(("ticks", f"{tape.first_tick:,} to {tape.last_tick:,}" if tape.keyframes else "none available"))
    fulls = sum(place.is_full for place in tape.keyframes)
    rows.append(("keyframes", f"{fulls:,} full, {len(tape.keyframes) - fulls:,} delta"))
    rows.append(("size", bytes_text(tape.size_bytes)))
    if tape.outcome is not None:
        rows.append(("ended", outcome_text(to_json(tape.outcome))))
    elif not tape.sealed:
        rows.append(("ended", "it is being recorded" if tape.is_being_written() else "not properly"))
    rows += [(f"note: {key}", _short(value)) for key, value in (meta.get("notes") or {}).items()]
    rows.append(("run", tape.run_id or "unknown"))
    return rows


def _strip(tape: Tape, here: int | None) -> list[str]:
    if not tape.keyframes:
        return []
    fulls = [place.tick for place in tape.keyframes if place.is_full]
    deltas = [place.tick for place in tape.keyframes if not place.is_full]
    return [Strip(tape.first_tick, tape.last_tick, fulls, deltas, tape.missing_ticks(), here).svg()]


def _losses(tape: Tape) -> list[str]:
    lines = [f"the file of segment {number} is missing" for number in tape.missing_segments]
    lines += [
        f"{'torn' if damage.torn else 'damaged'}: bytes {damage.offset:,} to {damage.end_offset:,}: {damage.what}"
        for damage in tape.damages
    ]
    lines += [f"dropped: {tick_range(drop.first_tick, drop.last_tick)}: {drop.why}" for drop in tape.drops]
    if tape.keyframes:
        lines += [f"no frames of {tick_range(first, last)}" for first, last in tape.missing_ticks()]
    if len(lines) > LOSSES_SHOWN:
        lines[LOSSES_SHOWN:] = [f"and {len(lines) - LOSSES_SHOWN:,} more, listed by replay info"]
    return [facts_table(("", line) for line in lines)] if lines else []


def _layout(tape: Tape) -> Layout | None:
    """The layout of the first keyframe, unless that one is large."""
    for place in tape.keyframes[:1]:
        if place.end_offset - place.entry.offset <= KEYFRAME_BYTES_MAX:
            try:
                return tape.snapshot(place).layout
            except RecordingError:
                return None  # It is damaged: there are no fields to show, and replay info gives the reason.
    return None


def _short(value: Any) -> str:
    return value if isinstance(value, str) else repr(to_json(value))
