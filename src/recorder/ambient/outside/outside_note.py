"""What a recording notes of the outside world: settings of the process, and what the first steps read; as plain data.

It is in META, or, of a simulation whose first steps were watched while it was recorded, in the end of the tape.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from recorder.ambient.outside.code_parts.code_note import CodeNote, decode_code_note
from recorder.ambient.outside.code_parts.frozen_constants import FROZEN_MAX, FrozenConstant, decode_frozen
from recorder.ambient.outside.code_parts.frozen_constants import KEY as FROZEN
from recorder.ambient.outside.code_parts.machine_code import KEY as MACHINE_CODE
from recorder.ambient.outside.code_parts.machine_code import LOADED_MAX, LoadedCode, decode_loaded
from recorder.ambient.outside.code_parts.named_outside import NAMED_MAX, NamedFact, named_facts, named_path
from recorder.ambient.outside.loaded_code import KEY as CODE
from recorder.ambient.outside.loaded_modules import MODULES_MAX, loaded_modules
from recorder.ambient.outside.outside_read import (
    ARGUMENTS,
    ARGUMENTS_NAME,
    FILE,
    FOLDER,
    IMPORT,
    KINDS,
    NAME_CHARS_MAX,
    VARIABLE,
    OutsideRead,
    arguments_fact,
)
from recorder.ambient.outside.process_facts import OF_THREAD, process_facts
from sim.kernel.simulation import Simulation

KEY = "outside"
NOTED_MAX = 64  # Reads in a note: META is repeated in each file of a tape.
WATCHES = "watches_settings"  # True in META if settings of the process that are changed later are noted, in the end of the tape.
CHANGED_MAX = 32  # Changes of settings, in the end of a tape.
REPLACED_MAX = 16  # Functions and constants that were replaced, in the end of a tape.


@attrs.frozen
class NotedReads:
    """What the first steps read.

    Attributes:
        steps: the number of steps that were watched.
        reads: what they read, in the order of the first reads.
    """

    steps: int
    reads: tuple[OutsideRead, ...]


NOTHING_READ = NotedReads(0, ())  # Of a simulation that may be tried, and whose first steps were not watched.


@attrs.frozen
class NotedFact:
    """One thing that the first steps read, as it was noted.

    Attributes:
        kind, name, fact: as those of OutsideRead.
        place: file and line of the user's code.
    """

    kind: str
    name: str
    place: str
    fact: str | None


@attrs.frozen
class ReplacedCode:
    """A function or constant that was replaced while the run was recorded.

    Attributes:
        name: with the file and line of the new one.
        after: the tick at which the old one was seen last.
        tick: the tick at which the new one was seen.
    """

    name: str
    after: int
    tick: int


@attrs.frozen
class ChangedSetting:
    """A setting of the process that was changed while the run was recorded.

    Attributes:
        name: as in the note on the process.
        after: the tick at which it was seen last as it was before.
        tick: the tick at which it was seen to be changed.
        before, now: its texts; None for a variable that was not set.
    """

    name: str
    after: int
    tick: int
    before: str | None
    now: str | None


@attrs.frozen
class OtherThread:
    """Another thread took the steps, with its own settings.

    Attributes:
        after: the tick at which the thread before was seen last.
        tick: the tick at which the other one was seen.
        settings: those of its own that are others than those of the thread before, by name.
    """

    after: int
    tick: int
    settings: dict[str, str]


@attrs.frozen
class WatchedSettings:
    """The settings of the process that were changed while the run was recorded, at the ticks of which that is known.

    Attributes:
        changes: in their order.
        first_tick: they are known from the step after this tick on.
        last_tick: up to the step to this tick; None for all.
        threads: that took the steps in turn, and whose own settings differ.
    """

    changes: tuple[ChangedSetting, ...] = ()
    first_tick: int = 0
    last_tick: int | None = None
    threads: tuple[OtherThread, ...] = ()


@attrs.frozen
class OutsideNote:
    """What a recording noted.

    Attributes:
        process: settings of the process and of its machine, by name; None if none were noted.
        steps: the number of first steps that were watched; None if none were.
        reads: what they read.
        modules: the packages that were loaded; see loaded_modules.py.
        code: of the user's code; None without a note of it.
        replaced: what of it was replaced while the run was recorded, as far as it is known.
        unknown_before: of the steps before that of this tick it is not known; of all steps of a tape that was never closed.
        watches: True if settings of the process that were changed while the run was recorded are in the end of the tape.
        settings: those.
        named: what the code names of the outside world, as it was when the recording began; see named_outside.py.
        frozen: what compiled functions had taken as constants before the recording began, and their modules no longer had;
            only in the end of a tape.
        machine_code: that numba loaded from its cache on disk; only in the end of a tape.
    """

    process: dict[str, str] | None = None
    steps: int | None = None
    reads: tuple[NotedFact, ...] = ()
    modules: tuple[str, ...] = ()
    code: CodeNote | None = None
    replaced: tuple[ReplacedCode, ...] = ()
    unknown_before: int = 0
    watches: bool = False
    settings: WatchedSettings = attrs.field(factory=WatchedSettings)
    named: tuple[NamedFact, ...] = ()
    machine_code: tuple[LoadedCode, ...] = ()
    frozen: tuple[FrozenConstant, ...] = ()

    def fact(self, kind: str, name: str, reader: str = "") -> tuple[str | None] | None:
        """The noted fact, in a tuple; None if it was not noted. reader: the file of the user's code that reads it."""
        own = ((read.fact,) for read in self.reads if (read.kind, read.name) == (kind, name))
        return next(own, None) or next(((fact,) for _, fact in self._named(kind, name, reader)), None)

    def entries(self, folder: str, reader: str) -> set[str] | None:
        """The names that were in a folder when the recording began; None if not all of them are known."""
        for path, fact in self._named(FOLDER, folder, reader):
            inside = [
                one[len(path) + 1 :] for kind, one, _ in self.named if kind == FILE and one.startswith(f"{path}/")
            ]
            names = {one for one in inside if "/" not in one}
            return names if str(len(names)) == fact.partition(" ")[0] else None
        return None

    def arguments(self) -> tuple[str, ...] | None:
        """The digest of each argument of the program when the recording began; None if they were not noted, or too many."""
        each = {name: fact for kind, name, fact in self.named if kind == ARGUMENTS}
        whole = each.pop(ARGUMENTS_NAME, None)
        if not each:
            return () if whole == arguments_fact(()) else None
        numbers = [str(number + 1) for number in range(len(each))]
        return tuple(each[number] for number in numbers) if each.keys() == set(numbers) else None

    def _named(self, kind: str, name: str, reader: str) -> Iterator[tuple[str, str]]:
        for own_kind, own, fact in self.named:
            if own_kind == kind and (
                own == name if kind in (VARIABLE, IMPORT, ARGUMENTS) else named_path(name, reader, own)
            ):
                yield own, fact


def note_of(noted: NotedReads | None) -> dict[str, Any]:
    """The note on this process and on what its first steps read, for META."""
    return {"process": process_facts(), WATCHES: True, "modules": loaded_modules(), **reads_note(noted)}


def named_note(simulation: Simulation) -> dict[str, Any]:
    """The note on what the simulation's code names, for META; empty if it names nothing."""
    try:
        facts = [list(one) for one in named_facts(simulation)]
    except Exception:  # noqa: BLE001 - whatever a module's objects raise when they are looked at: it stops no recording
        return {}
    return {"named": facts} if facts else {}


def reads_note(noted: NotedReads | None) -> dict[str, Any]:
    """The note on what the first steps read; empty if they were not watched."""
    if noted is None or not noted.steps:
        return {}
    facts = dict.fromkeys((read.kind, read.name, read.place, read.fact) for read in noted.reads)
    return {"steps": noted.steps, "reads": [list(fact) for fact in facts][:NOTED_MAX]}


def decode_note(*plain: Any) -> OutsideNote:
    """The note in one or several pieces of plain data; what is not in the form of a note is left out."""
    note = OutsideNote()
    for part in plain:
        if not isinstance(part, dict):
            continue
        match part.get("process"):
            case dict(process):
                texts = {
                    name: text for name, text in process.items() if isinstance(name, str) and isinstance(text, str)
                }
                note = attrs.evolve(note, process=texts)
        note = attrs.evolve(note, watches=note.watches or part.get(WATCHES) is True)
        if (settings := _decode_settings(part.get("settings"))) is not None:
            note = attrs.evolve(note, settings=settings)
        match part.get("modules"):
            case list(names):
                note = attrs.evolve(note, modules=tuple(name for name in names[:MODULES_MAX] if isinstance(name, str)))
        if (code := decode_code_note(part.get(CODE))) is not None:
            note = attrs.evolve(note, code=code)
        match part.get("named"):
            case list(facts):
                note = attrs.evolve(note, named=tuple(filter(None, map(_decode_named, facts[:NAMED_MAX]))))
        match part.get(MACHINE_CODE):
            case list(loaded):
                known_loads = tuple(filter(None, map(decode_loaded, loaded[:LOADED_MAX])))
                note = attrs.evolve(note, machine_code=known_loads)
        match part.get(FROZEN):
            case list(constants):
                frozen = tuple(filter(None, map(decode_frozen, constants[:FROZEN_MAX])))
                note = attrs.evolve(note, frozen=frozen)
        match part:
            case {"replaced": list(replaced), "unknown_before": int(unknown)}:
                known = [one for one in map(_decode_replaced, replaced[:REPLACED_MAX]) if one is not None]
                note = attrs.evolve(note, replaced=tuple(known), unknown_before=unknown)
        match part:
            case {"steps": int(steps), "reads": list(reads)} if steps > 0:
                facts = [fact for fact in map(_decode_fact, reads[:NOTED_MAX]) if fact is not None]
                note = attrs.evolve(note, steps=steps, reads=tuple(facts))
    return note


def _decode_named(plain: Any) -> NamedFact | None:
    match plain:
        case [str(kind), str(name), str(fact)] if kind in (FILE, FOLDER, VARIABLE, IMPORT, ARGUMENTS):
            return kind, name, fact[:NAME_CHARS_MAX]
    return None


def _decode_replaced(plain: Any) -> ReplacedCode | None:
    match plain:
        case [str(name), int(after), int(tick)]:
            return ReplacedCode(name[:NAME_CHARS_MAX], after, tick)
    return None


def _decode_settings(plain: Any) -> WatchedSettings | None:
    match plain:
        case {"first_tick": int(first), "last_tick": int(last), "changes": list(changes)}:
            known = [one for one in map(_decode_change, changes[:CHANGED_MAX]) if one is not None]
            threads = plain.get("threads")
            others = map(_decode_thread, threads[:CHANGED_MAX] if isinstance(threads, list) else [])
            return WatchedSettings(tuple(known), first, last, tuple(one for one in others if one is not None))
    return None


def _decode_thread(plain: Any) -> OtherThread | None:
    match plain:
        case [int(after), int(tick), dict(settings)]:
            texts = {name: settings[name] for name in OF_THREAD if isinstance(settings.get(name), str)}
            return OtherThread(after, tick, {name: text[:NAME_CHARS_MAX] for name, text in texts.items()})
    return None


def _decode_change(plain: Any) -> ChangedSetting | None:
    match plain:
        case [str(name), int(after), int(tick), str() | None as before, str() | None as now]:
            cut = [None if text is None else text[:NAME_CHARS_MAX] for text in (before, now)]
            return ChangedSetting(name[:NAME_CHARS_MAX], after, tick, *cut)
    return None


def _decode_fact(plain: Any) -> NotedFact | None:
    match plain:
        case [str(kind), str(name), str(place), str() | None as fact] if kind in KINDS:
            return NotedFact(kind, name[:NAME_CHARS_MAX], place[:NAME_CHARS_MAX], fact)
    return None
