"""The columns of a table for people: dtype, shape, unit, and the values that the spaces of an environment allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from replayer.datasets.transitions.flat_values import joined
from replayer.datasets.transitions.transition_rows import TRANSITIONS

Rows = Iterator[tuple[str, str, str, str]]

_UNITS = {
    "run": "id of the run",
    "tick": "ticks",
    "ticks": "ticks",
    "agent": "name of the agent, empty without agents",
    "terminated": "true if the simulation ended here",
    "truncated": "true if it was cut off here",
    "reason": "why the recording ended",
    "outcome": "won, lost, drew, or empty",
    "row": "number of the entity or cell",
    "place": "number among the agent's inputs of the tick",
    "kind": "kind of the input or event",
}
_UNITS_OF_TRANSITIONS = {
    "environment": "name and arguments of the environment",
    "episode": "number on the tape",
    "step": "number in the episode",
    "tick": "ticks, of the observation",
    "env": "number in the vector",
    "seed": "of the reset that began the episode",
    "options": "of the reset, as JSON",
    "reward": "as the environment returns it",
    "terminated": "true if the episode ended here",
    "truncated": "true if the episode was cut off here",
}
_FORMS = {"boolean": "bool", "whole": "int64", "decimal": "float64", "text": "text", "json": "JSON text"}
_SPACES = {"obs": "observation", "next": "observation", "action": "action"}


def column_rows(manifest: Mapping[str, Any], table: str) -> Rows:
    """Yield name, dtype, shape, and unit or allowed values of each column. manifest: of the data set."""
    is_of_environments = table == TRANSITIONS
    units = {**_UNITS, **_UNITS_OF_TRANSITIONS} if is_of_environments else _UNITS
    allowed = _allowed(manifest) if is_of_environments else {}
    for name, column in manifest["tables"][table]["columns"].items():
        if "form" in column:
            yield name, _FORMS[column["form"]], "", units.get(name, "")
            continue
        dtype = "text" if column["dtype"] == "text" else np.dtype(column["dtype"]).name
        sizes = [*(["any length"] if column["is_list"] else []), *map(str, column["shape"])]
        yield name, dtype, " × ".join(sizes), units.get(name) or allowed.get(name) or _own(name, table)


def _own(name: str, table: str) -> str:
    """The unit of a column of the simulation's own values, which declares none."""
    prefix = name.partition(".")[0]
    if table == TRANSITIONS:
        return "as the environment returns it" if prefix != "action" else "as the environment takes it"
    return "" if prefix in _UNITS else "as the simulation has it"


def _allowed(manifest: Mapping[str, Any]) -> dict[str, str]:
    """What the spaces allow, by column; columns of which environments or agents allow different values have none."""
    found: dict[str, set[str]] = {}
    for environment in manifest.get("environments", ()):
        agents = (environment["spaces"] or {}).get("agents")
        for spaces in agents.values() if agents is not None else [environment["spaces"] or {}]:
            for prefix, kind in _SPACES.items():
                for name, text in _leaves(spaces.get(kind), prefix):
                    found.setdefault(name, set()).add(text)
    return {name: texts.pop() if len(texts) == 1 else "different by agent or tape" for name, texts in found.items()}


def _leaves(space: Any, path: str) -> Iterator[tuple[str, str]]:
    match space:
        case {"type": "Dict", "spaces": list(parts)}:
            for name, part in parts:
                yield from _leaves(part, joined(path, name))
        case {"type": "Tuple", "spaces": list(parts)}:
            for index, part in enumerate(parts):
                yield from _leaves(part, joined(path, str(index)))
        case {"type": "Box", "low": low, "high": high}:
            has_one = not isinstance(low, list) and not isinstance(high, list)
            yield path, f"Box, {low} to {high}" if has_one else "Box, with bounds for each item"
        case {"type": "Discrete", "n": int(n), "start": int(start)}:
            yield path, f"Discrete, {start} to {start + n - 1}"
        case {"type": "MultiDiscrete", "nvec": list(counts)}:
            yield path, f"MultiDiscrete, {counts} values"
        case {"type": "MultiBinary"}:
            yield path, "MultiBinary, 0 or 1"
