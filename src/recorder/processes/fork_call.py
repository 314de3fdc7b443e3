"""Do something in a forked copy of this process, and get what it gives as plain data; the original stays as it is."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack


def in_a_copy(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What work gives in a copy of this process. Raises RuntimeError if the copy died."""
    with tempfile.TemporaryDirectory(prefix="explain-") as folder:
        path = Path(folder) / "result"
        drawn = random.getstate()  # Python seeds the random module of a copy anew; here a copy is to be one.
        with warnings.catch_warnings():
            # Threads of a numeric library that wait for work: the copy has none of them, and starts its own.
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
            child = os.fork()
        if not child:
            random.setstate(drawn)
            _live(work, path)
        _, status = os.waitpid(child, 0)
        if status:
            raise RuntimeError(f"a copy of the process died with exit code {os.waitstatus_to_exitcode(status)}")
        result: dict[str, Any] = msgpack.unpackb(path.read_bytes(), strict_map_key=False)
        return result


def _live(work: Callable[[], dict[str, Any]], path: Path) -> None:
    """The whole life of a copy; it ends without closing or flushing what is the original's."""
    code = 1
    try:
        path.write_bytes(msgpack.packb(work()))
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, the copy must not go on as if it were the original
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)
