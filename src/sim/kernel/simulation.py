"""The two forms of a simulation: a state and a step, or save, load and a step, around which this module puts a state.

Everything that advances a simulation (recording, seeking, verifying) goes through ``as_simulation`` and the one
``step``; there is no second implementation for replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeGuard, runtime_checkable

import attrs
import numpy as np

from sim.kernel.foreign_arrays import (
    array_kind_from_plain,
    has_array_interface,
    is_foreign_array,
    kind_of,
    like,
    to_numpy,
)
from sim.kernel.hooks import (
    AfterRestore,
    CanEnd,
    CanRecapture,
    EmitsEvents,
    EventsOnRequest,
    HasAdapter,
    HasOrigin,
    HasPhases,
    Phase,
    hook,
)
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.schema import Blob, Field, Schema
from sim.kernel.state import Snapshot, State

SCENARIO_PREFIX = "scenario."  # Fields with this prefix belong to a scenario; they share the state with the simulation.
SAVED_BYTES_FIELD = "saved"  # The one field of a simulation whose save() returns plain bytes.

KINDS_OF_ARRAYS_FIELD = "array_kinds"  # The kinds of the arrays of other libraries than NumPy, if save() returned any.

Saved = bytes | Mapping[str, "np.ndarray[Any, Any] | np.generic | bytes | Any"]  # Any: an array of another library.


@runtime_checkable
class Simulation(Protocol):
    """A simulation whose whole state lies in ``state``.

    ``step`` takes the state from tick t - 1 to tick t; it reads and writes ``state`` and nothing else that lasts.
    Optional members add features: see hooks.py.

    Attributes:
        state: all that a later step may read, apart from its inputs.
    """

    state: State

    def step(self, inputs: Any) -> None:
        """Advance by one tick. inputs: plain data, as recorded."""


@runtime_checkable
class SavedSimulation(Protocol):
    """A simulation that keeps its state elsewhere and can save and load the complete state.

    ``load(save())`` must restore everything that the next step reads, on a fresh instance and on a used one.
    """

    def save(self) -> Saved:
        """The complete state: bytes, or arrays and bytes by name; load gets arrays of the same libraries back."""

    def load(self, saved: Saved) -> None:
        """Enter the state that save() returned."""

    def step(self, inputs: Any) -> None:
        """Advance by one tick."""


def run_phases(phases: Sequence[Phase], inputs: Any) -> None:
    """Run the phases of one step in order: the complete body of ``step`` in a world with phases.

    inputs: of the tick, given to each phase. Raises what a phase raises; the phases after it have not run.
    """
    for phase in phases:
        phase.run(inputs)


@contextmanager
def watched_phases(
    simulation: Any, after: Callable[[str], None], before: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Call ``after`` with the name of each phase that has run, for as long as the context lasts.

    before: called with the name of each phase that is about to run. A step may write between its phases, too.

    Raises TypeError if the simulation has no phases, or they cannot be replaced.
    """
    has_phases = hook(simulation, HasPhases)
    phases: Any = has_phases.phases if has_phases is not None else None  # Any: the user's own, checked here.
    if not phases or not all(isinstance(phase, Phase) for phase in phases):
        raise TypeError(f"{type(simulation).__name__} has no phases: expected .phases, a sequence of sim.Phase")

    def watched(phase: Phase) -> Phase:
        def run(inputs: Any) -> None:
            if before is not None:
                before(phase.name)
            phase.run(inputs)
            after(phase.name)

        return attrs.evolve(phase, run=run)

    try:
        simulation.phases = type(phases)(map(watched, phases))
    except AttributeError as error:
        raise TypeError(f"the phases of {type(simulation).__name__} cannot be watched: {error}") from None
    try:
        yield
    finally:
        simulation.phases = phases


class ArenaOfSaved:
    """A save/load simulation with an arena: the saved state is copied into it after each step."""

    marks_writes = False
    state: State

    def __init__(self, inner: SavedSimulation) -> None:
        """Raises TypeError or ValueError if save() does not return what the protocol specifies."""
        self.inner = inner
        saved = inner.save()
        self._returns_bytes = isinstance(saved, bytes)
        self._kind: tuple[Any, ...] = ()
        self._foreign: dict[str, Any] = {}  # The last arrays of other libraries, by name.
        self._pack(_as_mapping(saved))

    @property
    def origin(self) -> Any:
        """The origin of the inner simulation, if it has one."""
        has_origin = hook(self.inner, HasOrigin)
        return has_origin.origin if has_origin is not None else None

    def step(self, inputs: Any) -> Any:
        """Step the inner simulation, copy its saved state into the arena, and return what its step returned."""
        result = self.inner.step(inputs)  # type: ignore[func-returns-value]
        self._pack(_as_mapping(self.inner.save()))
        return result

    def capture(self) -> None:
        """Copy what save() returns now into the arena: the inner simulation was changed by other code than its step."""
        self._pack(_as_mapping(self.inner.save()))

    def changed_field(self) -> str | None:
        """The name of the first field in which save() differs from the arena; None if it is equal."""
        saved = _as_mapping(self.inner.save())
        others = {name: one for name, one in saved.items() if not isinstance(one, bytes | np.ndarray | np.generic)}
        for name, value in (self._as_numpy(saved, others) if others else saved).items():
            if name not in self.state.layout.slots:
                return name
            if isinstance(value, bytes):
                is_equal = self.state.blob(name) == value
            else:
                kept = self.state[name]
                is_equal = (kept.dtype, kept.shape) == (value.dtype, value.shape) and kept.tobytes() == value.tobytes()
            if not is_equal:
                return name
        return None

    def after_restore(self) -> None:
        """Load the arena's content into the inner simulation."""
        state = self.state
        blobs = {entry.name for entry in state.layout.schema.entries if isinstance(entry, Blob)}
        self._kind = ()  # The layout may have changed; the next step compares it again.
        saved: dict[str, Any] = {
            name: state.blob(name) if name in blobs else state[name].copy()
            for name in state
            if not name.startswith(SCENARIO_PREFIX)
        }
        kinds = saved.pop(KINDS_OF_ARRAYS_FIELD, None)
        if isinstance(kinds, bytes):
            for name, plain in decode_plain(kinds).items():
                saved[name] = like(self._foreign.get(name), saved[name], array_kind_from_plain(plain))
        self.inner.load(saved[SAVED_BYTES_FIELD] if self._returns_bytes else saved)

    def _pack(self, saved: Mapping[str, Any]) -> None:
        others = {name: one for name, one in saved.items() if not isinstance(one, bytes | np.ndarray | np.generic)}
        if others:
            saved = self._as_numpy(saved, others)
        kind = tuple(
            (name, getattr(value, "dtype", None), getattr(value, "shape", None)) for name, value in saved.items()
        )
        if kind != self._kind:
            self._lay_out(_schema_of(saved))
            self._kind = kind
        for name, value in saved.items():
            if isinstance(value, bytes):
                self.state.set_blob(name, value)
            else:
                self.state[name][...] = value

    def _as_numpy(self, saved: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
        """What save() returned, with its arrays of other libraries as NumPy's and a description of their kinds."""
        arrays = {name: _numpy_of(name, value) for name, value in others.items()}
        self._foreign = {name: value for name, value in others.items() if is_foreign_array(value)}
        if not self._foreign:
            return {**saved, **arrays}
        if KINDS_OF_ARRAYS_FIELD in saved:
            raise ValueError(f"save()[{KINDS_OF_ARRAYS_FIELD!r}]: this name is reserved; choose a different one")
        kinds = {name: kind_of(value).to_plain() for name, value in self._foreign.items()}
        return {**saved, **arrays, KINDS_OF_ARRAYS_FIELD: encode_plain(kinds)}

    def _lay_out(self, schema: Schema) -> None:
        if not hasattr(self, "state"):
            self.state = State(schema)
            return
        scenario_entries = [
            entry for entry in self.state.layout.schema.entries if entry.name.startswith(SCENARIO_PREFIX)
        ]
        scenario_values = {entry.name: self.state[entry.name].copy() for entry in scenario_entries}
        self.state.replace_schema(Schema(*schema.entries, *scenario_entries))
        for entry in scenario_entries:
            if isinstance(entry, Blob):
                self.state.set_blob(entry.name, scenario_values[entry.name].tobytes())
            else:
                self.state[entry.name][...] = scenario_values[entry.name]


def inner_of(simulation: Simulation) -> Any:
    """The user's own object."""
    return simulation.inner if isinstance(simulation, ArenaOfSaved) else simulation


def subject_of(simulation: Simulation) -> Any:
    """The object that a simulation stands for: that of an adapter (the environment, the model), or the user's own."""
    inner = inner_of(simulation)
    return getattr(inner, "subject", inner) if hook(inner, HasAdapter) is not None else inner


def events_of(simulation: Simulation) -> Callable[[], Any] | None:
    """The simulation's own events(); None if it has none."""
    emits_events = hook(inner_of(simulation), EmitsEvents)
    return emits_events.events if emits_events is not None else None


def end_of(simulation: Any) -> tuple[str, str] | None:
    """The reason why the run is over: a short name and a sentence; None if it is not over, or this is unknown."""
    can_end = hook(simulation, CanEnd)
    return can_end.ended() if can_end is not None else None


def emits_unrequested_events(simulation: Simulation) -> bool:
    """Return True if the simulation emits events that were not requested."""
    on_request = hook(inner_of(simulation), EventsOnRequest)
    return events_of(simulation) is not None and (on_request is None or on_request.events_wanted is not False)


def request_events(simulation: Simulation) -> Callable[[], Any] | None:
    """Request events from the next step on, and return the simulation's own events(); None if it has none."""
    events, on_request = events_of(simulation), hook(inner_of(simulation), EventsOnRequest)
    if events is not None and on_request is not None:
        on_request.events_wanted = True
    return events


def _as_mapping(saved: Any) -> Mapping[str, Any]:
    if isinstance(saved, bytes):
        return {SAVED_BYTES_FIELD: saved}
    if not isinstance(saved, Mapping) or not saved:
        got = "an empty mapping" if isinstance(saved, Mapping) else type(saved).__name__
        raise TypeError(f"save(): expected bytes, or a mapping of names to arrays and bytes, got {got}")
    return saved


def _numpy_of(name: str, value: Any) -> np.ndarray[Any, Any]:
    """The bits of an array of another library. Raises TypeError, with the name, for anything else."""
    if not has_array_interface(value):
        raise TypeError(f"save()[{name!r}]: expected an array, a NumPy number or bytes, got {type(value).__name__}")
    try:
        return to_numpy(value)
    except TypeError as error:
        raise TypeError(f"save()[{name!r}]: {error}") from None


def _schema_of(saved: Mapping[str, Any]) -> Schema:
    entries: list[Field | Blob] = []
    for name, value in saved.items():
        if name.startswith(SCENARIO_PREFIX):
            raise ValueError(f"save()[{name!r}]: names that begin with {SCENARIO_PREFIX} are reserved for scenarios")
        if isinstance(value, bytes):
            entries.append(Blob(name))
        else:
            entries.append(Field(name, value.dtype, value.shape))
    return Schema(*entries)


NOTHING_MADE = "expected a simulation, got None: a function that makes one returns it (is a return missing?)"


def as_simulation(candidate: object) -> Simulation:
    """The candidate if it has a State, or an arena around it if it has save and load.

    Raises TypeError, naming the expected members, for any other object.
    """
    if _has_state(candidate):
        return candidate
    if isinstance(candidate, SavedSimulation):
        return ArenaOfSaved(candidate)
    if isinstance(candidate, type):
        raise TypeError(f"expected an instance, such as {candidate.__name__}(), got the class {candidate.__name__}")
    if candidate is None:
        raise TypeError(NOTHING_MADE)
    raise TypeError(
        f"{type(candidate).__name__} is not a simulation: expected .state (a sim.State) and .step(inputs), "
        "or .save(), .load(saved) and .step(inputs); recorder.record() records any object, and sim.adapters.adapt() makes "
        "a simulation of it"
    )


def _has_state(candidate: object) -> TypeGuard[Simulation]:
    return isinstance(getattr(candidate, "state", None), State) and callable(getattr(candidate, "step", None))


def restore(simulation: Simulation, snapshot: Snapshot) -> None:
    """Put the simulation into the state of snapshot, in either form."""
    simulation.state.restore(snapshot)
    restorable = hook(simulation, AfterRestore)
    if restorable is not None:
        restorable.after_restore()


def capture(simulation: Simulation) -> None:
    """Take the state from the objects again, after other code than the step has changed them."""
    if isinstance(simulation, ArenaOfSaved):
        simulation.capture()
    elif (recaptures := hook(simulation, CanRecapture)) is not None:
        recaptures.recapture()
