"""From a foreign object to a simulation: its adapter is found and told what the user has chosen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sim.adapters.capture.pickle_trusted import make_pickler
from sim.adapters.interface.adapter_registry import Adapter, NoAdapterError, adapter_for, adapter_names
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
    """The simulation that an adapter makes of a foreign object: what ``recorder.record`` records.

    To open a tape whose objects are saved by pickle: ``replayer.open(path, world=lambda: adapt(make(), trust=True))``.
    what: which attributes are the state, for an object that no adapter is for. level: "exact", "canonical" or
    "inputs_only"; by default the best that the adapter can give. trust: save by pickle what cannot be saved otherwise.
    ignore: names of attributes that are known not to matter to any step.

    Raises NoAdapterError if no adapter is for it, NotCapturedError if it holds what cannot be saved, ValueError or
    TypeError for choices that cannot be.
    """
    if isinstance(ignore, str):
        raise TypeError(f"ignore={ignore!r}: a list of names was expected, such as [{ignore!r}]")
    return adapter_of(subject, what).adapt(
        subject,
        level=level,
        ignore=tuple(ignore),
        pickler=make_pickler() if trust else None,
        **({} if what is None else {"what": what}),
    )


def adapter_of(subject: Any, what: Fields | None = None) -> Adapter:
    """The adapter for a foreign object. Raises NoAdapterError if there is none, TypeError for a class."""
    found = adapter_for(subject) if what is None else PLAIN_OBJECT
    if isinstance(subject, type):
        raise TypeError(f"{subject.__name__} is a class: an instance was expected, such as {subject.__name__}()")
    if found is None:
        raise NoAdapterError(
            f"there is no adapter for {type(subject).__module__}.{type(subject).__qualname__} "
            f"(there are some for {', '.join(adapter_names()) or 'nothing'}): name its state, "
            'fields("grid", rng="rng"), or give it .save(), .load(saved) and .step(inputs)'
        )
    return found
