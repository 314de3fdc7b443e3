"""The commands ``replay results`` and ``replay compare``: what a scenario's run came to, and how two runs compare."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from recorder.exit_codes import DIFFERS, SAME, UsageError
from recorder.storage.os_errors import reading
from recorder.text import counted
from replayer.commands.arguments import choose, ensure_states, factory_of, ready_tape
from replayer.commands.options import Json, Sim
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
    "equivalent_under_normalization": "equivalent: the same events in each session, interleaved in another way",
    "safety_visible_divergence": "different: a session has other events",
}


def results(
    tape: Path | None = None,
    /,
    *,
    sim: Sim = None,
    canonical: Annotated[bool, Parameter(name="--canonical", negative="")] = False,
    as_json: Json = False,
) -> int:
    """What the run of a scenario came to: violations, what adversaries and network did, budgets, statistics.

    Examples:
    replay results ambush.tape
    replay results ambush.tape --json
    replay results threaded.tape --canonical

    Everything is put together from the events on the tape; those that a crash has cost are made again. What is missing
    on the tape is said.

    Exit code: 0 all properties hold, 1 one was violated, or the canonical run differs; else, of a tape that is not
    whole, 3 incomplete, 4 corrupt.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    canonical
        Run it once more from tick 0, in one thread and canonical order, and compare.
    as_json
        Print one JSON object with all artefacts.
    """
    path = choose(tape)
    with ready_tape(path) as opened:
        missing, code = losses(opened)
        try:
            found = scenario_result(opened, factory_of(sim))
            again = run_canonical_replay(opened, factory_of(sim)) if canonical else None
        except UnfitSimulationError as error:
            raise UsageError(str(error)) from None
    if as_json:
        facts = {"result": attrs.asdict(found), "missing": missing}
        facts |= {"canonical": _canonical_facts(again)} if again else {}
        print(json.dumps(facts, indent=1, default=repr))
    else:
        lines = _result_lines(found, path, sim, missing) + (_canonical_lines(again) if again else [])
        print("\n".join(plain_text(line) for line in lines))
    differs = again is not None and again.comparison.verdict == "safety_visible_divergence"
    violated = found.violations or found.violated_before
    return worst_code([code, DIFFERS if violated or differs else SAME])


def compare(
    one: Path,
    other: Path,
    /,
    *,
    sim: Sim = None,
    as_json: Json = False,
) -> int:
    """Compare two runs by their events, or two sweeps by their runs.

    Examples:
    replay compare first.tape second.tape
    replay compare lossy-1 lossy-2                 two folders that record sweep or record batch has made

    Two tapes are the same, equivalent (each session has the same events, but they are interleaved in another way) or
    different; the first event that differs is named. replay diff compares states, not events. Where one tape begins
    later, or was cut off, the ticks that both have are compared, and that is said.

    Exit code: 0 the same or equivalent, 1 different; else, where a tape is not whole, 3 incomplete, 4 corrupt.

    Parameters
    ----------
    one, other
        Two tapes with events, or two folders with manifests.
    sim
        module:factory of the simulation, where events have to be made again.
    as_json
        Print one JSON object.
    """
    if one.is_dir() and other.is_dir():
        return _compare_folders(one, other, as_json=as_json)
    with reading(one), Tape(one) as left, reading(other), Tape(other) as right:
        for tape in (left, right):
            ensure_states(tape)
            if not tape.has_events and not tape.meta.get("scenario"):
                raise UsageError(f"{tape.path} has no events: none were recorded; replay diff compares states")
        lost = [losses(tape) for tape in (left, right)]
        found = compare_tapes(left, right, (factory_of(sim), factory_of(sim)))
        notes = _limits(left, right)
    notes += [f"{path}: {line}" for path, (lines, _) in zip((one, other), lost, strict=True) for line in lines]
    if as_json:
        print(json.dumps({**attrs.asdict(found), "notes": notes}, indent=1, default=repr))
    else:
        lines = _comparison_lines(found, str(one), str(other)) + [f"  {note}" for note in notes]
        print("\n".join(plain_text(line) for line in lines))
    differs = found.verdict == "safety_visible_divergence"
    return worst_code([*(code for _, code in lost), DIFFERS if differs else SAME])


def _limits(left: Tape, right: Tape) -> list[str]:
    """Which ticks were compared, if these are not all of both tapes."""
    first, last = common_ticks(left, right)
    late = [tape for tape in (left, right) if tape.first_tick > 0]
    notes = [f"{tape.path} begins at tick {tape.first_tick:,}" for tape in late]
    notes += [f"compared from tick {first:,} on"] if late else []
    return notes + (
        [f"compared up to tick {last:,}, where a tape that was not closed ends"] if last is not None else []
    )


def _compare_folders(one: Path, other: Path, *, as_json: bool) -> int:
    from recorder.scenarios.batch_manifest import read_manifest  # noqa: PLC0415 - loads the whole recorder.
    from recorder.scenarios.sweep import compare_sweeps  # noqa: PLC0415

    try:
        runs = read_manifest(one), read_manifest(other)
    except ValueError as error:
        raise UsageError(str(error)) from None
    changes = compare_sweeps(*runs)
    if as_json:
        print(
            json.dumps({"runs": [len(side) for side in runs], "changes": [attrs.asdict(c) for c in changes]}, indent=1)
        )
    else:
        print(f"{counted(len(runs[0]), 'run')} and {counted(len(runs[1]), 'run')}: {len(changes)} differ")
        for change in changes[:LINES_SHOWN]:
            delta = f", productive events {change.productive_delta:+,}" if "productive" in change.what else ""
            print(f"  run {change.index}: {', '.join(change.what)}{delta}")
        if len(changes) > LINES_SHOWN:
            print(f"  and {len(changes) - LINES_SHOWN} more: see --json")
    return DIFFERS if changes else SAME


def _result_lines(found: ScenarioResult, path: Path, sim: str | None, missing: list[str]) -> list[str]:
    regime, ticks = found.regime.replace("_", " "), counted(found.final_tick, "tick")
    lines = [f"{path}: scenario {found.name}, seed {found.seed}, {regime}, {ticks}, final state {found.final_hash}"]
    if found.error is not None:
        lines.append(f"  ended by an error: {found.error}")
    lines += [f"  violated at tick {one.tick:,}: {one.name}: {one.details}" for one in found.violations]
    lines += [f"  violated before the tape begins: {one}" for one in found.violated_before]
    if not found.violations and not found.violated_before:
        lines.append("  no property was violated" + (f" up to tick {found.final_tick:,}" if missing else ""))
    lines += [f"  {line}" for line in missing]
    lines += _list_lines("adversaries", [f"{who} from tick {tick:,}" for tick, who in found.schedule])
    spent = {entry["by"]: entry for entry in found.budget_history}
    lines += _list_lines(
        "budgets", [f"{who}: {one['consumed']} used, {one['remaining']} left" for who, one in spent.items()]
    )
    lines += _list_lines("in doubt", [f"{one['diagnostic']} ({one['by']})" for one in found.diagnostics])
    lines += _list_lines("reconfigured", [f"{one['by']} at tick {one['tick']:,}" for one in found.reconfigurations])
    lines += _list_lines("events", [f"{kind} {count:,}" for kind, count in found.event_counts.items()], limit=None)
    if found.progress is not None:
        lines += _list_lines("progress", [f"{key} {value}" for key, value in found.progress.items()], limit=None)
    lines += _list_lines("trace", [name for name, holds in found.checks.items() if holds is True])
    if found.violations:
        words = shlex.quote(str(path)) + (f" --sim {shlex.quote(sim)}" if sim is not None else "")
        lines.append(f"next: replay seek {words} --tick {found.violations[0].tick}")
    return lines


def _list_lines(title: str, items: list[str], *, limit: int | None = LINES_SHOWN) -> list[str]:
    if not items:
        return []
    shown = items if limit is None or len(items) <= limit else [*items[:limit], f"and {len(items) - limit} more"]
    return [f"  {title}: {', '.join(shown)}"]


def _canonical_facts(found: CanonicalReplay) -> dict[str, Any]:
    return {
        "comparison": attrs.asdict(found.comparison),
        "same_hash": found.same_hash,
        "final_hash": found.result.final_hash,
    }


def _canonical_lines(found: CanonicalReplay) -> list[str]:
    lines = _comparison_lines(found.comparison, "recorded", "canonical")
    return [*lines, f"  final state: {found.result.final_hash}, {'the same' if found.same_hash else 'another one'}"]


def _comparison_lines(found: RunComparison, one: str, other: str) -> list[str]:
    lines = [f"{one} and {other}: {_VERDICTS[found.verdict]}"]
    if found.capped:
        lines.append("  every event is the same here, but threads had a say in the order: another run may differ")
    first: Divergence | None = found.normalised or found.raw
    if first is None:
        return lines
    where = f"event {first.index} of session {first.session}" if first.session is not None else f"event {first.index}"
    lines.append(f"  first difference: {where}")
    shown: Callable[[Any], str] = lambda told: "no such event" if told is None else f"tick {told[0]:,}: {told[1]}"  # noqa: E731
    return [*lines, f"    {one}: {shown(first.one)}", f"    {other}: {shown(first.other)}"]
