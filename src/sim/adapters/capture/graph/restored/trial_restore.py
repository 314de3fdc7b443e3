"""Restore a graph into other objects, before anything is recorded: what cannot be made again is known at the start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sim.adapters.capture.graph.object_graph import ObjectGraph
from sim.adapters.capture.graph.restored.restore_graph import Restoring
from sim.adapters.interface.adapter_registry import NotCapturedError
from sim.kernel.state import State


def is_restorable(
    state: State,
    make_graph: Callable[[State], ObjectGraph],
    known: Mapping[str, Any],
    known_names: Callable[[], Mapping[int, str]],
    subject: str,
) -> bool:
    """Return True if objects made from the state have the bytes of the state; the user's own objects stay as they are.

    known: the objects that are saved elsewhere, by name; known_names: their names by identity. subject: for messages.

    Raises NotCapturedError if they cannot be made.
    """
    copied = State(state.layout.schema, state.layout.capacities)
    copied.restore(state.snapshot())
    graph = make_graph(copied)
    try:
        roots = Restoring(graph, known, in_place=False).run()
        graph.encoder.known = known_names()
        graph.capture(roots, known_names, whole=True)
    except (ValueError, LookupError, TypeError, NotCapturedError) as error:
        raise NotCapturedError(f"{subject} cannot be restored from what would be saved: {error}") from error
    finally:
        graph.forget()
    return copied.hash() == state.hash()
