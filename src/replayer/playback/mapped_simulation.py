"""A simulation of newer code that has the state of an older tape: fields renamed, reordered or added since.

Its state has the recorded layout. Before a step the fields of the tape are those of the newer simulation, after it they
are taken from there; so the recorded hashes are those of the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from recorder.location.tape_location import Location, tape_location
from replayer.playback.field_map import NEW, FieldMap, FieldMapError, read_field_map
from replayer.playback.mapped_objects import mapped_object
from replayer.tape.tape import Tape
from sim.kernel.hooks import HasAdapter, hook
from sim.kernel.registry import find_world
from sim.kernel.schema import Blob, Layout, Slot
from sim.kernel.simulation import Simulation, as_simulation, inner_of, restore
from sim.kernel.state import Snapshot, State

Factory = Callable[[], Any]


class MappedSimulation:
    """The newer simulation, seen through the fields of the tape.

    Attributes:
        state: in the recorded layout.
        inner: the newer simulation.
    """

    def __init__(self, inner: Simulation, recorded: Layout, field_map: FieldMap) -> None:
        """recorded: a layout of the tape. Raises FieldMapError if the map does not fit to the two."""
        self.inner = inner
        self.state = State(recorded.schema)
        self._new = inner.state.snapshot()
        self._added = {
            name: _added_value(name, value, inner.state, field_map.path) for name, value in field_map.added.items()
        }
        self._names = field_map.names(recorded, inner.state.layout)
        for name, present in self._names.items():
            _ensure_fits(recorded.slots[name], inner.state.layout.slots[present], field_map.path)
        blobs = {entry.name for entry in recorded.schema.entries if isinstance(entry, Blob)}
        self._blobs = {name: present for name, present in self._names.items() if name in blobs}
        self._fields = {name: present for name, present in self._names.items() if name not in blobs}
        self._tables = _tables(self._fields, recorded, inner.state.layout)
        self._take()

    def step(self, inputs: Any) -> None:
        """A step of the newer simulation."""
        self.inner.step(inputs)
        self._take()

    def after_restore(self) -> None:
        """Put the state of a keyframe into the newer simulation."""
        state = self.inner.state
        state.restore(self._new)  # Fields that the tape does not have are as in a new simulation.
        for table, present in self._tables.items():
            _set_rows(state, present, self.state.count(table))
        for name, present in self._fields.items():
            state[present][...] = self.state[name]
        for name, present in self._blobs.items():
            state.set_blob(present, self.state.blob(name))
        for present, value in self._added.items():
            if value != NEW:
                state[present][...] = value
        restore(self.inner, state.snapshot())

    def _take(self) -> None:
        """Make the state that of the newer simulation."""
        state = self.inner.state
        for table, present in self._tables.items():
            if (
                self.state.layout.schema.initial_capacities()[table]
                == state.layout.schema.initial_capacities()[present]
            ):
                _set_rows(self.state, table, state.layout.capacities[present])  # It may have been full during the step.
            _set_rows(self.state, table, state.count(present))
        for name, present in self._fields.items():
            with np.errstate(all="ignore"):
                self.state[name][...] = state[present].astype(self.state.layout.slots[name].dtype)
        for name, present in self._blobs.items():
            self.state.set_blob(name, state.blob(present))


def _added_value(name: str, value: Any, state: State, path: str) -> Any:
    """The value of [added] as its field holds it. Raises FieldMapError if the field cannot hold it."""
    if value == NEW or name not in state.layout.slots:
        return value
    dtype = state.layout.slots[name].dtype
    try:
        with np.errstate(all="raise"):
            held = np.array(value).astype(dtype)
        fits = bool(np.array_equal(held, value, equal_nan=held.dtype.kind in "fc"))
    except (OverflowError, ValueError, TypeError, FloatingPointError):
        fits = False
    if not fits:
        raise FieldMapError(f"{path}: [added] {name}: a field of {dtype} cannot hold {value!r}")
    return held


def _set_rows(state: State, table: str, count: int) -> None:
    now = state.count(table)
    if now < count:
        state.add_rows(table, count - now)
    else:
        state.truncate_rows(table, count)


def _tables(fields: dict[str, str], recorded: Layout, present: Layout) -> dict[str, str]:
    """The tables of the code by those of the tape."""
    tables = {}
    for name, field in fields.items():
        owner, theirs = recorded.slots[name].owner, present.slots[field].owner
        if owner is not None and theirs is not None:
            tables[owner] = theirs
    return tables


def _ensure_fits(recorded: Slot, present: Slot, path: str) -> None:
    """Raise FieldMapError for two fields that cannot hold each other's values."""
    same_tail = recorded.shape[1:] == present.shape[1:] if recorded.owner else recorded.shape == present.shape
    if (recorded.owner is None) is not (present.owner is None) or not same_tail:
        raise FieldMapError(
            f"{path}: {recorded.name} has shape {recorded.shape} on the tape, {present.name} has {present.shape} in the "
            "simulation"
        )


@attrs.frozen
class MappedFactory:
    """Makes mapped simulations for one tape; it can be sent to other processes.

    Attributes:
        tape: the location of the tape.
        factory: makes the newer simulation; None for a registered world.
        field_map: the map.
    """

    tape: Location
    factory: Factory | None
    field_map: FieldMap

    def __call__(self) -> Any:
        """Make one, or an object under the names of the tape. Raises FieldMapError if the map does not fit."""
        with Tape(self.tape) as tape:
            recorded, meta = _first_state(tape).layout, tape.meta
        if meta.get("adapter") or meta.get("scenario"):
            if self.factory is None:
                raise FieldMapError("say which object to use: the tape names no registered world")
            return mapped_object(self.factory(), {} if meta.get("scenario") else meta, self.field_map)
        made = self.factory() if self.factory is not None else _registered(meta)
        inner = as_simulation(made)
        if hook(inner_of(inner), HasAdapter) is not None:
            raise FieldMapError(
                f"{self.field_map.path}: the simulation is an adapted object, which has no fields to map"
            )
        return MappedSimulation(inner, recorded, self.field_map)


def _first_state(tape: Tape) -> Snapshot:
    place = tape.keyframe_after(0)
    if place is None:
        raise FieldMapError(f"{tape.path}: no keyframe can be read")
    return tape.snapshot(place)


def _registered(meta: dict[str, Any]) -> Any:
    match meta.get("world"):
        case {"name": str(name), "config": dict(config)}:
            return find_world(name).make(config)
    raise FieldMapError("the tape names no registered world: say which simulation to use")


def with_field_map(
    factory: Factory | None, field_map: str | os.PathLike[str], tape: str | os.PathLike[str]
) -> MappedFactory:
    """A factory for ``replayer.open`` and ``verify_tape`` of a tape whose fields are called otherwise in the code now.

    factory: makes the newer simulation; None for a registered world. field_map: a TOML file, see docs/test-with-tapes.md.
    Raises FieldMapError for a file that is not a field map, or does not fit; OSError; and as the factory does.
    """
    made = MappedFactory(tape_location(tape), factory, read_field_map(field_map))
    made()
    return made
