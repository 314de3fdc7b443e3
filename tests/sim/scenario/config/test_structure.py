"""Turn plain data into attrs classes; each message names the key."""

from __future__ import annotations

from typing import Annotated, Any

import attrs
import pytest

from sim import ConfigError
from sim.scenario.config.structure import Decimal, Whole, structure


@attrs.frozen
class Inner:
    """A small table."""

    size: Annotated[int, Whole(1, 9)]
    weight: Annotated[int, Decimal(0, 2)] = 0

    def __attrs_post_init__(self) -> None:
        if self.size == 5:
            raise ConfigError("size", "not 5, please")


@attrs.frozen
class Outer:
    """A table with all kinds of values."""

    name: str
    inner: Inner
    on: bool = False
    many: tuple[Inner, ...] = ()
    matrix: tuple[tuple[bool, ...], ...] = ()
    maybe: Annotated[int, Whole(0, 3)] | None = None


GOOD: dict[str, Any] = {"name": "n", "inner": {"size": 1}}


def test_good_data_becomes_an_instance() -> None:
    """Decimals turn into fixed point, lists into tuples, missing keys into defaults."""
    outer = structure(
        {"name": "n", "inner": {"size": 9, "weight": 1.5}, "many": [{"size": 1}], "matrix": [[True], []], "maybe": 3},
        Outer,
    )

    assert outer == Outer("n", Inner(9, 98_304), False, (Inner(1),), ((True,), ()), 3)
    assert structure(GOOD, Outer) == Outer("n", Inner(1))
    assert structure({**GOOD, "inner": {"size": 1, "weight": 2}}, Outer).inner.weight == 131_072


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nmae": 1}, "nmae: unknown key; known keys: name, inner, on, many, matrix, maybe; did you mean name?"),
        ({"name": 5}, "name: expected text, got 5"),
        ({"on": 1}, "on: expected true or false, got 1"),
        ({"inner": {}}, "inner.size: this key is missing"),
        ({"inner": 5}, "inner: expected a table, got 5"),
        ({"inner": {"size": 0}}, "inner.size: expected an integer from 1 to 9, got 0"),
        ({"inner": {"size": 10}}, "inner.size: expected an integer from 1 to 9, got 10"),
        ({"inner": {"size": 2.0}}, "inner.size: expected an integer from 1 to 9, got 2.0"),
        ({"inner": {"size": True}}, "inner.size: expected an integer from 1 to 9, got True"),
        ({"inner": {"size": "2"}}, "inner.size: expected an integer from 1 to 9, got '2'"),
        ({"inner": {"size": 5}}, "inner.size: not 5, please"),
        ({"inner": {"size": 1, "weight": 2.1}}, "inner.weight: expected a decimal number from 0 to 2, got 2.1"),
        (
            {"inner": {"size": 1, "weight": float("nan")}},
            "inner.weight: expected a decimal number from 0 to 2, got nan",
        ),
        ({"inner": {"size": 1, "x": 1}}, "inner.x: unknown key; known keys: size, weight"),
        ({"many": {"size": 1}}, "many: expected a list, got {'size': 1}"),
        ({"many": [{"size": 1}, {"size": 0}]}, "many[1].size: expected an integer from 1 to 9, got 0"),
        ({"many": [{"size": 1}, {"size": 5}]}, "many[1].size: not 5, please"),
        ({"many": [7]}, "many[0]: expected a table, got 7"),
        ({"many": ["size"]}, "many[0]: expected a table, got 'size'"),
        ({"inner": "size"}, "inner: expected a table, got 'size'"),
        ({"inner": [["size", 1]]}, "inner: expected a table, got [['size', 1]]"),
        ({"inner": None}, "inner: expected a table, got None"),
        ({"matrix": [[True], [0]]}, "matrix[1][0]: expected true or false, got 0"),
        ({"matrix": [True]}, "matrix[0]: expected a list, got True"),
        ({"maybe": 4}, "maybe: expected an integer from 0 to 3, got 4"),
    ],
)
def test_the_message_names_the_key(changes: dict[str, Any], message: str) -> None:
    """Each mistake gives one line: the key, the expected value, the actual one."""
    with pytest.raises(ConfigError) as caught:
        structure({**GOOD, **changes}, Outer)
    assert str(caught.value) == message


def test_a_missing_key_is_named() -> None:
    """The message names a missing key, and nothing else."""
    with pytest.raises(ConfigError) as caught:
        structure({"inner": {"size": 1}}, Outer)
    assert (caught.value.key, caught.value.problem) == ("name", "this key is missing")


@pytest.mark.parametrize("plain", [5, "x", [], None])
def test_the_configuration_is_a_table(plain: Any) -> None:
    """A configuration that is not a table gives one line without a key."""
    with pytest.raises(ConfigError) as caught:
        structure(plain, Outer)
    assert str(caught.value) == f"expected a table, got {plain!r}"
