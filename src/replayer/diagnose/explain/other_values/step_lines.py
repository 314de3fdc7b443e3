"""The lines of the user's code that one run of a step goes through, in their order."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from recorder.ambient.outside.own_code import OwnCode
from replayer.diagnose.explain.cause import SourceLocation
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.playback.line_hooks import listening
from sim.kernel.simulation import Simulation

LINES_MAX = 50_000

Line = tuple[str, int, str, int]  # The file, the line, the function, and how many calls deeper than the first it is.


def lines_of_step(simulation: Simulation, inputs: Any) -> list[Line]:
    """Run the step and note its lines, up to LINES_MAX. It changes the simulation: only in a copy."""
    is_own = OwnCode(simulation)
    noted = _Noted()
    try:
        with listening(noted, is_own):
            simulation.step(inputs)
    except Exception:  # noqa: BLE001, S110 - a step with another value than it ever had may fail in any way
        pass
    outer = noted.lines[0][3] if noted.lines else 0
    return [(path, line, function, depth - outer) for path, line, function, depth in noted.lines]


class _Noted:
    def __init__(self) -> None:
        self.lines: list[Line] = []

    def line(self, frame: Any) -> None:
        if len(self.lines) >= LINES_MAX:
            return
        depth, caller = 0, frame.f_back
        while caller is not None:
            depth, caller = depth + 1, caller.f_back
        self.lines.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname, depth))

    def returned(self, frame: Any, value: Any) -> None:
        pass

    def ended_early(self) -> None:
        pass


def naming(lines: Iterable[Line], key: str) -> list[SourceLocation]:
    """The lines that read a name, or an attribute of that name."""
    files: dict[str, SourceFile] = {}
    found = []
    for path, line, function, _ in dict.fromkeys(lines):
        source = files.setdefault(path, SourceFile(path))
        statement = source.statement(line)
        words = {word for one in (statement.reads | statement.chains if statement else ()) for word in one.split(".")}
        if key in words:
            found.append(SourceLocation(path, line, function, source.statement_text(line)))
    return list(dict.fromkeys(found))


def branching(first: Sequence[Line], second: Sequence[Line]) -> SourceLocation | None:
    """The last line of a function that two runs have in common, before they take two ways in it; None if they take one."""
    pairs = zip(first, second, strict=False)
    place = next((number for number, (one, other) in enumerate(pairs) if one != other), None)
    if place is None:
        return None
    for path, line, function, depth in reversed(first[:place]):
        if depth == min(first[place][3], second[place][3]):
            return SourceLocation(path, line, function, SourceFile(path).statement_text(line))
    return None


def constants_on(lines: Iterable[Line]) -> list[Any]:
    """The texts and whole numbers in the statements of these lines, each once."""
    wanted: dict[str, set[int]] = {}
    for path, line, *_ in lines:
        wanted.setdefault(path, set()).add(line)
    found: dict[tuple[type, Any], None] = {}
    for path, numbers in wanted.items():
        for node in ast.walk(SourceFile(path).tree):
            if isinstance(node, ast.Constant) and type(node.value) in (str, int) and node.lineno in numbers:
                found[type(node.value), node.value] = None
    return [value for _, value in found]
