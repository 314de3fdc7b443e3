"""Adapt a foreign object: find its adapter and pass on the options of the user."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sim.adapters.capture.pickle_trusted import make_pickler
from sim.adapters.capture.refusals import reason_against
from sim.adapters.interface.adapter_registry import (
    Adapter,
    NoAdapterError,
    NotCapturedError,
    adapter_for,
    adapter_names,
)
from sim.adapters.plain_object.adapter import ADAPTER as PLAIN_OBJECT
from sim.adapters.plain_object.adapter import Fields
from sim.kernel.exactness import Level


def adapt(
    subject: Any,
    what: Fields | None = None,
    *,
    level: Level | str | None = None,
    trust: bool = False,
    ignore: Iterable[str] = (),
) -> Any:
    """Make a simulation of a foreign object with its adapter, as ``recorder.record`` does.

    To open a tape whose objects are saved by pickle: ``replayer.open(path, world=lambda: adapt(make(), trust=True))``.
    what: the attributes that are the state, for an object without an adapter. level: "exact", "canonical" or
    "inputs_only"; by default the best that the adapter supports. trust: save by pickle what cannot be saved otherwise.
    ignore: names of attributes that no step reads.

    Raises NoAdapterError if there is no adapter for it, NotCapturedError if it holds something that cannot be saved,
    ValueError or TypeError for invalid options.
    """
    if isinstance(ignore, str):
        raise TypeError(f"ignore: expected a list of names, such as [{ignore!r}], got {ignore!r}")
    reason = reason_against(subject)
    if reason is not None:
        raise NotCapturedError(f"{type(subject).__name__} cannot be recorded: {reason}")
    return adapter_of(subject, what).adapt(
        subject,
        level=level,
        ignore=tuple(ignore),
        pickler=make_pickler() if trust else None,
        **({} if what is None else {"what": what}),
    )


def adapter_of(subject: Any, what: Fields | None = None) -> Adapter:
    """The adapter for a foreign object. Raises NoAdapterError if there is none, TypeError for a class."""
    adapter = adapter_for(subject) if what is None else PLAIN_OBJECT
    if isinstance(subject, type):
        raise TypeError(f"expected an instance, such as {subject.__name__}(), got the class {subject.__name__}")
    if adapter is None:
        raise NoAdapterError(
            f"there is no adapter for {type(subject).__module__}.{type(subject).__qualname__} "
            f"(installed: {', '.join(adapter_names()) or 'none'}): name its state, "
            'fields("grid", rng="rng"), or give it .save(), .load(saved) and .step(inputs)'
        )
    return adapter
