"""Values whose content is memory of C code, read and put back as bytes: numbers of ctypes, mapped memory, SQLite in memory.

Those of multiprocessing count, too: a view of a block of shared memory, and numbers of ctypes with a lock.

Pointers are left out: an address says nothing in another process.
"""

from __future__ import annotations

import sys
from typing import Any

import attrs

_SHOWN = 200  # Elements; a text is cut to fewer.
_NUMBERS = frozenset("bBhHiIlLqQfd?")


@attrs.frozen(repr=False)
class Memory:
    """Stands for such a value in a comparison. text: for people. content: see memory_of."""

    text: str
    content: bytes | None

    def __repr__(self) -> str:
        return self.text


def is_memory(kind: type) -> bool:
    """Return True for a type whose values memory_of can read."""
    is_database = kind is getattr(
        sys.modules.get("sqlite3"), "Connection", None
    )  # A derived class has methods of its own.
    return kind is memoryview or _is_numbers(kind) or _is_of("mmap", "mmap", kind) or _has_lock(kind) or is_database


def memory_of(value: Any) -> bytes | None:
    """The content of such a value; None if it cannot be read, as that of a database in a file or in another thread."""
    kind = type(value)
    try:
        if _is_of("sqlite3", "Connection", kind):
            return _database(value)
        if _is_of("mmap", "mmap", kind):
            return bytes(value[:])
        return bytes(_locked_numbers(value) if _has_lock(kind) else value)
    except _errors():
        return None


def put_memory(value: Any, content: bytes) -> bool:
    """Give a value the content that memory_of returned. Return False if that is not possible."""
    kind = type(value)
    try:
        if _is_of("sqlite3", "Connection", kind):
            _put_database(value, content)
        elif _is_of("mmap", "mmap", kind):
            value[:] = content
        else:
            numbers = _locked_numbers(value) if _has_lock(kind) else value
            memoryview(numbers).cast("B")[:] = content
    except _errors():
        return False
    return True


def memory_text(value: Any) -> str:
    """A short text of such a value, for people."""
    content = memory_of(value)
    if _is_of("sqlite3", "Connection", type(value)):
        return "an SQLite database" if content is None else f"an SQLite database of {len(content):,} bytes of SQL"
    try:
        numbers = _locked_numbers(value) if _has_lock(type(value)) else value
        return f"{type(value).__name__} {list(numbers[:_SHOWN])}"
    except (TypeError, ValueError, NotImplementedError):  # No sequence, a view that was released, or of two dimensions.
        return f"a {type(value).__name__}"


def _is_of(module: str, name: str, kind: type) -> bool:
    """Return True for a class of a module, or one that is derived of it; that module need not be loaded."""
    base = getattr(sys.modules.get(module), name, None)
    return isinstance(base, type) and issubclass(kind, base)


def _has_lock(kind: type) -> bool:
    return _is_of("multiprocessing.sharedctypes", "SynchronizedBase", kind)


def _locked_numbers(value: Any) -> Any:
    """The numbers themselves. The lock is not taken: another process may hold it for ever."""
    numbers = vars(value).get("_obj")
    if not _is_numbers(type(numbers)):
        raise TypeError("pointers, or an object of another version")
    return numbers


def _is_numbers(kind: Any) -> bool:
    loaded: Any = sys.modules.get("_ctypes")
    if loaded is None:
        return False
    if issubclass(kind, loaded._SimpleCData):  # noqa: SLF001 - the base class has no other name
        return getattr(kind, "_type_", "") in _NUMBERS
    if issubclass(kind, loaded.Array):
        return _is_numbers(kind._type_)
    if issubclass(kind, loaded.Structure):
        return all(_is_numbers(field[1]) for field in getattr(kind, "_fields_", [(0, object)]))
    return False


def _database(connection: Any) -> bytes | None:
    """All rows of a database in memory, as SQL: an open cursor does not prevent that. Functions of the user's are not called."""
    kept = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        files = [file for _, _, file in connection.execute("pragma database_list")]
        return "\n".join(connection.iterdump()).encode() if not any(files) else None
    finally:
        connection.row_factory, connection.text_factory = kept


def _put_database(connection: Any, content: bytes) -> None:
    """Replace all of a database, by a copy of another one: it is as it was if that is not possible."""
    if _database(connection) == content:
        return
    other = sys.modules["sqlite3"].connect(":memory:")
    try:
        other.executescript(content.decode())
        connection.rollback()
        other.backup(connection)
    finally:
        other.close()


def _errors() -> tuple[type[Exception], ...]:
    error = getattr(sys.modules.get("sqlite3"), "Error", ValueError)
    return ValueError, TypeError, error
