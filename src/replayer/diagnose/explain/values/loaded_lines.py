"""Which line of load() set which value: load() runs once more, on an instance as it was made, and is watched line by line."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import attrs

from recorder.ambient.outside.own_code import OwnCode
from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.cause import DifferingValue, SourceLocation
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.values.value_parts import parts_of
from replayer.playback.line_hooks import listening
from sim.kernel.hooks import HasAdapter, hook
from sim.kernel.simulation import ArenaOfSaved, Simulation, restore
from sim.kernel.state import Snapshot

LINES_MAX = 300  # Of one load(): all values are read after each, which takes a millisecond for 2,000 of them.
_SELF = "self"
_NO_TEXT = ""  # Of an attribute that a line of load() names: no value is known to have changed there.


@attrs.frozen
class LoadedValue:
    """A value that load() set.

    Attributes:
        path: from the simulation: ".guns[0].target".
        text: the value after load(), as parts_of shows it.
        line: the line of load(), or of what it calls, that set it last.
    """

    path: str
    text: str
    line: SourceLocation

    def to_plain(self) -> list[Any]:
        """Encode as plain data."""
        return [self.path, self.text, list(attrs.astuple(self.line))]

    @staticmethod
    def from_plain(plain: list[Any]) -> LoadedValue:
        """Decode the plain data of to_plain."""
        path, text, line = plain
        return LoadedValue(path, text, SourceLocation(*line))

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
    return {"values": [] if watch.count > LINES_MAX else [*_named(simulation.inner), *watch.plain()]}


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
        names = {word for word in statement.reads | statement.writes if word.startswith(f"{_SELF}.")}
        found += [LoadedValue(word.removeprefix(_SELF), _NO_TEXT, line).to_plain() for word in sorted(names)]
    return found


class _LoadWatch:
    """What changed between two lines was set by the line before."""

    def __init__(self, inner: Any) -> None:
        self.count = 0
        self._inner = inner
        self._parts = parts_of(inner)
        self._set: dict[str, tuple[str, int, str]] = {}
        self._running: tuple[str, int, str] | None = None
        self._entered: dict[int, FrameType] = {}

    def line(self, frame: FrameType) -> None:
        self.look()
        self._entered[id(frame)] = frame
        self._running = _place(frame)

    def returned(self, frame: FrameType, value: Any) -> None:  # noqa: ARG002 - the listener's signature
        self.look()
        caller = frame.f_back
        while caller is not None and id(caller) not in self._entered:
            caller = caller.f_back
        self._running = None if caller is None else _place(caller)

    def ended_early(self) -> None:
        self.count = LINES_MAX + 1

    def look(self) -> None:
        """Compare all values with the last look."""
        self.count += 1
        if self.count > LINES_MAX:
            return
        parts = parts_of(self._inner)
        if self._running is not None:
            for path in {path for path, _ in parts.items() ^ self._parts.items()}:
                self._set[path] = self._running
        self._parts = parts

    def plain(self) -> list[Any]:
        """The values that are there after load(), as LoadedValue.to_plain."""
        sources: dict[str, SourceFile] = {}
        found = []
        for path, (file, number, function) in self._set.items():
            if path in self._parts:
                source = sources.setdefault(file, SourceFile(file))
                statement = source.statement(number)
                first = statement.first_line if statement is not None else number
                line = SourceLocation(file, first, function, source.statement_text(number))
                found.append(LoadedValue(path, self._parts[path], line).to_plain())
        return found


def _place(frame: FrameType) -> tuple[str, int, str]:
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname


def _root(path: str) -> str:
    inner = path[1:]
    ends = [inner.index(sign) for sign in ".[{" if sign in inner]
    return path[: min(ends) + 1] if ends else path


def line_that_loaded(outside: list[DifferingValue], loaded: list[LoadedValue]) -> SourceLocation | None:
    """The line of load() that gave the values of B, or most of them; None if load() gave none of them."""
    texts = {value.path: value for value in loaded}
    lines = Counter(
        texts[path].line
        for one in outside
        for name, _, second in one.parts or [(one.name, one.first, one.second)]
        if (path := name.removeprefix(_SELF)) in texts and texts[path].text == second
    )
    return lines.most_common(1)[0][0] if lines else None


def line_of_attribute(outside: list[DifferingValue], loaded: list[LoadedValue]) -> SourceLocation | None:
    """The line of load() that set anything in one of these attributes of the simulation; None if there is none."""
    roots = {_root(one.name.removeprefix(_SELF)) for one in outside if one.name.startswith(f"{_SELF}.")}
    lines = Counter(value.line for value in loaded if value.root in roots)
    return lines.most_common(1)[0][0] if lines else None
