"""Write the dump of a finding: a folder with a report, states and inputs.

Existing files are never overwritten: see recorder.storage.atomic_folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import attrs

from recorder.environment import describe_environment
from recorder.storage.atomic_folder import write_folder
from recorder.storage.run_seed import dump_folder, run_seed
from replayer.desync.dump.differences_csv import TableOfDifferences, write_differences
from replayer.desync.dump.dump_tapes import write_tapes
from replayer.desync.dump.later_paths import later_line
from replayer.desync.dump.object_files import write_readable_state
from replayer.desync.finding import Finding
from replayer.desync.location import phase_text
from replayer.desync.object_diff import compare_objects, object_difference_lines, shown_fields
from replayer.desync.rng_draws import finding_lines
from replayer.desync.state_diff import FieldDifference, row_lines
from replayer.tape.tape import Tape
from replayer.value_text import inputs_to_json, to_json

DUMP_FILES = {
    *("report.md", "finding.json", "inputs.json", "before.npz", "replayed.npz", "keyframe_recorded.npz"),
    *("keyframe_replayed.npz", "differences.csv", "reproduction.tape", "state.tape", "tree.json"),
}  # All files that a dump has, of states that are fields.
OBJECT_FILES = {"before.json", "replayed.json", "keyframe_recorded.json", "keyframe_replayed.json"}  # In place of .npz.


def keep_dump(folder: Path | None, tape: Tape, finding: Finding) -> tuple[Path | None, Finding]:
    """Write the dump unless folder is None; returns its path, and the finding.

    A failure raises nothing: the desync matters more. The reason is added to the finding's note.
    """
    if folder is None:
        return None, finding
    try:
        return write_dump(folder, tape, finding), finding
    except OSError as error:
        problem = f"the dump could not be written: {error}"
        return None, attrs.evolve(finding, note=f"{finding.note}; {problem}" if finding.note else problem)


def write_dump(folder: Path, tape: Tape, finding: Finding) -> Path:
    """Write the dump of a finding into folder and return its path; a number is appended if the name is taken.

    Raises OSError if the folder cannot be written.
    """
    seed = run_seed(tape.meta, tape.recording, finding.tick)
    target = dump_folder(folder / tape.path.name, "desync", seed, finding.tick)
    return write_folder(target, lambda part: _write_files(part, tape, finding), files=DUMP_FILES | OBJECT_FILES)


def _write_files(folder: Path, tape: Tape, finding: Finding) -> None:
    table = None
    if finding.compared_states is not None:
        table = write_differences(folder / "differences.csv", *finding.compared_states)
    states = {
        "before": finding.before,
        "replayed": finding.replayed,
        "keyframe_recorded": finding.compared_recorded,
        "keyframe_replayed": finding.compared_replayed,
    }
    files = {name: write_readable_state(folder, name, state) for name, state in states.items() if state is not None}
    (folder / "report.md").write_text("\n".join(report_lines(tape, finding, table, files)) + "\n", encoding="utf-8")
    facts = _as_json(tape, finding) | {"differences": None if table is None else table.facts()}
    (folder / "finding.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    frames = [
        {"tick": frame.tick, "hash": next(iter(frame.proof().values())), "inputs": inputs_to_json(frame.inputs)}
        for frame in finding.frames
    ]
    (folder / "inputs.json").write_text(json.dumps(frames, indent=1) + "\n", encoding="utf-8")
    write_tapes(folder, tape, finding)


def report_lines(tape: Tape, finding: Finding, table: TableOfDifferences | None, files: Mapping[str, str]) -> list[str]:
    """The report as lines of Markdown.

    table: extent of differences.csv; None without that file. files: the name of the file of each state.
    """
    lines = [
        f"# Desync at tick {finding.tick}",
        "",
        f"- tape: {tape.path} (run {tape.run_id})",
        f"- recorded hash: {finding.expected_hash:016x}",
        f"- replayed hash: {finding.actual_hash:016x}",
        f"- re-simulated from the keyframe at tick {finding.keyframe_tick}",
    ]
    if finding.latest_tick is not None:
        lines.append(
            f"- the run that went wrong first differs at or before tick {finding.latest_tick}; this is a later run"
        )
    if finding.note:
        lines.append(f"- note: {finding.note}")
    lines += ["", "## Where", ""]
    lines += [f"- {line}" for line in place_lines(finding)]
    lines += ["", "## Differences", "", *_difference_lines(finding)]
    draws = finding_lines(finding)
    if draws:
        lines += ["", "## Random draws", "", *(f"- {line}" for line in draws)]
    if finding.tested:
        lines += ["", "## Tested causes", ""]
        lines += [f"- {tested.cause}: {tested.found}" for tested in finding.tested]
    inputs = next((frame.inputs for frame in finding.frames if frame.tick == finding.tick), None)
    lines += [
        "",
        f"## Inputs of tick {finding.tick}",
        "",
        "```json",
        json.dumps(inputs_to_json(inputs), indent=1),
        "```",
    ]
    return [*lines, *_file_lines(finding, table, files)]


def _difference_lines(finding: Finding) -> list[str]:
    """Lines about the next keyframe: captured objects by the paths of their values, other fields by their rows."""
    if finding.compared_tick is None:
        return ["Recorded values are unknown."]
    if finding.compared_replayed is None:
        return [f"The next recorded keyframe, tick {finding.compared_tick}, was not reached by the replay."]
    if not finding.differences:
        return [f"No field differs at the next recorded keyframe, tick {finding.compared_tick}."]
    later = finding.compared_tick - finding.tick
    lines = [f"At the next recorded keyframe, tick {finding.compared_tick} ({later} ticks later):", ""]
    values, rest = object_difference_lines(finding.compared_states, [one.field for one in finding.differences])
    lines += [f"- `{value}`" for value in values]
    for difference in (one for one in finding.differences if one.field in rest):
        field, *rows = difference_lines(difference)
        lines += [f"- {field}", *(f"  - `{row.strip()}`" for row in rows)]
    return lines


def _file_lines(finding: Finding, table: TableOfDifferences | None, files: Mapping[str, str]) -> list[str]:
    """Lines that describe the other files of the dump."""
    lines = ["", "## Files", ""]
    if files["replayed"].endswith(".json"):
        lines += ["States are written by the paths of their values; the tapes below have them bit for bit.", ""]
    if "before" in files:
        lines.append(
            f"- `{files['before']}`: the state at tick {finding.tick - 1}, on which recording and replay agree"
        )
    lines.append(f"- `{files['replayed']}`: the state at tick {finding.tick} as replayed")
    if finding.compared_replayed is not None:
        pair = f"`{files['keyframe_recorded']}`, `{files['keyframe_replayed']}`"
        lines.append(f"- {pair}: both states at the next keyframe")
    elif finding.compared_recorded is not None:
        lines.append(f"- `{files['keyframe_recorded']}`: the recorded state at the next keyframe")
    if finding.before is not None:
        lines.append(f"- `reproduction.tape`: the state at tick {finding.tick - 1} and the following inputs")
    lines.append(
        "- `state.tape`, `tree.json`: the replayed state, and the hashes of its blocks, for replay diff of dumps"
    )
    if table is not None:
        lines.append(f"- `differences.csv`: {table.text()}, with the distance of floats in ULPs")
    lines.append("- `inputs.json`: recorded frames around the tick")
    lines.append("- `finding.json`: this report as JSON, with both environments")
    if finding.before is not None:
        lines += ["", "## Reproduction", "", "    replay verify reproduction.tape", ""]
        lines.append("with `--sim module:factory` if the tape names no registered world.")
    return lines


def place_lines(finding: Finding) -> list[str]:
    """Lines about the phase and the fields of the divergent tick, if they are known."""
    place = finding.place
    phase = phase_text(place)
    lines = [phase] if phase is not None else []
    if place.fields is None and place.unknown:
        lines.append(f"fields: which ones differ at tick {finding.tick:,} is not known: {place.unknown}")
    elif place.fields is None:
        lines.append(f"fields: the tape does not record which ones differ at tick {finding.tick:,}")
    elif place.fields:
        lines.append(f"fields that differ at tick {finding.tick:,}: {', '.join(shown_fields(place.fields))}")
        lines += [later] if (later := later_line(finding)) is not None else []
    if place.room:
        only = "not by values, only by" if place.fields else f"no value differs at tick {finding.tick:,}, only"
        lines.append(f"{only} the capacity for rows: {', '.join(shown_fields(place.room))}")
    return lines


def difference_lines(difference: FieldDifference, labels: tuple[str, str] = ("recorded", "replayed")) -> list[str]:
    """One line about a field, then a few lines about its first rows. labels: names of the two states."""
    if difference.note is not None:
        return [f"{difference.shown_name}: {difference.note}"]
    plural = "row" if difference.row_count == 1 else "rows"
    where = ""
    if difference.blocks is not None:
        numbers, count = difference.blocks
        where = f" in {len(numbers)} of {count} blocks of 64 KiB, the first is number {numbers[0]}"
    lines = [f"{difference.shown_name}: {difference.row_count} {plural}{where}"]
    return lines + [f"    {line}" for line in row_lines(difference, labels)]


def difference_facts(
    difference: FieldDifference, labels: tuple[str, str] = ("recorded", "replayed")
) -> dict[str, object]:
    """The JSON object of a field that differs, with its first rows. labels: the keys of their values in the two states."""
    return {
        "field": difference.field,
        "row_count": difference.row_count,
        "rows": [list(index) for index in difference.rows],
        labels[0]: to_json(difference.recorded),
        labels[1]: to_json(difference.replayed),
        "note": difference.note,
    }


def _as_json(tape: Tape, finding: Finding) -> dict[str, object]:
    objects = compare_objects(finding.compared_states)
    return {
        "tape": str(tape.path),
        "run_id": tape.run_id,
        "tick": finding.tick,
        "latest_tick": finding.latest_tick,
        "expected_hash": f"{finding.expected_hash:016x}",
        "actual_hash": f"{finding.actual_hash:016x}",
        "keyframe_tick": finding.keyframe_tick,
        "compared_tick": finding.compared_tick,
        "fields": [
            difference_facts(difference)
            for difference in finding.differences
            if objects is None or not objects.holds(difference.field)
        ],
        "values": [
            {"kind": one.kind, "path": one.path, "recorded": one.first, "replayed": one.second}
            for one in (objects.differences if objects is not None else ())
        ],
        "note": finding.note,
        "phase": finding.place.phase,
        "writing_phases": finding.place.writers,
        "fields_at_tick": None if finding.place.fields is None else shown_fields(finding.place.fields),
        "tested": [attrs.asdict(tested) for tested in finding.tested],
        "environment": {"recorded": tape.meta.get("environment"), "replayed": describe_environment()},
    }
