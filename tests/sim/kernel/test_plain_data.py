"""Plain data is restored bit for bit; other bytes give ValueError and nothing else."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from recorder.ambient.outside.process_facts import process_facts
from sim.adapters.pytree import _registered_in_jax
from sim.kernel.foreign_arrays import is_foreign_array
from sim.kernel.plain_data import PlainEncoder, decode_plain, encode_plain

DTYPES = [
    f"{order}{kind}" for kind in ("i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16") for order in "<>"
]
DTYPES += ["|b1", "|i1", "|u1"]

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=40)
    | st.binary(max_size=300)
)
keys = st.text(max_size=3) | st.integers(-(2**63), 2**64 - 1)
plain = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=20) | st.dictionaries(keys, inner, max_size=20), max_leaves=30
)
arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(np.dtype(dtype), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)


@given(plain)
@settings(deadline=None, max_examples=150)
@pytest.mark.seldom(0.18)
def test_plain_values_are_restored(value: Any) -> None:
    """Plain values keep their types and the order of their dicts, NaN and -0.0 included."""
    encoded = encode_plain(value)

    assert repr(decode_plain(encoded)) == repr(value)
    assert encode_plain(decode_plain(encoded)) == encoded


@given(arrays)
@settings(deadline=None, max_examples=150)
def test_arrays_are_restored(array: np.ndarray) -> None:
    """An array of any numeric dtype, byte order, shape and stride is restored bit for bit, in memory of its own."""
    for given_array in (array, array.T, array[::-1] if array.ndim else array):
        back = decode_plain(encode_plain([given_array]))[0]

        assert type(back) is np.ndarray
        assert (back.dtype, back.shape) == (array.dtype.newbyteorder("<"), given_array.shape)
        assert back.tobytes() == given_array.astype(back.dtype).tobytes()
        assert back.flags.writeable


@given(arrays.filter(lambda array: array.size > 0))
@settings(deadline=None, max_examples=50)
def test_numpy_numbers_are_restored(array: np.ndarray) -> None:
    """A NumPy number stays a NumPy number of its dtype."""
    number = array.reshape(-1)[0]
    back = decode_plain(encode_plain({"n": number}))["n"]

    assert type(back) is type(number)
    assert back.tobytes() == number.astype(number.dtype.newbyteorder("<")).tobytes()


def test_tuples_are_restored_as_lists() -> None:
    """This is the only change to plain data."""
    assert decode_plain(encode_plain((1, (2, ())))) == [1, [2, []]]


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 2**200, [2**64]], ids=repr)
def test_integers_beyond_64_bits_are_refused(value: Any) -> None:
    """One more than the largest and one less than the smallest integer cannot be encoded."""
    with pytest.raises((ValueError, OverflowError)):
        encode_plain(value)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {"a": [object()]},
        1 + 2j,
        range(3),
        len,
        int,
        np.array("x"),
        np.array([None]),
        np.datetime64(3, "s"),
        np.zeros(2, "i4,i4"),
        np.array([b"x"]),
        np.str_("x"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_objects_are_refused(value: Any) -> None:
    """Encoding a value without a plain form raises TypeError."""
    with pytest.raises(TypeError):
        encode_plain(value)


def extension(code: int, head: Any, raw: bytes = b"") -> bytes:
    """An extension value with a MessagePack head."""
    return msgpack.packb(msgpack.ExtType(code, msgpack.packb(head) + raw))


HOSTILE = [
    b"",
    b"\xc1",
    b"\x01\x01",
    b"\xa1\xff",
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff\x01",
    b"\xc6\xff\xff\xff\xff\x01",
    b"\x91" * 5000,
    b"\x81\x90\x01",
    b"\x81\x80\x01",
    b"\x81" + extension(1, ["<i8", [0]]) + b"\x01",
    extension(0, ["<i8", []], bytes(8)),
    extension(3, ["<i8", []], bytes(8)),
    extension(1, ["<i8", [1]], bytes(7)),
    extension(1, ["<i8", [1]], bytes(9)),
    extension(1, ["<i8", [-1]]),
    extension(1, ["<i8", [-1, -1]], bytes(8)),
    extension(1, ["<i8", ["1"]], bytes(8)),
    extension(1, ["<i8", [1.0]], bytes(8)),
    extension(1, ["<i8", [2**62, 2**62]]),
    extension(1, ["<i8", [0, 2**64 - 1]]),
    extension(1, ["<i8", [0] * 33]),
    extension(1, ["<i8", [0] * 65]),
    extension(1, ["<i8"]),
    extension(1, ["<i8", [0], 0]),
    extension(1, {"<i8": [0]}),
    extension(1, 7),
    extension(2, ["<i8", [1]], bytes(8)),
    extension(2, ["<i8", [0]]),
    msgpack.packb(msgpack.ExtType(1, b"")),
    msgpack.packb(msgpack.ExtType(1, b"\xc1")),
    *(
        extension(1, [dtype, [0]])
        for dtype in (
            "",
            ",",
            "(",
            "1,",
            "(2)i",
            "a",
            "i",
            "i8",
            ">i8",
            "=i8",
            "<i3",
            "<i0",
            "|O",
            "O",
            "|V4",
            "<U1",
            "|S1",
        )
    ),
    *(extension(1, [dtype, [0]]) for dtype in ("<M8", "<m8", "<i800", "{}", "[]", "i,i", "<f8x", "\u0668", "<i\u0668")),
]


@pytest.mark.parametrize("data", HOSTILE, ids=lambda data: data[:24].hex() or "nothing")
def test_hostile_bytes_give_value_error(data: bytes) -> None:
    """Bytes that lie about lengths, dtypes, shapes or nesting are refused with ValueError and without a warning."""
    with pytest.raises(ValueError, match=r"^not MessagePack: "):
        decode_plain(data)


def assert_decoded_or_refused(data: bytes) -> None:
    """Bytes decode to a value that can be encoded and decoded again, or are refused as not MessagePack."""
    refusal, written = "", b""
    try:
        written = encode_plain(decode_plain(data))
    except ValueError as error:
        refusal = str(error)
    assert bool(written) != refusal.startswith("not MessagePack: ")
    assert not written or encode_plain(decode_plain(written)) == written


@given(st.binary(max_size=40) | st.binary(max_size=30).map(lambda raw: b"\xc7" + bytes([len(raw), 1]) + raw))
@settings(deadline=None, max_examples=400)
def test_any_bytes_decode_or_give_value_error(data: bytes) -> None:
    """Arbitrary bytes decode to plain data or raise ValueError, and nothing else."""
    assert_decoded_or_refused(data)


@given(plain | arrays, st.data())
@settings(deadline=None, max_examples=200)
@pytest.mark.seldom(0.18)
def test_damaged_values_decode_or_give_value_error(value: Any, data: st.DataObject) -> None:
    """A flipped bit or a missing end gives a different value or ValueError, and nothing else."""
    encoded = bytearray(encode_plain(value))
    place = data.draw(st.integers(0, len(encoded) * 8 - 1))
    encoded[place // 8] ^= 1 << place % 8
    for damaged in (bytes(encoded), bytes(encoded[: place // 8])):
        assert_decoded_or_refused(damaged)


@pytest.mark.parametrize("stamp", [msgpack.Timestamp(5), msgpack.Timestamp(1 << 33, 7), msgpack.Timestamp(-1, 0)])
@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: [1, {"a": (s,)}], lambda s: {s: 1}])
def test_timestamps_are_not_plain_data(stamp: Any, wrap: Any) -> None:
    """msgpack has its own type for them, which bypasses all hooks: encoding and decoding refuse it."""
    with pytest.raises(TypeError, match="Timestamp is not plain data"):
        encode_plain(wrap(stamp))
    with pytest.raises(TypeError, match="Timestamp is not plain data"):
        PlainEncoder().encode(wrap(stamp))
    with pytest.raises(ValueError, match="Timestamp is not plain data"):
        decode_plain(msgpack.packb(wrap(stamp)))


@pytest.mark.parametrize("head", [b"\xc7\x04\xff", b"\xc8\x00\x04\xff", b"\xc9\x00\x00\x00\x04\xff"])
def test_timestamps_written_in_a_different_form_are_refused(head: bytes) -> None:
    """A writer may use a longer head than needed."""
    with pytest.raises(ValueError, match="Timestamp is not plain data"):
        decode_plain(head + bytes(4))


def test_what_only_looks_like_a_timestamp_passes() -> None:
    """The bytes of a timestamp are accepted in a number, a text or an array."""
    for value in ([0xD6FF, 0xD7FF], b"\xd6\xff\x00\x00", {"a": b"\xc7\x0c\xff"}, -1):
        assert decode_plain(encode_plain(value)) == value
        assert PlainEncoder().encode(value)[0] == encode_plain(value)


def test_values_that_keep_their_types() -> None:
    """For each value an encoder reports if it contains only types that msgpack restores unchanged."""
    encoder = PlainEncoder()
    plain = {"a": [1, 2.5, None, True, b"x"]}
    for value in ((1, 2), [(1,)], np.float64(1.5), {"b": [np.int8(3)]}, {"a": np.zeros(2).view(np.matrix)}):
        assert encoder.encode(plain)[1] is True
        assert encoder.encode(value)[1] is False
    assert encoder.encode(plain) == (encode_plain(plain), True)


def test_arrays_that_need_no_look_back_are_restored_bit_for_bit() -> None:
    """Of each kind, byte order, order in memory and number of axes; what can be no array of a tape is refused."""
    encoder, bits = PlainEncoder(), np.arange(24, dtype="u1")
    names = ("?", "i1", "<i4", ">i4", "<f8", ">f8", "<f2", "<c16", "<u8", np.dtype(np.longdouble).str)
    for name in names:
        for shape in ((), (0,), (24,), (2, 3, 4), (1,) * 32):
            array = bits[: int(np.prod(shape))].astype(name).reshape(shape)
            for one in (array, np.asfortranarray(array), array[..., ::-1] if array.ndim else array):
                encoded, is_sure = encoder.encode({"a": [one]})
                [restored] = decode_plain(encoded)["a"]
                assert is_sure
                assert encoded == encode_plain({"a": [one]})
                assert restored.dtype == one.dtype.newbyteorder("<")
                assert restored.shape == one.shape
                assert restored.tolist() == one.tolist()
    for refused in (np.array([object()]), np.array(["text"]), np.zeros(2, [("x", "i4")]), np.array(["2020"], "M8[s]")):
        with pytest.raises(TypeError, match="is not plain data"):
            encoder.encode([refused])


@pytest.mark.parametrize("first", range(256))
def test_a_single_byte_is_decoded_as_msgpack_decodes_it(first: int) -> None:
    """Small numbers and None take a shorter way."""
    data = bytes([first])
    try:
        expected = msgpack.unpackb(data, strict_map_key=False)
    except Exception:  # noqa: BLE001 - cut off, or no type at all
        with pytest.raises(ValueError, match="not MessagePack"):
            decode_plain(data)
        return
    found = decode_plain(data)
    assert type(found) is type(expected)
    assert found == expected


def packed(value: Any) -> bytes:
    """As msgpack writes it, with an extension for each array."""

    def extension_of(one: Any) -> msgpack.ExtType:
        text = one.dtype.newbyteorder("<").str
        return msgpack.ExtType(1, msgpack.packb([text, list(one.shape)]) + one.astype(text).tobytes())

    made: bytes = msgpack.packb(value, default=extension_of)
    return made


@given(arrays, st.dictionaries(st.text(max_size=40), arrays, max_size=17), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=150)
@pytest.mark.seldom(0.3)
def test_arrays_as_inputs_are_written_as_by_msgpack(array: Any, several: dict[str, Any], chance: Any) -> None:
    """One alone, and dicts of them, in any order of memory and of any size."""
    encoder = PlainEncoder()
    for name, one in several.items():
        several[name] = chance.choice((one, one.T, one[::-1] if one.ndim else one, np.tile(one, 300)))
    for value in (array, array.T, np.tile(array, 3_000), several, {**several, "other": 1}, {**several, 3: array}):
        encoded, is_sure = encoder.encode(value)
        assert encoded == packed(value)
        assert is_sure
        order = [one for one in (value.values() if type(value) is dict else [value]) if type(one) is np.ndarray]
        assert encoder.reorders is any(not one.flags.c_contiguous or one.dtype.str[0] == ">" for one in order)


@pytest.mark.parametrize("name", ["numpy.ma", "torch", "jax", "numba"])
def test_a_module_that_another_thread_is_importing_stops_nothing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It is in sys.modules, and has no names yet: np.unique imports numpy.ma in the first step that calls it."""
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    array = np.arange(6).reshape(2, 3)
    assert decode_plain(encode_plain({"a": array}))["a"].tolist() == array.tolist()
    assert not is_foreign_array(type("Other", (), {})())
    assert _registered_in_jax({"a": 1}) is None
    assert process_facts()["processors"]
