"""Make the environment of a tape for a replay, and close it afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from recorder.exception_text import raised_text
from replayer.playback.inert_simulation import StatesOnly
from replayer.playback.make_simulation import Factory, make_simulation
from replayer.tape.environment_calls import ENVIRONMENTS, adapter_name
from replayer.tape.tape import Tape
from sim.kernel.registry import UnknownWorldError
from sim.kernel.simulation import Simulation, inner_of, subject_of
from sim.user_warning import warn_user


def environment_of(tape: Tape, factory: Factory | None) -> Simulation:
    """Make the environment of a tape. Raises UnknownWorldError if only the user can, and as make_simulation does."""
    simulation = make_simulation(tape, factory)
    inner = inner_of(simulation)
    if isinstance(inner, StatesOnly):
        raise UnknownWorldError(inner.why)
    return simulation


@contextlib.contextmanager
def open_environment(tape: Tape, factory: Factory | None) -> Iterator[Simulation]:
    """The environment of a tape, closed at the end. Raises as environment_of does."""
    simulation = environment_of(tape, factory)
    try:
        yield simulation
    finally:
        close_environment(tape, simulation, factory)


@contextlib.contextmanager
def open_simulation(tape: Tape, factory: Factory | None) -> Iterator[Simulation]:
    """The simulation of any tape. An environment is closed at the end. Raises as make_simulation does."""
    simulation = make_simulation(tape, factory)
    try:
        yield simulation
    finally:
        close_environment(tape, simulation, factory)


def close_environment(tape: Tape, simulation: Simulation, factory: Factory | None) -> None:
    """Close an environment that was made for a replay. Anything else, such as the user's own simulation, stays open."""
    # What a user's function returned may be an environment that the user still needs.
    is_ours = factory is None or isinstance(factory, type)
    if not is_ours or adapter_name(tape) not in ENVIRONMENTS:
        return
    try:
        subject_of(simulation).close()
    except Exception as error:  # noqa: BLE001 - the rows are made, and do not depend on it
        warn_user(raised_text("closing the environment", error), ResourceWarning)
