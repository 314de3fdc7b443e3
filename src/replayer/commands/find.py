"""The command ``replay find``: the ticks at which a condition holds."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from recorder.console.argument_types import Positive
from recorder.console.output import print_json, say_on_stderr
from recorder.console.progress import progress_bar
from recorder.exit_codes import DIFFERS, INCOMPLETE, SAME, UsageError
from recorder.location.tape_location import Location
from recorder.storage.os_errors import reading
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.commands.arguments import choose, ensure_states, factory_of, note_losses, note_version
from replayer.commands.options import Json, Sim, TapePath
from replayer.commands.tick_ranges import parse_ticks
from replayer.search.matches import Matches, Which
from replayer.search.search_errors import ExpressionError
from replayer.search.skipped_intervals import skipped_text
from replayer.timeline.timeline import Timeline
from replayer.value_text import plain_text, tick_range

RANGES_SHOWN = 20


def find(
    condition: str,
    tape: TapePath | None = None,
    /,
    *,
    first: Annotated[bool, Parameter(name="--first", negative="")] = False,
    last: Annotated[bool, Parameter(name="--last", negative="")] = False,
    monotone: Annotated[bool, Parameter(name="--monotone", negative="")] = False,
    ticks: str | None = None,
    ranges: Positive = RANGES_SHOWN,
    as_json: Json = False,
    sim: Sim = None,
) -> int:
    """Find the ticks at which a condition holds: all of them, the first or the last.

    Examples:
    replay find 'plants.energy.sum() > 2000' run.tape --first
    replay find 'units[14].hp < 10 and tick > 500' game.tape --sim game:Game
    replay find 'units[:].hp.min() <= 0' game.tape --sim game:Game --first
    replay find 'telemetry.births.clover > 90' run.tape --last

    A condition has fields, paths of values in recorded objects, telemetry.NAME and
    tick; numbers and texts; + - * / // % and comparisons; and, or, not, & | ~;
    [index], [3:9], [other > 3]; 'ring' in items (a set, a list, keys, a text);
    sum, min, max, mean, any, all, count, len, abs.
    Each tick is re-simulated and compared with the recording. A condition over
    telemetry alone needs no step. Intervals are skipped where the tape's lookup file
    (replay index) proves that it cannot hold.

    Exit code: 0 found, 1 it holds at no tick, 2 not a condition, 3 not known, since
    ticks that could change the answer cannot be reached.

    Parameters
    ----------
    condition
        The condition.
    tape
        The tape; by default the newest in recordings/.
    first
        Only the first tick; stops there.
    last
        Only the last tick; begins at the end of the tape.
    monotone
        With --first: the condition stays true once it is. Few keyframes are looked at, not every tick.
    ticks
        Only from tick A to tick B: --ticks A..B. Negative ones count from the end.
    ranges
        The number of ranges of ticks that are printed.
    as_json
        Print one JSON object.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    """
    if (first and last) or (monotone and not first):
        raise UsageError("--monotone needs --first" if monotone else "expected --first or --last, not both")
    path = choose(tape)
    which: Which = "first" if first else "last" if last else "all"
    with reading(path), Timeline(path, factory_of(sim)) as run:
        ensure_states(run.tape)
        note_version(run.tape)
        note_losses(run.tape)
        run.lookup(lambda text: say_on_stderr(f"warning: {text}"))
        matches = _ask(run, condition, which, ticks, monotone=monotone, quiet=as_json)
    if as_json:
        print_json(find_facts(condition, matches))
    else:
        print_visible(
            "\n".join(plain_text(line) for line in _lines(condition, matches, which, ranges, _seek(path, sim)))
        )
        if monotone:
            print_visible("  --monotone was believed: if the condition ends again, another tick may be the first")
    if not matches.is_proved:
        return INCOMPLETE
    return SAME if matches.ticks else DIFFERS


def _ask(run: Timeline, condition: str, which: Which, ticks: str | None, *, monotone: bool, quiet: bool) -> Matches:
    begin, end = (run.first_tick, run.last_tick) if ticks is None else parse_ticks(ticks, run.first_tick, run.last_tick)
    try:
        finder = run.finder(condition)
        if monotone:
            return finder.find_monotone(begin, end)
        with progress_bar("looking", end - begin + 1, quiet=quiet) as show:
            return finder.find(which, begin, end, progress=lambda done, _: show(done))
    except ExpressionError as error:
        raise UsageError(plain_text(str(error))) from None


def find_facts(condition: str, matches: Matches) -> dict[str, Any]:
    """The answer as ``replay find --json`` prints it."""
    facts = attrs.asdict(matches, recurse=False) | {"missing": [attrs.asdict(one) for one in matches.missing]}
    return {"condition": condition, "proved": matches.is_proved} | facts


def _seek(path: Location, sim: str | None) -> str:
    """The command that shows a state, up to its tick."""
    option = f" --sim {shlex.quote(sim)}" if sim is not None else ""
    return f"replay seek {shlex.quote(str(path))}{option} --tick"


def _lines(condition: str, matches: Matches, which: Which, ranges_max: int, seek: str) -> list[str]:
    runs = matches.ranges
    asked = tick_range(matches.first_tick, matches.last_tick)
    if not runs:
        text = "holds at no tick that could be reached of" if matches.missing else "holds at no tick of"
        lines = [f"{condition}: {text} {asked}"]
    elif which == "all":
        lines = [f"{condition}: holds at {counted(len(matches.ticks), 'tick')} of {asked}"]
        lines += [f"  {tick_range(*run)}" for run in runs[:ranges_max]]
        if len(runs) > ranges_max:
            lines.append(f"  … {counted(len(runs) - ranges_max, 'range')} more: --ranges {len(runs)}, or --json")
    else:
        lines = [f"{condition}: {which} holds at tick {matches.ticks[0]:,}"]
        lines.append(f"  {seek} {matches.ticks[0]} shows the state there")
    steps = f"{counted(matches.simulated, 'step')} simulated"
    lines.append(f"  {counted(matches.examined, 'state')} looked at, {steps}{skipped_text(matches)}")
    if matches.undefined:
        lines.append(
            f"  without a value, so it does not hold: {counted(matches.undefined, 'tick')}: {matches.undefined_why}"
        )
    for one in matches.missing:
        lines.append(f"  NOT KNOWN at {tick_range(one.first_tick, one.last_tick)}: {one.why}")
    return lines
