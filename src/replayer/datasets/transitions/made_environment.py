"""Make the environment of a tape for a replay, and close it afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from recorder.exception_text import raised_text
from replayer.playback.make_simulation import Factory, make_simulation, make_stepping
from replayer.tape.environment_calls import ENVIRONMENTS, adapter_name
from replayer.tape.tape import Tape
from sim.kernel.registry import UnknownWorldError
from sim.kernel.simulation import Simulation, subject_of
from sim.user_warning import warn_user


@contextlib.contextmanager
def open_environment(tape: Tape, factory: Factory | None) -> Iterator[Simulation]:
    """The environment of a tape, closed at the end. Raises as make_stepping does."""
    with _closed_at_the_end(tape, make_environment(tape, factory), factory) as simulation:
        yield simulation


@contextlib.contextmanager
def open_simulation(tape: Tape, factory: Factory | None) -> Iterator[Simulation]:
    """The simulation of any tape. An environment is closed at the end. Raises as make_simulation does."""
    with _closed_at_the_end(tape, _made(make_simulation, tape, factory), factory) as simulation:
        yield simulation


def make_environment(tape: Tape, factory: Factory | None) -> Simulation:
    """The environment of a tape; the caller closes it. Raises as make_stepping does, with the name of the tape."""
    return _made(make_stepping, tape, factory)


def _made(make: Callable[[Tape, Factory | None], Simulation], tape: Tape, factory: Factory | None) -> Simulation:
    try:
        return make(tape, factory)
    except UnknownWorldError as error:  # One of many tapes may be the one that cannot be made.
        raise UnknownWorldError(f"{tape.path.name}: {error}") from None


@contextlib.contextmanager
def _closed_at_the_end(tape: Tape, simulation: Simulation, factory: Factory | None) -> Iterator[Simulation]:
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
