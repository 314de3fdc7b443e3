"""Make the simulation that a tape was recorded from: a registered world, or the user's simulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recorder.errors import CorruptError, RecordingError, TornError
from recorder.exception_text import raised_text
from recorder.factory_spec import sim_option
from replayer.playback.inert_simulation import StatesOnly
from replayer.playback.rebuild_adapted import make_adapted
from replayer.tape.tape import Tape
from sim.kernel.registry import UnknownWorldError, find_world
from sim.kernel.same_fields import ensure_same_fields
from sim.kernel.schema import Layout
from sim.kernel.simulation import Simulation, as_simulation, inner_of
from sim.scenario.wrap import wrap_scenario

Factory = Callable[[], Any]


class UnfitSimulationError(RecordingError):
    """The simulation is not one that this tape was recorded from."""


def make_simulation(tape: Tape, factory: Factory | None) -> Simulation:
    """Make a simulation for this tape, in any state; the caller loads a keyframe into it.

    factory: called without arguments; None looks the tape's world up in the registry.

    Raises UnknownWorldError if the tape names no world or one that is not installed, ConfigError if the world refuses
    the tape's configuration, UnfitSimulationError if the result of factory is not a simulation or has different fields.
    """
    if factory is not None:
        try:
            if not callable(factory):
                raise TypeError(f"world: expected a class or function that makes a simulation, got {factory!r}")
            made = made_by(factory)
            try:
                simulation = wrap_scenario(_as_recorded(made, tape), tape.meta.get("scenario"))
            except TypeError as error:
                raise (_of_another_class(made, tape) or error) from error
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
    layout = _first_layout(tape)
    if layout is not None:
        try:
            ensure_same_fields(layout, simulation)
        except TypeError as error:
            raise UnfitSimulationError(str(error)) from None
    return simulation


def import_adapters(tape: Tape) -> None:
    """Import and look up what makes the simulation of an adapter's tape, before copies of this process do it, each again.

    That takes most of the time of a short copy, above all where its calls are watched. Nothing of the user's is imported.
    """
    if tape.meta.get("adapter"):
        from sim.adapters.as_recorded import look_up_adapters  # noqa: PLC0415 - only for a tape of an adapter

        look_up_adapters(tape.meta)


def make_stepping(tape: Tape, factory: Factory | None) -> Simulation:
    """Make a simulation that can step, in any state.

    Raises UnknownWorldError also where only the states on the tape could be shown, and as make_simulation does.
    """
    simulation = make_simulation(tape, factory)
    inner = inner_of(simulation)
    if isinstance(inner, StatesOnly):
        raise UnknownWorldError(inner.why)
    return simulation


def made_by(factory: Factory) -> Any:
    """What a user's factory makes. Raises UnfitSimulationError if it raises anything but a RecordingError."""
    try:
        return factory()
    except RecordingError:
        raise
    except Exception as error:
        raise UnfitSimulationError(raised_text("making the simulation", error)) from error


def _of_another_class(made: Any, tape: Tape) -> TypeError | None:
    """The error for another object than the recorded one, which explains any other error; None for a class of that name."""
    recorded = tape.meta.get("simulation")
    kind = type(made)
    if not isinstance(recorded, str) or isinstance(made, type) or recorded.rpartition(".")[2] == kind.__name__:
        return None
    if made is None or kind.__module__.startswith("sim."):  # Nothing, or wrapped already: the error itself says more.
        return None
    return TypeError(
        f"the tape was recorded from {recorded}, and what was given makes a {kind.__module__}.{kind.__qualname__}: "
        "give a class or function that makes the recorded one"
    )


def _as_recorded(made: Any, tape: Tape) -> Any:
    if not tape.meta.get("adapter"):
        return made
    from sim.adapters.as_recorded import as_recorded  # noqa: PLC0415 - only for a tape of an adapter

    return as_recorded(made, tape.meta)


def _first_layout(tape: Tape) -> Layout | None:
    """The layout of the first readable keyframe; a long run has many, and they are not listed."""
    keyframe = tape.keyframe_after(0)
    while keyframe is not None:
        try:
            return tape.snapshot(keyframe).layout
        except (CorruptError, TornError):
            keyframe = tape.keyframe_after(keyframe.tick + 1)  # Callers that need the damaged one report it.
    return None


def version_note(tape: Tape) -> str | None:
    """One sentence if the installed version of the tape's world is not the recorded version, else None."""
    match tape.meta.get("world"):
        case {"name": str(name), "version": int(version)}:
            try:
                installed = find_world(name).version
            except UnknownWorldError:
                return None
            if installed != version:
                return f"recorded with version {version} of {name}, version {installed} is installed: expect a desync"
    return None
