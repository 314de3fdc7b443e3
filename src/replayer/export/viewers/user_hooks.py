"""The user's own views of a simulation: its methods ``layers``, ``points`` and ``render``.

Invariants:
    1. They are called on a copy of the simulation, which is restored before each call: nothing that a method changes in
       the simulation reaches the run, whose hashes are compared, or another call.
    2. The generators of ``random`` and ``numpy.random`` are as before after each call: a step may use them.
    3. A method that raises, or returns something else, is noted with its tick; the page shows the rest.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from recorder.exception_text import raised_text
from sim.kernel.hooks import ensure_parameters
from sim.kernel.simulation import Simulation, restore, subject_of
from sim.kernel.state import Snapshot
from sim.scenario.scenario_simulation import ScenarioSimulation

METHODS = ("layers", "points", "render")
WRAPPERS_MAX = 32  # Of an environment, one in the other.
NAME_MAX = 200  # Characters of a name of a layer, or of a kind of points.
PICTURE_MODE = "rgb_array"  # The render_mode of what returns a picture; other modes open windows.

Array = npt.NDArray[Any]
HookProblems = dict[str, tuple[int, str]]


class UserHooks:
    """The methods of one tape's simulation, if it has any.

    Attributes:
        names: of the methods that it has.
        problems: of methods that could not be shown: the first tick, and the reason. Not of render() at the first tick of
            the tape: many environments draw nothing before their first reset.
        picture_problem: the reason why render() drew nothing when it was called last; None if it drew.
    """

    def __init__(self, copy: Simulation, first_tick: int) -> None:
        """copy: a simulation of the tape that nothing else moves. first_tick: of the tape."""
        self._copy = copy
        subject = shown_subject(copy)
        self._methods = {name: found for name in METHODS if (found := _method(subject, name)) is not None}
        self.names = tuple(self._methods)
        self.problems: HookProblems = {}
        self.picture_problem: str | None = None
        self._first_tick = first_tick

    def layers(self, tick: int, snapshot: Snapshot) -> dict[str, Array]:
        """The maps of a state by name, each (height, width)."""
        return self._arrays("layers", tick, snapshot, _as_map)

    def points(self, tick: int, snapshot: Snapshot) -> dict[str, Array]:
        """The places of things by kind, each (count, 2) or, with sizes, (count, 3)."""
        return self._arrays("points", tick, snapshot, _as_places)

    def picture(self, tick: int, snapshot: Snapshot) -> Array | None:
        """The simulation's picture of a state, (height, width, 3) uint8; None if it draws none there."""
        self.picture_problem = None
        drawn = self._call("render", tick, snapshot)
        if drawn is None:
            return None
        if not isinstance(drawn, np.ndarray) or drawn.dtype != np.uint8 or drawn.ndim != 3 or drawn.shape[2] != 3:
            self._note("render", tick, f"expected an array (height, width, 3) of uint8, got {_shown(drawn)}")
            return None
        return drawn.copy()

    def _arrays(self, name: str, tick: int, snapshot: Snapshot, convert: Callable[[Any], Array]) -> dict[str, Array]:
        returned = self._call(name, tick, snapshot)
        if returned is None:
            return {}
        if not isinstance(returned, Mapping):
            self._note(name, tick, f"expected a mapping of names to arrays, got {_shown(returned)}")
            return {}
        found: dict[str, Array] = {}
        for key, value in returned.items():
            if not isinstance(key, str) or len(key) > NAME_MAX:
                self._note(name, tick, f"expected names of at most {NAME_MAX} characters, got {key!r:.60}")
                continue
            try:
                found[key] = convert(value)
            except (TypeError, ValueError) as error:
                self._note(name, tick, f"{key!r:.60}: {error}")
        return found

    def _call(self, name: str, tick: int, snapshot: Snapshot) -> Any:
        """What a method returns in a state; None without the method, and if it raises."""
        method = self._methods.get(name)
        if method is None:
            return None
        generators = random.getstate(), np.random.get_state()  # noqa: NPY002 - the one that users draw from
        try:
            restore(self._copy, snapshot)
            return method()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the method is the user's
            self._note(name, tick, raised_text(f"{name}()", error))
            return None
        finally:
            random.setstate(generators[0])
            np.random.set_state(generators[1])  # noqa: NPY002 - as above

    def _note(self, name: str, tick: int, why: str) -> None:
        said = why if why.startswith(f"{name}()") else f"{name}(): {why}"
        if name == "render":
            self.picture_problem = said
            if tick == self._first_tick:
                return
        self.problems.setdefault(name, (tick, said))


def shown_subject(simulation: Simulation) -> Any:
    """The user's object, whose methods are called."""
    return subject_of(simulation.inner if isinstance(simulation, ScenarioSimulation) else simulation)


def _method(subject: Any, name: str) -> Callable[[], Any] | None:
    """A method of an object, or of one that it wraps, that can be called without arguments."""
    for one in _wrapped(subject):
        static = inspect.getattr_static(one, name, None)
        if static is None or isinstance(static, property | type) or not callable(getattr(one, name, None)):
            continue  # An attribute of that name is the object's own affair.
        if name == "render" and getattr(one, "render_mode", None) != PICTURE_MODE:
            continue
        try:
            ensure_parameters(one, name, [])
        except TypeError:
            continue
        found: Callable[[], Any] = getattr(one, name)
        return found
    return None


def _wrapped(subject: Any) -> Iterator[Any]:
    """An object, and what it wraps as environments do."""
    for _ in range(WRAPPERS_MAX):
        yield subject
        subject = inspect.getattr_static(subject, "env", None)
        if subject is None or isinstance(subject, property | type):
            return


def _as_map(value: Any) -> Array:
    array = np.array(value)
    if array.ndim != 2 or array.dtype.kind not in "biuf" or not array.size:
        raise ValueError(f"expected numbers of two dimensions, got {_shown(array)}")
    return array


def _as_places(value: Any) -> Array:
    array = np.array(value, np.float64)
    if array.size == 0:
        return np.zeros((0, 2))
    if array.ndim != 2 or array.shape[1] not in (2, 3):
        raise ValueError(f"expected (count, 2) or (count, 3) numbers, got {_shown(array)}")
    return array


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.shape} {value.dtype.name}"
    return type(value).__name__
