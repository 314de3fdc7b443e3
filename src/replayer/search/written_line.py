"""Find the source line that changes a value: run one step in a copy of this process, and compare after each line."""

from __future__ import annotations

import linecache
from functools import partial
from types import FrameType
from typing import Any

import attrs

from recorder.ambient.outside.own_code import OwnCode
from recorder.exception_text import raised_text
from recorder.processes.fork_call import in_a_copy
from replayer.playback.line_hooks import listening
from replayer.search.live_value import layers_of, live_value, ways_to
from replayer.search.watched_value import ABSENT, AskedValue, are_same
from sim.kernel.simulation import ArenaOfSaved, Simulation, inner_of, subject_of

NOT_SEEN = "no line of the simulation's Python code was running when the value changed"
OF_SAVE = "the value is one that save() returned after the step"
UNREAD = "the value cannot be read while the step runs"
UNLIKE = "the value cannot be compared while the step runs"


@attrs.frozen
class WrittenLine:
    """The line during which a value changed last in a step.

    Attributes:
        path, number: the file and the line, counted from 1.
        function: the function that it is in.
        text: the line, without surrounding whitespace; empty if the file cannot be read.
        count: the number of times the value changed in that step.
    """

    path: str
    number: int
    function: str
    text: str
    count: int


def find_line(
    simulation: Simulation, inputs: Any, tick: int, watched: AskedValue, before: Any, after: Any
) -> tuple[WrittenLine | None, str | None]:
    """Run the step in a copy of this process; return the line, or None and why there is none.

    simulation: in the state before the step; it is not changed. before, after: the value before and after the step, as
    it was found.
    """
    try:
        found = in_a_copy(partial(_watched_step, simulation, inputs, tick, watched, before, after))
    except RuntimeError as error:
        return None, str(error)
    if found["why"] is not None:
        return None, found["why"]
    path, number = found["path"], found["number"]
    text = linecache.getline(path, number).strip()
    return WrittenLine(path, number, found["function"], text, found["count"]), None


def _watched_step(
    simulation: Simulation, inputs: Any, tick: int, watched: AskedValue, before: Any, after: Any
) -> dict[str, Any]:
    if isinstance(simulation, ArenaOfSaved):
        return {"why": OF_SAVE}
    read = _reader(simulation, tick, watched)
    if read is None:
        return {"why": UNREAD}
    watch = _LineWatch(read, OwnCode(simulation, layers_of(subject_of(simulation))))
    if not are_same(watch.value, before):
        return {"why": UNLIKE}
    try:
        with listening(watch, watch.is_own):
            simulation.step(inputs)
    except Exception as error:  # noqa: BLE001 - what the user's step raises is told, not raised here
        return {"why": raised_text("the step", error)}
    watch.look()
    if watch.has_ended:
        return {"why": "Python ended the trace of this step, as it does where recursion is too deep"}
    if not are_same(watch.value, after):
        return {"why": "the watched step left another value than the recorded one"}
    if watch.found is None:
        return {"why": NOT_SEEN}
    path, number, function = watch.found
    return {"why": None, "path": path, "number": number, "function": function, "count": watch.count}


class _LineWatch:
    """Compares a value between lines; what changed since the last look was changed while the line before ran."""

    def __init__(self, read: Any, is_own: OwnCode) -> None:
        self.is_own = is_own
        self.value = read()
        self.found: tuple[str, int, str] | None = None
        self.count = 0
        self.has_ended = False
        self._read = read
        self._running: tuple[str, int, str] | None = None
        self._entered: dict[int, FrameType] = {}  # Frames of the step, kept alive: no other may get their ids.

    def line(self, frame: FrameType) -> None:
        self.look()
        self._entered[id(frame)] = frame
        self._running = _place(frame)

    def returned(self, frame: FrameType, value: Any) -> None:  # noqa: ARG002 - the listener's signature
        self.look()
        caller = frame.f_back
        while caller is not None and id(caller) not in self._entered:
            caller = caller.f_back  # At last out of the step: what changes then was changed by none of its lines.
        self._running = None if caller is None else _place(caller)

    def ended_early(self) -> None:
        self.has_ended = True

    def look(self) -> None:
        """Compare the value with the last look."""
        now = self._read()
        if not are_same(self.value, now):
            self.value, self.found = now, self._running
            self.count += 1


def _place(frame: FrameType) -> tuple[str, int, str]:
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname


def _reader(simulation: Simulation, tick: int, watched: AskedValue) -> Any:
    """A function that reads the value while a step runs; None if there is none.

    The fields of objects are written when a step is over: while it runs, the objects themselves are read.
    """
    subject = subject_of(simulation)
    if subject is inner_of(simulation):
        return lambda: watched.read(tick, simulation.state)
    if watched.entity is not None:
        return None
    for root, name in ways_to(subject, watched.name):
        if live_value(root, name, watched.row) is not ABSENT or hasattr(root, str(name.steps[0].value)):
            return partial(live_value, root, name, watched.row, {})
    return None
