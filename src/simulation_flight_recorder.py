"""Where the commands ``record`` and ``replay`` begin: Ctrl-C while everything is imported ends them in silence.

Nothing of ours is imported at the top: that is what takes the time.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys

INTERRUPTED = 130


def record() -> None:
    """The console script ``record``."""
    _run("recorder.cli")


def replay() -> None:
    """The console script ``replay``."""
    _run("replayer.cli")


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
