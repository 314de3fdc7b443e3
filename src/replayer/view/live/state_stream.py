"""The states of a recording for other programs: one complete state, then what each tick has changed. As MessagePack.

Data in, bytes out: no sockets, no clock. docs/view.md describes the messages and has clients.

Invariants:
    1. Changes applied to the state of the tick `before` give the state of their tick, bit for bit.
    2. Changes that follow each other can be merged, so a slow client skips ticks and misses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import attrs
import msgpack
import numpy as np
import numpy.typing as npt

from replayer.desync.object_diff import MALFORMED, objects_in
from replayer.export.viewers.object_values import Value, values_of
from replayer.tape.fields import shown_slots
from sim.kernel.state import Snapshot

CELLS_SHARE = 0.3  # A field of which more has changed is sent completely.
VALUES_MAX = 20_000  # Of recorded objects, in one state.

Array = npt.NDArray[Any]
Cells = tuple[npt.NDArray[np.int64], Array]  # Positions in the field in C order, ascending, and their new values.


@attrs.frozen
class StreamedState:
    """The complete state of a tick: its fields by name, and of recorded objects the values by path."""

    tick: int
    state_hash: int
    fields: Mapping[str, Array]
    values: Mapping[str, Value] = attrs.field(factory=dict)


@attrs.frozen
class StreamedChange:
    """What has changed from one tick to a later one.

    Attributes:
        before: the tick of the state that is changed.
        fields: those that are new, have another shape, or have changed in most places.
        cells: of the other fields, the values that have changed.
        gone: names of fields that the later state does not have. The earlier one may lack some of them, too.
        values: of recorded objects, those that are new or have changed, by path.
        gone_values: paths that the later state does not have; as with gone.
    """

    tick: int
    before: int
    state_hash: int
    fields: Mapping[str, Array]
    cells: Mapping[str, Cells]
    gone: tuple[str, ...] = ()
    values: Mapping[str, Value] = attrs.field(factory=dict)
    gone_values: tuple[str, ...] = ()


def streamed_state(tick: int, snapshot: Snapshot) -> StreamedState:
    """The state as a program gets it: the fields that `replay seek` shows, of a table the rows in use, and values by path."""
    fields = {slot.name: np.array(snapshot[slot.name]) for slot in shown_slots(snapshot.layout)}
    return StreamedState(tick, snapshot.hash(), fields, _object_values(snapshot, fields))


def _object_values(snapshot: Snapshot, fields: Mapping[str, Array]) -> dict[str, Value]:
    """The values of recorded objects by path, the outermost first. An array that is a field, too, is sent as such alone."""
    tree = objects_in(snapshot)
    if tree is None:
        return {}
    own = {name.rpartition(".")[2]: array for name, array in fields.items()}
    try:
        found = dict(islice(values_of(tree, []), VALUES_MAX))
    except MALFORMED:
        return {}
    return {path: value for path, value in found.items() if not _is_field(value, own.get(path))}


def _is_field(value: Value, field: Array | None) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0 and field is not None and _same_values(value, field)


def change_between(before: StreamedState, after: StreamedState) -> StreamedChange:
    """What has changed from one state to another."""
    fields: dict[str, Array] = {}
    cells: dict[str, Cells] = {}
    for name, array in after.fields.items():
        old = before.fields.get(name)
        if old is None or old.shape != array.shape or old.dtype != array.dtype:
            fields[name] = array
            continue
        places = np.flatnonzero(_bytes_differ(old, array))
        if len(places) > CELLS_SHARE * array.size:
            fields[name] = array
        elif len(places):
            cells[name] = places, array.reshape(-1)[places]
    gone = tuple(name for name in before.fields if name not in after.fields)
    values = {path: value for path, value in after.values.items() if not _same_values(before.values.get(path), value)}
    gone_values = tuple(path for path in before.values if path not in after.values)
    return StreamedChange(after.tick, before.tick, after.state_hash, fields, cells, gone, values, gone_values)


def _same_values(one: Value | None, other: Value) -> bool:
    """Return True for two texts, or two arrays, of the same type and content: NaN equals itself."""
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return isinstance(one, str) and isinstance(other, str) and one == other
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def _bytes_differ(one: Array, other: Array) -> npt.NDArray[np.bool_]:
    """The values with different bytes: NaN equals itself, and 0.0 is not -0.0, as for the hash."""
    shape = one.size, one.dtype.itemsize
    words = [np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(shape) for array in (one, other)]
    differ: npt.NDArray[np.bool_] = (words[0] != words[1]).any(axis=1)
    return differ


def merged_changes(first: StreamedChange, second: StreamedChange) -> StreamedChange:
    """Both changes as one. The second begins where the first one ends."""
    assert first.tick == second.before
    fields = {name: array for name, array in first.fields.items() if name not in second.gone} | dict(second.fields)
    cells = {name: found for name, found in first.cells.items() if name not in second.gone and name not in fields}
    for name, (places, values) in second.cells.items():
        if name in fields:
            fields[name] = fields[name].copy()
            fields[name].reshape(-1)[places] = values
        elif name in cells:
            all_places, all_values = np.concatenate([places, cells[name][0]]), np.concatenate([values, cells[name][1]])
            unique, kept = np.unique(all_places, return_index=True)  # The first of equal places is the newer one.
            cells[name] = unique, all_values[kept]
        else:
            cells[name] = places, values
    gone = tuple(dict.fromkeys([*(name for name in first.gone if name not in second.fields), *second.gone]))
    lost = set(second.gone_values)
    objects = {path: value for path, value in first.values.items() if path not in lost} | dict(second.values)
    gone_values = [*(path for path in first.gone_values if path not in second.values), *second.gone_values]
    ticks = second.tick, first.before, second.state_hash
    return StreamedChange(*ticks, fields, cells, gone, objects, tuple(dict.fromkeys(gone_values)))


def encode_state(state: StreamedState) -> bytes:
    """The message of a complete state."""
    fields = {name: _plain(array) for name, array in state.fields.items()}
    head = {"kind": "state", "tick": state.tick, "hash": f"{state.state_hash:016x}"}
    return _packed({**head, "fields": fields, "values": _plain_values(state.values)})


def encode_change(change: StreamedChange) -> bytes:
    """The message of a change."""
    message = {
        "kind": "change",
        "tick": change.tick,
        "before": change.before,
        "hash": f"{change.state_hash:016x}",
        "fields": {name: _plain(array) for name, array in change.fields.items()},
        "cells": {
            name: {"at": places.astype("<u4").tobytes(), "data": _bytes(values)}
            for name, (places, values) in change.cells.items()
        },
        "gone": list(change.gone),
        "values": _plain_values(change.values),
        "gone_values": list(change.gone_values),
    }
    return _packed(message)


def encode_end(tick: int, why: str) -> bytes:
    """The last message: the recording has ended, or stopped. tick: its last one."""
    return _packed({"kind": "end", "tick": tick, "why": why})


def _plain(array: Array) -> dict[str, Any]:
    return {"dtype": array.dtype.newbyteorder("<").str, "shape": list(array.shape), "data": _bytes(array)}


def _plain_values(values: Mapping[str, Value]) -> dict[str, Any]:
    """Values of objects as MessagePack has them: numbers, lists of numbers, texts."""
    return {path: _plain_value(value) for path, value in values.items()}


def _plain_value(value: Value) -> Any:
    if isinstance(value, str):
        return value
    return value.tolist() if value.dtype.kind in "biuf" else str(value)  # MessagePack has no complex numbers.


def _bytes(array: Array) -> bytes:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


def _packed(message: Mapping[str, Any]) -> bytes:
    encoded: bytes = msgpack.packb(message)
    return encoded
