"""Say what a simulation is: a state and one step; or save, load and a step, which get a state of their own here.

Everything that advances a simulation (recording, seeking, verifying) goes through ``as_simulation`` and the one
``step``; there is no second implementation for replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeGuard, runtime_checkable

import attrs
import numpy as np

from sim.kernel.hooks import AfterRestore, CanEnd, EmitsEvents, EventsOnRequest, HasOrigin, HasPhases, Phase, hook
from sim.kernel.schema import Blob, Field, Schema
from sim.kernel.state import Snapshot, State

BESIDE = "scenario."  # Fields whose names begin so are a scenario's, which lie in the state beside a simulation's own.
SAVED_BYTES_FIELD = "saved"  # The one field of a simulation whose save() returns plain bytes.

Saved = bytes | Mapping[str, "np.ndarray[Any, Any] | np.generic | bytes"]


@runtime_checkable
class Simulation(Protocol):
    """A simulation whose whole state lies in ``state``.

    ``step`` takes the state from tick t - 1 to tick t; it reads and writes ``state`` and nothing else that lasts.
    It may have further members, which add to what can be done with it: see hooks.py.
    """

    state: State

    def step(self, inputs: Any) -> None:
        """Advance by one tick. inputs: plain data, as recorded."""


@runtime_checkable
class SavedSimulation(Protocol):
    """A simulation that keeps its state elsewhere and can save and load it whole.

    ``load(save())`` must restore everything that the next step reads, on a fresh instance and on a used one.
    """

    def save(self) -> Saved:
        """The whole state: bytes, or arrays and bytes by name."""

    def load(self, saved: Saved) -> None:
        """Become the state that save() returned."""

    def step(self, inputs: Any) -> None:
        """Advance by one tick."""


def run_phases(phases: Sequence[Phase], inputs: Any) -> None:
    """Run the phases of one step in their order: the whole body of ``step`` in a world with phases."""
    for phase in phases:
        phase.run(inputs)


@contextmanager
def watched_phases(simulation: Any, after: Callable[[str], None]) -> Iterator[None]:
    """While it lasts, each phase of the simulation's step that has run is told, by its name.

    Raises TypeError if the simulation has no phases, or they cannot be replaced.
    """
    found = hook(simulation, HasPhases)
    phases: Any = found.phases if found is not None else None  # Any: it is the user's, and checked here.
    if not phases or not all(isinstance(phase, Phase) for phase in phases):
        raise TypeError(f"{type(simulation).__name__} has no phases")

    def watched(phase: Phase) -> Phase:
        def run(inputs: Any) -> None:
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
    """Makes a save/load simulation look like one with an arena, by copying what it saves after each step."""

    marks_writes = False
    state: State

    def __init__(self, inner: SavedSimulation) -> None:
        """Raises TypeError or ValueError if save() returns something else than the protocol says."""
        self.inner = inner
        saved = inner.save()
        self._returns_bytes = isinstance(saved, bytes)
        self._kind: tuple[Any, ...] = ()
        self._pack(_as_mapping(saved))

    @property
    def origin(self) -> Any:
        """Where inner says that it comes from, if it does."""
        found = hook(self.inner, HasOrigin)
        return found.origin if found is not None else None

    def step(self, inputs: Any) -> Any:
        """Step the inner simulation, copy its saved state into the arena, and return what its step returned."""
        result = self.inner.step(inputs)  # type: ignore[func-returns-value]
        self._pack(_as_mapping(self.inner.save()))
        return result

    def after_restore(self) -> None:
        """Load the arena's content into the inner simulation."""
        state = self.state
        blobs = {entry.name for entry in state.layout.schema.entries if isinstance(entry, Blob)}
        self._kind = ()  # The layout may be another one now; the next step compares anew.
        saved: dict[str, Any] = {
            name: state.blob(name) if name in blobs else state[name].copy()
            for name in state
            if not name.startswith(BESIDE)
        }
        self.inner.load(saved[SAVED_BYTES_FIELD] if self._returns_bytes else saved)

    def _pack(self, saved: Mapping[str, Any]) -> None:
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

    def _lay_out(self, schema: Schema) -> None:
        if not hasattr(self, "state"):
            self.state = State(schema)
            return
        foreign = [entry for entry in self.state.layout.schema.entries if entry.name.startswith(BESIDE)]
        kept = {entry.name: self.state[entry.name].copy() for entry in foreign}
        self.state.replace_schema(Schema(*schema.entries, *foreign))
        for entry in foreign:
            if isinstance(entry, Blob):
                self.state.set_blob(entry.name, kept[entry.name].tobytes())
            else:
                self.state[entry.name][...] = kept[entry.name]


def inner_of(simulation: Simulation) -> Any:
    """The user's own object."""
    return simulation.inner if isinstance(simulation, ArenaOfSaved) else simulation


def events_of(simulation: Simulation) -> Callable[[], Any] | None:
    """The simulation's own events(); None if it has none."""
    found = hook(inner_of(simulation), EmitsEvents)
    return found.events if found is not None else None


def end_of(simulation: Any) -> tuple[str, str] | None:
    """Why the run is over as of the present tick: a short name and a sentence; None if it is not, or nobody can say."""
    found = hook(simulation, CanEnd)
    return found.ended() if found is not None else None


def tells_unasked(simulation: Simulation) -> bool:
    """Whether the simulation tells its events without being told that they are wanted."""
    on_request = hook(inner_of(simulation), EventsOnRequest)
    return events_of(simulation) is not None and (on_request is None or on_request.events_wanted is not False)


def ask_for_events(simulation: Simulation) -> Callable[[], Any] | None:
    """The simulation's own events(), which from the next step on is going to be asked; None if it has none."""
    found, on_request = events_of(simulation), hook(inner_of(simulation), EventsOnRequest)
    if found is not None and on_request is not None:
        on_request.events_wanted = True
    return found


def _as_mapping(saved: Any) -> Mapping[str, Any]:
    if isinstance(saved, bytes):
        return {SAVED_BYTES_FIELD: saved}
    if not isinstance(saved, Mapping) or not saved:
        raise TypeError(f"save() returned {type(saved).__name__}: bytes, or a mapping of arrays and bytes was expected")
    return saved


def _schema_of(saved: Mapping[str, Any]) -> Schema:
    entries: list[Field | Blob] = []
    for name, value in saved.items():
        if name.startswith(BESIDE):
            raise ValueError(f"save()[{name!r}]: names that begin with {BESIDE} are kept for scenarios")
        if isinstance(value, bytes):
            entries.append(Blob(name))
        elif isinstance(value, np.ndarray | np.generic):
            entries.append(Field(name, value.dtype, value.shape))
        else:
            raise TypeError(
                f"save()[{name!r}] is {type(value).__name__}: a NumPy array, a NumPy number or bytes was expected"
            )
    return Schema(*entries)


def as_simulation(candidate: object) -> Simulation:
    """The candidate itself if it has a State, or an arena around it if it has save and load.

    Raises TypeError, naming what is missing, if it is neither.
    """
    if _has_state(candidate):
        return candidate
    if isinstance(candidate, SavedSimulation):
        return ArenaOfSaved(candidate)
    if isinstance(candidate, type):
        raise TypeError(f"{candidate.__name__} is a class: an instance was expected, such as {candidate.__name__}()")
    raise TypeError(
        f"{type(candidate).__name__} is no simulation: it needs .state (a sim.State) and .step(inputs), "
        "or .save(), .load(saved) and .step(inputs)"
    )


def _has_state(candidate: object) -> TypeGuard[Simulation]:
    return isinstance(getattr(candidate, "state", None), State) and callable(getattr(candidate, "step", None))


def restore(simulation: Simulation, snapshot: Snapshot) -> None:
    """Put the simulation into the state of snapshot, wherever it keeps that state."""
    simulation.state.restore(snapshot)
    after = hook(simulation, AfterRestore)
    if after is not None:
        after.after_restore()
