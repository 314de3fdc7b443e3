"""The simulation of a tape that an adapter has made: built anew where that is known how, or from what the user gives.

What a tape says is a name: of an adapter that is installed, and of what the adapter's package has registered. Nothing
else of it is imported or called; and what was saved by pickle is loaded only by an adapter that the user has made with
trust=True.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recorder.factory_spec import sim_option
from replayer.playback.inert_simulation import StatesOnly
from sim.adapters.interface.adapter_registry import Adapter, NoAdapterError, NotCapturedError, adapter_named
from sim.kernel.hooks import HasAdapter, hook
from sim.kernel.registry import UnknownWorldError
from sim.kernel.schema import Layout


def make_adapted(meta: Mapping[str, Any], layout: Layout | None) -> Any:
    """The simulation of a tape that an adapter made; one that only holds states if it cannot be made here.

    layout: of the tape's first keyframe that can be read. Raises UnknownWorldError if there is none to stand in with.
    """
    try:
        adapter, told = _adapter(meta)
        subject = adapter.rebuild(told.get("subject") or {})
        if subject is not None:
            return adapter.adapt(subject, **_options(meta, told))
        recorded = meta.get("simulation")
        why = (
            f"how the tape's {recorded} was made cannot be told from the tape: say what makes one, world=… in Python or "
            f"{sim_option(recorded)} on the command line"
        )
    except NoAdapterError as error:
        why = str(error)
    except (NotCapturedError, ValueError, TypeError) as error:
        why = f"the simulation of the tape cannot be made again: {error}"
    if layout is None:
        raise UnknownWorldError(why)
    return StatesOnly(layout, why)


def why_missing(meta: Mapping[str, Any]) -> str | None:
    """One sentence if the adapter that made a tape is not there, else None."""
    try:
        if meta.get("adapter"):
            _adapter(meta)
    except NoAdapterError as error:
        return f"{error}; frames, hashes and keyframes can be shown without it"
    return None


def as_recorded(made: Any, meta: Mapping[str, Any]) -> Any:
    """What a user's factory has made, as the tape's adapter sees it, unless it is a simulation already.

    Raises TypeError if the adapter does not take it.
    """
    if not meta.get("adapter") or hook(made, HasAdapter) is not None:
        return made
    try:
        adapter, told = _adapter(meta)
        return adapter.adapt(made, **_options(meta, told))
    except (NoAdapterError, ValueError) as error:
        raise TypeError(str(error)) from None


def _adapter(meta: Mapping[str, Any]) -> tuple[Adapter, Mapping[str, Any]]:
    told = meta.get("adapter")
    if isinstance(told, dict) and isinstance(told.get("name"), str):
        return adapter_named(told["name"]), told
    raise NoAdapterError("the tape does not say which adapter made it")


def _options(meta: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """How the adapter was told to record it. Raises ValueError for what it cannot have been told."""
    from sim.adapters.plain_object.adapter import NAME, fields_from_plain  # noqa: PLC0415 - only for a tape of an adapter

    options: dict[str, Any] = {"level": meta.get("level"), "ignore": _texts(told.get("ignored"))}
    if told.get("name") == NAME:
        options["what"] = fields_from_plain(told.get("fields"))
    return options


def _texts(found: Any) -> tuple[str, ...]:
    return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()
