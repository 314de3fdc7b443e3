"""Values whose content is memory of C code, read and put back as bytes: numbers of ctypes, mapped memory, SQLite in memory.

Those of multiprocessing count, too: a view of a block of shared memory, and numbers of ctypes with a lock.

Pointers are left out: an address says nothing in another process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import attrs

_DECODED_BYTES_MAX = 1 << 20
_SHOWN = 200  # Elements; a text is cut to fewer.
_NUMBERS = frozenset("bBhHiIlLqQfd?")


@attrs.frozen(repr=False)
class Memory:
    """Stands for such a value in a comparison. text: for people. content: see memory_of. layout: the type of numbers of ctypes."""

    text: str
    content: bytes | None
    layout: Any = attrs.field(default=None, eq=False)

    @classmethod
    def of(cls, value: Any, content: bytes | None) -> Memory:
        """Of a value with that content."""
        kind = type(value)
        return cls(memory_text(value), content, type(vars(value).get("_obj")) if _has_lock(kind) else kind)

    def numbers(self) -> list[tuple[str, Any]]:
        """The plain values in it, by their paths; empty for memory without a layout, and for very much."""
        if self.content is None or len(self.content) > _DECODED_BYTES_MAX or not is_numbers(self.layout):
            return []
        # A class of the user's may have a method of this name.
        from_buffer_copy = type(self.layout).from_buffer_copy
        return list(numbers_in(from_buffer_copy(self.layout, self.content)))

    def __repr__(self) -> str:
        return self.text


def is_memory(kind: type) -> bool:
    """Return True for a type whose values memory_of can read."""
    is_database = kind is getattr(
        sys.modules.get("sqlite3"), "Connection", None
    )  # A derived class has methods of its own.
    return kind is memoryview or is_numbers(kind) or _is_of("mmap", "mmap", kind) or _has_lock(kind) or is_database


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
        if is_numbers(type(numbers)):
            return f"{type(value).__name__} {_text_of_numbers(numbers)}"
        return f"{type(value).__name__} {list(numbers[:_SHOWN])}"
    except (TypeError, ValueError, NotImplementedError):  # No sequence, a view that was released, or of two dimensions.
        return f"a {type(value).__name__}"


def numbers_in(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The plain values in numbers of ctypes, by names of fields and indexes: [3].kind. No method of the user's is called."""
    c: Any = sys.modules["_ctypes"]
    if isinstance(value, c.Array):
        for index in range(c.Array.__len__(value)):
            yield from numbers_in(c.Array.__getitem__(value, index), f"{path}[{index}]")
    elif isinstance(value, c.Structure):
        for name, field in _fields_of(type(value)):
            yield from numbers_in(field.__get__(value), f"{path}.{name}")
    elif isinstance(value, c._SimpleCData):  # noqa: SLF001 - the base class has no other name
        yield path or ".value", c._SimpleCData.value.__get__(value)  # noqa: SLF001
    else:
        yield path, value


def _fields_of(kind: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a structure, those of its bases first, with the descriptors that read them."""
    for base in reversed(kind.__mro__):
        for name, *_ in vars(base).get("_fields_", ()):
            if type(field := vars(base).get(name)).__name__ == "CField":
                yield name, field


def _text_of_numbers(value: Any) -> str:
    """Numbers of ctypes as Python would show them as a list, a number, or a record of fields."""
    c: Any = sys.modules["_ctypes"]
    if isinstance(value, c.Array):
        shown = min(c.Array.__len__(value), _SHOWN)
        return f"[{', '.join(_text_of_numbers(c.Array.__getitem__(value, index)) for index in range(shown))}]"
    if isinstance(value, c.Structure):
        return (
            f"({', '.join(f'{name}={_text_of_numbers(one.__get__(value))}' for name, one in _fields_of(type(value)))})"
        )
    return repr(next(numbers_in(value))[1])


def _is_of(module: str, name: str, kind: type) -> bool:
    """Return True for a class of a module, or one that is derived of it; that module need not be loaded."""
    base = getattr(sys.modules.get(module), name, None)
    return isinstance(base, type) and issubclass(kind, base)


def _has_lock(kind: type) -> bool:
    return _is_of("multiprocessing.sharedctypes", "SynchronizedBase", kind)


def _locked_numbers(value: Any) -> Any:
    """The numbers themselves. The lock is not taken: another process may hold it for ever."""
    numbers = vars(value).get("_obj")
    if not is_numbers(type(numbers)):
        raise TypeError("pointers, or an object of another version")
    return numbers


def is_numbers(kind: Any) -> bool:
    """Return True for a type of ctypes that holds numbers alone: one, a structure of them, an array of either."""
    loaded: Any = sys.modules.get("_ctypes")
    if loaded is None:
        return False
    if issubclass(kind, loaded._SimpleCData):  # noqa: SLF001 - the base class has no other name
        return getattr(kind, "_type_", "") in _NUMBERS
    if issubclass(kind, loaded.Array):
        return is_numbers(kind._type_)
    if issubclass(kind, loaded.Structure):
        return all(is_numbers(field[1]) for field in getattr(kind, "_fields_", [(0, object)]))
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
