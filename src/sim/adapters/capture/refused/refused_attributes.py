"""All attributes that cannot be saved, each under the name by which it is left out: for the message of a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from sim.adapters.capture.graph.object_graph import ObjectGraph, graph_entries
from sim.adapters.capture.graph.reach.paths import is_of_python
from sim.adapters.capture.graph.unsavable import UnsavableError
from sim.adapters.capture.known_objects import places_left_alone
from sim.adapters.capture.survey import Structure, type_name
from sim.kernel.class_names import module_of
from sim.kernel.schema import Schema
from sim.kernel.state import State

REFUSALS_MAX = 20  # Each one costs a capture of what the others hold.


def refused_attributes(
    unknown: Mapping[str, str],
    structure: Structure,
    objects: Mapping[str, Any],
    make_graph: partial[ObjectGraph],
    known: Mapping[int, str],
) -> dict[str, str]:
    """The path, type and reason of each, by the name for ``ignore``: ``Class.attribute`` of the innermost object.

    unknown: the descriptions by the full names of the outermost attributes, which lead to at least one each. structure,
    objects: the layers. make_graph: of a state, with the names that are left out. known: see ObjectGraph.capture.
    """
    values = {full: held.get(name) for full, held, name in places_left_alone(structure, objects) if full in unknown}
    names = {address: name for address, name in known.items() if name not in unknown}

    def refusal(roots: list[Any], left_out: frozenset[str]) -> UnsavableError | None:
        ignored = make_graph.keywords["ignored"] | left_out
        return _refusal(make_graph(State(Schema(*graph_entries())), ignored=ignored), roots, names)

    found: dict[str, str] = {}
    roots, left_out = dict(values), frozenset[str]()
    while roots and len(found) < REFUSALS_MAX:
        error = refusal(list(roots.values()), left_out)
        if error is None:
            break
        index, _, inside = error.path.removeprefix("[").partition("]")
        root = list(roots)[int(index)]
        name = error.attribute or _name_of(root, objects)
        found.setdefault(name, f"{root}{inside} ({type_name(error.value)}): {error.reason} ({error.advice})")
        if error.attribute and error.attribute not in left_out:
            left_out |= {error.attribute}
        else:
            del roots[root]
    for full, text in unknown.items():  # What the survey refused, and no graph does.
        if full not in values or refusal([values[full]], frozenset()) is None:
            found.setdefault(_name_of(full, objects), text)
    return found or dict(unknown)


def _name_of(full: str, objects: Mapping[str, Any]) -> str:
    """``Class.attribute`` of the innermost object of a user's class on the way to an attribute of a layer."""
    holder, _, attribute = full.rpartition(".")
    while holder in objects and is_of_python(module_of(type(objects[holder]))) and "." in holder:
        holder, _, attribute = holder.rpartition(".")
    return f"{type(objects[holder]).__name__}.{attribute}" if "." in holder and holder in objects else full


def _refusal(graph: ObjectGraph, roots: list[Any], names: Mapping[int, str]) -> UnsavableError | None:
    try:
        graph.capture(roots, lambda: names)
    except UnsavableError as error:
        return error
    finally:
        graph.forget()
    return None
