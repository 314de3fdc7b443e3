"""EVENTS payloads: events come back, and anything else is refused."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder import Recorder
from recorder.errors import CorruptError
from recorder.format.blocks.events_block import EventsOfTicks, decode_events, encode_events, encode_tick
from recorder.format.limits import EVENTS_BYTES_MAX
from sim import Field, Schema, State
from sim.kernel.plain_data import PlainEncoder, encode_plain

from oracle.second_reader import EVENTS, Reader


def encoded(tick: int, events: Any) -> bytes:
    """Encode the events of a tick."""
    return encode_tick(PlainEncoder(), tick, events)


KEYS = st.text(max_size=6).filter(lambda key: key not in ("tick", "kind"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False) | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
EVENT = st.builds(lambda kind, rest: {"kind": kind, **rest}, st.text(), st.dictionaries(KEYS, VALUES, max_size=3))


@given(st.integers(0, 1 << 50), st.lists(st.lists(EVENT, max_size=3), min_size=1, max_size=6))
def test_events_come_back(first: int, events: list[list[Any]]) -> None:
    """Events come back in order; ticks without events are covered by the range and have no value."""
    payload = encode_events(first, len(events), [encoded(first + n, own) for n, own in enumerate(events)])
    found = decode_events(payload, first, 0)
    assert (found.first_tick, found.last_tick) == (first, first + len(events) - 1)
    assert list(found.found) == [(first + n, own) for n, own in enumerate(events) if own]


def test_the_bytes_of_a_payload() -> None:
    """The payload matches SPEC.md."""
    ticks = [encoded(7, [{"kind": "birth", "x": 1}, {"kind": "death"}]), encoded(8, []), encoded(9, [{"kind": ""}])]
    payload = encode_events(7, 4, ticks)
    assert payload.hex(" ") == (
        "92 07 04 "
        "92 07 92 82 a4 6b 69 6e 64 a5 62 69 72 74 68 a1 78 01 81 a4 6b 69 6e 64 a5 64 65 61 74 68 "
        "92 09 91 81 a4 6b 69 6e 64 a0"
    )
    assert decode_events(payload, 7, 0) == EventsOfTicks(
        7, 10, [(7, [{"kind": "birth", "x": 1}, {"kind": "death"}]), (9, [{"kind": ""}])]
    )


class Tick:
    """A simulation that has an event at every second tick."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("n", "i8")))

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["n"][()] += 1

    def events(self) -> list[dict[str, Any]]:
        return [{"kind": "even"}] if self.state["n"] % 2 == 0 else []


def test_the_bytes_of_a_block(tmp_path: Path) -> None:
    """One EVENTS block follows the keyframe of tick 0, one follows the frames of the ticks."""
    path = tmp_path / "run.tape"
    with Recorder(path, Tick(), deterministic=True, run_id=bytes(16)) as tape:
        for _ in range(3):
            tape.step()
    data = path.read_bytes()
    blocks = Reader(data).blocks
    assert [(block.kind, block.first_tick, block.tick_count) for block in blocks][:5] == [
        (1, 0, 0), (3, 0, 0), (130, 0, 0), (2, 1, 3), (130, 1, 0),
    ]  # fmt: skip
    start, later = (block for block in blocks if block.kind == EVENTS)
    assert (start.payload.hex(" "), later.payload.hex(" ")) == (
        "92 00 01 92 00 91 81 a4 6b 69 6e 64 a4 65 76 65 6e",
        "92 01 03 92 02 91 81 a4 6b 69 6e 64 a4 65 76 65 6e",
    )
    header = data[later.offset : later.offset + 72]
    assert header[48:56] == bytes.fromhex("00 00 00 00 11 00 00 00")
    assert header[64:72] == bytes.fromhex("82 00 00 00 00 00 00 00")
    assert data[later.offset + 72 :][:24] == later.payload + bytes(7)


HEAD, ONE = [5, 3], [6, [{"kind": "a"}]]


@pytest.mark.parametrize(
    "values",
    [
        [],
        [5],
        [[5]],
        [[5, 0]],
        [[5, 16385]],
        [[5, -1]],
        [[4, 3]],
        [[5.0, 3]],
        [[5, True]],
        [HEAD, 7],
        [HEAD, [6]],
        [HEAD, [6, []]],
        [HEAD, [6, {"kind": "a"}]],
        [HEAD, [4, [{"kind": "a"}]]],
        [HEAD, [8, [{"kind": "a"}]]],
        [HEAD, [6.0, [{"kind": "a"}]]],
        [HEAD, ONE, ONE],
        [HEAD, [7, [{"kind": "a"}]], ONE],
        [HEAD, [6, [{}]]],
        [HEAD, [6, [{"kind": 1}]]],
        [HEAD, [6, [{"kind": "a", "tick": 6}]]],
        [HEAD, [6, [{"kind": "a", 3: 6}]]],
        [HEAD, [6, [{"kind": "a"}, ["kind", "a"]]]],
        [HEAD, [*ONE, 1]],
    ],
    ids=repr,
)
def test_invalid_payloads_are_corrupt(values: list[Any]) -> None:
    """The error names the offset."""
    with pytest.raises(CorruptError, match="corrupt at byte 77: an EVENTS block"):
        decode_events(b"".join(map(encode_plain, values)), 5, 77)


def test_hostile_bytes_are_corrupt() -> None:
    """Truncated, with lengths past the end, nested too deeply, with foreign types, changed: always CorruptError."""
    good = encode_events(5, 3, [encoded(6, [{"kind": "a", "x": [1, {"y": np.arange(3)}], "z": 2.5}])])
    bad = [good[:end] for end in range(len(good)) if end not in (0, 3)]
    bad += [
        good[:3] + more for more in (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xc1")
    ]
    bad += [good[:3] + b"\x91" * 2000 + b"\xc0", good[:3] + b"\x92\x06" + b"\x91" * 900 + b"\xc0"]
    time = msgpack.packb(msgpack.Timestamp(1, 2))
    bad += [
        good[:3] + b"\x92\x06\x91\x82\xa4kind\xa1a\xa1t" + time,
        good[:3] + b"\x92\x06\x91\x82\xa4kind\xa1a\xa1t\xd4\x07x",
    ]
    bad += [
        good[:3]
        + b"\x92\x06\x91\x82\xa4kind\xa1a\xa1t"
        + struct.pack(">BI", 0xC6, EVENTS_BYTES_MAX)
        + bytes(EVENTS_BYTES_MAX)
    ]
    for payload in bad:
        with pytest.raises(CorruptError, match="at byte 9: an EVENTS block"):
            decode_events(payload, 5, 9)
    for place in range(len(good)):
        for value in range(0, 256, 7):
            changed = good[:place] + bytes([good[place] ^ value]) + good[place + 1 :]
            try:
                found = decode_events(changed, 5, 9)
            except CorruptError:
                continue
            assert found.first_tick == 5


@pytest.mark.parametrize(
    ("events", "error", "message"),
    [
        (None, TypeError, "expected a list of events, got NoneType"),
        ({"kind": "a"}, TypeError, "expected a list of events, got dict"),
        ("abc", TypeError, "expected a list of events, got str"),
        (iter([]), TypeError, "expected a list of events, got list_iterator"),
        (["a"], TypeError, "expected a dict for each event, got str"),
        ([{}], TypeError, "an event needs a text as its 'kind', got {}"),
        ([{"kind": 5}], TypeError, "an event needs a text as its 'kind', got {'kind': 5}"),
        ([{"kind": "a", "tick": 5}], TypeError, "an event with the key 'tick': expected texts other than 'tick'"),
        ([{"kind": "a", 5: 5}], TypeError, "an event with the key 5"),
        ([{"kind": "a", "x": {1, 2}}], TypeError, "set is not plain data"),
        ([{"kind": "a", "x": object}], TypeError, "type is not plain data"),
        ([{"kind": "a", "x": msgpack.Timestamp(1, 2)}], TypeError, "Timestamp is not plain data"),
        ([{"kind": "a", "x": 1 << 64}], OverflowError, "does not fit into 64 bits"),
        ([{"kind": "\ud800"}], ValueError, "surrogates not allowed"),
        ([{"kind": "a", "x": {(1, 2): 3}}], ValueError, "not MessagePack"),
        ([{"kind": "a", "x": bytes(EVENTS_BYTES_MAX)}], ValueError, "the events take 41943"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_events_that_are_refused(events: Any, error: type[Exception], message: str) -> None:
    """The message states the reason."""
    with pytest.raises(error) as caught:
        encoded(3, events)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_limit_of_a_tick() -> None:
    """The limit is accepted; one byte more is refused."""
    size = EVENTS_BYTES_MAX - len(encoded(3, [{"kind": "a", "x": bytes(1 << 16)}])) + (1 << 16)
    assert len(encoded(3, [{"kind": "a", "x": bytes(size)}])) == EVENTS_BYTES_MAX
    with pytest.raises(ValueError, match="expected at most 4194304"):
        encoded(3, [{"kind": "a", "x": bytes(size + 1)}])
