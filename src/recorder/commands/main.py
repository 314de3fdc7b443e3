"""The command ``record``: run scenarios and record them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from recorder.commands.summaries import SUMMARIES
from recorder.console import shipped_help

if TYPE_CHECKING:
    from cyclopts import App

COMMANDS = {  # The function of each subcommand; its module is imported on use.
    "run": "recorder.commands.run:run",
    "resume": "recorder.commands.resume:resume",
    "batch": "recorder.commands.batch:batch",
    "sweep": "recorder.commands.batch:sweep",
    "generate": "recorder.commands.generate:generate",
    "upload": "recorder.commands.upload:upload",
    "scenarios": "recorder.commands.scenarios:scenarios",
    "checkpoints": "recorder.commands.list_checkpoints:checkpoints",
    "completion": "recorder.commands.completion:completion",
}


def help_text() -> str:
    """What the program is for, and examples."""
    return (
        "Record simulations: the inputs and a state hash of every tick, and regular keyframes.\n\n"
        "Try:\n"
        "  record scenarios                 list the bundled scenarios\n"
        "  record run quiet-meadow          record one of them into recordings/\n"
        "  record run my.toml -o my.tape --ticks 10000 --seed 3\n"
        "  record resume my.tape            continue after a crash, in the same tape\n"
        "  record upload my.tape s3://bucket/my.tape\n"
        "  record batch arms-race --seeds 0..63 -o runs\n"
        "  record sweep my.toml --axis seed=0..9 --axis scenario.network.loss=0,0.1 -o lossy\n"
        "  record generate arms-race --seeds 0..63 --player caterpillar=greedy,random -o runs"
    )


def shows_help(arguments: Sequence[str]) -> bool:
    """Print the help of the program if these arguments ask for it; return False if not, or if load has to do it."""
    return shipped_help.shows_help(arguments, "record", help_text(), COMMANDS, SUMMARIES)


def load(arguments: Sequence[str]) -> App:
    """Build the program and import what these arguments need."""
    from recorder.console.lazy_commands import load_app  # noqa: PLC0415 - the help is printed without what it imports

    return load_app("record", help_text(), COMMANDS, arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script ``record``."""
    from recorder.console.app import run_app  # noqa: PLC0415 - see load
    from recorder.console.memory_option import split_memory  # noqa: PLC0415
    from recorder.processes.interpreter import take_arguments  # noqa: PLC0415

    words, memory = split_memory(take_arguments() if arguments is None else arguments)
    sys.exit(run_app(load(words), words, unnamed="standard output", memory=memory))
