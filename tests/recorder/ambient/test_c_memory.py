"""Databases in memory are read and put back as a whole, without a call of the user's functions."""

from __future__ import annotations

import sqlite3
from typing import Any

from recorder.ambient.c_memory import is_memory, memory_of, put_memory

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
