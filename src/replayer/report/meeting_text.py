"""Two runs that have met again, as lines of text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from recorder.text import counted
from replayer.desync.object_diff import shown_fields
from replayer.diagnose.compare.meeting import Meeting, ReadTrial


@attrs.frozen
class MeetingReport:
    """A meeting, and the trials of its fields; None if none were made."""

    meeting: Meeting
    trials: Sequence[ReadTrial] | None

    def lines(self, *, may_prove: bool) -> list[str]:
        """The lines of ``replay diff``. may_prove: say how to have the fields tried."""
        meeting = self.meeting
        lines = [f"at tick {meeting.last_tick:,}: the same but for {_rows_text(meeting)}"]
        if meeting.since < meeting.last_tick:
            lines.append(f"  since tick {meeting.since:,} nothing else differs")
        if self.trials is not None:
            lines += [f"  {_trial_text(trial)}" for trial in self.trials]
        elif may_prove and meeting.since < meeting.last_tick:
            lines.append("  --prove runs these steps with other values, to see if one reads them")
        return lines

    def facts(self) -> dict[str, Any]:
        """The JSON object."""
        trials = None if self.trials is None else [attrs.asdict(trial) for trial in self.trials]
        return {**attrs.asdict(self.meeting), "counters": list(self.meeting.counters), "trials": trials}


def _rows_text(meeting: Meeting) -> str:
    shown: dict[str, int] = {}
    for name, count in meeting.rows.items():
        own = shown_fields([name])[0]
        shown[own] = shown.get(own, 0) + count
    kinds = dict.fromkeys(meeting.counters, ", a counter")
    return ", ".join(f"{name} ({counted(count, 'row')}{kinds.get(name, '')})" for name, count in shown.items())


def _trial_text(trial: ReadTrial) -> str:
    name = shown_fields([trial.field])[0]
    if trial.not_tried is not None:
        return f"{name}: not known if a later step reads it: {trial.not_tried}"
    values = counted(trial.tried, "other value")
    if trial.read_at is None:
        ticks = f"{trial.first_tick:,} to {trial.last_tick:,}"
        return f"{name}: nothing else in the steps to ticks {ticks} depends on it: run with {values}, all else equal"
    return f"{name}: a step reads it: with another value, tick {trial.read_at:,} has another result ({trial.sign})"
