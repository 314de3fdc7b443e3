"""Which line of load() set which value: load() runs once more, on an instance as it was made, and is watched line by line."""

from __future__ import annotations

import inspect
import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import attrs
import numpy as np

from recorder.ambient.outside.own_code import OwnCode
from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.cause import DifferingValue, SourceLocation, Undone
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.texts.value_texts import TEXT_CHARS_MAX
from replayer.diagnose.explain.values.value_parts import ORDER, PARTS_MAX, has_parts, inner_parts, objects_of, parts_of
from replayer.playback.line_hooks import listening
from sim.kernel.hooks import HasAdapter, hook
from sim.kernel.simulation import ArenaOfSaved, Simulation, restore
from sim.kernel.state import Snapshot

LINES_MAX = 300  # Of one load(): all values are read after each, which takes a millisecond for 2,000 of them.
_LEAVES = (
    np.ndarray,
    random.Random,
    np.random.Generator,
)  # Without parts: another one of equal content is another one.
_SELF = "self"
_SET_STATE = "__setstate__"  # Python calls it for an object of a pickle, before anything leads to that.
_WATCHED = ("load", _SET_STATE)
_KEY = re.compile(r"\[[^\]]*\]")
_LAST_STEP = re.compile(r"(?:\[[^\[\]]*\]|\.\w+)$")  # Of a path.
_Stack = tuple[tuple[int, tuple[str, int, str]], ...]  # Lines that run, each with the id of its frame.
_NO_VALUE = re.compile(r"^the object at |…|^an? \w+$")
_OF_ATTRIBUTES = re.compile(r"(?:\.\w+)+")
_NO_TEXT = ""  # Of an attribute that a line of load() names: no value is known to have changed there.


@attrs.frozen
class LoadedValue:
    """A value that load() set.

    Attributes:
        path: from the simulation: ".guns[0].target".
        text: the value after load(), as parts_of shows it.
        line: the line of load(), or of what it calls, that set it last.
        made_at: of an object, the line of load() after which a variable of load() led to it first; None if none did, or if it was
            made there as a part of something larger that the simulation does not get, such as all values of a JSON text.
        held_at: of a part of an object that this line put there with all its parts: the line of load() that set the part, while a
            variable of load(), or of __setstate__(), led to the object; None if that is not known.
        undone: the values that it had before, while load() ran.
        is_left: True for an attribute that load() leaves as it is in a new instance, with all that is in it: line is the head of load().
    """

    path: str
    text: str
    line: SourceLocation
    made_at: SourceLocation | None = None
    held_at: SourceLocation | None = None
    undone: tuple[Undone, ...] = ()
    is_left: bool = False

    def to_plain(self) -> list[Any]:
        """Encode as plain data."""
        lines = (None if one is None else list(attrs.astuple(one)) for one in (self.line, self.made_at, self.held_at))
        return [self.path, self.text, *lines, [attrs.asdict(one) for one in self.undone], self.is_left]

    @staticmethod
    def from_plain(plain: list[Any]) -> LoadedValue:
        """Decode the plain data of to_plain."""
        path, text, line, *others, undone, is_left = plain
        made_at, held_at = (None if one is None else SourceLocation(*one) for one in others)
        return LoadedValue(
            path, text, SourceLocation(*line), made_at, held_at, tuple(map(Undone.from_plain, undone)), is_left
        )

    @property
    def root(self) -> str:
        """The attribute of the simulation that it is, or is in: ".guns"."""
        return _root(self.path)


def loaded_values(make: Callable[[], Simulation], loaded: Snapshot) -> list[LoadedValue]:
    """The values that load() sets, each with its line. make: makes a simulation in which nothing was loaded.

    Empty for a simulation without a load() of its own, and where load() runs more than LINES_MAX lines. It runs in a copy
    of this process. Raises RuntimeError if that died.
    """
    plain = in_a_copy(partial(_watched_load, make, loaded))["values"]
    return [LoadedValue.from_plain(one) for one in plain]


def _watched_load(make: Callable[[], Simulation], loaded: Snapshot) -> dict[str, Any]:
    simulation = make()
    if not isinstance(simulation, ArenaOfSaved) or hook(simulation.inner, HasAdapter) is not None:
        return {"values": []}
    watch, is_own = _LoadWatch(simulation.inner), OwnCode(simulation)
    with listening(watch, is_own):
        restore(simulation, loaded)
    watch.look()
    return {"values": [] if watch.count > LINES_MAX else [*_named(simulation.inner), *watch.plain(), *watch.left()]}


def _named(inner: Any) -> list[Any]:
    """The attributes that load() names, each with the line, in which it may keep what it finds there."""
    code = getattr(inspect.unwrap(type(inner).load), "__code__", None)
    if code is None:
        return []
    source = SourceFile(code.co_filename)
    found = []
    for number in sorted({number for *_, number in code.co_lines() if number is not None}):
        statement = source.statement(number)
        if statement is None:
            continue
        line = SourceLocation(code.co_filename, statement.first_line, code.co_qualname, source.statement_text(number))
        words = statement.reads | statement.writes | statement.chains
        names = {word for word in words if word.startswith(f"{_SELF}.")}
        found += [LoadedValue(word.removeprefix(_SELF), _NO_TEXT, line).to_plain() for word in sorted(names)]
    return found


class _LoadWatch:
    """What changed between two lines, or is another object, was set by the line before."""

    def __init__(self, inner: Any) -> None:
        self.count = 0
        self._inner = inner
        self._parts = parts_of(inner)
        self._objects = objects_of(inner, _LEAVES)  # Kept until the next look: no id is used again.
        self._set: dict[str, tuple[str, int, str]] = {}
        self._running: tuple[str, int, str] | None = None
        self._stack: _Stack = ()  # Of the running line, load() first.
        self._changes: dict[str, list[tuple[str, _Stack]]] = {}  # The texts that a path got, each with its line.
        self._entered: dict[int, FrameType] = {}
        self._sources: dict[str, SourceFile] = {}
        self._made: dict[int, tuple[Any, tuple[str, int, str]]] = {}  # The objects are kept: no id is used again.
        self._held: dict[
            int, dict[str, tuple[Any, tuple[str, int, str]]]
        ] = {}  # Their parts, with the lines that set them.
        self._held_at: dict[str, tuple[str, int, str]] = {}
        self._within: dict[int, int] = {}  # Of what was made as a part of a larger object, that one.

    def line(self, frame: FrameType) -> None:
        if _is_of_a_statement(frame):
            return
        self.look()
        if frame.f_code.co_name in _WATCHED and self.count <= LINES_MAX:
            self._look_at_variables(frame)
        self._entered[id(frame)] = frame
        self._run(frame)

    def returned(self, frame: FrameType, value: Any) -> None:  # noqa: ARG002 - the listener's signature
        if _is_of_a_statement(frame):
            return
        self.look()
        if frame.f_code.co_name == _SET_STATE and self.count <= LINES_MAX:
            self._look_at_variables(frame)  # Its last line has set a part, too.
        caller = frame.f_back
        while caller is not None and id(caller) not in self._entered:
            caller = caller.f_back
        self._run(caller)

    def _run(self, frame: FrameType | None) -> None:
        """Note that a line runs, and the lines that called it."""
        self._running, stack = None if frame is None else _place(frame), []
        while frame is not None:
            if id(frame) in self._entered:
                stack.append((id(frame), _place(frame)))
            frame = frame.f_back
        self._stack = tuple(reversed(stack))

    def ended_early(self) -> None:
        self.count = LINES_MAX + 1

    def look(self) -> None:
        """Compare all values with the last look."""
        self.count += 1
        if self.count > LINES_MAX:
            return
        parts, objects = parts_of(self._inner), objects_of(self._inner, _LEAVES)
        if self._running is not None:
            for path in {path for path, _ in parts.items() ^ self._parts.items()}:
                changes = self._changes.setdefault(path, [(self._parts.get(path, _NO_TEXT), ())])
                changes.append((parts.get(path, _NO_TEXT), self._stack))
                self._set[path] = self._running
                self._note_holder(path, objects)
            # Another object of equal values is another one, too, and so is what is in it.
            replaced = {path for path, one in objects.items() if self._objects.get(path, one) is not one}
            for path in parts:
                if path in replaced or _LAST_STEP.sub("", path) in replaced:
                    self._set[path] = self._running
                    self._note_holder(path, objects)
        self._parts, self._objects = parts, objects

    def _note_holder(self, path: str, objects: dict[str, Any]) -> None:
        """Note the line that set a part in the object that holds it, if the last line put that object there, with the part."""
        outer = _LAST_STEP.sub("", path)
        holder = objects.get(outer)
        held = self._held.get(id(holder), {}).get(path.removeprefix(outer))
        if holder is not None and held is not None and self._objects.get(outer) is not holder:
            self._held_at[path] = held[1]
        else:
            self._held_at.pop(path, None)

    def _look_at_variables(self, frame: FrameType) -> None:
        """Note the objects that variables of load(), or of __setstate__(), lead to now, and did not before the last line."""
        for value in list(frame.f_locals.values()):
            if value is self._inner or self._running is None:
                continue
            for one in objects_of(value, _LEAVES).values():
                if id(one) not in self._made and one is not value:
                    self._within[id(one)] = id(value)
                self._made.setdefault(id(one), (one, self._running))
                before = self._held.get(id(one), {})
                self._held[id(one)] = {
                    step: before[step] if step in before and before[step][0] is part else (part, self._running)
                    for step, part in (inner_parts("", one) if has_parts(one) else ())
                }

    def plain(self) -> list[Any]:
        """The values that are there after load(), as LoadedValue.to_plain."""
        objects = objects_of(self._inner, _LEAVES)
        kept = set(map(id, objects.values()))
        found = []
        for path, place in self._set.items():
            if path in self._parts:
                made, held_at = self._made_of(objects.get(path), kept), self._held_at.get(path)
                if held_at is not None and held_at == self._parsed_at(objects.get(_LAST_STEP.sub("", path)), kept):
                    held_at = None
                at, made_at, held = (None if one is None else self._located(one) for one in (place, made, held_at))
                assert at is not None
                undone = tuple(self._undone(path))
                found.append(LoadedValue(path, self._parts[path], at, made_at, held, undone).to_plain())
        return found

    def left(self) -> Iterator[list[Any]]:
        """The attributes that are as they were before load(), as LoadedValue.to_plain."""
        code = getattr(inspect.unwrap(type(self._inner).load), "__code__", None)
        if code is None or len(self._parts) >= PARTS_MAX:  # Of more parts, the last ones are not compared.
            return
        head = self._located((code.co_filename, code.co_firstlineno, code.co_qualname))
        holders = {_LAST_STEP.sub("", path) for path in self._parts}
        # A text that is cut off, that of another name's object, and that of an object whose values cannot be read show no change.
        others = [path for path, text in self._parts.items() if _NO_VALUE.search(text) and path not in holders]
        touched = {start for path in (*self._set, *others) for start in _starts(path.removeprefix(ORDER))}
        for path in self._parts:
            if _OF_ATTRIBUTES.fullmatch(path) and path not in touched:
                yield LoadedValue(path, _NO_TEXT, head, is_left=True).to_plain()

    def _undone(self, path: str) -> Iterator[Undone]:
        """The values that a path had while load() ran, each with the line that set it and the one that changed it."""
        changes = self._changes.get(path, [])
        for number, ((text, before), (_, after)) in enumerate(itertools.pairwise(changes)):
            pairs = zip(before, after, strict=False)
            depth = max((place for place, (one, other) in enumerate(pairs) if one[0] == other[0]), default=0)
            set_by = before[depth][1] if before else None  # Without one, it is as before load().
            # Of a dict that is emptied and then filled, the first of these lines says nothing.
            is_last = all(after[: depth + 1] == later[: depth + 1] for _, later in changes[number + 2 :])
            if text and after and is_last and set_by != after[depth][1]:
                by, inside = self._located(after[depth][1]), self._located(after[-1][1])
                yield Undone(
                    text, None if set_by is None else self._located(set_by), by, None if inside == by else inside
                )

    def _made_of(self, one: Any, kept: set[int]) -> tuple[str, int, str] | None:
        """The line that made an object; None if it made that as a part of what was read, such as the values of a JSON text."""
        made = self._made.get(id(one))
        return None if made is None or self._parsed_at(one, kept) is not None else made[1]

    def _parsed_at(self, one: Any, kept: set[int]) -> tuple[str, int, str] | None:
        """The line that made an object as a part of a larger one that the simulation does not get; None for another object.

        kept: the ids of the objects of the simulation.
        """
        outer = self._within.get(id(one))
        return None if outer is None or outer in kept else self._made[id(one)][1]

    def _located(self, place: tuple[str, int, str]) -> SourceLocation:
        file, number, function = place
        source = self._sources.setdefault(file, SourceFile(file))
        statement = source.statement(number)
        first = statement.first_line if statement is not None else number
        return SourceLocation(file, first, function, source.statement_text(number))


def _place(frame: FrameType) -> tuple[str, int, str]:
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname


def _is_of_a_statement(frame: FrameType) -> bool:
    """Return True for a comprehension or a generator expression: each item of it would count as a line."""
    return frame.f_code.co_name.startswith("<") and frame.f_code.co_name != "<lambda>"


def _starts(path: str) -> Iterator[str]:
    """A path, and those of what holds what it leads to."""
    while path:
        yield path
        path = _LAST_STEP.sub("", path) if _LAST_STEP.search(path) else ""


def _root(path: str) -> str:
    inner = path[1:]
    ends = [inner.index(sign) for sign in ".[{" if sign in inner]
    return path[: min(ends) + 1] if ends else path


def _path_of(value: DifferingValue, name: str) -> str:
    """The path from the simulation to a value, or to a part of it, by its name."""
    order, name = ORDER if name.startswith(ORDER) else "", name.removeprefix(ORDER)
    return order + (value.path + name.removeprefix(value.name) if value.path else name.removeprefix(_SELF))


def line_that_loaded(outside: list[DifferingValue], loaded: list[LoadedValue]) -> SourceLocation | None:
    """The line of load() that gave the values of B, or most of them; None if load() gave none of them."""
    texts = {value.path: value for value in loaded}
    lines = Counter(
        texts[path].held_at or texts[path].line
        for one in outside
        for name, _, second in one.parts or [(one.name, one.first, one.second)]
        if (path := _path_of(one, name)) in texts and texts[path].text == second
    )
    return lines.most_common(1)[0][0] if lines else None


def undone_in_load(outside: list[DifferingValue], loaded: list[LoadedValue]) -> Undone | None:
    """How load() changed what it had set to the values of A; None if it did not, or not for all of them at one line.

    A text that is cut off may be that of another value.
    """
    texts = {value.path: value for value in loaded if value.text}
    found = [
        [one for one in (texts[path].undone if path in texts else ()) if one.text == first and not _is_cut(first)]
        for value in outside
        for name, first, _ in value.parts or [(value.name, value.first, value.second)]
        for path in (_path_of(value, name),)
    ]
    lines = {attrs.evolve(one[-1], text="") if one else None for one in found}
    return found[0][-1] if len(lines) == 1 and found[0] else None


def _is_cut(text: str) -> bool:
    return len(text) >= TEXT_CHARS_MAX or "…" in text


def lines_that_set(names: Iterable[str], loaded: Iterable[LoadedValue]) -> list[SourceLocation]:
    """The lines of load() that set values, by names such as ``Bank.accounts[…].balance``, where an item stands for all."""
    paths = {_KEY.sub("[]", f".{name.partition('.')[2]}") for name in names}
    lines = {value.held_at or value.line for value in loaded if value.text and _KEY.sub("[]", value.path) in paths}
    return sorted(lines, key=lambda line: line.line)


def line_of_attribute(outside: list[DifferingValue], loaded: list[LoadedValue]) -> SourceLocation | None:
    """The line of load() that set anything in one of these attributes of the simulation; None if there is none."""
    roots = {_root(one.path or one.name.removeprefix(_SELF)) for one in outside if one.name.startswith(f"{_SELF}.")}
    lines = Counter(value.line for value in loaded if value.root in roots and not value.is_left)
    return lines.most_common(1)[0][0] if lines else None


def line_that_left(names: Iterable[str], loaded: Iterable[LoadedValue]) -> SourceLocation | None:
    """The head of load(), if that leaves all these attributes as they are in a new instance; None if it does not."""
    lines = {value.path: value.line for value in loaded if value.is_left}
    found = [lines.get(f".{name.partition('.')[2]}") for name in names]
    return found[0] if found and None not in found else None
