"""Whether save() tells the value of one instance from that of the other one, and where in it they become equal.

save() runs in two copies of B, one of which was given the value of A, and is watched line by line. Where it returns the same to
both, the last line that reads what differs is the one after which nothing does.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import FrameType
from typing import Any

import attrs

from recorder.ambient.ambient import INSTANCE
from recorder.ambient.ambient_diff import Candidate
from recorder.ambient.outside.own_code import OwnCode
from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.cause import SourceLocation
from replayer.diagnose.explain.source_lines import SourceFile, Statement
from replayer.diagnose.explain.value_hash import Digester, attributes_of
from replayer.diagnose.explain.values.given_values import BUILDS, HOLDS, OMITS, READS, Unsaved
from replayer.playback.line_hooks import listening
from sim.kernel.hooks import HasAdapter, hook
from sim.kernel.simulation import ArenaOfSaved, Simulation

LINES_MAX = 20_000  # Of one save().
SECONDS_MAX = 2.0  # For all values; also for the lines of one save().
# Places in what is noted of a line: what it reads, the objects that it goes through, and which of what it reads has no attributes.
_WORDS, _OBJECTS, _PLAIN = 2, 3, 4
_UNORDERED = ("alias", "order of a WeakSet", "order of a WeakValueDictionary")


def unsaved_values(
    simulation: Simulation, candidates: Iterable[Candidate], objects: dict[Any, Any], give: Callable[[Candidate], None]
) -> tuple[Unsaved, ...]:
    """The values that save() does not tell apart, each with its line. objects: of the simulation, by their paths.

    Only of a simulation with a save() of its own. give: puts the value of A into the simulation; it is called in copies of this
    process. Raises RuntimeError if one of them died.
    """
    if not isinstance(simulation, ArenaOfSaved) or hook(simulation.inner, HasAdapter) is not None:
        return ()
    end_s, own, found = time.monotonic() + SECONDS_MAX, None, []
    for one in candidates:
        if one.paths[0][0][0] != INSTANCE or one.kind in _UNORDERED or time.monotonic() > end_s:
            continue
        own = own or in_a_copy(partial(_watched_save, simulation))
        other = in_a_copy(partial(_save_with, simulation, partial(give, one)))
        if not own["hash"] or own["hash"] != other["hash"]:
            continue
        holder = _holder(one, objects)
        pair = _Pair(own, other, frozenset(attributes_of(holder)), is_of_top=holder is simulation.inner)
        found.append(Unsaved(one.name, *pair.end()))
    return tuple(found)


def _holder(candidate: Candidate, objects: dict[Any, Any]) -> Any:
    """The object that has the attribute which differs, or in which something does."""
    path = candidate.paths[0]
    last = max((place for place, (kind, _) in enumerate(path) if kind == "attribute"), default=0)
    return objects.get(path[:last])


def _save_with(simulation: ArenaOfSaved, change: Callable[[], None]) -> dict[str, Any]:
    change()
    return _watched_save(simulation)


def _watched_save(simulation: ArenaOfSaved) -> dict[str, Any]:
    """What save() returns, as a hash, and the lines that it ran; an empty hash if it raised or changes from call to call."""
    watch = _SaveWatch(simulation.inner)
    try:
        with listening(watch, OwnCode(simulation)):
            first = ArenaOfSaved(simulation.inner).state.hash()
        is_steady = first == ArenaOfSaved(simulation.inner).state.hash()
    except Exception:  # noqa: BLE001 - of the user's save(), with a value that it may not bear
        is_steady = False
    calls, lines = ([], []) if watch.is_cut else (watch.calls, watch.lines)
    return {"hash": f"{first:016x}" if is_steady else "", "calls": calls, "lines": lines}


class _SaveWatch:
    """The calls of one save(), and what each line reads, by digests."""

    def __init__(self, inner: Any) -> None:
        self.calls: list[dict[str, Any]] = []
        self.lines: list[
            list[Any]
        ] = []  # The call, the number of the line, and digests of what it reads, by their words.
        self.is_cut = False
        self._inner = inner
        self._running: dict[int, tuple[FrameType, int]] = {}  # By the frame's id, which it keeps while it is here.
        self._sources: dict[str, SourceFile] = {}
        self._end_s = time.monotonic() + SECONDS_MAX

    def line(self, frame: FrameType) -> None:
        self.is_cut = self.is_cut or len(self.lines) >= LINES_MAX or time.monotonic() > self._end_s
        if self.is_cut:
            return
        owner = _around(frame, self._running) if frame.f_code.co_name.startswith("<") else frame
        if id(owner) not in self._running:
            self._enter(owner)
        source = self._sources.setdefault(frame.f_code.co_filename, SourceFile(frame.f_code.co_filename))
        statement = source.statement(frame.f_lineno)
        if statement is None:
            return
        read, held, plain = dict[str, int](), dict[str, int](), list[str]()
        for word, value, through in _read_by(frame, statement):
            held |= {name: _digest(one) for name, one in through.items() if one is not self._inner}
            is_plain = _is_plain(value)
            if word not in statement.whole and not is_plain:  # Of an object that is an element, attributes may be read.
                held[word] = _digest(value)
            elif value is not self._inner or "." not in word:  # Of a method of it, the lines show what is read.
                read[word] = _digest(value)
                plain += [word] if is_plain else []
        self.lines.append([self._running[id(owner)][1], frame.f_lineno, read, held, plain])

    def _enter(self, frame: FrameType) -> None:
        caller = frame.f_back
        while caller is not None and id(caller) not in self._running:
            caller = caller.f_back
        code = frame.f_code
        given = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]]
        self._running[id(frame)] = frame, len(self.calls)
        self.calls.append(
            {
                "code": [code.co_filename, code.co_firstlineno, code.co_qualname],
                "caller": None if caller is None else [self._running[id(caller)][1], caller.f_lineno],
                "given": [_digest(one) for one in given],
                "begins": len(self.lines),
                "returned": [],
            }
        )

    def returned(self, frame: FrameType, value: Any) -> None:
        if id(frame) in self._running:
            self.calls[self._running[id(frame)][1]]["returned"].append(_digest(value))

    def ended_early(self) -> None:
        self.is_cut = True


def _digest(value: Any) -> int:
    """64 bits for a value; of a set, for the order in which it gives its members as well."""
    return Digester().order_of(value)[1] if isinstance(value, set | frozenset) else Digester().digest(value)


def _around(frame: FrameType, running: Mapping[int, Any]) -> FrameType:
    """Of a comprehension, a generator expression or a lambda: the call that it is written in; itself if that is not under way."""
    code, caller = frame.f_code, frame.f_back
    while caller is not None:
        is_in = code.co_qualname.startswith(f"{caller.f_code.co_qualname}.<locals>.")
        if is_in and code.co_filename == caller.f_code.co_filename and id(caller) in running:
            return caller
        caller = caller.f_back
    return frame


def _read_by(frame: FrameType, statement: Statement) -> Iterable[tuple[str, Any, dict[str, Any]]]:
    """What a statement reads, with its values, and the objects that it goes through; of a method, its object."""
    for word in sorted(statement.whole | statement.elements):
        root, *names = word.split(".")
        if root not in frame.f_locals:
            continue
        value, name, through = frame.f_locals[root], root, dict[str, Any]()
        for one in names:
            through[name] = value
            attributes = attributes_of(value)
            if one == "__dict__" and attributes:
                value, name = attributes, f"{name}.{one}"
                continue
            if one not in attributes:
                break
            value, name = attributes[one], f"{name}.{one}"
        yield word, value, through


def _is_plain(value: Any) -> bool:
    """Return True for a value without attributes, such as a number, and for what holds no object that has some."""
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    return not attributes_of(value)


@attrs.frozen(eq=False)
class _Pair:
    """Two runs of save() that returned the same.

    Attributes:
        names: the attributes of the object that has the value.
        is_of_top: True if that object is the simulation.
    """

    own: dict[str, Any]
    other: dict[str, Any]
    names: frozenset[str]
    is_of_top: bool

    def end(self) -> tuple[str, SourceLocation | None]:
        """How the difference ends, and at which line; no line if the two did not run the same ones."""
        if not self.own["calls"] or not self._are_alike():
            return READS, None
        call = 0
        while (inner := self._inner_call(call)) is not None:
            call = inner
        code = self.own["calls"][call]["code"]
        lines = (
            (READS, self._last_line(_WORDS, code)),
            (READS, self._last_line(_WORDS, is_plain=True)),
            (BUILDS, self._last_line(_OBJECTS, code)),
            (READS, self._last_line(_WORDS)),
        )
        for way, number in lines:
            if number is not None:
                return way if way == BUILDS or self._reads_plain(number) else HOLDS, self._place(number, way)
        if any(self._differs(number, _OBJECTS) for number in range(len(self.own["lines"]))):
            return READS, None
        file, first, function = self.own["calls"][0]["code"]
        return OMITS, _located(file, first, function)

    def _are_alike(self) -> bool:
        calls, lines = (
            [[one[key] for one in run["calls"]] for run in (self.own, self.other) for key in ("code", "caller")],
            [[one[:2] for one in run["lines"]] for run in (self.own, self.other)],
        )
        return calls[:2] == calls[2:] and lines[0] == lines[1]

    def _differs(self, line: int, place: int) -> bool:
        return bool(self.own["lines"][line][place] != self.other["lines"][line][place])

    def _last_line(self, place: int, code: list[Any] | None = None, *, is_plain: bool = False) -> int | None:
        """The number of the last line of a function, or of all, that reads what differs, or from an object that does.

        is_plain: one that reads a number, a text or the like, and not only an object that it may hand on.
        """
        for number in reversed(range(len(self.own["lines"]))):
            of = self.own["calls"][self.own["lines"][number][0]]["code"]
            if code in (None, of) and self._differs(number, place) and (not is_plain or self._reads_plain(number)):
                return number
        return None

    def _place(self, number: int, way: str) -> SourceLocation:
        at, line = self.own["lines"][number][:2]
        file, _, function = self.own["calls"][at]["code"]
        one, other = (run["lines"][number][_OBJECTS if way == BUILDS else _WORDS] for run in (self.own, self.other))
        return _located(file, line, function, [word for word in one if one[word] != other.get(word)])

    def _reads_plain(self, line: int) -> bool:
        """Return True if a line reads a value without attributes that differs."""
        one, other = (run["lines"][line] for run in (self.own, self.other))
        return any(one[_WORDS][word] != other[_WORDS].get(word) for word in one[_PLAIN])

    def _inner_call(self, call: int) -> int | None:
        """The last call that was given what differs, and returned the same, if all such calls of one are of one function.

        Where the line that makes them names other attributes of the object itself, the object is not handed on: None.
        """
        found = [
            number
            for number, (one, other) in enumerate(zip(self.own["calls"], self.other["calls"], strict=True))
            if one["caller"] is not None
            and one["caller"][0] == call
            and one["given"] != other["given"]
            and one["returned"] == other["returned"]
        ]
        if not found or len({tuple(self.own["calls"][one]["code"]) for one in found}) > 1:
            return None
        file = self.own["calls"][call]["code"][0]
        text = SourceFile(file).statement_text(self.own["calls"][found[-1]]["caller"][1])
        is_built_here = not self.is_of_top and any(re.search(rf"\.{re.escape(one)}\b", text) for one in self.names)
        return None if is_built_here or self._reads_after(found[-1]) else found[-1]

    def _reads_after(self, call: int) -> bool:
        """Return True if a later statement of the one that makes a call reads what differs itself: the call is not the end of it."""
        [outer, line] = self.own["calls"][call]["caller"]
        source = SourceFile(self.own["calls"][outer]["code"][0])
        return any(
            self.own["lines"][number][0] == outer
            and source.statement(self.own["lines"][number][1]) != source.statement(line)
            and self._reads_plain(number)
            for number in range(self.own["calls"][call]["begins"], len(self.own["lines"]))
        )


def _located(file: str, number: int, function: str, words: Iterable[str] = ()) -> SourceLocation:
    """A statement; of one of several lines, the one that has these words, if one alone does."""
    source = SourceFile(file)
    statement = source.statement(number)
    if statement is None:
        return SourceLocation(file, number, function, source.text(number))
    pattern = re.compile("|".join(rf"(?<![\w.'\"]){re.escape(word)}\b" for word in words) or r"(?!)")
    lines = [one for one in range(statement.first_line, statement.last_line + 1) if pattern.search(source.text(one))]
    if len(lines) == 1:
        return SourceLocation(file, lines[0], function, source.text(lines[0]))
    return SourceLocation(file, statement.first_line, function, source.statement_text(number))
