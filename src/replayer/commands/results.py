"""The commands ``replay results`` (the result of a scenario's run) and ``replay compare`` (two runs)."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from recorder.console.output import print_json
from recorder.exit_codes import DIFFERS, SAME, UsageError
from recorder.location.tape_location import Location
from recorder.storage.os_errors import reading
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.commands.arguments import choose, ensure_states, factory_of, ready_tape
from replayer.commands.options import Json, Sim, TapePath
from replayer.playback.make_simulation import UnfitSimulationError
from replayer.status import worst_code
from replayer.tape.completeness import losses
from replayer.tape.tape import Tape
from replayer.timeline.scenario_results import (
    CanonicalReplay,
    common_ticks,
    compare_tapes,
    run_canonical_replay,
    scenario_result,
)
from replayer.value_text import plain_text
from sim.scenario.results.compare import Divergence, RunComparison
from sim.scenario.results.result import ScenarioResult

LINES_SHOWN = 10
_VERDICTS = {
    "exact_raw_match": "the same: every event, in the same order",
    "equivalent_under_normalization": "equivalent: the same events in the same causal order, interleaved differently",
    "safety_visible_divergence": "different: the events or their causal order differ",
}


def results(
    tape: TapePath | None = None,
    /,
    *,
    sim: Sim = None,
    canonical: Annotated[bool, Parameter(name="--canonical", negative="")] = False,
    as_json: Json = False,
) -> int:
    """Show the result of a scenario's run: violations, adversaries, budgets.

    Examples:
    replay results ambush.tape
    replay results ambush.tape --json
    replay results threaded.tape --canonical

    The result is computed from the events on the tape. Events that were lost in a
    crash are re-simulated. Whatever else is missing on the tape is listed.

    Exit code: 0 all properties hold, 1 a property was violated or the canonical
    run differs. Otherwise 3 if the tape is incomplete, 4 if it is corrupt.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    canonical
        Run the scenario again from tick 0, in one thread and in canonical order, and compare.
    as_json
        Print one JSON object with all artefacts.
    """
    path = choose(tape)
    with ready_tape(path) as opened:
        missing, code = losses(opened)
        try:
            result = scenario_result(opened, factory_of(sim))
            canonical_replay = run_canonical_replay(opened, factory_of(sim)) if canonical else None
        except UnfitSimulationError as error:
            raise UsageError(str(error)) from None
    if as_json:
        summary: dict[str, Any] = {"reconfiguration_summary": result.reconfiguration_summary}
        summary["eligibility"] = result.eligibility
        if result.traces:
            summary["traces"] = {name: attrs.asdict(trace) for name, trace in result.traces.items()}
        facts = {"result": {**attrs.asdict(result), **summary}, "missing": missing}
        facts |= {"canonical": _canonical_facts(canonical_replay)} if canonical_replay else {}
        print_json(facts, default=repr)
    else:
        lines = _result_lines(result, path, sim, missing)
        lines += _canonical_lines(canonical_replay) if canonical_replay else []
        print_visible("\n".join(plain_text(line) for line in lines))
    differs = canonical_replay is not None and canonical_replay.comparison.verdict == "safety_visible_divergence"
    violated = result.violations or result.violated_before
    return worst_code([code, DIFFERS if violated or differs else SAME])


def compare(
    one: TapePath,
    other: TapePath,
    /,
    *,
    sim: Sim = None,
    as_json: Json = False,
) -> int:
    """Compare two runs by their events, or two sweeps by their runs.

    Examples:
    replay compare first.tape second.tape
    replay compare lossy-1 lossy-2          folders of record sweep or record batch

    Two tapes are the same, equivalent (each role, session and message has the same
    events in the same order, interleaved differently) or different. The first event
    that differs is shown.
    If one tape begins later or was cut off, the ticks that both have are compared,
    and the report says so. To compare states instead of events, use replay diff.

    Exit code: 0 the same or equivalent, 1 different. Otherwise 3 if a tape is
    incomplete, 4 if one is corrupt.

    Parameters
    ----------
    one
        A tape with events, or a folder with a manifest.
    other
        The tape or folder to compare it with.
    sim
        module:factory of the simulation. Needed if events have to be re-simulated.
    as_json
        Print one JSON object.
    """
    if isinstance(one, Path) and isinstance(other, Path) and one.is_dir() and other.is_dir():
        return _compare_folders(one, other, as_json=as_json)
    _ensure_one_kind(one, other)
    with reading(one), Tape(one) as left, reading(other), Tape(other) as right:
        for tape in (left, right):
            ensure_states(tape)
            if not tape.has_events and not tape.meta.get("scenario"):
                raise UsageError(f"{tape.path} has no events: none were recorded; to compare states, use replay diff")
        lost = [losses(tape) for tape in (left, right)]
        comparison = compare_tapes(left, right, (factory_of(sim), factory_of(sim)))
        notes = _limits(left, right)
    notes += [f"{path}: {line}" for path, (lines, _) in zip((one, other), lost, strict=True) for line in lines]
    if as_json:
        print_json({**attrs.asdict(comparison), "notes": notes}, default=repr)
    else:
        lines = _comparison_lines(comparison, str(one), str(other)) + [f"  {note}" for note in notes]
        print_visible("\n".join(plain_text(line) for line in lines))
    differs = comparison.verdict == "safety_visible_divergence"
    return worst_code([*(code for _, code in lost), DIFFERS if differs else SAME])


def _ensure_one_kind(one: Location, other: Location) -> None:
    """Raise FileNotFoundError for a path that does not exist, UsageError for a folder next to a tape."""
    for path in (one, other):
        if isinstance(path, Path) and not path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    for folder, tape in ((one, other), (other, one)):
        if isinstance(folder, Path) and folder.is_dir():
            raise UsageError(f"{folder} is a folder and {tape} is not: expected two tapes, or two folders of runs")


def _limits(left: Tape, right: Tape) -> list[str]:
    """Describe which ticks were compared, unless these are all ticks of both tapes."""
    first, last = common_ticks(left, right)
    late = [tape for tape in (left, right) if tape.first_tick > 0]
    notes = [f"{tape.path} begins at tick {tape.first_tick:,}" for tape in late]
    notes += [f"compared from tick {first:,} on"] if late else []
    notes += [f"compared up to tick {last:,}, where a tape that was not closed ends"] if last is not None else []
    return notes


def _compare_folders(one: Path, other: Path, *, as_json: bool) -> int:
    from recorder.scenarios.batch_manifest import read_manifest  # noqa: PLC0415 - loads the whole recorder.
    from recorder.scenarios.sweep import compare_sweeps  # noqa: PLC0415

    try:
        runs = read_manifest(one), read_manifest(other)
    except ValueError as error:
        raise UsageError(str(error)) from None
    changes = compare_sweeps(*runs)
    if as_json:
        print_json({"runs": [len(manifest) for manifest in runs], "changes": [attrs.asdict(c) for c in changes]})
    else:
        print_visible(f"{counted(len(runs[0]), 'run')} and {counted(len(runs[1]), 'run')}: {len(changes)} differ")
        for change in changes[:LINES_SHOWN]:
            delta = f", productive events {change.productive_delta:+,}" if "productive" in change.what else ""
            print_visible(f"  run {change.index}: {', '.join(change.what)}{delta}")
        if len(changes) > LINES_SHOWN:
            print_visible(f"  and {len(changes) - LINES_SHOWN} more: see --json")
    return DIFFERS if changes else SAME


def _result_lines(result: ScenarioResult, path: Location, sim: str | None, missing: list[str]) -> list[str]:
    regime, ticks = result.regime.replace("_", " "), counted(result.final_tick, "tick")
    lines = [f"{path}: scenario {result.name}, seed {result.seed}, {regime}, {ticks}, final state {result.final_hash}"]
    if result.error is not None:
        lines.append(f"  ended by an error: {result.error}")
    lines += [f"  violated at tick {seen.tick:,}: {seen.name}: {seen.details}" for seen in result.violations]
    lines += [f"  violated before the tape begins: {name}" for name in result.violated_before]
    if not result.violations and not result.violated_before:
        lines.append("  no property was violated" + (f" up to tick {result.final_tick:,}" if missing else ""))
    lines += [f"  {line}" for line in missing]
    lines += _list_lines("adversaries", [f"{name} from tick {tick:,}" for tick, name in result.schedule])
    spent = {entry["by"]: entry for entry in result.budget_history}
    lines += _list_lines(
        "budgets", [f"{name}: {entry['consumed']} used, {entry['remaining']} left" for name, entry in spent.items()]
    )
    lines += _list_lines("in doubt", [f"{entry['diagnostic']} ({entry['by']})" for entry in result.diagnostics])
    changes = [f"{entry['by']} at tick {entry['tick']:,}" for entry in result.reconfigurations]
    lines += _list_lines("reconfigured", changes)
    if result.reconfigurations:
        summary = [f"{key} {value:,}" for key, value in result.reconfiguration_summary.items()]
        lines += _list_lines("reconfigurations", summary)
    lines += _list_lines("events", [f"{kind} {count:,}" for kind, count in result.event_counts.items()], limit=None)
    counted_roles = [f"{role} {_presence(counts)}" for role, counts in result.presence.items()]
    lines += _list_lines("roles", counted_roles, limit=None) if counted_roles else []
    if result.scheduler is not None:
        lines += _list_lines("scheduler", [f"{key} {value}" for key, value in result.scheduler.items()], limit=None)
    if result.progress is not None:
        lines += _progress_lines(result.progress)
    lines += _list_lines("trace", [name for name, holds in result.checks.items() if holds is True])
    if result.violations:
        words = shlex.quote(str(path)) + (f" --sim {shlex.quote(sim)}" if sim is not None else "")
        lines.append(f"next: replay seek {words} --tick {result.violations[0].tick}")
    return lines


def _progress_lines(progress: Mapping[str, Any]) -> list[str]:
    """The progress of the world, then that of each of its choreographies, if it has several."""
    several = progress.get("choreographies", {})
    whole = {key: value for key, value in progress.items() if key != "choreographies"}
    lines: list[str] = []
    for title, report in {"progress": whole, **{f"progress of {name}": one for name, one in several.items()}}.items():
        lines += _list_lines(title, [f"{key} {value}" for key, value in report.items()], limit=None)
    return lines


def _presence(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _list_lines(title: str, items: list[str], *, limit: int | None = LINES_SHOWN) -> list[str]:
    if not items:
        return []
    shown = items if limit is None or len(items) <= limit else [*items[:limit], f"and {len(items) - limit} more"]
    return [f"  {title}: {', '.join(shown)}"]


def _canonical_facts(replay: CanonicalReplay) -> dict[str, Any]:
    return {
        "comparison": attrs.asdict(replay.comparison),
        "same_hash": replay.same_hash,
        "final_hash": replay.result.final_hash,
    }


def _canonical_lines(replay: CanonicalReplay) -> list[str]:
    lines = _comparison_lines(replay.comparison, "recorded", "canonical")
    return [*lines, f"  final state: {replay.result.final_hash}, {'the same' if replay.same_hash else 'different'}"]


def _comparison_lines(comparison: RunComparison, one: str, other: str) -> list[str]:
    lines = [f"{one} and {other}: {_VERDICTS[comparison.verdict]}"]
    if comparison.capped:
        lines.append("  every event is the same here, but threads influence the order: another run may differ")
    first: Divergence | None = comparison.normalised or comparison.raw
    if first is None:
        return lines
    if comparison.only_length:
        lines.append("  no event that both have differs: one run has further events")
    places = [first.of] if first.of else []
    places += [f"session {first.session}"] if first.session is not None else []
    lines.append(f"  first difference: {' of '.join([f'event {first.index}', *places])}")
    lines += [f"    {one}: {_event_text(first.one)}", f"    {other}: {_event_text(first.other)}"]
    return [*lines, "  normalised: " + "; ".join(comparison.normalisation)]


def _event_text(event: Any) -> str:
    return "no such event" if event is None else f"tick {event[0]:,}: {event[1]}"
