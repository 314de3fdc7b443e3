"""Replay a tape under guard, and for each undeclared write name tick, phase, field and source line.

A step that raises under guard is run again from the state before it. The unguarded run checks that the tape replays,
and finds the changed fields. Runs with fewer locked fields find the written one. Where nothing can be locked, the step
runs line by line.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import attrs

from recorder.errors import CorruptError, MissingTickError, SimulationFailedError, TornError
from replayer.diagnose.write_contracts.write_guard import STEP, Guard, GuardOptions, UndeclaredWriteError, guarded
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory, make_simulation
from replayer.tape.tape import Tape
from replayer.timeline.intervals import list_intervals
from sim.kernel.state import Snapshot

Progress = Callable[[int, int], None]  # Ticks done, total number of ticks.

_KERNEL = ("recorder", "replayer", "sim.kernel", "numpy", "contextlib")  # Modules whose lines are never reported.
_ROUNDS_MAX = 64  # Repetitions of one tick; each finds one write.
_CHANGED = "changed bytes that could not be locked (through a slice that was kept)"


@attrs.frozen
class UndeclaredWrite:
    """One undeclared write, at its first occurrence.

    Attributes:
        tick: the tick that the step led to.
        phase: the phase that ran; "step" outside the phases.
        field: the field that was written; a table's name for its row count; None if it was not found again.
        place: file and line of the simulation's code, "guard.py:7"; None if not known.
        function: the function of that line.
        message: the message of NumPy or of the guard.
    """

    tick: int
    phase: str
    field: str | None
    place: str | None
    function: str | None
    message: str


@attrs.frozen
class WriteContractReport:
    """The result of a guarded replay.

    Attributes:
        checked_ticks: ticks that were stepped under guard.
        violations: each pair of phase and field once, at its first tick.
        contracts: declared fields by phase; None for a phase that declares nothing.
        unused: by phase, the declared fields whose bytes it never changed.
        unrun: phases with a contract that never ran, and were not checked.
        first_bad: the first tick that has a different hash even without the guard; the check ends there.
        unreached: the number of ticks that could not be reached because of damage.
    """

    checked_ticks: int
    violations: list[UndeclaredWrite]
    contracts: dict[str, list[str] | None]
    unused: dict[str, list[str]]
    unrun: list[str]
    first_bad: int | None
    unreached: int

    @property
    def ok(self) -> bool:
        """True if every write is declared, and no tick differs."""
        return not self.violations and self.first_bad is None


def check_contracts(
    path: str | os.PathLike[str], world: Factory | None = None, *, progress: Progress | None = None
) -> WriteContractReport:
    """Replay a complete tape under guard.

    Raises as Timeline does on opening, WriteContractError if the simulation declares nothing or its declarations are
    invalid, SimulationFailedError if it raises without the guard as well.
    """
    with Tape(path) as tape:
        simulation = make_simulation(tape, world)
        with guarded(simulation) as guard:
            check = _Check(tape, guard, progress)
            check.run()
            return check.report()


class _Check:
    """One guarded replay."""

    def __init__(self, tape: Tape, guard: Guard, progress: Progress | None) -> None:
        self._tape = tape
        self._guard = guard
        self._cursor = Cursor(tape, guard)
        self._progress = progress
        self._violations: list[UndeclaredWrite] = []
        self._reported: set[tuple[str, str]] = set()  # Phases and fields that are reported, and no longer locked.
        self._changed_in_bytes = False
        self._checked = 0
        self._first_bad: int | None = None
        self._unreached = 0

    def run(self) -> None:
        """Step through all intervals."""
        total = self._tape.last_tick - self._tape.first_tick
        for interval in list_intervals(self._tape):
            start, final = interval.place.tick, interval.final_tick
            try:
                if self._cursor.tick != start:
                    self._cursor.put(start, self._tape.snapshot(interval.place))
                for tick in range(start + 1, final + 1):
                    self._tape.frame(tick)
                    self._step(tick)
                    if self._first_bad is not None:
                        return
                    if self._progress is not None:
                        self._progress(tick - self._tape.first_tick, total)
            except (CorruptError, TornError, MissingTickError):
                self._unreached += final - (self._cursor.tick if self._cursor.tick is not None else start)
                self._cursor.leave()

    def report(self) -> WriteContractReport:
        """The report on the ticks checked so far."""
        contracts = self._guard.contracts
        tables = self._guard.state.layout.capacities
        return WriteContractReport(
            self._checked,
            self._violations,
            {name: None if contract is None else sorted(contract.fields) for name, contract in contracts.items()},
            {
                name: sorted(contract.fields - self._guard.changed[name] - set(tables))
                for name, contract in contracts.items()
                if contract is not None and self._guard.runs[name]
            },
            [name for name, contract in contracts.items() if contract is not None and not self._guard.runs[name]],
            self._first_bad,
            self._unreached,
        )

    # --- one tick

    def _step(self, tick: int) -> None:
        before = self._guard.state.snapshot()
        if self._advance(self._everything()) is not None or not self._is_recorded(tick):
            self._investigate(tick, before)
        if self._first_bad is None:
            self._checked += 1

    def _investigate(self, tick: int, before: Snapshot) -> None:
        """Find the undeclared writes of a tick, and restore the state after the unguarded step."""
        changed: list[tuple[str, str]] = []
        failure = self._again(tick, before, GuardOptions(lock=_nothing, on_change=_collector(changed)))
        if failure is not None:
            raise failure
        if not self._is_recorded(tick):
            self._first_bad = tick
            return
        after = self._guard.state.snapshot()
        for _ in range(_ROUNDS_MAX):
            failure = self._again(tick, before, self._everything())
            if failure is None:
                break
            self._note(self._violation(tick, before, failure))
        for phase, field in changed:  # Writes that no lock caught, or whose error the simulation caught.
            if not {field, ""} & self._reported_of(phase):
                place, function = self._line_of(tick, before, phase, field) or (None, None)
                self._note(UndeclaredWrite(tick, phase, field, place, function, _CHANGED))
        self._cursor.put(tick, after)

    def _note(self, violation: UndeclaredWrite) -> None:
        self._violations.append(violation)
        self._reported.add((violation.phase, violation.field or ""))

    def _violation(self, tick: int, before: Snapshot, failure: SimulationFailedError) -> UndeclaredWrite:
        """The undeclared write that made a step fail under guard, and not without it."""
        phase, cause = self._guard.phase, failure.__cause__
        assert cause is not None
        place, function = _place_of(cause)
        if isinstance(cause, UndeclaredWriteError):
            message = f"{cause.what} {', '.join(cause.fields)}"
            return UndeclaredWrite(tick, cause.phase, cause.fields[0], place, function, message)
        contract = self._guard.contracts[phase] or self._guard.contracts[STEP]
        assert contract is not None
        suspects = sorted(contract.locked - self._reported_of(phase))
        while len(suspects) > 1:
            half = suspects[: len(suspects) // 2]
            suspects = half if self._fails_at(tick, before, phase, half, place) else suspects[len(half) :]
        is_confirmed = self._fails_at(tick, before, phase, suspects, place)
        return UndeclaredWrite(
            tick, phase, suspects[0] if is_confirmed else None, place, function, " ".join(str(cause).split())
        )

    def _fails_at(self, tick: int, before: Snapshot, phase: str, fields: list[str], place: str | None) -> bool:
        """Return True if the step fails at a line with only these fields locked, in one phase."""

        def lock(running: str, locked: frozenset[str]) -> frozenset[str]:
            return locked & set(fields) if running == phase else frozenset()

        failure = self._again(tick, before, GuardOptions(lock=lock, compare=False))
        return failure is not None and failure.__cause__ is not None and _place_of(failure.__cause__)[0] == place

    def _line_of(self, tick: int, before: Snapshot, phase: str, field: str) -> tuple[str, str] | None:
        """The line after which a field has different bytes, and its function, watched line by line."""
        lines = LineWatch(lambda: self._guard.state[field].tobytes())  # noqa: PLW0108 - read again: growth moves it
        watch = GuardOptions(
            lock=_nothing, compare=False, around=lambda name, run: lines.run(run) if name == phase else run()
        )
        self._again(tick, before, watch)
        return lines.place

    def _reported_of(self, phase: str) -> set[str]:
        """The reported fields of a phase; a table that it resized stands for its columns, which change with it."""
        reported = {field for reported_phase, field in self._reported if reported_phase == phase}
        return reported | {slot.name for slot in self._guard.state.layout.slots.values() if slot.owner in reported}

    # --- stepping

    def _everything(self) -> GuardOptions:
        """All checks, except for the fields that are reported already."""

        def lock(phase: str, locked: frozenset[str]) -> frozenset[str]:
            reported = self._reported_of(phase)
            return frozenset() if "" in reported else locked - reported

        def on_change(phase: str, fields: tuple[str, ...]) -> None:
            reported = self._reported_of(phase)
            if any(field not in reported and "" not in reported for field in fields):
                self._changed_in_bytes = True

        return GuardOptions(lock=lock, on_change=on_change)

    def _again(self, tick: int, before: Snapshot, watch: GuardOptions) -> SimulationFailedError | None:
        self._cursor.put(tick - 1, before)
        return self._advance(watch)

    def _advance(self, watch: GuardOptions) -> SimulationFailedError | None:
        """Step with the recorded inputs; return the error of the step, if any."""
        self._guard.watch, self._changed_in_bytes = watch, False
        try:
            self._cursor.advance()
        except SimulationFailedError as error:
            return error
        return None

    def _is_recorded(self, tick: int) -> bool:
        return not self._changed_in_bytes and self._guard.state.hash() == self._tape.state_hash(tick)


def _nothing(_phase: str, _fields: frozenset[str]) -> frozenset[str]:
    return frozenset()


def _collector(changed: list[tuple[str, str]]) -> Callable[[str, tuple[str, ...]], None]:
    return lambda phase, fields: changed.extend((phase, field) for field in fields)


class LineWatch:
    """Runs code line by line and finds the line after which a value differs.

    Attributes:
        place: file, line and function; None if it never changed.
    """

    def __init__(self, read: Callable[[], bytes]) -> None:
        """read: returns the value."""
        self.place: tuple[str, str] | None = None
        self._read = read
        self._before = b""
        self._last: tuple[str, str] | None = None

    def run(self, run: Callable[[], Any]) -> Any:
        """Run it. The trace function of a debugger or coverage tool is suspended meanwhile."""
        self._before = self._read()
        suspended = sys.gettrace()
        sys.settrace(self._trace)
        try:
            return run()
        finally:
            sys.settrace(suspended)
            self._compare()

    def _compare(self) -> None:
        if self.place is None and self._read() != self._before:
            self.place = self._last

    def _trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        """Called before each line, and at each call and return: a change was made by the line before."""
        if str(frame.f_globals.get("__name__", "")).startswith("replayer."):
            return None  # This module itself reads the field.
        self._compare()
        if self.place is not None:
            return None
        at: FrameType | None = frame
        if event == "return":
            at = frame.f_back  # The rest of the caller's line has yet to run.
        while at is not None and _is_kernel(at):
            at = at.f_back
        if at is not None:
            self._last = _named(at.f_code, at.f_lineno)
        return self._trace


def _place_of(error: BaseException) -> tuple[str | None, str | None]:
    """File, line and function of the simulation's own code that raised, or called what raised."""
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if not _is_kernel(frame)]
    return _named(frames[-1][0].f_code, frames[-1][1]) if frames else (None, None)


def _named(code: CodeType, line: int) -> tuple[str, str]:
    return f"{Path(code.co_filename).name}:{line}", code.co_qualname


def _is_kernel(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return any(module == name or module.startswith(f"{name}.") for name in _KERNEL)
