"""Events that are made again from a tape without any, kept in a file that nobody sees until they are written out.

Some tables are told twice what happened, first for their columns; re-simulating costs far more than reading it back.
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

Tell = Callable[[], Iterator[tuple[int, Event]]]


@contextmanager
def events_again(tape: Tape, world: Factory | None, folder: Path, *, quiet: bool) -> Iterator[Tell]:
    """What happened in all ticks of a tape, made by re-simulating it once; inside, it can be told as often as needed.

    folder: where the file lies. Raises UsageError if the simulation cannot tell, OSError, and as rebuild_events does.
    """
    ensure_telling(tape, world)
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


def ensure_telling(tape: Tape, world: Factory | None) -> None:
    """Refuse a tape without events whose simulation cannot be had, or has none to tell.

    Raises UsageError; ConfigError and UnfitSimulationError for a simulation that is another one.
    """
    try:
        simulation = make_simulation(tape, world)
    except UnknownWorldError as error:
        if tape.meta.get("world") is not None:
            raise UsageError(f"{tape.path} has no events, and cannot be re-simulated: {error}") from None
        named = sim_option(tape.meta.get("simulation"))
        why = "its simulation has no events(), or they were not recorded"
        raise UsageError(f"{tape.path} has no events: {why}; name it to make them again: {named}") from None
    if events_of(simulation) is None:
        raise UsageError(f"{tape.path} has no events: {type(inner_of(simulation)).__name__} has no events()")
