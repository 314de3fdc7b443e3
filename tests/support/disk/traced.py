"""The recorded calls of a program compared with those that strace sees: nothing may be missed.

The program runs in a process of its own under strace. Of its system calls those that can change a file or folder below
the watched one are taken. Names and syncs must be the recorded ones, in the same order; and no other call may be there.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from disk.cut_programs import BORDER, RECORDINGS
from disk.cut_promises import Broken, Cuts
from disk.file_calls import Calls
from disk.folder_cuts import FOLDERS

# The calls of a watched folder that change nothing that outlives a power cut, or whose effect the record has as content.
CONTENT = {
    "write",
    "writev",
    "pwrite64",
    "ftruncate",
    "truncate",
    "fallocate",
    "mmap",
    "openat",
    "sendfile",
    "copy_file_range",
}
HARMLESS = {
    "access", "close", "dup", "dup2", "dup3", "faccessat2", "fcntl", "fchmod", "flock", "fstat", "getdents64", "ioctl",
    "lseek", "lstat", "newfstatat", "pread64", "preadv", "read", "readlink", "readlinkat", "readv", "stat", "statfs",
    "fstatfs", "statx", "getxattr", "lgetxattr", "utimensat", "chdir", "getcwd", "chmod", "fchmodat", "execve", "munmap",
}  # fmt: skip
NAMED = {
    "link": "link", "linkat": "link", "rename": "rename", "renameat": "rename", "renameat2": "rename", "unlink": "unlink",
    "unlinkat": "unlink", "mkdir": "mkdir", "mkdirat": "mkdir", "rmdir": "rmdir", "fsync": "sync", "fdatasync": "sync",
}  # fmt: skip
_LINE = re.compile(r"^\d+\s+(\w+)\((.*)\)\s+= (-?\d+)")


def seen_by_strace(log: str, folder: Path) -> list[str]:
    """The calls in a log of ``strace -f -y``, each as its kind and the last part of a path."""
    found = []
    borders = 0
    for line in _joined(log):
        borders += BORDER in line
        if borders != 1:
            continue
        match = _LINE.match(line)
        if match is None or str(folder) not in line or match[3] == "-1":
            continue
        name, arguments = match[1], match[2]
        if name in NAMED:
            kind = "rmdir" if "AT_REMOVEDIR" in arguments else NAMED[name]
            path = (re.findall(r'"([^"]*)"', arguments) or re.findall(r"<([^>]*)>", arguments))[-1]
            found.append(_shown(kind, Path(path.removesuffix(" (deleted)")).name))
        else:
            assert name in CONTENT | HARMLESS, f"a call that the model does not know: {line}"
    return found


def _shown(kind: str, name: str) -> str:
    """A call as text. strace knows an open file by the name that it was opened by, which is gone after a link."""
    return f"{kind} {name.removesuffix('.new') if kind == 'sync' else name}"


def _joined(log: str) -> list[str]:
    """The lines of a log; a call that was interrupted by another thread's is put together."""
    lines, open_calls = [], dict[str, str]()
    for line in log.splitlines():
        thread = line.split(maxsplit=1)[0]
        if line.endswith("<unfinished ...>"):
            open_calls[thread] = line.removesuffix("<unfinished ...>").rstrip()
        elif "resumed>" in line and thread in open_calls:
            lines.append(open_calls.pop(thread) + line.partition("resumed>")[2])
        else:
            lines.append(line)
    return lines


def as_recorded(calls: Calls) -> list[str]:
    """The recorded calls in the same form."""
    names = {0: calls.folder.name}
    for path in calls.start:
        names[sorted(calls.start).index(path) + 1] = Path(path).name
    found = []
    for call in calls.calls:
        if call.kind in {"sync", "sync_folder"}:
            found.append(_shown("sync", names[call.file]))
        elif call.kind in {"link", "rename", "unlink", "mkdir", "rmdir"}:
            found.append(f"{call.kind} {call.name}")
        if call.name and call.kind != "unlink":
            names[call.file] = call.name
    return found


def compare(name: str, folder: Path) -> int:
    """Run a program under strace; return the number of calls, all of which were recorded in the same order."""
    program = [sys.executable, __file__, name, str(folder), str(folder / "recorded.json")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONDONTWRITEBYTECODE": "1"}
    log = folder / "strace.log"
    subprocess.run(["strace", "-f", "-y", "-qq", "-o", log, *program], check=True, env=environment)
    expected = json.loads((folder / "recorded.json").read_text())
    seen = seen_by_strace(log.read_text(errors="replace"), folder / "live")
    assert seen == expected, f"{name}: strace has {len(seen)} calls, {len(expected)} were recorded:\n{seen}\n{expected}"
    return len(seen)


class _Recorded(Cuts):
    """Records a program, and cuts no power."""

    made: Calls

    def during(self, calls: Calls, *_: Any) -> Iterator[Broken]:
        self.made = calls
        return iter(())


if __name__ == "__main__":
    _, program_name, parent, target = sys.argv
    cuts = _Recorded(Path(parent), 1, random.Random(1))
    list(cuts.recording(RECORDINGS[program_name]) if program_name in RECORDINGS else FOLDERS[program_name](cuts))
    Path(target).write_text(json.dumps(as_recorded(cuts.made)))
