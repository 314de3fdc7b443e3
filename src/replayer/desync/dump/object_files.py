"""Write states of captured objects as JSON, by the paths of their values, without the columns that hold them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from replayer.desync.object_diff import MALFORMED, note_malformed, objects_in
from replayer.tape.npz import write_state
from replayer.value_text import describe_field, to_json
from sim.kernel.schema import COUNTS_FIELD
from sim.kernel.state import Snapshot

ELEMENTS_MAX = 10_000  # Of an array. A larger one is described, and can be read from the dump's tapes.


def write_readable_state(folder: Path, name: str, state: Snapshot) -> str:
    """Write a state as NAME.json if it holds captured objects, else as NAME.npz; return the name of the file."""
    values = object_values(state)
    if values is None:
        write_state(folder / f"{name}.npz", state)
        return f"{name}.npz"
    content = json.dumps(values, indent=1, default=str)
    (folder / f"{name}.json").write_text(content + "\n", encoding="utf-8")
    return f"{name}.json"


def object_values(state: Snapshot) -> dict[str, Any] | None:
    """The attributes of the captured objects in a state, and its other fields, as plain data; None without objects."""
    tree = objects_in(state)
    if tree is None:
        return None
    try:
        values = {entry.step: _without_large(tree.plain(entry.step, entry.value)) for entry in tree.entries}
    except MALFORMED as error:
        note_malformed(error)
        return None
    others = {name: state[name] for name in state if name not in tree.fields and name != COUNTS_FIELD}
    described = {name: describe_field(state, name) for name, array in others.items() if array.size > ELEMENTS_MAX}
    values |= {name: described.get(name, array) for name, array in others.items()}
    return {name: to_json(value) for name, value in values.items()}


def _without_large(value: Any) -> Any:
    """The value with large arrays described."""
    if isinstance(value, np.ndarray) and value.size > ELEMENTS_MAX:
        return f"array of {' × '.join(map(str, value.shape))} {value.dtype.name}"
    if isinstance(value, dict):
        return {key: _without_large(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_large(inner) for inner in value]
    return value
