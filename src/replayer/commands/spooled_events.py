"""Events that are rebuilt from a tape without any, kept in an unnamed temporary file until they are exported.

Some tables read the events twice, first for their columns. Re-simulating costs far more than reading them back.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from recorder.console.progress import progress_bar
from recorder.exit_codes import UsageError
from recorder.factory_spec import sim_option
from recorder.format.blocks.events_block import Event
from replayer.playback.make_simulation import Factory, make_simulation
from replayer.playback.rebuild_events import rebuild_events
from replayer.tape.stored_events import ticks_with_events_due
from replayer.tape.tape import Tape
from sim.kernel.plain_data import PlainEncoder, decode_plain
from sim.kernel.registry import UnknownWorldError
from sim.kernel.simulation import events_of, inner_of

_SIZE = struct.Struct("<I")

ReadEvents = Callable[[], Iterator[tuple[int, Event]]]


@contextmanager
def rebuilt_events(tape: Tape, world: Factory | None, folder: Path, *, quiet: bool) -> Iterator[ReadEvents]:
    """Re-simulate a tape once for its events; yield a function that reads them, as often as needed.

    folder: for the temporary file. Raises UsageError if the simulation has no events, OSError, and as rebuild_events does.
    """
    ensure_has_events(tape, world)
    first, last = ticks_with_events_due(tape.recording)
    with tempfile.TemporaryFile(dir=folder) as file, progress_bar("events", last - first + 1, quiet=quiet) as show:
        encoder = PlainEncoder()
        for tick, event in rebuild_events(tape, world):
            encoded, _ = encoder.encode([tick, event])
            file.write(_SIZE.pack(len(encoded)) + encoded)
            show(tick - first + 1)
        yield lambda: _read(file)


def _read(file: IO[bytes]) -> Iterator[tuple[int, Event]]:
    file.seek(0)
    while size := file.read(_SIZE.size):
        tick, event = decode_plain(file.read(_SIZE.unpack(size)[0]))
        yield tick, event


def ensure_has_events(tape: Tape, world: Factory | None) -> None:
    """Raise UsageError if the tape's simulation cannot be made, or has no events.

    Raises ConfigError and UnfitSimulationError for a simulation that does not fit the tape.
    """
    try:
        simulation = make_simulation(tape, world)
    except UnknownWorldError as error:
        if tape.meta.get("world") is not None:
            raise UsageError(f"{tape.path} has no events, and cannot be re-simulated: {error}") from None
        option = sim_option(tape.meta.get("simulation"))
        why = "its simulation has no events(), or they were not recorded"
        raise UsageError(f"{tape.path} has no events: {why}; give it to rebuild them: {option}") from None
    if events_of(simulation) is None:
        raise UsageError(f"{tape.path} has no events: {type(inner_of(simulation)).__name__} has no events()")
