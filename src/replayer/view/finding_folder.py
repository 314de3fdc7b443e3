"""The findings of `replay verify` for the page: the dump that was named, and dumps beside a tape."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from recorder.location.tape_location import Location
from recorder.location.tape_url import TapeUrl
from replayer.desync.dump.dump_source import FINDING
from replayer.view.states.page_json import page_text

REPORT, EXPLANATION = "report.md", "explain.txt"  # The second is there if the user has put it there.
TEXT_MAX = 40_000  # Characters of a report that are shown.
FIELDS_SHOWN = 8
BESIDE_MAX = 50
EARLIER = "an earlier verify"  # So the page tells a dump, of the code of then, from what the tape holds.


@attrs.frozen
class ViewedFinding:
    """A desync as its dump states it.

    Attributes:
        folder: the name of the dump's folder.
        tick: the first tick that differs.
        compared_tick: the next keyframe, where recorded values are known; None if there is none.
        title: one line.
        report, explanation: the texts in the dump; empty without one.
    """

    folder: str
    tick: int
    compared_tick: int | None
    title: str
    report: str
    explanation: str


def read_finding(folder: Path) -> ViewedFinding:
    """The finding of a dump. Raises ValueError if it does not have what it should, OSError."""
    facts: Any = json.loads((folder / FINDING).read_text(encoding="utf-8"))
    if not isinstance(facts, dict) or not isinstance(tick := facts.get("tick"), int):
        raise ValueError(f"{folder / FINDING}: expected the finding of replay verify")  # noqa: TRY004 - it is the file
    compared = facts.get("compared_tick")
    return ViewedFinding(
        page_text(folder.name),
        tick,
        compared if isinstance(compared, int) else None,
        _title(tick, facts),
        _text(folder / REPORT),
        _text(folder / EXPLANATION),
    )


def findings_beside(tape: Location, run_id: str) -> list[tuple[int, str]]:
    """Tick and a line of each dump of a run next to its tape. What is not a dump, or cannot be read, is none."""
    found = []
    for finding, when in dumps_beside(tape, run_id):
        words = f"{EARLIER} of {when}, with the code of then, found: {finding.title}; "
        found.append((finding.tick, f"{words}side by side: replay view {finding.folder}"))
    return found


def dumps_beside(tape: Location, run_id: str) -> list[tuple[ViewedFinding, str]]:
    """The finding of each dump of a run next to its tape, and when it was written, in UTC."""
    if isinstance(tape, TapeUrl):
        return []  # Dumps are written on this machine.
    found = []
    folders = sorted(path for path in tape.parent.iterdir() if path.name.startswith(f"{tape.stem}.desync"))
    for folder in folders[:BESIDE_MAX]:
        try:
            facts: Any = json.loads((folder / FINDING).read_text(encoding="utf-8"))
            finding = read_finding(folder)
            written = (folder / FINDING).stat().st_mtime
        except (OSError, ValueError):
            continue
        if facts.get("run_id") == run_id:
            found.append((finding, datetime.fromtimestamp(written, UTC).strftime("%Y-%m-%d %H:%M UTC")))
    return found


def _title(tick: int, facts: dict[str, Any]) -> str:
    parts = [f"DESYNC at tick {tick:,}"]
    fields = facts.get("fields_at_tick")
    if isinstance(fields, list) and fields:
        names = ", ".join(page_text(str(name)) for name in fields[:FIELDS_SHOWN])
        parts.append(f"{'field' if len(fields) == 1 else 'fields'} {names}{' …' if len(fields) > FIELDS_SHOWN else ''}")
    if isinstance(facts.get("phase"), str):
        parts.append(f"phase {page_text(facts['phase'])}")
    return ", ".join(parts)


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="backslashreplace") as file:
            return page_text(file.read(TEXT_MAX + 1), TEXT_MAX)
    except OSError:
        return ""
