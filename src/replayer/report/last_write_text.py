"""The answer to "who wrote this?" as JSON and as lines of text."""

from __future__ import annotations

import json
from typing import Any

import attrs

from recorder.text import counted
from replayer.search.last_write import LastWrite
from replayer.search.member import MemberValue
from replayer.search.skipped_intervals import skipped_text
from replayer.search.standard_values import is_standard
from replayer.search.watched_value import ABSENT
from replayer.value_text import inputs_to_json, tick_range, to_json

WIDTH = 110  # Of a line, about.


def write_facts(write: LastWrite) -> dict[str, Any]:
    """A change as ``replay who --json`` prints it."""
    return {
        "tick": write.tick,
        "before": _json(write.before),
        "after": _json(write.after),
        "appeared": write.before is ABSENT,
        "vanished": write.after is ABSENT,
        "phase": write.phase,
        "line": None if write.line is None else attrs.asdict(write.line),
        "line_note": write.line_note,
        "inputs": inputs_to_json(write.inputs),
        "simulated": write.simulated,
        "intervals": write.intervals,
        "skipped_intervals": write.skipped_intervals,
        "skipped_by_marks": write.skipped_by_marks,
        "proved": write.is_proved,
        "missing": [attrs.asdict(one) for one in write.missing],
    }


def _json(value: Any) -> Any:
    """A value for JSON; of a decimal number, a date or a member of an enumeration its text."""
    if value is ABSENT:
        return None
    return str(value) if is_standard(value) or isinstance(value, MemberValue) else to_json(value)


def write_lines(write: LastWrite, first_tick: int) -> list[str]:
    """A change as ``replay who`` prints it. first_tick: of the tape."""
    lines = [write_headline(write, first_tick)]
    if write.line is not None:
        one = write.line
        lines.append(f"  line: {one.path}:{one.number} in {one.function}")
        lines.append(f"    {_short(one.text)}")
        if one.count > 1:
            lines.append(f"    the last of {one.count:,} changes in this step")
    elif write.line_note is not None:
        lines.append(f"  line: not known: {write.line_note}")
    if write.tick is not None:
        lines.append(
            f"  inputs of tick {write.tick:,}: {_short(json.dumps(inputs_to_json(write.inputs), ensure_ascii=False))}"
        )
    lines.append(f"  {counted(write.simulated, 'step')} simulated{skipped_text(write)}{_marks_text(write)}")
    for one_missing in write.missing:
        where = tick_range(one_missing.first_tick, one_missing.last_tick)
        lines.append(f"  NOT KNOWN whether it changed at {where}: {one_missing.why}")
    return lines


def _marks_text(write: LastWrite) -> str:
    """What the skipped intervals rest on, if that is not a proof."""
    if not write.skipped_by_marks:
        return ""
    return f", {write.skipped_by_marks:,} of them by the simulation's marks: a write without a mark is not seen there"


def write_headline(write: LastWrite, first_tick: int) -> str:
    """The change in one line."""
    if write.tick is None:
        return f"{write.value}: no step changed it since tick {first_tick:,}: {_text(write.after)}"
    phase = f", phase {write.phase}" if write.phase is not None else ""
    if write.before is ABSENT:
        change = f"appeared as {_text(write.after)}"
    elif write.after is ABSENT:
        change = f"vanished; it was {_text(write.before)}"
    else:
        change = f"{_text(write.before)} → {_text(write.after)}"
    return f"{write.value}: {change} at tick {write.tick:,}{phase}"


def _text(value: Any) -> str:
    return _short(str(value) if not isinstance(value, str) else repr(value))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"
