"""Adapt an object as a tape was recorded: with the adapter, the level and the fields that the tape names.

A tape contributes only names: of an installed adapter, and of an entry that the adapter's package has registered.
Nothing else from it is imported or called. Pickled data is loaded only by an adapter that the user made with
trust=True.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from sim.adapters.interface.adapter_registry import Adapter, NoAdapterError, adapter_named, adapter_names
from sim.adapters.interface.proxy import subject_of_proxy
from sim.adapters.plain_object.adapter import ADAPTER as PLAIN_ADAPTER
from sim.adapters.plain_object.adapter import NAME as PLAIN_OBJECT
from sim.adapters.plain_object.adapter import fields_from_plain


def as_recorded(made: Any, meta: Mapping[str, Any]) -> Any:
    """Wrap an object of the user in the tape's adapter, unless it is a simulation already, or the tape has no adapter.

    made: an object like the recorded one, or what record() returned for it. Raises TypeError if the adapter refuses it.
    """
    if not meta.get("adapter") or _is_adapted(made):
        return made
    if isinstance(made, type):
        raise TypeError(f"expected an instance, such as {made.__name__}(), got the class {made.__name__}")
    try:
        adapter, description = adapter_of_tape(meta)
        return adapter.adapt(subject_of_proxy(made), **_options(meta, description))
    except (NoAdapterError, ValueError) as error:
        raise TypeError(str(error)) from None


def rebuilt_simulation(meta: Mapping[str, Any]) -> Any | None:
    """Make the simulation of a tape from what the tape states of it; None if only the user can make it.

    Raises NoAdapterError if its adapter is not installed, and NotCapturedError, ValueError or TypeError if it cannot be
    rebuilt.
    """
    adapter, description = adapter_of_tape(meta)
    subject = adapter.rebuild(description.get("subject") or {})
    return None if subject is None else adapter.adapt(subject, **_options(meta, description))


def adapter_of_tape(meta: Mapping[str, Any]) -> tuple[Adapter, Mapping[str, Any]]:
    """The adapter that made a tape, and its description of the object. Raises NoAdapterError."""
    description = meta.get("adapter")
    if isinstance(description, dict) and isinstance(name := description.get("name"), str):
        # To read the list of installed packages takes longer than to make most objects.
        return PLAIN_ADAPTER if name == PLAIN_OBJECT else adapter_named(name), description
    raise NoAdapterError("the tape does not name the adapter that made it")


def look_up_adapters(meta: Mapping[str, Any]) -> None:
    """Read the list of installed adapters now, if a tape's adapter is looked up there. It is kept."""
    if not isinstance(description := meta.get("adapter"), dict) or description.get("name") != PLAIN_OBJECT:
        adapter_names()


def _is_adapted(made: Any) -> bool:
    """Return True for a simulation of an adapter; an object of the user may have anything under that name, or raise."""
    static = inspect.getattr_static(made, "adapter", None)
    entry = made.adapter if isinstance(static, property) else static
    return isinstance(entry, dict) and "name" in entry


def _options(meta: Mapping[str, Any], description: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded options of the adapter. Raises ValueError for options that it does not have."""
    options: dict[str, Any] = {"level": meta.get("level"), "ignore": _texts(description.get("ignored"))}
    if description.get("name") == PLAIN_OBJECT:
        options["what"] = fields_from_plain(description.get("fields"))
    return options


def _texts(items: Any) -> tuple[str, ...]:
    return tuple(item for item in items if isinstance(item, str)) if isinstance(items, list) else ()
