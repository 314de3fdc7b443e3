"""The command ``replay follow``: verify a recording while it runs, a little behind its head."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recorder.console.broken_pipes import ensure_reader
from recorder.console.output import print_result
from recorder.errors import SimulationFailedError
from recorder.exit_codes import CORRUPT, DIFFERS, INCOMPLETE, SAME
from recorder.json_text import json_text
from recorder.location.tape_location import Location
from recorder.storage.os_errors import reading
from replayer.commands.arguments import factory_of, newest_tape
from replayer.commands.options import DumpFolder, Json, Sim, TapePath
from replayer.commands.verify import is_desync
from replayer.desync.finding import Finding
from replayer.desync.object_diff import named_fields
from replayer.follow.idle_wait import Waiting
from replayer.follow.tail import POLL_S
from replayer.follow.url_tail import URL_POLL_S
from replayer.report.report_text import unrepeated_text
from replayer.timeline.live_verify import IntervalCheck, LiveVerifier
from replayer.value_text import plain_text, tick_range


def follow(
    tape: TapePath | None = None,
    /,
    *,
    wait: bool = True,
    dump_folder: DumpFolder = None,
    as_json: Json = False,
    sim: Sim = None,
) -> int:
    """Verify a recording while it runs: re-simulate each interval as soon as it is complete.

    Examples:
    replay follow run.tape
    replay follow game.tape --sim game:Game --json
    replay follow s3://bucket/runs/run.tape

    Run it in a second terminal, on a second core. Each interval between two keyframes
    is simulated again by a fresh simulation. What the recorded program keeps outside
    its state shows within one interval of the first step that reads it.

    It ends at the first divergent tick, when the recording is closed, or with Ctrl-C.
    It only reads the tape: the recording is not slowed by waiting, and is complete
    if this process is killed.

    Exit code: 0 the recording was closed and all ticks match, 1 desync, 3 ended before
    the recording was closed, 4 ticks cannot be compared, 5 not a tape.

    Parameters
    ----------
    tape
        The tape, a path or a URL; by default the newest in recordings/.
    wait
        With --no-wait, verify what is there now and stop.
    dump_folder
        Write a dump of the first divergent tick into this folder.
    as_json
        Print one JSON object per interval.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    """
    path = tape if tape is not None else newest_tape()
    factory, worst = factory_of(sim), SAME
    with reading(path):
        verifier = LiveVerifier(path, factory, dump_folder=dump_folder)
    with verifier:
        try:
            for check in _checks(verifier, path, waits=wait):
                print_result(json_text(check_facts(check)) if as_json else "\n".join(map(plain_text, _lines(check))))
                ensure_reader()
                if check.finding is not None:
                    return DIFFERS
                worst = CORRUPT if check.problem is not None else worst
        except SimulationFailedError as error:
            if not is_desync(path, sim, error, verifier.tape.first_tick):
                raise
            why = f"{error.why}; when it was recorded, it did not raise"
            facts = {"ok": False, "first_bad": error.tick, "problem": why}
            print_result(json_text(facts) if as_json else plain_text(f"DESYNC at tick {error.tick:,}: {why}"))
            return DIFFERS
        except KeyboardInterrupt:
            return worst or INCOMPLETE  # Ctrl-C is the normal way to end it early.
        return worst if verifier.is_over or worst else INCOMPLETE


def _checks(verifier: LiveVerifier, path: Location, *, waits: bool) -> Iterator[IntervalCheck]:
    """The intervals in their order, until the recording is closed."""
    idle = Waiting(path)
    while True:
        with reading(path):
            yield from verifier.poll()
        if verifier.is_over:
            return
        if not waits:
            with reading(path):
                yield from verifier.rest()
            return
        idle(POLL_S if isinstance(path, Path) else URL_POLL_S)


def check_facts(check: IntervalCheck) -> dict[str, Any]:
    """An interval as ``replay follow --json`` prints it."""
    finding = check.finding
    return {
        "first_tick": check.first_tick,
        "last_tick": check.last_tick,
        "head_tick": check.head_tick,
        "ok": finding is None and check.problem is None,
        "first_bad": None if finding is None else finding.tick,
        "fields": [] if finding is None else _fields(finding),
        "phase": None if finding is None else finding.place.phase,
        "note": None if finding is None else finding.note,
        "problem": check.problem,
        "not_repeated": check.not_repeated,
        "dump": None if check.dump_path is None else str(check.dump_path),
    }


def _fields(finding: Finding) -> list[str]:
    """The fields that differ in the tick itself; at the next keyframe, if the tape has no hashes of fields."""
    names = finding.place.fields or [difference.field for difference in finding.differences]
    return named_fields(finding.compared_states, names)


def _lines(check: IntervalCheck) -> list[str]:
    ticks = tick_range(check.first_tick, check.last_tick)
    head = f"the recording is at tick {check.head_tick:,}"
    if check.finding is None:
        unproved = "" if check.not_repeated is None else f"; {unrepeated_text(1, check.not_repeated)}"
        return [f"{ticks}: {check.problem or f'all match{unproved}'}; {head}"]
    fields = ", ".join(_fields(check.finding))
    where = f" in {fields}" if fields else ""
    dump = f"; dump in {check.dump_path}" if check.dump_path is not None else ""
    notes = [f"  {check.finding.note}"] if check.finding.note else []
    return [f"{ticks}: DESYNC: first divergent tick {check.finding.tick:,}{where}; {head}{dump}", *notes]
