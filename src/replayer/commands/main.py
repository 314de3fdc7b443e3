"""The command ``replay``: inspect a tape, go to a tick, verify every hash."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from recorder.console import shipped_help
from recorder.errors import DesyncError
from replayer.commands.summaries import SUMMARIES

if TYPE_CHECKING:
    from cyclopts import App

    from replayer.desync.finding import Finding

COMMANDS = {  # The function of each command; its module is imported only when the command is used.
    "info": "replayer.commands.info:info",
    "seek": "replayer.commands.seek:seek",
    "verify": "replayer.commands.verify:verify",
    "tail": "replayer.commands.tail:tail",
    "follow": "replayer.commands.follow:follow",
    "repair": "replayer.commands.repair:repair",
    "check": "replayer.commands.check:check",
    "contracts": "replayer.commands.contracts:contracts",
    "drift": "replayer.commands.drift:drift",
    "explain": "replayer.commands.explain:explain",
    "cut": "replayer.commands.reshape:cut",
    "rekey": "replayer.commands.reshape:rekey",
    "join": "replayer.commands.reshape:join",
    "pack": "replayer.commands.pack:pack",
    "branch": "replayer.commands.branch:branch",
    "tree": "replayer.commands.tree:tree",
    "find": "replayer.commands.find:find",
    "who": "replayer.commands.who:who",
    "index": "replayer.commands.index:index",
    "shrink": "replayer.commands.shrink:shrink_tape",
    "influence": "replayer.commands.influence:influence",
    "bisect": "replayer.commands.bisect:bisect",
    "export": "replayer.commands.export:export",
    "extract": "replayer.commands.extract:extract_tapes",
    "certify": "replayer.commands.certify:certify_tape",
    "plot": "replayer.commands.export:plot",
    "diff": "replayer.commands.diff:diff",
    "results": "replayer.commands.results:results",
    "compare": "replayer.commands.results:compare",
    "ls": "replayer.commands.ls:ls",
    "view": "replayer.commands.view:view",
    "render": "replayer.commands.render:render",
    "completion": "replayer.commands.completion:completion",
}


def help_text() -> str:
    """What the program is for, and examples."""
    return (
        "Replay recordings: any tick in milliseconds, every hash checked.\n\n"
        "TAPE is a file. Without it, the newest tape in recordings/ is used.\n\n"
        "--memory SIZE, with any command: what one state of a tape may take, such as 500MB. By default a quarter of\n"
        "the memory that this process may use. A tape from a stranger may unpack to a thousand times its size.\n\n"
        "Try:\n"
        "  replay info\n"
        "  replay seek --tick 2500 --picture\n"
        "  replay seek run.tape --tick -1 --json\n"
        "  replay verify run.tape --jobs 2\n"
        "  replay tail run.tape                   follow a recording while it runs\n"
        "  replay follow run.tape                 verify a recording while it runs\n"
        "  replay view run.tape                   scrub through it in the browser\n"
        "  replay render run.tape --ticks 0..-1 -o run.mp4\n"
        "  replay find 'plants.energy.sum() > 2000' run.tape --first\n"
        "  replay who run.tape --field plants.energy --row 7\n"
        "  replay index run.tape                  make find and who skip most intervals\n"
        "  replay cut run.tape --ticks 2400..2500 -o incident.tape\n"
        "  replay branch run.tape --at 400 --override other.jsonl -o other.tape\n"
        "  replay tree runs                       the branches in a folder, as a tree\n"
        "  replay shrink run.tape --until 'stock < 0' -o small.tape\n"
        "  replay influence run.tape --field plants.energy --row 7 --at 400\n"
        "  replay plot run.tape -o run.png        populations, energies, deaths\n"
        "  replay diff one.tape other.tape        where two recordings diverge\n"
        "  replay bisect run.tape --good v1.2     the first commit under which it no longer verifies\n"
        "  replay ls runs --stats                 statistics of the runs in a folder\n"
        "  replay results ambush.tape             the result of a scenario's run\n"
        "  replay compare lossy-1 lossy-2         two sweeps, or the events of two tapes\n"
        "  replay export run.tape --telemetry -o run.csv\n"
        "  replay extract runs/*.tape -o data     training pairs as Parquet\n"
        "  replay check walkers:Walkers           does a step read anything outside the state?\n"
        "  replay repair broken.tape -o good.tape"
    )


def shows_help(arguments: Sequence[str]) -> bool:
    """Print the help of the program if these arguments ask for it; return False if not, or if load has to do it."""
    return shipped_help.shows_help(arguments, "replay", help_text(), COMMANDS, SUMMARIES)


def load(arguments: Sequence[str]) -> App:
    """Build the program and import the modules that these arguments need."""
    from recorder.console.lazy_commands import load_app  # noqa: PLC0415 - the help is printed without what it imports

    return load_app("replay", help_text(), COMMANDS, arguments)


def _fields(finding: Finding | None) -> list[str]:
    if finding is None:
        return []
    from replayer.desync.object_diff import named_fields  # noqa: PLC0415 - most commands do not need it

    return named_fields(finding.compared_states, [difference.field for difference in finding.differences])


def _error_as_json(error: BaseException, line: str, code: int) -> None:
    """Print an error as JSON; for a desync, also the tick, the hashes, the fields and the dump."""
    facts: dict[str, Any] = {"error": line, "exit_code": code}
    if isinstance(error, DesyncError):
        facts |= {
            "first_bad": error.tick,
            "expected_hash": f"{error.expected_hash:016x}",
            "actual_hash": f"{error.actual_hash:016x}",
            "fields": _fields(error.finding),
            "note": error.finding.note if error.finding else None,
            "dump": str(error.dump_path) if error.dump_path is not None else None,
        }
    from recorder.console.output import print_json  # noqa: PLC0415 - see load

    print_json(facts)


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script ``replay``."""
    from recorder.console.app import run_app  # noqa: PLC0415 - see load
    from recorder.console.memory_option import split_memory  # noqa: PLC0415
    from recorder.processes.interpreter import take_arguments  # noqa: PLC0415

    words, memory = split_memory(take_arguments() if arguments is None else arguments)
    on_error = _error_as_json if "--json" in words else None
    sys.exit(run_app(load(words), words, on_error, unnamed="standard output", memory=memory))
