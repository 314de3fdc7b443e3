"""Note what steps read of the outside world, each with the line of the user's code.

Files, folders, the network, other programs and id() come from Python's audit events; the rest from functions that are
replaced by ones that note the call. An audit hook cannot be removed, and it makes id() slower by a factor of ten:
use it in a copy of the process. C code is not seen where it calls none of this.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import attrs

import recorder.processes.isolation.refused_calls
import recorder.processes.seeds.unseeded
from recorder.ambient.outside.outside_read import (
    ARGUMENTS,
    ARGUMENTS_NAME,
    ATTRIBUTES,
    CHANGED,
    CLOCK,
    CONTACT,
    ENTROPY,
    FILE,
    FOLDER,
    IDENTITY,
    IMPORT,
    NAME_CHARS_MAX,
    NUMBER,
    TEXT_HASH,
    VARIABLE,
    OutsideRead,
    fact_of,
    module_fact,
    variable_fact,
)
from recorder.ambient.outside.own_code import is_librarys, only_waits
from recorder.ambient.outside.read_functions import Call, read_functions, watch_arguments, watch_pools
from recorder.processes.seeds.unseeded import RESEEDED, SHARED_SEED, UNSEEDED, replace_seeding, shared_seed

_Key = tuple[str, str, str, int]  # Of a read: kind, name, file and line.
_Before = tuple[int, int]  # The number of a file and the time at which it was written.
STAMP_NS = 3_000_000_000  # Of some file systems, the times of two writes are no more than 2 s apart and equal.
# As they are before they are replaced by ones that note the call.
_stat, _now_ns = os.stat, time.time_ns
READS_MAX = 200  # Different ones; a step that reads more has a loop over files.

_CONTACTS = {
    "socket.connect": "a connection",
    "socket.getaddrinfo": "a network name",
    "socket.gethostname": "the name of this computer",
    "subprocess.Popen": "another program",
    "os.system": "another program",
    "sqlite3.connect": "an SQLite database",
}
_SHOWN = {
    "random.getrandbits": "a seed from the system",  # What NumPy's default_rng() draws.
    "random.__init__": UNSEEDED,
}
_NAMED = {FILE, FOLDER, ATTRIBUTES, CHANGED, VARIABLE, ARGUMENTS}  # Not by the function of a library that reads them.
_RANDOM_DEVICES = ("/dev/urandom", "/dev/random")
_LIBRARY = f"{os.path.dirname(os.__file__)}/"  # noqa: PTH120
_NOT_READS = ("linecache.py", "traceback.py")  # They show source lines, for example in a warning.
# Code that is loaded, and compilers, which read hundreds of files of installed packages, clocks and random names.
_LOADING = ("<frozen importlib", f"{_LIBRARY}importlib/metadata/")
_COMPILERS = tuple(f"/site-packages/{name}/" for name in ("numba", "llvmlite", "jax", "jaxlib"))
_PASSED_ON = (
    recorder.processes.isolation.refused_calls.__file__,
    recorder.processes.seeds.unseeded.__file__,
    os.path.join(os.path.dirname(__file__), ""),  # noqa: PTH118, PTH120
)


class ReadWatch:
    """Notes reads while it is watching.

    Attributes:
        is_full: True if there were more reads than are kept.
    """

    def __init__(self, is_own: Callable[[str], bool]) -> None:
        self._is_own = is_own
        self._reads: dict[_Key, OutsideRead] = {}
        self._busy = threading.local()
        # By full path, what it was before: what is read there afterwards is the step's own, unless that was refused.
        self._emptied: dict[str, _Before | None] = {}
        self._unseeded: dict[int, tuple[Any, _Key | None]] = {}  # Generators, kept alive, with the read of each.
        self.is_full = False

    @property
    def reads(self) -> list[OutsideRead]:
        """Everything that was read, in the order of the first reads."""
        return list(self._reads.values())

    @contextmanager
    def watching(self, *, functions: bool = True) -> Iterator[None]:
        """Note reads while the context is open. functions: replace functions too, which compiled code may not bear."""
        _install()
        restore_variables = self._watch_variables()
        restore_arguments = watch_arguments(self._note_arguments)
        restore_seeding = replace_seeding(self._note_unseeded, self._forget_unseeded)
        substitutes = read_functions(self._called) if functions else {}
        substitutes[id(SHARED_SEED)] = SHARED_SEED, shared_seed(lambda: self._note_entropy(RESEEDED))
        originals = self._replace(substitutes) if functions else []
        restore_pools = watch_pools(self._called) if functions else None
        _active.append(self)
        try:
            yield
        finally:
            _active.remove(self)
            for holder, name, original in originals:
                holder[name] = original
            if restore_pools is not None:
                restore_pools()
            restore_arguments()
            restore_variables()
            restore_seeding()

    def note(self, kind: str, name: str, fact: Callable[[], str | None]) -> _Key | None:
        """Note a read, unless it is none of the user's code. fact: called if it is the first one there."""
        if getattr(self._busy, "is_busy", False):
            return None
        self._busy.is_busy = True
        try:
            caller = self._caller(sys._getframe(1), kind)  # noqa: SLF001 - inspect.stack would read source files
            if caller is None:
                return None
            function, path, line = caller
            shown = name if kind in _NAMED or function is None else function
            key = kind, shown[:NAME_CHARS_MAX], path, line
            known = self._reads.get(key)
            if known is not None:
                self._reads[key] = attrs.evolve(known, count=known.count + 1)
            elif len(self._reads) < READS_MAX:
                self._reads[key] = OutsideRead(*key, fact())
            else:
                self.is_full = True
            return key
        finally:
            self._busy.is_busy = False

    def _note_arguments(self, fact: str) -> None:
        self.note(ARGUMENTS, ARGUMENTS_NAME, lambda: fact)

    def _note_entropy(self, name: str) -> _Key | None:
        return self.note(ENTROPY, name, lambda: None)

    def _note_unseeded(self, generator: Any) -> None:
        self._unseeded[id(generator)] = generator, self._note_entropy(UNSEEDED)

    def _forget_unseeded(self, generator: Any) -> None:
        """Take back what was noted of a generator that is given a state: it is a copy, or was loaded."""
        _, key = self._unseeded.pop(id(generator), (None, None))
        known = None if key is None else self._reads.get(key)
        if key is not None and known is not None:
            del self._reads[key]
            if known.count > 1:
                self._reads[key] = attrs.evolve(known, count=known.count - 1)

    def is_direct(self, depth: int) -> bool:
        """Return True if the frame that far above the caller's is the user's: what a library does with ids is its own."""
        return self._is_own(sys._getframe(depth + 1).f_code.co_filename)  # noqa: SLF001

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note an audit event that is a read."""
        if event == "open":
            path, mode, flags = arguments
            name = _path_text(path)
            if name is not None and _empties(flags):
                full = os.path.abspath(name)  # noqa: PTH100 - links may lead elsewhere by then
                if not self._is_steps_own(full):
                    self._emptied[full] = _as_it_was(full)
            elif name is not None and _reads(mode, flags) and not self._is_steps_own(os.path.abspath(name)):  # noqa: PTH100
                if name in _RANDOM_DEVICES:
                    self.note(ENTROPY, name, lambda: None)
                elif name.startswith("/proc/"):
                    self.note(IDENTITY, name, lambda: None)
                else:
                    self.note(FILE, name, lambda: fact_of(FILE, name))
        elif event in {"os.listdir", "os.scandir"}:
            folder = "." if arguments[0] is None else _path_text(arguments[0])
            if folder is not None:
                self.note(FOLDER, folder, lambda: fact_of(FOLDER, folder))
        elif event == "import":
            self._note_import(arguments[0])
        elif event in _CONTACTS:
            self.note(CONTACT, f"{_CONTACTS[event]} ({event})", lambda: None)
            database = _path_text(arguments[0]) if event == "sqlite3.connect" else None
            if database is not None and os.path.isfile(database):  # noqa: PTH113
                self.note(FILE, database, lambda: fact_of(FILE, database))

    def _is_steps_own(self, path: str) -> bool:
        """Return True if the step has emptied a file. The event comes before the file is opened, which may be refused."""
        return path in self._emptied and (self._emptied[path] is None or self._emptied[path] != _stamp(path))

    def _note_import(self, module: str) -> None:
        """Note the import of a module of an installed package or of the user's, by a line of the user's code."""
        frame: FrameType | None = sys._getframe(3)  # noqa: SLF001
        while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
            frame = frame.f_back
        if frame is None or not self._is_own(frame.f_code.co_filename):
            return
        if "." in module or module in sys.stdlib_module_names or getattr(self._busy, "is_busy", False):
            return
        key = IMPORT, module, frame.f_code.co_filename, frame.f_lineno
        if key not in self._reads and len(self._reads) < READS_MAX:
            self._reads[key] = OutsideRead(*key, module_fact(module))

    def _called(self, call: Call, result: Any, arguments: tuple[Any, ...]) -> None:
        fact = call.fact
        if call.kind in {TEXT_HASH, IDENTITY, CONTACT, NUMBER} and not self.is_direct(2):
            return
        if call.reads is None or call.reads(*arguments):
            name = _path_text(arguments[0]) if call.names_path and arguments else call.name
            if name is not None:
                self.note(call.kind, name, lambda: None if fact is None else fact(result, arguments))
                if call.kind == ATTRIBUTES and result not in (None, False):  # It is there.
                    self.note(CHANGED, name, lambda: fact_of(CHANGED, name))

    def _watch_variables(self) -> Callable[[], None]:
        kind: Any = type(os.environ)
        get_item = kind.__getitem__

        def value_of(name: str) -> str | None:
            try:
                return str(get_item(os.environ, name))
            except KeyError:
                return None

        def read(mapping: Any, key: Any) -> Any:
            name = key.decode("utf-8", "replace") if isinstance(key, bytes) else key
            if isinstance(name, str) and (mapping is os.environ or mapping is getattr(os, "environb", None)):
                self.note(VARIABLE, name, lambda: variable_fact(value_of(name)))
            return get_item(mapping, key)

        def restore() -> None:
            kind.__getitem__ = get_item

        kind.__getitem__ = read
        return restore

    def _replace(self, substitutes: dict[int, tuple[Any, Any]]) -> list[tuple[dict[str, Any], str, Any]]:
        """Put the substitutes in place of the originals in the modules that hold them and in the user's."""
        replaced = []
        for module in list(sys.modules.values()):
            names = getattr(module, "__dict__", None)
            if not isinstance(names, dict):
                continue
            if module.__name__ not in _HOLDERS and not self._is_own(getattr(module, "__file__", None) or ""):
                continue
            for name, value in list(names.items()):
                if id(value) in substitutes and substitutes[id(value)][0] is value:
                    replaced.append((names, name, value))
                    names[name] = substitutes[id(value)][1]
        return replaced

    def _caller(self, frame: FrameType | None, kind: str) -> tuple[str | None, str, int] | None:
        """The function of Python's library that the user's code called, if any, and the line of that call.

        None for a read of none of the user's code, and for clocks and random names that locks, waits and pools of the library read.
        """
        function = None
        while frame is not None:
            path = frame.f_code.co_filename
            if self._is_own(path):
                return _SHOWN.get(function or "", function), path, frame.f_lineno
            if path.startswith(_LOADING) or path.endswith(_NOT_READS) or any(name in path for name in _COMPILERS):
                return None
            if path.startswith(_LIBRARY) and "site-packages" not in path:
                if only_waits(path) and (kind == ENTROPY or (kind == CLOCK and function is None)):
                    return None
                function = library_name(frame)
            elif is_librarys(path) and not path.startswith(_PASSED_ON):
                return None  # A read of ours, while the state is captured.
            frame = frame.f_back
        return None


def library_name(frame: FrameType) -> str:
    """The name of a function of Python's library that runs; of a generator that asks the system, with its class."""
    module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_name
    is_systems = isinstance(frame.f_locals.get("self"), random.SystemRandom) and f"{module}.{name}" not in _SHOWN
    return f"{module}.SystemRandom().{name}" if is_systems else f"{module}.{name}"


_HOLDERS = frozenset(
    (
        "builtins",
        "time",
        "os",
        "gc",
        "sys",
        "resource",
        "random",
        "uuid",
        "datetime",
        "locale",
        "threading",
        "numpy.random",
        "numba",
        "torch",
    )
)
_active: list[ReadWatch] = []
_installed: list[bool] = []


def _install() -> None:
    if not _installed:
        sys.addaudithook(_audit)
        _installed.append(True)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _active:
        return
    watch = _active[-1]
    if event == "builtins.id":
        if watch.is_direct(1):
            watch.note(IDENTITY, "id", lambda: None)
    else:
        watch.audit(event, arguments)


def _path_text(path: Any) -> str | None:
    """A path as text; None for a file descriptor."""
    return os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else None


def _reads(mode: Any, flags: Any) -> bool:
    if isinstance(mode, str):
        return "r" in mode or "+" in mode
    return isinstance(flags, int) and flags & os.O_ACCMODE != os.O_WRONLY and not flags & os.O_DIRECTORY


def _stamp(path: str) -> _Before:
    """What tells a file from one that was emptied since; zeros for none."""
    try:
        found = _stat(path)
    except (OSError, ValueError):
        return 0, 0
    return found.st_ino, found.st_mtime_ns


def _as_it_was(path: str) -> _Before | None:
    """The stamp of a file that is about to be emptied; None if that may not change it: it was written only just before."""
    stamp = _stamp(path)
    return stamp if abs(_now_ns() - stamp[1]) > STAMP_NS else None


def _empties(flags: Any) -> bool:
    """Return True if a file that is opened is empty then, whatever was in it."""
    return isinstance(flags, int) and bool(flags & os.O_TRUNC)
