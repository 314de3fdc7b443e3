"""Functions and constants of the user's modules that are replaced while a run is recorded.

A program that loads its rules again, or patches one, does so. The tape's note on the code is that of the beginning, so
it cannot tell. The watch looks at keyframes and at the end; a look takes some 0.2 µs a name.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs

from recorder.ambient.outside.code_parts.code_note import CodeNote, decode_code_note
from recorder.ambient.outside.code_parts.frozen_constants import KEY as FROZEN
from recorder.ambient.outside.code_parts.frozen_constants import frozen_before
from recorder.ambient.outside.code_parts.machine_code import KEY as MACHINE_CODE
from recorder.ambient.outside.code_parts.machine_code import MachineCode
from recorder.ambient.outside.code_parts.places import Place, places_of
from recorder.ambient.outside.line_digests import operations
from recorder.ambient.outside.loaded_code import (
    DEFINITIONS_MAX,
    compare_code,
    definitions_at,
)
from recorder.ambient.outside.loaded_code import KEY as CODE
from recorder.ambient.outside.outside_note import KEY, REPLACED_MAX
from recorder.ambient.roots import functions_in
from sim.replaced_code import own_code

_STORE_GLOBAL = dis.opmap["STORE_GLOBAL"]


def watch_code(simulation: Any, meta: dict[str, Any], tick: int, earlier: Any = None) -> CodeWatch | None:
    """A watch of the code that META has a note of; None if it has none. Arguments: see CodeWatch."""
    note = meta.get(KEY, {}).get(CODE)
    return None if note is None else CodeWatch(simulation, note, tick, earlier)


class CodeWatch:
    """The code around one simulation, as it was when its session began.

    An error of a look ends the watch, and nothing is known of the ticks since: the user did not ask for any.
    """

    def __init__(self, simulation: Any, note: Any, tick: int, earlier: Any = None) -> None:
        """note: on the code, from META. tick: of the state now.

        earlier: the outcome of the session before, an empty one if it was not closed; None for the first session.
        """
        self._last, self._replaced = tick, list[list[Any]]()
        self._watched: list[_Watched] = []
        self._machine_code, self._frozen = MachineCode(()), list[list[str]]()
        self._has_failed = False
        is_known = earlier is None or (isinstance(earlier, dict) and bool(earlier))  # No other outcome holds a note.
        self._unknown_before = 0 if is_known else tick
        match earlier:
            case {"outside": {"replaced": list(replaced), "unknown_before": int(unknown)} as noted}:
                self._unknown_before, self._replaced = unknown, replaced
                self._machine_code, self._frozen = MachineCode((), noted.get(MACHINE_CODE)), noted.get(FROZEN, [])
        self._try(lambda: self._begin(simulation, decode_code_note(note) if earlier is not None else None))

    def _begin(self, simulation: Any, note: CodeNote | None) -> None:
        """note: of the first session, for another one."""
        compared = compare_code(note, simulation) if note is not None else None
        if compared is not None:  # The sessions before may have had other code.
            self._note(compared.different, self._last)
        places = list(places_of(simulation))
        self._machine_code = MachineCode(places, self._machine_code.plain())
        self._frozen = self._frozen or [list(attrs.astuple(one)) for one in frozen_before(places)]
        watched = [_Watched(place) for place in places]
        written = {name for one in watched for name in one.globals_written()}  # By steps, as they will be in a replay.
        self._watched = [one for one in watched if one.is_code and one.name not in written][:DEFINITIONS_MAX]

    def look(self, tick: int) -> None:
        """Note what was replaced since the last look, before the step to tick was over."""
        self._try(lambda: self._look(tick))

    def _look(self, tick: int) -> None:
        self._note([name for one in self._watched if (name := one.replaced_by()) is not None], tick)
        self._machine_code.look()
        self._last = tick

    def _try(self, work: Callable[[], None]) -> None:
        if self._has_failed:
            return
        try:
            work()
        except Exception:  # noqa: BLE001 - whatever a module's objects raise when they are looked at: it stops no recording
            self._has_failed = True

    def outcome(self, end: Any, tick: int) -> Any:
        """The end of a tape with what was replaced up to a tick; unchanged unless it is a mapping, and without anything to tell."""
        self.look(tick)
        if self._has_failed:
            self._unknown_before = tick
        machine_code = self._machine_code.plain()
        if not isinstance(end, dict) or not (self._replaced or self._unknown_before or machine_code or self._frozen):
            return end
        found: dict[str, Any] = {"replaced": self._replaced, "unknown_before": self._unknown_before}
        found |= {MACHINE_CODE: machine_code} if machine_code else {}
        found |= {FROZEN: self._frozen} if self._frozen else {}
        return {**end, KEY: {**end.get(KEY, {}), **found}}

    def _note(self, names: list[str], tick: int) -> None:
        room = REPLACED_MAX - len(self._replaced)
        self._replaced += [[name, self._last, tick] for name in list(dict.fromkeys(names))[:room]]


class _Watched:
    """One name in a module or a class.

    Attributes:
        is_code: functions or a constant stand there.
        name: the module, and the qualified name there.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self.name = place.module, place.name
        self._keep(place.value())

    def globals_written(self) -> Iterator[tuple[str, str]]:
        """The names of its module that its functions give values to."""
        for function, code in self._functions:
            for name in _stored_globals(code):
                yield function.__module__, name

    def replaced_by(self) -> str | None:
        """How what stands there now is shown; None if it is as before, or was seen before."""
        value = self._place.value()
        if value is self._value and all(own_code(function) is code for function, code in self._functions):
            return None
        before = self._text
        self._keep(value)
        return None if before is not None and before == self._text else self._shown()

    def _keep(self, value: Any) -> None:
        found = list(definitions_at(self._place, value))
        self._text = next((one.content for one in found if one.is_constant), None)
        own = [one.content for one in found if not one.is_value]
        functions = dict.fromkeys([*functions_in(value), *own])  # Also one of another module, imported from there.
        self._value, self._functions = value, [(function, own_code(function)) for function in functions]
        self.is_code = bool(functions) or self._text is not None

    def _shown(self) -> str:
        """The name, and where the function is that stands there now, which may be of another module."""
        if not self._functions:
            return f"{self._place.name} ({self._place.file})"
        code = own_code(self._functions[0][0])
        return f"{self._place.name} ({Path(code.co_filename).name}:{code.co_firstlineno})"


@functools.lru_cache(maxsize=4096)  # A process may begin many recordings.
def _stored_globals(code: types.CodeType) -> frozenset[str]:
    """The names of global variables that a function and those inside of it assign."""
    names = {code.co_names[argument] for operation, argument in operations(code.co_code) if operation == _STORE_GLOBAL}
    inner = (one for one in code.co_consts if isinstance(one, types.CodeType))
    return frozenset(names).union(*map(_stored_globals, inner))
