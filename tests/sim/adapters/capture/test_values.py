"""Values as bytes and back, and complete generators; a tape cannot cause any call."""

from __future__ import annotations

import random
from collections import OrderedDict, defaultdict, deque
from typing import Any

import msgpack
import numpy as np
import pytest

from sim.adapters.capture.rng_state import generator_from_plain, generator_memory, generator_to_plain, pcg_bytes
from sim.adapters.capture.values import NotPlainError, decode_value, encode_value

PLAIN = [
    None, True, 0, -1, 1 << 200, 0.0, -0.0, float("inf"), "é", b"\0", 1j, (1, (2, None)), [], {}, {"b": 1, "a": [2]},
    {1: 2, (3, "x"): None}, {3, "z"}, frozenset([1]), deque([1, 2], maxlen=3), OrderedDict(b=1, a=2),
    defaultdict(list, {"k": [1]}), bytearray(b"ab"), np.int8(-3), np.float32(0.1), np.bool_(True), np.str_("C"),
    np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.zeros((0, 3)), np.array(3.5),
    np.array([[b"S", b"FF"]]), np.array(["é", "ab"]), np.array([True, False]),
]  # fmt: skip


def same(one: Any, other: Any) -> bool:
    """Return True for equal types and contents, including signs of zeros and orders of memory."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape, one.tobytes(), one.flags.f_contiguous) == (
            other.dtype, other.shape, other.tobytes(), other.flags.f_contiguous,
        )  # fmt: skip
    return repr(one) == repr(other) or (isinstance(one, set | frozenset) and one == other)


@pytest.mark.parametrize("value", PLAIN, ids=[f"{n}-{type(v).__name__}" for n, v in enumerate(PLAIN)])  # Sets vary.
def test_a_value_is_restored_with_its_type(value: Any) -> None:
    """Type, content, order of dicts and sign of zero are restored; encoding again gives equal bytes."""
    encoded = encode_value(value)

    assert same(decode_value(encoded), value)
    assert encode_value(decode_value(encoded)) == encoded


def test_shared_objects_stay_shared() -> None:
    """A list under two names, a view of an array, a generator with two holders, a dict that contains itself."""
    array, shared, generator = np.arange(12.0).reshape(3, 4), [1], np.random.default_rng(1)
    value: Any = {"a": array, "view": array[1:, ::2], "one": shared, "two": [shared], "g": generator, "h": (generator,)}
    value["self"] = value
    found = decode_value(encode_value(value))

    found["a"][:] = 7
    assert (found["view"] == 7).all()
    assert found["one"] is found["two"][0]
    assert found["g"] is found["h"][0]
    assert found["self"] is found


def test_sets_are_written_in_one_order() -> None:
    """The bytes of a set do not depend on the order in which it was filled."""
    assert encode_value({8, 16, 0, "a", "b"}) == encode_value({"b", 16, "a", 0, 8})


@pytest.mark.parametrize("value", [object(), [lambda: 1], {"a": {1: object()}}, np.array([object()])])
def test_a_value_that_needs_pickle_is_refused_with_its_path(value: Any) -> None:
    """The message names the path to the value and its type."""
    with pytest.raises(NotPlainError, match=r"value.* is (builtins|numpy)\."):
        encode_value(value)


def test_arbitrary_bytes_give_a_value_or_value_error() -> None:
    """Random and hostile bytes call nothing, and raise nothing but ValueError."""
    draws = random.Random(7)
    good = encode_value(PLAIN[:-1])
    hostile = [["g", ["Generator", "os", []]], ["e", "eval", 1, 2], ["a", "|O", [1], "C", b"12345678"], ["r", 5],
               ["v", ["a", "<f8", [2], "C", bytes(16)], "<f8", [1 << 40], [8], 0], ["k", "x"], ["?"]]  # fmt: skip
    cases = [msgpack.packb(one) for one in hostile]
    for _ in range(3000):
        broken = bytearray(good)
        for _ in range(draws.randrange(1, 4)):
            broken[draws.randrange(len(broken))] = draws.randrange(256)
        cases.append(bytes(broken))
    refused = 0
    for case in cases:
        try:
            decode_value(case)
        except ValueError:
            refused += 1
    assert refused > len(hostile)


GENERATORS = [
    lambda: random.Random(3),
    lambda: np.random.RandomState(4),
    *(lambda kind=kind: np.random.Generator(kind(5)) for kind in
      (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)),
]  # fmt: skip


@pytest.mark.parametrize("make", GENERATORS)
def test_generators_are_restored_completely(make: Any) -> None:
    """The buffered half of a word, and the buffered second normal number, are restored too."""
    generator = make()
    for _ in range(3):
        _draw(generator)
    found = generator_from_plain(decode_value(encode_value(generator_to_plain(generator))))

    assert type(found) is type(generator)
    assert [_draw(found) for _ in range(20)] == [_draw(generator) for _ in range(20)]


def _draw(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.gauss(0, 1), generator.random()
    if isinstance(generator, np.random.RandomState):
        return generator.standard_normal(), generator.randint(0, 9)
    return int(generator.integers(0, 9, dtype=np.uint32)), float(generator.random(dtype=np.float32))


def test_memory_and_dict_of_a_generator_agree() -> None:
    """The words read from memory equal those of NumPy's dict, after every kind of random draw."""
    generator = np.random.default_rng(9)
    memory = generator_memory(generator)
    if memory is None:
        pytest.skip("where the state lies is not known for this NumPy")
    for count in range(50):
        _draw(generator)
        if count % 7 == 0:
            generator.standard_normal(3)
        assert b"".join(memory) == pcg_bytes(generator)[:-8]  # All but the number of children.
