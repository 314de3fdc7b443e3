"""The command ``replay shrink``: a minimal list of inputs that fails in the same way."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from recorder.console.argument_types import LocalPath, Positive
from recorder.console.output import print_json, say_on_stderr
from recorder.console.progress import progress_bar
from recorder.exit_codes import DIFFERS, SAME, UsageError
from recorder.location.tape_location import Location
from recorder.storage.os_errors import reading, writing
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.commands.arguments import factory_of, ready_tape
from replayer.commands.options import Json, Sim, TapePath
from replayer.playback.make_simulation import Factory
from replayer.reduction.kept_results import kept_path
from replayer.reduction.shrink_tape import ShrinkReport, shrink
from replayer.reshape.pytest_file import ensure_test_name, write_test
from replayer.search.search_errors import ExpressionError
from replayer.tape.copied_range import UnfitTapeError
from replayer.timeline.verify import verify_tape
from replayer.value_text import inputs_to_json, plain_text, readable_inputs, to_json

WIDTH = 110  # Of a line, about.
INPUTS_SHOWN = 20


def shrink_tape(
    tape: TapePath,
    /,
    *,
    output: Annotated[LocalPath, Parameter(name=["--output", "-o"])],
    until: str | None = None,
    raises: Annotated[str | None, Parameter(name="--raises")] = None,
    violation: str | None = None,
    desync: Annotated[bool, Parameter(name="--desync", negative="")] = False,
    empty: str | None = None,
    test: Annotated[LocalPath | None, Parameter(name="--pytest")] = None,
    jobs: Annotated[Positive, Parameter(name=["--jobs", "-j"])] = 1,
    lines: Positive = INPUTS_SHOWN,
    as_json: Json = False,
    sim: Sim = None,
) -> int:
    """Leave out inputs of a failing run until each one that is left is needed.

    Examples:
    replay shrink run.tape --until 'stock.min() < 0' -o small.tape --sim shop:Shop
    replay shrink run.tape --raises KeyError -o small.tape --sim shop:Shop
    replay shrink run.tape --raises '' -o small.tape --pytest test_small.py --sim shop:Shop
    replay shrink ambush.tape --violation exclusive -o small.tape
    replay shrink run.tape --desync -o small.tape --sim game:Game

    Ticks stay where they are: an input that is left out becomes the empty one, and
    an item is taken out of its list or dict. Only the same failure counts: the
    condition holds, the property is violated, or an exception of the same class is
    raised at the same line. What is left is run once more in a new simulation, and
    becomes a tape.

    Results are kept in OUTPUT.progress until the tape is written: after a kill, the
    same command continues.

    Exit code: 0 written, 1 the recorded run is not what the simulation does, 2 no
    such failure, or the name exists.

    Parameters
    ----------
    tape
        The tape of the failing run.
    output
        The new tape, which must not exist yet.
    until
        A condition, as in replay find: the failure is that it holds.
    raises
        A text in the class name or message of the exception; '' takes the last step that raised.
    violation
        The name of a property of the tape's scenario.
    desync
        The failure is that a replay from a keyframe gives other states than the run.
    empty
        What stands for no input, as JSON; by default null, [] or {}, as on the tape.
    test
        Write a pytest file as well that replays the new tape and names the first tick that differs.
    jobs
        The number of runs that are tried at once, each in a process of its own. The result is the same.
    lines
        The number of inputs that are printed.
    as_json
        Print one JSON object.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    """
    if [until, raises, violation, desync or None].count(None) != 3:
        raise UsageError("expected one of --until CONDITION, --raises TEXT, --violation NAME and --desync")
    factory = factory_of(sim)
    arguments: dict[str, Any] = {"until": until, "raises": True if raises == "" else raises, "violation": violation}
    arguments |= {"desync": desync, "jobs": jobs}
    report = _searched(tape, output, factory, test, arguments | {"empty": parsed_empty(empty)}, quiet=as_json)
    if test is not None:
        with writing(test):
            write_test(test, output, sim, tape.name, "shrunk out of")
    return _tell(tape, report, factory, test, lines, as_json=as_json)


def _searched(
    tape: TapePath, output: Path, factory: Factory | None, test: Path | None, arguments: dict[str, Any], *, quiet: bool
) -> ShrinkReport:
    """Search, with a progress bar. Raises UsageError; all that is wrong is found before anything is written."""
    with ready_tape(tape):
        pass
    try:
        if test is not None:
            ensure_test_name(test)
            if os.path.lexists(test):
                raise UsageError(f"{test}: a file of this name exists already: choose a different name for it")
        with reading(tape), writing(output), progress_bar("shrinking", 100, quiet=quiet) as show:
            report = shrink(
                tape,
                world=factory,
                output=output,
                progress=lambda done, total: show(100 * done / total),
                **arguments,
            )
    except (UnfitTapeError, ExpressionError) as error:
        raise UsageError(plain_text(str(error))) from None
    except KeyboardInterrupt:
        kept = kept_path(output)
        if kept.exists():
            say_on_stderr(f"the results so far are in {kept}: the same command continues")
        raise
    return report


def _tell(
    tape: TapePath, report: ShrinkReport, factory: Factory | None, test: Path | None, lines: int, *, as_json: bool
) -> int:
    """Print the result, with what a verification of the new tape gives."""
    assert report.path is not None
    verified = verify_tape(report.path, factory)
    is_desync = verified.first_bad == report.tick and report.is_desync
    if as_json:
        facts = attrs.asdict(report, recurse=False) | {
            "inputs": [attrs.asdict(one) | {"value": readable_inputs(one.value)} for one in report.inputs]
        }
        print_json(to_json(facts | {"path": str(report.path), "verified": verified.ok or is_desync}))
    else:
        shown = [*_lines(tape, report, lines)]
        ticks = counted(verified.tick_count, "tick")
        if is_desync:
            shown.append(f"  {report.path}: replay verify finds the desync at tick {report.tick:,}")
        shown += (
            []
            if is_desync
            else [
                f"  {report.path}: all {ticks} match when they are replayed"
                if verified.ok
                else f"  {report.path} does NOT replay: replay verify names the tick"
            ]
        )
        if test is not None:
            shown.append(f"  the test: {test}")
        print_visible("\n".join(plain_text(line) for line in shown))
    return SAME if verified.ok or is_desync else DIFFERS


def _lines(tape: Location, report: ShrinkReport, lines_max: int) -> list[str]:
    needed = f"{len(report.inputs):,} of {counted(report.recorded_count, 'input')}" if report.inputs else "no input"
    recorded = f" ({report.recorded_tick:,} in the recording)" if report.recorded_tick != report.tick else ""
    lines = [f"{report.failure}: needs {needed} of {tape}, and comes at tick {report.tick:,}{recorded}"]
    lines += [
        f"  {place_text(one.tick, one.item)}: {short_text(json.dumps(inputs_to_json(one.value), ensure_ascii=False))}"
        for one in report.inputs[:lines_max]
    ]
    if len(report.inputs) > lines_max:
        lines.append(
            f"  … {counted(len(report.inputs) - lines_max, 'input')} more: --lines {len(report.inputs)}, or --json"
        )
    if report.inputs:
        lines.append("  without any one of them, it does not come up to that tick")
    lines.append(f"  {counted(report.steps, 'step')} simulated in {counted(report.runs, 'run')}")
    if report.reused:
        lines.append(f"  {counted(report.reused, 'result')} of an interrupted search used again")
    return lines


def place_text(tick: int, item: int | str | None) -> str:
    """The place of an input."""
    return f"tick {tick:,}" if item is None else f"tick {tick:,}, item {item}"


def short_text(text: str) -> str:
    """A text of one line, cut if it is long."""
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def parsed_empty(empty: str | None) -> Any:
    """The value of --empty; attrs.NOTHING without it. Raises UsageError."""
    if empty is None:
        return attrs.NOTHING
    try:
        return json.loads(empty)
    except ValueError as error:
        raise UsageError(f"--empty {empty}: expected JSON: {error}") from None
