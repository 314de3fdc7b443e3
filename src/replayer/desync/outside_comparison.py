"""Compare the outside world of a replay with what the recording noted of it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from recorder.ambient.outside.loaded_modules import missing_imports
from recorder.ambient.outside.outside_note import ChangedSetting, OutsideNote
from recorder.ambient.outside.outside_read import (
    ABSENT,
    ARGUMENTS,
    ATTRIBUTES,
    CHANGED,
    CLOCK,
    CONTACT,
    CONTENT_BYTES_MAX,
    ENTROPY,
    FILE,
    FOLDER,
    FOUND,
    GENERATOR,
    IDENTITY,
    IMPORT,
    LOCALE,
    NUMBER,
    TEXT_HASH,
    THREADS,
    UNSET,
    VARIABLE,
    ZONE,
    OutsideRead,
    changed_fact,
    file_attributes,
    variable_fact,
)
from recorder.ambient.outside.process_facts import (
    CPU_FEATURES,
    FLAGS,
    LOCALE_NAME,
    PROCESSORS,
    TIME_ZONE,
    USABLE,
    VARIABLES,
    changed_settings,
    process_facts,
)
from recorder.ambient.outside.process_facts import FOLDER as WORKING_DIRECTORY
from recorder.ambient.outside.read_functions import seed_fact
from recorder.text import counted
from replayer.desync.causes import program_arguments
from replayer.desync.causes.program_arguments import SAME_ARGUMENTS, other_arguments
from replayer.tape.noted_outside import NotedAtTick

DIFFERS, EQUAL, NOT_NOTED, NOT_COMPARED = "differs", "equal", "not noted", "not compared"
BEGAN = program_arguments.BEGAN
NAMED_MAX = 8  # Reads in a sentence.
LATER = "changed later"  # A file that the recording did not note, changed after it began.
ENTRIES_SHOWN = 4  # Of a folder, that came or went.
_LOADED_NS = time.time_ns()  # The steps that this process runs may write files.
_SETTING = {ZONE: TIME_ZONE, LOCALE: LOCALE_NAME}  # Noted of each process, whether or not a step reads it.
# The settings that matter only to a step that reads them, each with the kind of that read. The others always count.
_READ_AS = {
    TIME_ZONE: ZONE,
    "TZ": ZONE,
    LOCALE_NAME: LOCALE,
    "LANG": LOCALE,
    "LC_ALL": LOCALE,
    PROCESSORS: THREADS,
    USABLE: THREADS,
}
# Noted of each process, by the functions that tell them.
_TOLD_BY = {"os.cpu_count": PROCESSORS, "os.sched_getaffinity": USABLE, "os.getcwd": WORKING_DIRECTORY}
# Earlier recordings do not note them; and the package of threads may be loaded later here, or not yet.
_MAY_LACK = ("numba_threads", USABLE, WORKING_DIRECTORY, FLAGS)
_WITH_PATHS = (FILE, FOLDER, ATTRIBUTES)
_WHY_NOT = {
    CLOCK: "a clock differs from run to run",
    ENTROPY: "it differs from run to run",
    GENERATOR: "the state of this generator was not noted",
    IDENTITY: "it differs from process to process",
    TEXT_HASH: "it differs from process to process, unless PYTHONHASHSEED is set",
    NUMBER: "the system numbers threads in its own way",
    CONTACT: "the answer was not noted",
    THREADS: "the number, or the order in which threads run, was not noted",
}


@attrs.frozen
class ReadComparison:
    """One thing that steps read, compared with the recording.

    Attributes:
        kind, name: as those of OutsideRead.
        path, line: of the user's code; line 0 if only the place is known.
        place: for example game.py:31.
        result: DIFFERS, EQUAL, NOT_NOTED, NOT_COMPARED or LATER.
        found: the result in words.
    """

    kind: str
    name: str
    path: str
    line: int
    place: str
    result: str
    found: str

    def __str__(self) -> str:
        return f"{self.name}: {self.found} (read at {self.place})"


@attrs.frozen
class SettingsComparison:
    """The settings of the process, compared with the recording.

    Attributes:
        different: those that differ and that steps are known to read, or that always count, in words.
        unread: those that differ and that the step was not seen to read, in words.
        equal: the names of the equal ones.
        read: those of different that steps are known to read.
    """

    different: list[str]
    unread: list[str]
    equal: list[str]
    read: list[str] = attrs.field(factory=list)


_MISSING = "loaded when the recording began, not found now"


def few_texts(reads: list[str]) -> list[str]:
    """The first ones, and how many more there are: a step may read any number of files."""
    more = len(reads) - NAMED_MAX
    return [*reads[:NAMED_MAX], f"and {counted(more, 'more read')}"] if more > 0 else reads


def most_telling(reads: list[ReadComparison]) -> list[ReadComparison]:
    """In another order, if not all of them will be named: files that were changed later come first, and other files last."""
    if len(reads) <= NAMED_MAX:
        return reads
    return sorted(reads, key=lambda read: read.result != LATER and 1 + (read.kind in (FILE, FOLDER, ATTRIBUTES)))


def compare_reads(
    note: OutsideNote, reads: Iterable[OutsideRead], at: NotedAtTick | None = None
) -> list[ReadComparison]:
    """Compare what a step read just now with the note; differences first. at: see compare_settings."""
    compared = [
        ReadComparison(IMPORT, f"module {name}", file, line, f"{Path(file).name}:{line}", DIFFERS, _MISSING)
        for name, file, line in missing_imports(note.modules)
    ]
    for read in reads:
        if read.kind == CHANGED:
            continue  # A copy of a project has other times.
        if read.kind == IMPORT and note.fact(IMPORT, read.name) in (None, (read.fact,)):
            continue  # Loaded once, and not read in each step.
        setting = setting_read(read.kind, read.name)
        if at is not None and (unsure := next((one for one in at.unsure if one.name == setting), None)) is not None:
            result, found = NOT_COMPARED, f"not compared: changed while the run was recorded, {when_changed(unsure)}"
        else:
            is_later = at is not None and setting in at.seen
            result, found = _compared(read.kind, read.name, *_facts(note, read, setting, is_later=is_later))
            if read.kind == FOLDER and result == DIFFERS:
                shown = shown_entries(*other_entries(note.entries(read.name, read.path), read.name))
                found += f": {shown}" if shown else ""
            if read.kind == ARGUMENTS and result == DIFFERS:
                found = other_arguments(note, read.fact)
            if at is not None and setting in at.seen:
                found = found.replace(BEGAN, f"at tick {at.seen[setting]:,} of the recording")
        name = f"module {read.name}" if read.kind == IMPORT else read.name
        compared.append(ReadComparison(read.kind, name, read.path, read.line, read.place, result, found))
    order = (DIFFERS, NOT_COMPARED, NOT_NOTED, EQUAL)
    return sorted(compared, key=lambda one: order.index(one.result))


def setting_read(kind: str, name: str) -> str | None:
    """The setting of the process that a read asks for; None for another read."""
    if kind == VARIABLE:
        return name if name in VARIABLES else None
    return _SETTING.get(kind, _TOLD_BY.get(name))


def when_changed(one: ChangedSetting) -> str:
    """Between which ticks a setting was changed."""
    return f"between tick {one.after:,} and {one.tick:,}"


def _facts(
    note: OutsideNote, read: OutsideRead, setting: str | None, *, is_later: bool
) -> tuple[tuple[str | None] | None, str | None]:
    """The noted fact, in a tuple, and the present one. is_later: the setting was changed since the first steps."""
    noted, present = note.fact(read.kind, read.name, read.path), read.fact
    if read.kind == ATTRIBUTES and noted is None:
        noted = _attributes_noted(note.fact(FILE, read.name, read.path))
    if read.kind == TEXT_HASH:
        return noted, seed_fact()  # That of the process in which the step was watched was set for this purpose.
    if setting is None or note.process is None:
        return noted, present
    text = note.process.get(setting)
    if read.kind == VARIABLE:
        return (noted if noted is not None and not is_later else (variable_fact(text),)), present
    if read.kind in _SETTING:
        return (text,), present
    if noted in (None, (None,)) or is_later:
        return (text,), present or process_facts().get(setting)
    return noted, present


def noted_fact(note: OutsideNote, read: OutsideRead) -> str | None:
    """What a read gave when the recording began; None if that was not noted."""
    noted, _ = _facts(note, read, setting_read(read.kind, read.name), is_later=False)
    return None if noted is None else noted[0]


def _attributes_noted(content: tuple[str | None] | None) -> tuple[str] | None:
    """The attributes of a file of which the content was noted, or that it was missing; None if nothing was."""
    if content is None or content[0] is None:
        return None
    return (ABSENT if content[0] == ABSENT else file_attributes(int(content[0].partition(" ")[0])),)


def with_later_changes(compared: Iterable[ReadComparison], created: Any) -> list[ReadComparison]:
    """Name the files that were changed after the recording began, of those that the recording did not note.

    created: the time of the recording, as META has it. A step that runs here may itself have changed a file that it reads.
    """
    found = list(compared)
    try:
        began = datetime.fromisoformat(created)
    except (TypeError, ValueError):
        return found
    for number, read in enumerate(found):
        changed_ns = changed_fact(read.name) if read.kind == FILE and read.result == NOT_NOTED else None
        if changed_ns is None:
            continue
        changed = datetime.fromtimestamp(int(changed_ns) // 1_000_000_000, UTC)
        if began.tzinfo is not None and changed > began:
            by = ", by a step that ran again or by another program" if int(changed_ns) > _LOADED_NS else ""
            when = f"changed on {_time_text(changed)}{by}, after the recording began ({_time_text(began)})"
            found[number] = attrs.evolve(read, result=LATER, found=f"{when}, which did not note its content")
    return sorted(found, key=lambda one: one.result not in (DIFFERS, LATER))


def shown_entries(new: list[str], gone: list[str]) -> str:
    """The entries of a folder that came or went, the first ones of each; empty without any."""
    texts = [
        f"{', '.join(names[:ENTRIES_SHOWN])}{', …' if len(names) > ENTRIES_SHOWN else ''} {what}"
        for names, what in ((new, "new"), (gone, "gone"))
        if names
    ]
    return ", ".join(texts)


def other_entries(noted: set[str] | None, folder: str) -> tuple[list[str], list[str]]:
    """The entries of a folder that are new, and those that are gone; of one whose entries were not noted, none."""
    if noted is None:
        return [], []
    try:
        present = set(os.listdir(folder))  # noqa: PTH208 - the names alone
    except OSError:
        return [], []
    return sorted(present - noted), sorted(noted - present)


def _time_text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def compare_settings(
    note: OutsideNote,
    reads: Iterable[OutsideRead],
    at: NotedAtTick | None = None,
    compared: Iterable[ReadComparison] | None = None,
) -> SettingsComparison | None:
    """Compare the settings of this process with the noted ones; None if none were noted.

    reads: of the step. at: its tick, of which note is; None for the beginning of the recording. compared: the result of
    compare_reads for these, if it is there already.
    """
    if note.process is None:
        return None
    read, own = list(reads), changed_settings()
    recorded, present, read_kinds = note.process, own | process_facts(), {one.kind for one in read}
    relative = _relative(compare_reads(note, read, at) if compared is None else compared)
    unsure = {*(one.name for one in at.unsure), *at.unknown} if at is not None else set[str]()
    seen = at.seen if at is not None else {}
    different, unread, equal, known = list[str](), list[str](), list[str](), list[str]()
    for name in dict.fromkeys([*recorded, *present]):
        if name in unsure:
            continue
        if not (name in recorded and name in present) and (name in _MAY_LACK or name in own):
            continue
        if name == WORKING_DIRECTORY and not relative:
            continue  # A copy of a project is in another one.
        if recorded.get(name) == present.get(name):
            equal.append(name)
        elif name == WORKING_DIRECTORY:
            than = f"at tick {seen[name]:,} of the recording" if name in seen else BEGAN
            text = f"the working directory is another one than {than}, and the step reads there {', '.join(relative)}"
            different.append(text)
        elif name in _READ_AS and _READ_AS[name] not in read_kinds:
            unread.append(setting_text(name, recorded.get(name), present.get(name)))
        else:
            different.append(setting_text(name, recorded.get(name), present.get(name)))
            if name in _READ_AS:
                known.append(different[-1])
    return SettingsComparison(different, unread, equal, known)


def _relative(compared: Iterable[ReadComparison]) -> list[str]:
    """The relative paths that a step reads, unless what is there is as it was: these depend on the working directory."""
    own = (read for read in compared if read.kind in _WITH_PATHS and read.result != EQUAL)
    texts = (f"{read.name} (read at {read.place})" for read in own if not os.path.isabs(read.name))  # noqa: PTH117
    return list(dict.fromkeys(texts))


def setting_text(name: str, recorded: str | None, present: str | None) -> str:
    """A setting of the process that differs, in words."""
    if name == CPU_FEATURES and recorded is not None and present is not None:
        then, now = recorded.split(), present.split()
        lost, gained = [one for one in then if one not in now], [one for one in now if one not in then]
        parts = [f"{' '.join(lost)} recorded, not now"] if lost else []
        parts += [f"{' '.join(gained)} now, not recorded"] if gained else []
        return f"{name}: {', '.join(parts)}"
    return f"{name} {recorded or 'not set'} recorded, {present or 'not set'} now"


def _compared(kind: str, name: str, noted: tuple[str | None] | None, present: str | None) -> tuple[str, str]:
    """The result of a comparison, and the words for it."""
    if kind in _WHY_NOT and (present is None or noted is None or noted[0] is None):
        return NOT_COMPARED, f"not compared: {_WHY_NOT[kind]}"
    if noted is None:
        return NOT_NOTED, "the recording did not note it"
    (recorded,) = noted
    if recorded is None or present is None:
        return NOT_COMPARED, "not compared: it could not be read then or now"
    if recorded == present and kind == ATTRIBUTES and present != ABSENT:
        return NOT_COMPARED, "kind and size as when the recording began; its times and rights are not compared"
    if recorded == present and kind == ARGUMENTS:
        return NOT_COMPARED, SAME_ARGUMENTS
    if recorded == present:
        return EQUAL, f"{_extent(kind, present)}as when the recording began"
    return DIFFERS, _difference(kind, name, recorded, present)


def _extent(kind: str, present: str) -> str:
    """The part of an equal thing that was compared, if it is not all of it."""
    if kind == FILE and present != ABSENT and int(present.partition(" ")[0]) > CONTENT_BYTES_MAX:
        return "size and the first 4 MiB "
    return ""


def _difference(kind: str, name: str, recorded: str, present: str) -> str:
    if kind == VARIABLE:
        if recorded == UNSET:
            return "set now, not set when the recording began"
        return (
            "not set now, set when the recording began"
            if present == UNSET
            else "another value than when the recording began"
        )
    if kind == ARGUMENTS:
        return "other arguments than when the recording began"
    if name in _TOLD_BY and _TOLD_BY[name] == WORKING_DIRECTORY:
        return "another one than when the recording began"
    if kind == IMPORT:
        now = "not found now" if present == ABSENT else "found now"
        return f"{now}, {'found' if recorded == FOUND else 'not found'} when the recording began"
    if kind in (FILE, FOLDER, ATTRIBUTES):
        where = "" if os.path.isabs(name) else " in the present folder"  # noqa: PTH117
        if present == ABSENT:
            return f"not found now{where}, there when the recording began"
        if recorded == ABSENT:
            return "there now, missing when the recording began"
        if kind == FILE:
            return "other content than when the recording began"
        if kind == ATTRIBUTES:
            return f"a {present} now, a {recorded} when the recording began"
        same_names = recorded.split()[:2] == present.split()[:2]
        return f"{'the same entries in another order than' if same_names else 'other entries than'} when the recording began"
    return f"{present} now, {recorded} when the recording began"
