"""The tape and the tick that ``replay explain`` explains, and where ``replay verify`` told that it differs."""

from __future__ import annotations

import sys

from recorder.exit_codes import UsageError
from recorder.location.tape_location import Location
from recorder.storage.os_errors import reading
from recorder.text import shown_path
from recorder.visible_text import print_visible
from replayer.desync.dump.dump_source import dump_source
from replayer.tape.tape import Tape
from replayer.value_text import plain_text
from replayer.view.finding_folder import dumps_beside


def explained_source(path: Location, tick: int | None) -> tuple[Location, int | None, str | None]:
    """The tape and the tick of a dump; for a tape what was given; and the dump of this tick, if there is one."""
    try:
        source = dump_source(path)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if source is None:
        return path, tick, None if tick is None else _dump_of(path, tick)
    if tick not in (None, source.tick):
        raise UsageError(f"{path} is the dump of tick {source.tick:,}, got --tick {tick}")
    if source.missing is not None:
        print_visible(
            f"note: {plain_text(source.missing)} is not here as it was recorded: {source.tape} is explained, which begins one tick before",
            file=sys.stderr,
        )
    return source.tape, source.tick, shown_path(path)


def _dump_of(path: Location, tick: int) -> str | None:
    """The dump next to the tape that replay verify wrote of this tick, and when; None without one."""
    with reading(path), Tape(path) as tape:
        run_id = tape.run_id
        tick = tick + tape.last_tick + 1 if tick < 0 else tick
    found = (f"{dump.folder} of {when}" for dump, when in dumps_beside(path, run_id) if dump.tick == tick)
    return next(found, None)
