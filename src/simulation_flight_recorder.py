"""Where the commands begin: Ctrl-C while everything is imported ends them in silence.

Nothing of ours is imported at the top: that is what takes the time.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys

INTERRUPTED = 130
NOT_OURS = 66  # By this code the Rerun viewer knows that a file is not for us.
TAPE_STARTS = b"\x89TAP\r\n\x1a\n"  # The format's magic, see recorder.format.blocks.file_header,
BLOCK_STARTS = b"\xf5BLK"  # and that of a block: the header of a tape may be damaged.
LOOK_BYTES = 1 << 16


def record() -> None:
    """The console script ``record``."""
    _run("recorder.commands.main")


def replay() -> None:
    """The console script ``replay``."""
    _run("replayer.commands.main")


def rerun_importer() -> None:
    """The console script ``rerun-importer-tape``, which the Rerun viewer starts for every file that it opens."""
    if not any(_is_tape(word) for word in sys.argv[1:2]) and "--help" not in sys.argv:
        sys.exit(NOT_OURS)
    _run("replayer.commands.rerun_importer")


def _is_tape(path: str) -> bool:
    """Whether a file begins as a tape does; a damaged one counts if it is called one."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib would be half of the time that this takes
            start = file.read(LOOK_BYTES)
    except OSError:
        return False  # A folder, or nothing that can be read: the viewer says so.
    return start.startswith(TAPE_STARTS) or (path.endswith(".tape") and BLOCK_STARTS in start)


def _run(module_name: str) -> None:
    # Where there is another one, somebody wants it ignored, as for a job in the background.
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:
        signal.signal(signal.SIGINT, _leave)
    module = importlib.import_module(module_name)
    module.load(sys.argv[1:])
    try:
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        module.main()
    except KeyboardInterrupt:  # Before the command's own way of dealing with it, or after that.
        sys.exit(INTERRUPTED)


def _leave(*_: object) -> None:
    """End at once: an exception could be taken for a failed import by what is being imported."""
    os._exit(INTERRUPTED)
