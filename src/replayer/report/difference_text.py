"""Differences as lines of text and as JSON: between two runs that have met again, and between the states around a step."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from recorder.text import counted
from replayer.desync.dump.dump import difference_facts, difference_lines
from replayer.desync.object_diff import NAMED_MAX, SAVED_FORM, SHOWN, ObjectDiff, compare_objects, shown_fields
from replayer.desync.state_diff import FieldDifference, compare_states
from replayer.diagnose.compare.meeting import Meeting, ReadTrial
from replayer.value_text import plain_text
from sim.kernel.state import Snapshot

if TYPE_CHECKING:
    from sim.adapters.object_view.object_comparison import ObjectDifference

LABELS = ("before", "after")
_INDEX = re.compile(r"\[-?\d+(?:, \d+)*\]")  # Of a list or an array.
FIELD_LINES = 3  # Of each field: its name, and two rows.


@attrs.frozen
class MeetingReport:
    """A meeting, and the trials of its fields; None if none were made. texts: fields of which each holds one text."""

    meeting: Meeting
    trials: Sequence[ReadTrial] | None
    texts: Collection[str] = ()

    def lines(self, *, may_prove: bool) -> list[str]:
        """The lines of ``replay diff``. may_prove: say how to have the fields tried."""
        meeting = self.meeting
        lines = [f"at tick {meeting.last_tick:,}: the same but for {_rows_text(meeting, self.texts)}"]
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


def _rows_text(meeting: Meeting, texts: Collection[str]) -> str:
    shown: dict[str, int] = {}
    for name, count in meeting.rows.items():
        own = shown_fields([name])[0]
        shown[own] = shown.get(own, 0) + count
    kinds = dict.fromkeys(meeting.counters, ", a counter")
    counts = ((name, f" ({counted(count, 'row')}{kinds.get(name, '')})") for name, count in shown.items())
    return ", ".join(name if name in texts else f"{name}{count}" for name, count in counts)


def _trial_text(trial: ReadTrial) -> str:
    name = shown_fields([trial.field])[0]
    if trial.not_tried is not None:
        return f"{name}: not known if a later step reads it: {trial.not_tried}"
    values = counted(trial.tried, "other value")
    if trial.read_at is None:
        ticks = f"{trial.first_tick:,} to {trial.last_tick:,}"
        text = f"{name}: nothing else in the steps to ticks {ticks} depends on it: run with {values}, all else equal"
        again = trial.as_recorded_from
        return text if again is None else f"{text}; from tick {again:,} on it is as recorded again"
    return f"{name}: a step reads it: with another value, tick {trial.read_at:,} has another result ({trial.sign})"


def _is_in(path: str, names: Sequence[str]) -> bool:
    """Return True for the path of one of these values, or of a value in it, also in the form "ITEM in PATH" of a set."""
    of_item = path.rpartition(" in ")[2]
    return any(one == name or one.startswith((f"{name}.", f"{name}[")) for name in names for one in (path, of_item))


def _value_lines(values: Sequence[ObjectDifference], *, whole: bool, has_more: bool) -> list[str]:
    """Lines of changed values: single ones first, then those of large groups such as the cells of a map, orders last.

    whole: each value of a group has its line; otherwise a group has one.
    """
    groups: dict[str, list[ObjectDifference]] = {}
    for one in values:
        name = one.path if one.kind == "order" else _INDEX.sub("[:]", one.path)
        groups.setdefault(name, []).append(one)
    single, summed, orders = [], [], []
    for name, group in groups.items():
        texts = [one.text(LABELS) for one in group]
        if group[0].kind == "order":
            orders += texts
        elif len(group) <= SHOWN:
            single += texts
        elif whole:
            summed += texts
        else:
            count = f"{len(group):,} {'or more ' if has_more else ''}values changed"
            summed.append(f"{name}: {count}, the first is {texts[0]}")
    return [*single, *summed, *orders]


@attrs.frozen(eq=False)
class StepChanges:
    """The difference between the states before and after a step.

    Attributes:
        tick: the tick that the step led to.
        objects: values of captured objects that differ; None for states without any.
        fields: other fields that differ.
        saved_form: True if captured objects are saved in another way, and no value of them differs.
    """

    tick: int
    objects: ObjectDiff | None
    fields: list[FieldDifference]
    saved_form: bool

    @staticmethod
    def between(before: Snapshot, after: Snapshot, tick: int) -> StepChanges:
        """Compare two states."""
        differences = compare_states(before, after, LABELS)
        objects = compare_objects((before, after), limit=NAMED_MAX) if differences else None
        fields = [one for one in differences if objects is None or not objects.holds(one.field)]
        saved_form = objects is not None and not objects.differences and len(fields) < len(differences)
        return StepChanges(tick, objects, fields, saved_form)

    def lines(self, *, whole: bool, asked: Sequence[str] = ()) -> list[str]:
        """The first changes as lines; whole: up to NAMED_MAX values, and eight rows of each field.

        asked: names of values and fields, whose changes come first.
        """
        values = self.objects.differences if self.objects is not None else []
        has_more = self.objects is not None and self.objects.has_more
        of_asked = [one for one in values if _is_in(one.path, asked)]
        others = [one for one in values if not _is_in(one.path, asked)]
        texts = [text for part in (of_asked, others) for text in _value_lines(part, whole=whole, has_more=has_more)]
        shown = texts if whole else texts[:SHOWN]
        lines = [plain_text(text) for text in shown]
        left = len(texts) - len(shown)
        if has_more or left:
            count = f"at least {left:,} " if left and has_more else f"{left:,} " if left else ""
            lines.append(f"… and {count}more{'' if whole else ': --all'}")
        if self.saved_form:
            lines.append(SAVED_FORM)
        for one in sorted(self.fields, key=lambda one: not _is_in(one.field, asked)):
            of_field = difference_lines(one, LABELS)
            lines += of_field if whole else of_field[:FIELD_LINES]
        if not lines:
            return [f"the step to tick {self.tick:,} changed nothing"]
        return [f"the step to tick {self.tick:,} changed:", *(f"  {line}" for line in lines)]

    def facts(self) -> dict[str, Any]:
        """The JSON object: values by path, fields with their number of rows and the first ones."""
        values = self.objects.differences if self.objects is not None else []
        return {
            "values": [
                {"kind": one.kind, "path": one.path, "before": one.first, "after": one.second} for one in values
            ],
            "has_more": self.objects is not None and self.objects.has_more,
            "fields": [difference_facts(one, LABELS) for one in self.fields],
        }
