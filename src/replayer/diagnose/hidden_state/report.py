"""The report of a sync test, as data and as lines of text."""

from __future__ import annotations

from typing import Any

import attrs

from recorder.text import counted
from replayer.desync.object_diff import compare_objects, object_difference_lines
from replayer.desync.state_diff import FieldDifference, row_lines
from replayer.value_text import plain_text, to_json
from sim.kernel.state import Snapshot

SUSPECTS_SHOWN = 8
ROWS_SHOWN = 2  # Of each field.
FIELDS_SHOWN = 5
_LABELS = ("live", "restored")

FRESH, USED, READ, ENVIRONMENT, MARKS = "fresh", "used", "read", "environment", "marks"
_HAPPENED = {
    FRESH: "restored into a fresh instance, with what can be put back of globals and caches as before the run, it diverges",
    USED: "restored into an instance that has run elsewhere, it diverges",
    READ: "being read changes the simulation",
    ENVIRONMENT: "with different environment variables it diverges",
    MARKS: "rows were written without a mark",
}


_SET_ORDER, _ORDER = "USES THE ORDER OF A SET", "A RESTORE LOSES AN ORDER"
# What is proved about a simulation, by the kind of suspect or the way of the trial. Every other kind of proved suspect is
# a value that a restore does not bring back.
_VERDICTS = {
    "clock": "READS A CLOCK",
    "entropy": "READS RANDOM NUMBERS OF THE SYSTEM",
    "environment variable": "READS ENVIRONMENT VARIABLES",
    ENVIRONMENT: "READS ENVIRONMENT VARIABLES",
    "addresses": "DEPENDS ON MEMORY ADDRESSES",
    "order of threads": "DEPENDS ON THE ORDER OF THREADS",
    "threads at the same time": "DEPENDS ON WHAT THREADS DO AT THE SAME TIME",
    "alias": "A RESTORE SPLITS OR JOINS OBJECTS",
    "order of a dict": _ORDER,
    "order of a list": _ORDER,
    "order of a deque": _ORDER,
    "order of a set": _SET_ORDER,
    "order of the set": _SET_ORDER,
    READ: "CHANGED BY BEING READ",
    MARKS: "WRITES WITHOUT A MARK",
}
_HIDDEN_STATE, _LOST = "HIDDEN STATE", "LOAD LOSES STATE"
_NOT_KNOWN = "DIVERGES AFTER A RESTORE, cause not known"


@attrs.frozen
class Suspect:
    """A value or source outside the state that may take part in the step.

    Attributes:
        name: for finding it in the code, such as ``Walkers._memo`` or ``module walkers: COUNTER``.
        kind: attribute, module global, class attribute, closure, default argument, function attribute, cache, random
            generator, environment variable, clock, entropy, alias, reading, …
        detail: the difference, in a few words.
        proved: True if the hashes differ with it, and are equal when it is as in the live run.
        with_others: True if they are equal only when all suspects of the finding of which this is True are so together.
        lines: the first lines that name it, of those that ran from the restore up to the bad tick, such as flock.py:12.
    """

    name: str
    kind: str
    detail: str
    proved: bool
    lines: tuple[str, ...] = ()
    with_others: bool = False

    @property
    def variable(self) -> str | None:
        """The name of an environment variable, such as TERM of os.environ['TERM']; None of all else."""
        is_variable = self.kind == "environment variable"
        return self.name.removeprefix("os.environ[").strip("]'\"") if is_variable else None

    def __str__(self) -> str:
        kind = "" if self.name.endswith(f"({self.kind})") else f" ({self.kind})"
        where = f"; named in {', '.join(self.lines)}" if self.lines else ""
        found = "proved together with the others" if self.with_others else "proved" if self.proved else "suspected"
        return f"{self.name}{kind}: {self.detail}; {found}{where}"


@attrs.frozen
class Repeats:
    """Further runs of fresh copies from one start, with the same surroundings.

    Attributes:
        run_count: the number of runs. result_count: the number of different results among them.
    """

    run_count: int
    result_count: int

    def __str__(self) -> str:
        runs = f"{self.run_count} fresh instances, restored and run from there,"
        if self.result_count == 1:
            return f"{runs} all had this result"
        return f"{runs} had {self.result_count} different results: what decides it differs from run to run, or is left behind by each of them"


@attrs.frozen(eq=False)
class SyncFinding:
    """One way in which a simulation depends on something that is not in its state.

    Attributes:
        tick: the first bad tick.
        start_tick: the tick at which the state was restored.
        way: the kind of trial: fresh, used, read, environment or marks.
        expected_hash, actual_hash: of the live run and of the copy, at tick; None if the copy raised, or for marks.
        differences: by field; recorded is the live run's value and replayed the copy's.
        states: the live run's and the copy's; None if one of them is not known.
        suspects: the most likely first.
        note: a remark, in a sentence.
        without_effect: without suspects: names of values that differed, were put back and made no difference.
        is_compared: False if no values outside the state were compared.
        repeats: of a restore into fresh instances whose cause was not proved.
        lost: the field in which save() differs right after the load; None if it is equal, or not compared.
    """

    tick: int
    start_tick: int
    way: str
    expected_hash: int | None
    actual_hash: int | None
    differences: list[FieldDifference]
    suspects: list[Suspect]
    note: str | None = None
    states: tuple[Snapshot, Snapshot] | None = None
    without_effect: list[str] = attrs.field(factory=list)
    repeats: Repeats | None = None
    is_compared: bool = True
    lost: str | None = None

    def __str__(self) -> str:
        return "\n".join(finding_lines(self))


@attrs.frozen(eq=False)
class SyncReport:
    """The result of a sync test.

    Attributes:
        tick_count: the number of live ticks.
        restore_count: the number of times that a state was restored and the run continued from it.
        findings: one for each way in which the first bad period diverged; empty if none did.
        moves: names of values that changed outside the state without an observed effect.
        notes: limits of the test.
        orders: names of sets, dicts and lists of the state that had another order after a restore, without an observed
            effect.
    """

    tick_count: int
    restore_count: int
    findings: list[SyncFinding]
    moves: list[str]
    notes: list[str]
    orders: list[str] = attrs.field(factory=list)

    @property
    def ok(self) -> bool:
        """True if nothing was found."""
        return not self.findings

    @property
    def is_known(self) -> bool:
        """True if the cause of a finding was proved."""
        return not self.ok and _verdict(self) != _NOT_KNOWN

    @property
    def first_bad(self) -> int | None:
        """The first bad tick."""
        return min((finding.tick for finding in self.findings), default=None)

    @property
    def suspects(self) -> list[Suspect]:
        """The suspects of all findings, each name once, the proved ones first."""
        best: dict[str, Suspect] = {}
        for finding in self.findings:
            for suspect in finding.suspects:
                if suspect.name not in best or suspect.proved > best[suspect.name].proved:
                    best[suspect.name] = suspect
        return sorted(best.values(), key=lambda suspect: not suspect.proved)


def report_lines(name: str, report: SyncReport, *, verbose: bool = False) -> list[str]:
    """Format a report for one screen."""
    if report.ok:
        ticks, restores = counted(report.tick_count, "tick"), counted(report.restore_count, "restore")
        lines = [f"{name}: no hidden state seen in {ticks}, {restores} into fresh and used instances"]
    else:
        lines = [f"{name}: {_verdict(report)}, first seen at tick {report.first_bad:,}"]
    shown: set[frozenset[str]] = set()
    for finding in report.findings:
        names = frozenset(suspect.name for suspect in finding.suspects)
        all_lines = finding_lines(finding)
        lines += [f"  {line}" for line in (all_lines[:1] if names and names in shown else all_lines)]
        shown.add(names)
    lines += [f"  note: {note}" for note in report.notes]
    if verbose:
        lines += [f"  changes outside the state, no effect observed: {name}" for name in report.moves]
        lines += [f"  another order after a restore, no effect observed: {name}" for name in report.orders]
    return [plain_text(line) for line in lines]


def _verdict(report: SyncReport) -> str:
    """What was proved, in a few words; hidden state first, if there are several causes."""
    proved: list[str] = []
    for finding in report.findings:
        if finding.way in _VERDICTS:
            proved.append(_VERDICTS[finding.way])
        elif finding.lost is not None:  # The state has it: what was put back is not hidden, or not all of it.
            proved += [_LOST for suspect in finding.suspects if suspect.proved]
        else:
            proved += [_VERDICTS.get(suspect.kind, _HIDDEN_STATE) for suspect in finding.suspects if suspect.proved]
    if not proved or _HIDDEN_STATE in proved:
        return _HIDDEN_STATE if proved else _NOT_KNOWN
    return ", ".join(dict.fromkeys(proved))


def finding_lines(finding: SyncFinding) -> list[str]:
    """Format one finding: the event, the fields, the suspects."""
    lines = [f"tick {finding.tick:,}: {_HAPPENED[finding.way]} (from tick {finding.start_tick:,})"]
    if finding.note is not None:
        lines.append(f"  {finding.note}")
    if finding.expected_hash is not None:
        lines.append(f"  hash {finding.expected_hash:016x} live, {finding.actual_hash:016x} restored")
    values, rest = object_difference_lines(finding.states, [one.field for one in finding.differences], _LABELS)
    lines += [f"  {value}" for value in values]
    differences = [one for one in finding.differences if one.field in rest]
    for difference in differences[:FIELDS_SHOWN]:
        lines.append(f"  {difference.shown_name}: {difference.note or counted(difference.row_count, 'row')}")
        lines += [f"    {line}" for line in row_lines(difference, _LABELS)[:ROWS_SHOWN]]
    omitted = len(differences) - FIELDS_SHOWN
    if omitted > 0:
        lines.append(f"  … and {counted(omitted, 'field')} more")
    if finding.repeats is not None:
        lines.append(f"  {finding.repeats}")
    if finding.lost is not None:
        lines.append(f"  load() does not give back {finding.lost}: save() returns something else right after it")
    if finding.suspects:
        lines.append("  suspects, most likely first:")
        lines += [f"    {suspect}" for suspect in finding.suspects[:SUSPECTS_SHOWN]]
    elif finding.without_effect:
        names = ", ".join(finding.without_effect[:SUSPECTS_SHOWN])
        lines.append(f"  the cause is not known; put back as in the live run, without effect: {names}")
    elif not finding.is_compared:
        lines.append("  the cause is not known: no values outside the state were compared")
    elif finding.way in (FRESH, USED):
        lines.append(
            "  no Python value was seen to differ: check state in C code or files, threads, the order of memory "
            "addresses, and times or addresses in the result of save"
        )
    return lines


def report_facts(report: SyncReport) -> dict[str, Any]:
    """Format a report for programs."""
    return {
        "ok": report.ok,
        "first_bad": report.first_bad,
        "ticks": report.tick_count,
        "restores": report.restore_count,
        "suspects": [attrs.asdict(suspect) for suspect in report.suspects],
        "findings": [_finding_facts(finding) for finding in report.findings],
        "moves": report.moves,
        "orders": report.orders,
        "notes": report.notes,
    }


def _finding_facts(finding: SyncFinding) -> dict[str, Any]:
    """A finding for programs: values by their paths, and the fields that hold anything else by their first rows.

    "values_left_out": how many more values differ; None if they were not counted.
    """
    diff = compare_objects(finding.states) if finding.differences else None
    return {
        "tick": finding.tick,
        "start_tick": finding.start_tick,
        "way": finding.way,
        "expected_hash": None if finding.expected_hash is None else f"{finding.expected_hash:016x}",
        "actual_hash": None if finding.actual_hash is None else f"{finding.actual_hash:016x}",
        "fields": [
            {
                "field": difference.field,
                "rows": difference.row_count,
                "first_rows": [list(index) for index in difference.rows],
                "live": to_json(difference.recorded),
                "restored": to_json(difference.replayed),
                "note": difference.note,
            }
            for difference in finding.differences
            # Where the values are equal, it is the saved form that differs, which only the field shows.
            if diff is None or not diff.differences or not diff.holds(difference.field)
        ],
        "values": [
            {"path": one.path, "kind": one.kind, "live": one.first, "restored": one.second}
            for one in (diff.differences if diff is not None else ())
        ],
        "values_left_out": diff.left_out if diff is not None and diff.has_more else 0,
        "suspects": [attrs.asdict(suspect) for suspect in finding.suspects],
        "note": finding.note,
        "lost": finding.lost,
        "repeats": None if finding.repeats is None else attrs.asdict(finding.repeats),
    }
