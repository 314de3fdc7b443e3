"""Draws from the random generators of a process that no call of the user's code shows: by a library, or by compiled code.

NetworkX draws from the generator of the module random without asking for it by name, and dropout from that of PyTorch. A step
after which such a generator has another state has drawn from it, be it by a call that is written in C.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from recorder.ambient.outside.code_parts.machine_code import is_compiled
from recorder.ambient.outside.outside_read import GENERATOR, OutsideRead
from recorder.ambient.outside.own_code import OwnCode
from recorder.ambient.roots import content_of
from recorder.processes.seeds.process_generators import (
    NUMBAS,
    NUMPYS,
    PYTHONS,
    TORCHS,
    States,
    all_states,
    is_same_state,
)
from replayer.playback.line_hooks import listening
from sim.kernel.simulation import Simulation

PLACES_MAX = 3  # Lines that draw, of each generator.
LINES_MAX = 100_000  # Of a step, after which no further one is looked at: each look takes 10 to 40 microseconds.
_NAMED = re.compile(
    r"(?<![\w.])(?:(?:np|numpy)\.)?random\.[a-z]"
)  # In compiled code: np.random.rand(), random.random().
_SHOWN = {PYTHONS: "the generator of the module random", NUMPYS: "the generator of np.random"}
_DRAWS = "use of "  # To draw, or to seed.


def drawn_from(before: States, after: States, reads: Iterable[OutsideRead]) -> list[str]:
    """The names of the generators whose state changed, but for those of which a line of the user's was seen to draw."""
    seen = {read.name.rpartition(".")[0] for read in reads if read.kind == GENERATOR}
    return [
        name for name in before if name in after and name not in seen and not is_same_state(before[name], after[name])
    ]


def is_unseen_draw(read: OutsideRead) -> bool:
    """Return True for a read that find_draws() gives."""
    return read.kind == GENERATOR and read.name.startswith(_DRAWS)


def generator_of(read: OutsideRead) -> str:
    """The name of the generator, as in all_states(), that a read of the kind GENERATOR draws from."""
    if not is_unseen_draw(read):
        return read.name.rpartition(".")[0]
    told = read.name.removeprefix(_DRAWS)
    return next((name for name in (PYTHONS, NUMPYS, *NUMBAS, TORCHS) if told.startswith(_SHOWN.get(name, name))), "")


def shown_generator(name: str) -> str:
    """A generator of the process for people."""
    return _SHOWN.get(name, name)


def find_draws(simulation: Simulation, inputs: Any, names: Sequence[str]) -> dict[str, Any]:
    """Run the step, and note the lines of the user's code at which these generators change: "reads", as plain data.

    It changes the simulation: only in a copy.
    """
    is_own = OwnCode(simulation)
    finder = _Finder(names, is_own)
    try:
        with listening(finder, is_own):
            simulation.step(inputs)
    except Exception:  # noqa: BLE001, S110 - the error of a step is told elsewhere; what it drew before is drawn
        pass
    compiled = _named_in_compiled_code(is_own)
    found = [(_shown(name, compiled), place) for name, places in finder.found.items() for place in places]
    return {"reads": [OutsideRead(GENERATOR, name, *place, None).to_plain() for name, place in found]}


def _shown(name: str, compiled: Sequence[str]) -> str:
    where = f" (named in compiled code at {', '.join(compiled)})" if name in NUMBAS and compiled else ""
    return f"{_DRAWS}{_SHOWN.get(name, name)}{where}"


class _Finder:
    """Notes after which lines generators have another state.

    Attributes:
        found: the files and lines, by the name of the generator.
    """

    def __init__(self, names: Sequence[str], is_own: Callable[[str], bool]) -> None:
        self.found: dict[str, dict[tuple[str, int], None]] = {name: {} for name in names}
        self._is_own = is_own
        self._last = all_states()
        self._at: tuple[str, int] | None = None
        self._left = LINES_MAX

    def line(self, frame: Any) -> None:
        self._look()
        self._at = frame.f_code.co_filename, frame.f_lineno

    def returned(self, frame: Any, _: Any) -> None:
        self._look()
        caller = frame.f_back
        while caller is not None and not self._is_own(caller.f_code.co_filename):
            caller = caller.f_back
        self._at = None if caller is None else (caller.f_code.co_filename, caller.f_lineno)

    def ended_early(self) -> None:
        pass

    def _look(self) -> None:
        self._left -= 1
        if self._left < 0 or all(len(places) >= PLACES_MAX for places in self.found.values()):
            return
        states = all_states(self.found)
        for name, places in self.found.items():
            is_drawn = name in states and name in self._last and not is_same_state(self._last[name], states[name])
            if is_drawn and self._at is not None and len(places) < PLACES_MAX:
                places[self._at] = None
        self._last = states


def _named_in_compiled_code(is_own: Callable[[str], bool]) -> list[str]:
    """The lines of functions that numba compiles which name a generator of its, as file.py:12; the first PLACES_MAX."""
    if "numba" not in sys.modules:
        return []
    found = dict[str, None]()
    for module in list(sys.modules.values()):
        content = content_of(module) or {}
        if not is_own(str(content.get("__file__") or "")):
            continue
        for value in list(content.values()):
            found |= dict.fromkeys(_lines_of(value.py_func)) if is_compiled(value) else {}
    return list(found)[:PLACES_MAX]


def _lines_of(function: Any) -> Iterable[str]:
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return
    file = function.__code__.co_filename.rpartition("/")[2]
    for number, text in enumerate(lines, first):
        if _NAMED.search(text.partition("#")[0]):
            yield f"{file}:{number}"
