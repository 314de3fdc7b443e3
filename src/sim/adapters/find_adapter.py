"""Adapt a foreign object: find its adapter and pass on the options of the user."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sim.adapters.capture.graph.kinds.refusals import refusal_of_simulation
from sim.adapters.capture.pickle_trusted import make_pickler
from sim.adapters.capture.recapture import ProvedSimulation
from sim.adapters.interface.adapter_registry import (
    Adapter,
    NoAdapterError,
    NotCapturedError,
    adapter_for,
    adapter_names,
)
from sim.adapters.interface.proxy import RecordedProxy
from sim.adapters.plain_object.adapter import ADAPTER as PLAIN_OBJECT
from sim.adapters.plain_object.adapter import Fields, fields
from sim.kernel.exactness import Level
from sim.kernel.simulation import NOTHING_MADE
from sim.kernel.state import State


def adapt(
    subject: Any,
    what: Fields | None = None,
    *,
    step: str | Iterable[str] | None = None,
    level: Level | str | None = None,
    trust: bool = False,
    ignore: Iterable[str] = (),
) -> Any:
    """Make a simulation of a foreign object with its adapter, as ``recorder.record`` does.

    To open a tape whose objects are saved by pickle: ``replayer.open(path, world=lambda: adapt(make(), trust=True))``.
    what: the attributes that are the state, for an object without an adapter; by default all of them. step: the name of
    its method that makes a step, "step" by default, or of several (see fields). level: "exact", "canonical" or
    "inputs_only"; by default the best that the adapter supports. trust: save by pickle what cannot be saved otherwise.
    ignore: names of attributes that no step reads, such as "Game.window"; a name that matches nothing is refused.

    Raises NoAdapterError if it cannot be adapted, NotCapturedError if it holds something that cannot be saved,
    ValueError or TypeError for invalid options.
    """
    if isinstance(ignore, str):
        raise TypeError(f"ignore: expected a list of names, such as [{ignore!r}], got {ignore!r}")
    reason = refusal_of_simulation(subject)
    if reason is not None:
        raise NotCapturedError(f"{type(subject).__name__} cannot be recorded: {reason}")
    adapter = adapter_of(subject, what)
    if adapter is PLAIN_OBJECT:
        what = fields() if what is None else what
        if step is not None:
            what = what.with_step(step)
    elif step is not None:
        raise TypeError(
            f"step={step!r}: expected no name for {type(subject).__name__}, whose step is known to the adapter "
            f"{adapter.name}"
        )
    names = tuple(ignore)
    simulation = adapter.adapt(
        subject,
        level=level,
        ignore=names,
        pickler=make_pickler() if trust else None,
        **({} if what is None else {"what": what}),
    )
    if names and isinstance(simulation, ProvedSimulation):
        simulation.ensure_names_match(names)
    return simulation


def adapter_of(subject: Any, what: Fields | None = None) -> Adapter:
    """The adapter for a foreign object: that of its package, or the one for plain objects.

    Raises NoAdapterError for an object that neither can record, TypeError for a class, None or a recorded object.
    """
    if isinstance(subject, type):
        raise TypeError(f"expected an instance, such as {subject.__name__}(), got the class {subject.__name__}")
    if isinstance(subject, RecordedProxy):
        raise TypeError(f"this {type(subject.subject).__name__} is recorded already: record its .subject once")
    adapter = adapter_for(subject) if what is None else PLAIN_OBJECT
    if adapter is not None:
        return adapter
    kind = type(subject)
    if isinstance(vars(subject).get("state") if hasattr(subject, "__dict__") else None, State):
        raise NoAdapterError(
            f"{kind.__qualname__} has its state in a sim.State: record it with recorder.Recorder(path, simulation)"
        )
    if subject is None:
        raise TypeError(NOTHING_MADE)
    if not hasattr(subject, "__dict__"):
        raise NoAdapterError(
            f"there is no adapter for {kind.__module__}.{kind.__qualname__}, and it has no __dict__, which would hold "
            f"its attributes (installed: {', '.join(adapter_names()) or 'none'}): put it into an object of a Python "
            "class with a step, or give that .save(), .load(saved) and .step(inputs)"
        )
    return PLAIN_OBJECT
