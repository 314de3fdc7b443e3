"""Rebuild the simulation of a tape that an adapter made, or a stand-in for it that only holds states."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from recorder.factory_spec import sim_option
from replayer.playback.inert_simulation import StatesOnly
from sim.adapters.interface.adapter_registry import MissingPartError, NoAdapterError, NotCapturedError
from sim.kernel.registry import UnknownWorldError
from sim.kernel.schema import Layout

LAYERS_SHOWN = 8  # Of an environment, in a message; a vector has those of each of its environments.


def make_adapted(meta: Mapping[str, Any], layout: Layout | None) -> Any:
    """Make the simulation of a tape that an adapter made; a stand-in that only holds states if that is impossible.

    layout: layout of the tape's first readable keyframe. Raises UnknownWorldError if a stand-in is needed and layout is
    None.
    """
    from sim.adapters.as_recorded import rebuilt_simulation  # noqa: PLC0415 - only for a tape of an adapter

    try:
        simulation = rebuilt_simulation(meta)
        if simulation is not None:
            return simulation
        why = f"the tape does not state how to make its {meta.get('simulation')}: give a factory{_hint(meta)}"
    except NoAdapterError as error:
        why = str(error)
    except (NotCapturedError, ValueError, TypeError) as error:
        why = f"the simulation of the tape cannot be rebuilt: {error}"
    if layout is None:
        raise UnknownWorldError(why)
    return StatesOnly(layout, why)


def _hint(meta: Mapping[str, Any]) -> str:
    """What the factory has to make, and where it is passed."""
    recorded = meta.get("simulation")
    match meta.get("adapter"):
        case {"subject": {"id": str(name)}}:  # Its class alone would lack the wrappers.
            made = f"import the package that registers it, then gymnasium.make({name!r}), with the wrappers of the recording"
            return f" ({made}), world=… in Python or --sim module:factory on the command line"
        case {"subject": {"layers": [_, _, *_] as layers}}:
            made = f"with its wrappers, outermost first: {_layers_text(layers)}"
            return f" that makes it {made}; world=… in Python or --sim module:factory on the command line"
    return f", world=… in Python or {sim_option(recorded)} on the command line"


def _layers_text(layers: Sequence[Any]) -> str:
    named = ", ".join(map(str, layers[:LAYERS_SHOWN]))
    return named if len(layers) <= LAYERS_SHOWN else f"{named}, …"


def why_not_taken(meta: Mapping[str, Any], error: BaseException) -> str | None:
    """Why an environment does not take the states of a tape: it has other wrappers, or is another one.

    None for any other error, and any other object than an environment.
    """
    match meta.get("adapter"):
        case {"subject": {"layers": list(layers), **subject}} if isinstance(error, MissingPartError):
            made = [name for name in error.made if name.partition(".")[0] != "result"]
        case _:
            return None
    difference = f"the tape was recorded from {_layers_text(layers)}, and what was given makes {_layers_text(made)}"
    name = subject.get("id") or subject.get("vector")
    if _is_gymnasiums(name) and _can_be_rebuilt(meta):
        return f"{difference}: leave --sim (world= in Python) out, the tape's {name} is registered and made without it"
    if isinstance(subject.get("id"), str):  # What was given may have imported the module that registers it.
        return (
            f"{difference}: give a function that returns gymnasium.make({name!r}), with the wrappers around it, if any"
        )
    return f"{difference}: give the function that makes it with its wrappers, outermost first"


def _is_gymnasiums(name: Any) -> bool:
    """Return True for the id of an environment that importing Gymnasium registers, in every process."""
    registry = getattr(sys.modules.get("gymnasium"), "registry", {})
    entry = getattr(registry.get(name), "entry_point", None)
    return isinstance(entry, str) and entry.startswith("gymnasium.")


def _can_be_rebuilt(meta: Mapping[str, Any]) -> bool:
    from sim.adapters.as_recorded import rebuilt_simulation  # noqa: PLC0415 - only for a tape of an adapter

    try:
        return rebuilt_simulation(meta) is not None
    except Exception:  # noqa: BLE001 - it runs the constructor of the environment
        return False


def why_missing(meta: Mapping[str, Any]) -> str | None:
    """One sentence if the adapter that made a tape is not installed, else None."""
    if not meta.get("adapter"):
        return None
    from sim.adapters.as_recorded import adapter_of_tape  # noqa: PLC0415 - only for a tape of an adapter

    try:
        adapter_of_tape(meta)
    except NoAdapterError as error:
        return f"{error}; frames, hashes and keyframes can be shown without it"
    return None
