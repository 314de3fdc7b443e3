"""Rebuild the simulation of a tape that an adapter made, from facts on the tape or from the user's object.

A tape contributes only names: of an installed adapter, and of an entry that the adapter's package has registered.
Nothing else from it is imported or called. Pickled data is loaded only by an adapter that the user made with
trust=True.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from recorder.factory_spec import sim_option
from replayer.playback.inert_simulation import StatesOnly
from sim.adapters.interface.adapter_registry import Adapter, NoAdapterError, NotCapturedError, adapter_named
from sim.kernel.registry import UnknownWorldError
from sim.kernel.schema import Layout


def make_adapted(meta: Mapping[str, Any], layout: Layout | None) -> Any:
    """Make the simulation of a tape that an adapter made; a stand-in that only holds states if that is impossible.

    layout: layout of the tape's first readable keyframe. Raises UnknownWorldError if a stand-in is needed and layout is
    None.
    """
    try:
        adapter, description = _adapter(meta)
        subject = adapter.rebuild(description.get("subject") or {})
        if subject is not None:
            return adapter.adapt(subject, **_options(meta, description))
        recorded = meta.get("simulation")
        why = (
            f"the tape does not state how to make its {recorded}: give a factory, world=… in Python or "
            f"{sim_option(recorded)} on the command line"
        )
    except NoAdapterError as error:
        why = str(error)
    except (NotCapturedError, ValueError, TypeError) as error:
        why = f"the simulation of the tape cannot be rebuilt: {error}"
    if layout is None:
        raise UnknownWorldError(why)
    return StatesOnly(layout, why)


def why_missing(meta: Mapping[str, Any]) -> str | None:
    """One sentence if the adapter that made a tape is not installed, else None."""
    try:
        if meta.get("adapter"):
            _adapter(meta)
    except NoAdapterError as error:
        return f"{error}; frames, hashes and keyframes can be shown without it"
    return None


def as_recorded(made: Any, meta: Mapping[str, Any]) -> Any:
    """Wrap the result of a user's factory in the tape's adapter, unless it is a simulation already.

    Raises TypeError if the adapter refuses it.
    """
    if not meta.get("adapter") or _is_adapted(made):
        return made
    try:
        adapter, description = _adapter(meta)
        return adapter.adapt(made, **_options(meta, description))
    except (NoAdapterError, ValueError) as error:
        raise TypeError(str(error)) from None


def _is_adapted(made: Any) -> bool:
    """Return True for a simulation of an adapter; an object of the user may have anything under that name, or raise."""
    static = inspect.getattr_static(made, "adapter", None)
    entry = made.adapter if isinstance(static, property) else static
    return isinstance(entry, dict) and "name" in entry


def _adapter(meta: Mapping[str, Any]) -> tuple[Adapter, Mapping[str, Any]]:
    description = meta.get("adapter")
    if isinstance(description, dict) and isinstance(description.get("name"), str):
        return adapter_named(description["name"]), description
    raise NoAdapterError("the tape does not name the adapter that made it")


def _options(meta: Mapping[str, Any], description: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded options of the adapter. Raises ValueError for options that it does not have."""
    from sim.adapters.plain_object.adapter import NAME, fields_from_plain  # noqa: PLC0415 - only for a tape of an adapter

    options: dict[str, Any] = {"level": meta.get("level"), "ignore": _texts(description.get("ignored"))}
    if description.get("name") == NAME:
        options["what"] = fields_from_plain(description.get("fields"))
    return options


def _texts(items: Any) -> tuple[str, ...]:
    return tuple(item for item in items if isinstance(item, str)) if isinstance(items, list) else ()
