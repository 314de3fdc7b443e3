"""Entry points of the commands: Ctrl-C during the imports ends the process without a message.

No module of ours that takes time is imported at the top. The help of a program needs few modules.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys

from simulation_flight_recorder_names import BEGINS, USAGE, TakenNameError, ensure_ours

INTERRUPTED = 130
NOT_OURS = 66  # This exit code tells the Rerun viewer that a file is not a tape.
TAPE_STARTS = b"\x89TAP\r\n\x1a\n"  # The format's magic, see recorder.format.blocks.file_header,
BLOCK_STARTS = b"\xf5BLK"  # and that of a block: the header of a tape may be damaged.
LOOK_BYTES = 1 << 16


def record() -> None:
    """The console script ``record``."""
    if (
        any(word.startswith("--checkpoints") for word in sys.argv)
        and signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
    ):
        signal.signal(signal.SIGUSR1, _EarlySignal())  # It asks for a checkpoint, and would end the process.
    _run("recorder.commands.main")


def replay() -> None:
    """The console script ``replay``."""
    _run("replayer.commands.main")


def rerun_importer() -> None:
    """The console script ``rerun-importer-tape``, which the Rerun viewer starts for every file that it opens."""
    if not any(_is_tape(word) for word in sys.argv[1:2]) and "--help" not in sys.argv:
        sys.exit(NOT_OURS)
    _run("replayer.commands.rerun_importer")


class _EarlySignal:
    """The handler of a signal that may come before the command has begun, which then looks at ``came``."""

    came = False

    def __call__(self, *_: object) -> None:
        self.came = True


def _is_tape(path: str) -> bool:
    """Return True for a file that begins as a tape does, or is named .tape and holds a block of one."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - importing pathlib would double the time of this check
            start = file.read(LOOK_BYTES)
    except OSError:
        return False  # A folder or an unreadable file: the viewer reports it.
    return start.startswith(TAPE_STARTS) or (path.endswith(".tape") and BLOCK_STARTS in start)


def _run(module_name: str) -> None:
    # A different handler means that the parent wants interrupts ignored, as for a background job.
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        signal.signal(signal.SIGINT, _leave)
    try:
        for package in BEGINS:
            ensure_ours(package, "this command")
        module = importlib.import_module(module_name)
        if "shows_help" in vars(module) and module.shows_help(sys.argv[1:]):
            return
        # Modules are made of objects that stay. Looking through them for garbage takes a tenth of the start.
        gc.disable()
        importlib.import_module("numpy")  # Not deep inside, where it takes longer: see recorder._lazy.
    except TakenNameError as error:  # By the PYTHONPATH, or by another distribution.
        sys.stderr.write(f"error: {error}\n")
        sys.exit(USAGE)
    module.load(sys.argv[1:])
    gc.freeze()
    gc.enable()
    try:
        if is_default:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        module.main()
    except KeyboardInterrupt:  # Raised before or after the command's own handling of it.
        sys.exit(INTERRUPTED)


def _leave(*_: object) -> None:
    """End at once: a module being imported could take an exception for a failed import."""
    os._exit(INTERRUPTED)
