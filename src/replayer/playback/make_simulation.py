"""Get the simulation that a tape was recorded from: a registered world, or what the user gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recorder.errors import CorruptError, RecordingError, TornError
from recorder.exception_text import raised_text
from recorder.factory_spec import sim_option
from replayer.playback.inert_simulation import StatesOnly
from replayer.playback.rebuild_adapted import as_recorded, make_adapted
from replayer.tape.tape import Tape
from sim.kernel.registry import UnknownWorldError, find_world
from sim.kernel.schema import COUNTS_FIELD, Layout
from sim.kernel.simulation import ArenaOfSaved, Simulation, as_simulation
from sim.scenario.wrap import wrap_scenario

Factory = Callable[[], Any]


class UnfitSimulationError(RecordingError):
    """The simulation at hand is not one that this tape was recorded from."""


def make_simulation(tape: Tape, factory: Factory | None) -> Simulation:
    """A simulation for this tape, in whatever state; it is restored from a keyframe afterwards.

    factory: called without arguments; None looks the tape's world up in the registry.

    Raises UnknownWorldError if the tape names no world or one that is not installed, ConfigError if the world refuses
    the tape's configuration, UnfitSimulationError if factory makes no simulation or one with other fields.
    """
    if factory is not None:
        try:
            if not callable(factory):
                raise TypeError(f"world={factory!r}: give the class, or a function that makes a simulation")
            simulation = wrap_scenario(as_recorded(_made(factory), tape.meta), tape.meta.get("scenario"))
        except TypeError as error:
            raise UnfitSimulationError(str(error)) from error
    else:
        match tape.meta.get("world"):
            case {"name": str(name), "config": dict(config)}:
                world = find_world(name)
                simulation = wrap_scenario(world.make(config), tape.meta.get("scenario"), world.properties)
            case _ if tape.meta.get("adapter"):
                simulation = as_simulation(make_adapted(tape.meta, _first_layout(tape)))
            case _:
                recorded = tape.meta.get("simulation", "an unknown class")
                why = (
                    f"the tape names no registered world (it was recorded from {recorded}): "
                    f"say which simulation to use, world=… in Python or {sim_option(recorded)} on the command line"
                )
                layout = _first_layout(tape) if tape.logs_changes else None
                if layout is None:
                    raise UnknownWorldError(why)
                simulation = as_simulation(StatesOnly(layout, why))
    _ensure_same_fields(tape, simulation)
    return simulation


def _made(factory: Factory) -> Any:
    try:
        return factory()
    except RecordingError:
        raise
    except Exception as error:
        raise UnfitSimulationError(raised_text("making the simulation", error)) from error


def _ensure_same_fields(tape: Tape, simulation: Simulation) -> None:
    """Refuse a simulation whose fields have other names or dtypes: its step would read something else."""
    layout = _first_layout(tape)
    if layout is None:
        return
    if isinstance(simulation, ArenaOfSaved):
        _ensure_same_names(layout, simulation.state.layout)
        return
    recorded, present = (
        {name: slot.dtype.str for name, slot in one.slots.items()} for one in (layout, simulation.state.layout)
    )
    if recorded != present:
        other = sorted({*recorded.items()} ^ {*present.items()})
        raise UnfitSimulationError(
            "the simulation has other fields than the tape: "
            + ", ".join(
                f"{name} {dtype} only {'recorded' if recorded.get(name) == dtype else 'present'}"
                for name, dtype in other
            )
        )


def _ensure_same_names(recorded: Layout, present: Layout) -> None:
    """Refuse to load what another simulation saved. What a save holds may come and go, so that one may have more."""
    only_recorded, only_present = (
        {*one.slots} - {*other.slots, COUNTS_FIELD} for one, other in ((recorded, present), (present, recorded))
    )
    if only_recorded and only_present:
        raise UnfitSimulationError(
            "the simulation saves other fields than the tape has: "
            + ", ".join(
                [f"{name} only recorded" for name in sorted(only_recorded)]
                + [f"{name} only present" for name in sorted(only_present)]
            )
        )


def _first_layout(tape: Tape) -> Layout | None:
    """The layout of the first keyframe that can be read; without listing all, of which a long run has many."""
    keyframe = tape.keyframe_after(0)
    while keyframe is not None:
        try:
            return tape.snapshot(keyframe).layout
        except (CorruptError, TornError):
            keyframe = tape.keyframe_after(keyframe.tick + 1)  # A damaged one is for those to report who need it.
    return None


def version_note(tape: Tape) -> str | None:
    """One sentence if the tape's world is installed in another version than it was recorded with, else None."""
    match tape.meta.get("world"):
        case {"name": str(name), "version": int(version)}:
            try:
                installed = find_world(name).version
            except UnknownWorldError:
                return None
            if installed != version:
                return f"recorded with version {version} of {name}, version {installed} is installed: expect a desync"
    return None
