"""The command ``replay index``: the lookup file of a tape, with which questions skip intervals."""

from __future__ import annotations

from typing import Any

import attrs

from recorder.console.output import print_json
from recorder.console.progress import progress_bar
from recorder.exit_codes import DIFFERS, INCOMPLETE, SAME, UsageError
from recorder.storage.os_errors import reading, writing
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.commands.arguments import ensure_states, factory_of, newest_tape, note_losses, note_version
from replayer.commands.options import Json, LocalTape, Sim
from replayer.commands.whole_of_shards import shown_place
from replayer.search.lookup.lookup_file import lookup_path, stored, write_lookup
from replayer.search.lookup.make_lookup import Measured, interval_starts, measured_intervals
from replayer.timeline.timeline import Timeline
from replayer.value_text import plain_text, tick_range


def index(tape: LocalTape | None = None, /, *, as_json: Json = False, sim: Sim = None) -> int:
    """Write the lookup file of a tape, with which replay find and replay who skip intervals.

    Examples:
    replay index run.tape
    replay index game.tape --sim game:Game

    Each tick is re-simulated once and compared with the recording. For each interval
    between two keyframes, run.tape.lookup then holds which rows its steps changed,
    and the least and the greatest of each field, of its sum and of its size.

    The file belongs to exactly this tape: once the tape has changed, it is not used,
    and a line says so. It can be removed at any time; all answers stay the same, but
    damage of the tape in an interval that is skipped is not seen: replay info looks for it.

    Exit code: 0 written, 1 written, but a replayed state differs from the recorded
    one, 2 not a tape of a known simulation, 3 written, but ticks cannot be reached.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    as_json
        Print one JSON object.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    """
    path = tape if tape is not None else newest_tape()
    shards = shown_place(path)
    if shards != path:  # A lookup file beside the joined tape would be gone with it.
        raise UsageError(
            f"{shards}: {path.name} is missing, beside which the lookup file would be: make it first, "
            f"replay cut {shards} --ticks 0..-1 -o {shards.with_name(path.name)}"
        )
    target = lookup_path(path)
    with reading(path), Timeline(path, factory_of(sim)) as run:
        if run.tape.is_being_written():
            raise UsageError(f"{path}: it is being recorded at the moment: index it when the recording is closed")
        ensure_states(run.tape)
        note_version(run.tape)
        note_losses(run.tape)
        measured, intervals = Measured(), []
        with progress_bar("indexing", len(run), quiet=as_json) as show:
            found = measured_intervals(run.tape, run.counted_cursor(), measured, lambda done, _: show(done))
            intervals = [stored(one) for one in found]
        total = len(interval_starts(run.tape, run.first_tick, run.last_tick))
        with writing(target):
            size_bytes = write_lookup(run.tape, target, intervals)
        ticks = len(run)
    facts = {
        "lookup": str(target),
        "bytes": size_bytes,
        "intervals": total,
        "indexed_intervals": len(intervals),
        "ticks": ticks,
        "simulated": measured.simulated,
        "missing": [attrs.asdict(one) for one in measured.missing],
    }
    if as_json:
        print_json(facts)
    else:
        print_visible("\n".join(plain_text(line) for line in _lines(facts, measured)))
    if any(one.is_desync for one in measured.missing):
        return DIFFERS
    return INCOMPLETE if measured.missing else SAME


def _lines(facts: dict[str, Any], measured: Measured) -> list[str]:
    size = f"{facts['bytes']:,} bytes, {facts['bytes'] / facts['ticks']:.1f} a tick"
    lines = [f"{facts['lookup']}: {counted(facts['indexed_intervals'], 'interval')} ({size})"]
    lines.append(f"  {counted(measured.simulated, 'step')} simulated")
    left_out = facts["intervals"] - facts["indexed_intervals"]
    if left_out:
        lines.append(f"  {counted(left_out, 'interval')} left out: questions simulate them")
    lines += [f"  NOT REACHED: {tick_range(one.first_tick, one.last_tick)}: {one.why}" for one in measured.missing]
    return lines
