"""The commands that can prove what replay explain names as changed, and could not test by itself."""

from __future__ import annotations

import shlex

from recorder.ambient.outside.outside_read import VARIABLE
from recorder.location.tape_location import Location
from recorder.text import shown_path
from replayer.desync.code_comparison import asks_for_earlier_code
from replayer.desync.outside_comparison import EQUAL, ReadComparison
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.report.outside_lines import outside_cause_line


def proof_lines(path: Location, explanation: Explanation, sim: str | None) -> list[str]:
    """The commands, where all variants gave one state that is not the recorded one; none for what was varied already."""
    named = f" --sim {shlex.quote(sim)}" if sim is not None else ""
    between, is_known = explanation.between, outside_cause_line(explanation) is not None
    if explanation.agrees and explanation.is_seen and not is_known:
        tape = f"{shlex.quote(shown_path(path))}{named}"
        return [
            f"next: replay certify {tape} --factor hash-seed  # all ticks, with other hash seeds",
            f"      replay verify {tape}  # once more, in another process",
        ]
    if explanation.agrees or explanation.pair is not None or not explanation.ran or is_known:
        return []
    if between is not None and between.suspicious:
        return []
    options, variants = [], [outcome.variant for outcome in explanation.variants]
    if asks_for_earlier_code(explanation.code, is_explained=True) and all(one.code is None for one in variants):
        options.append("--code FOLDER  # with the code as it was when this tick was recorded, in FOLDER")
    varied = {name for one in variants for name in one.environment}
    options += [
        f"--env {shlex.quote(name)}=VALUE  # with the value that it had when this tick was recorded"
        for name in dict.fromkeys(
            one.name
            for one in explanation.outside
            # Python itself may read more on behalf of a line, such as the size of the terminal.
            if one.kind == VARIABLE and one.result != EQUAL and _is_named(one)
        )
        if name not in varied
    ]
    command = f"replay explain {shlex.quote(shown_path(path))} --tick {explanation.tick}{named}"
    return [f"{'      ' if number else 'next: '}{command} {one}" for number, one in enumerate(options)]


def _is_named(read: ReadComparison) -> bool:
    """Return True if the user's file that read a variable names it, or if that file cannot be read."""
    lines = SourceFile(read.path).lines
    return not lines or any(read.name in line for line in lines)
