"""One thing that steps read of the outside world, with what can be compared of it between two processes."""

from __future__ import annotations

import importlib.util
import os
import stat
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import attrs

FILE, FOLDER, ATTRIBUTES, VARIABLE = "file", "folder", "attributes", "variable"
CHANGED = "time of change"  # Noted of each file whose attributes are read; compared by a test, not by itself.
IMPORT = "import"  # Of a module that was not loaded: found, or absent.
ZONE, LOCALE, THREADS, TEXT_HASH = "time zone", "locale", "threads", "hash of text"
CLOCK, ENTROPY, GENERATOR, IDENTITY, CONTACT = "clock", "entropy", "generator", "identity", "contact"
NUMBER = "number of a thread"
ARGUMENTS = "arguments"  # Of the program, without its own name.
ARGUMENTS_NAME = "sys.argv"
KINDS = frozenset(
    (
        FILE,
        FOLDER,
        ATTRIBUTES,
        CHANGED,
        VARIABLE,
        IMPORT,
        ZONE,
        LOCALE,
        THREADS,
        TEXT_HASH,
        CLOCK,
        ENTROPY,
        GENERATOR,
        IDENTITY,
        CONTACT,
        NUMBER,
        ARGUMENTS,
    )
)

# Modules of finders that find what sys.path has, or modules of their own package alone.
_FINDERS = {"_frozen_importlib", "_frozen_importlib_external", "_distutils_hack", "_virtualenv", "_pytest", "six"}
DIGEST_BYTES = 8
CONTENT_BYTES_MAX = (
    4 << 20
)  # Of a file, named in texts as 4 MiB; reading more would take longer than the step. The size is compared as well.
NAME_CHARS_MAX = 200
ABSENT, UNSET, FOUND = "absent", "unset", "found"


@attrs.frozen
class OutsideRead:
    """One thing that was read from one line.

    Attributes:
        kind: one of KINDS.
        name: the path as it was given, the name of the variable, or of the function that was called.
        path, line: of the user's code.
        fact: equal if the same was read: a digest or a short value; None if two processes cannot be compared in it.
        count: how many times it was read there.
    """

    kind: str
    name: str
    path: str
    line: int
    fact: str | None
    count: int = 1

    @property
    def place(self) -> str:
        """For example game.py:31."""
        return f"{Path(self.path).name}:{self.line}"

    def to_plain(self) -> list[Any]:
        """Encode as plain data."""
        return list(attrs.astuple(self))

    @staticmethod
    def from_plain(plain: Any) -> OutsideRead:
        """Decode the plain data of to_plain. Raises ValueError if it is something else."""
        match plain:
            case [str(kind), str(name), str(path), int(line), str() | None as fact, int(count)] if kind in KINDS:
                return OutsideRead(kind, name, path, line, fact, count)
        raise ValueError(f"expected the six parts of a read, got {plain!r:.60}")


def fact_of(kind: str, name: str) -> str | None:
    """The fact of a file, a folder, a file's attributes or a variable, as it is now; None for other kinds."""
    match kind:
        case "file":
            return content_fact(name)
        case "folder":
            return folder_fact(name)
        case "attributes":
            return attributes_fact(name)
        case "time of change":
            return changed_fact(name)
        case "import":
            return module_fact(name)
        case "variable":
            return variable_fact(os.environ.get(name))
    return None


def content_fact(path: str) -> str | None:
    """The size and a digest of the first CONTENT_BYTES_MAX of a regular file; None if it is not one, or unreadable."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - a Path would read the same outside
            return None
        with open(path, "rb") as file:  # noqa: PTH123
            size = os.fstat(file.fileno()).st_size
            return f"{size} {_digest(file.read(CONTENT_BYTES_MAX))}"
    except FileNotFoundError:
        return ABSENT
    except (OSError, ValueError):
        return None


def folder_fact(path: str) -> str | None:
    """The number of names in a folder, a digest of the sorted ones, and one in the order in which they are listed."""
    try:
        names = os.listdir(path)  # noqa: PTH208 - the names alone, in the order in which the system lists them
    except FileNotFoundError:
        return ABSENT
    except (OSError, ValueError):
        return None
    return f"{len(names)} {_digest(_joined(sorted(names)))} {_digest(_joined(names))}"


def attributes_fact(path: str) -> str | None:
    """The kind and the size of a file. Its times are left out: a copy of a project has others."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except FileNotFoundError:
        return ABSENT
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(found.st_mode):
        return file_attributes(found.st_size)
    return "folder" if stat.S_ISDIR(found.st_mode) else "neither file nor folder"


def file_attributes(size_bytes: int) -> str:
    """The attributes of a regular file."""
    return f"file of {size_bytes} bytes"


def changed_fact(path: str) -> str | None:
    """The time at which a regular file was changed, in nanoseconds; None if it is not one, or cannot be read."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return None
    return str(found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


def module_fact(name: str) -> str | None:
    """FOUND if a module of this name could be imported, or ABSENT; None if that cannot be said without importing it."""
    try:
        return ABSENT if importlib.util.find_spec(name) is None else FOUND
    except (ImportError, ValueError):
        return None


def quiet_module_fact(name: str) -> str | None:
    """As module_fact(), but no finder is asked that a program added; None if one of these might find the module."""
    if name in sys.modules:
        return ABSENT if sys.modules[name] is None else FOUND
    try:
        spec = PathFinder.find_spec(name)
    except Exception:  # noqa: BLE001 - of a hook for paths
        return None
    if spec is not None:
        return FOUND
    finders = (str(getattr(one, "__module__", "") or type(one).__module__) for one in sys.meta_path)
    return ABSENT if all(one.partition(".")[0] in _FINDERS for one in finders) else None


def variable_fact(value: str | None) -> str:
    """A digest of the value of an environment variable: the value itself may be a secret."""
    return UNSET if value is None else _digest(value.encode("utf-8", "surrogateescape"))


def arguments_fact(arguments: Iterable[str]) -> str:
    """A digest of the arguments of a program after its name: one of them may be a secret."""
    return _digest(_joined([one.replace("\0", "") for one in arguments]))


def argument_digest(argument: str) -> str:
    """A digest of one argument of a program."""
    return _digest(os.fsencode(argument.replace("\0", "")))


def _joined(names: list[str]) -> bytes:
    return b"\0".join(os.fsencode(name) for name in names)


def _digest(content: bytes) -> str:
    import hashlib  # noqa: PLC0415 - it loads OpenSSL

    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).hexdigest()
