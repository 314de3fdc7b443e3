"""Databases in memory are read and put back as a whole, without a call of the user's functions."""

from __future__ import annotations

import ctypes
import multiprocessing
import sqlite3
from typing import Any

import pytest

from recorder.ambient.c_memory import is_memory, memory_of, memory_text, put_memory

TABLES = """
create table units(id integer primary key autoincrement, hp);
insert into units(hp) values (3);
create view alive as select id from units where hp > 0;
create trigger counted after insert on units begin update units set hp = 1; end;
"""


def test_a_database_with_views_and_triggers_is_put_back() -> None:
    """One that cannot be put back stays as it is."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(TABLES)
    before = memory_of(connection)
    connection.execute("insert into units(hp) values (7)")
    connection.commit()
    after = memory_of(connection)
    assert before is not None
    assert before != after
    assert put_memory(connection, before)
    assert memory_of(connection) == before
    assert not put_memory(connection, b"create nothing;")
    assert memory_of(connection) == before


def test_no_function_of_the_users_is_called() -> None:
    """Neither those that make rows, nor methods of a class of theirs."""

    def fail(*_: Any) -> Any:
        raise AssertionError

    connection = sqlite3.connect(":memory:")
    connection.executescript(TABLES)
    connection.row_factory = connection.text_factory = fail
    assert memory_of(connection) is not None
    assert (connection.row_factory, connection.text_factory) == (fail, fail)
    assert not is_memory(type("Mine", (sqlite3.Connection,), {}))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(memoryview(bytearray(b"\1\2\3")), id="a view"),
        pytest.param(multiprocessing.Array("B", [1, 2, 3]), id="numbers with a lock"),
        pytest.param(multiprocessing.Value("i", 258), id="a number with a lock"),
    ],
)
def test_memory_of_multiprocessing_is_read_and_put_back(value: Any) -> None:
    before = memory_of(value)
    assert before is not None
    assert is_memory(type(value))
    assert put_memory(value, bytes(len(before)))
    assert memory_of(value) == bytes(len(before))
    assert put_memory(value, before)
    assert memory_of(value) == before


def test_what_cannot_be_read_is_said_to_be_unknown() -> None:
    """A view that was released, one that is read only, and pointers."""
    released = memoryview(bytearray(3))
    released.release()
    assert memory_of(released) is None
    assert memory_text(released) == "a memoryview"
    assert not put_memory(memoryview(b"\1"), b"\2")
    assert memory_of(multiprocessing.Value(ctypes.c_char_p, None)) is None
