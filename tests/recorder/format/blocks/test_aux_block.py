"""AUX payloads: sections come back, in the short form, too, and anything else is refused."""

from __future__ import annotations

import random
from typing import Any

import msgpack
import pytest

from recorder.errors import CorruptError
from recorder.format.blocks import aux_block
from recorder.format.blocks.aux_block import AuxChange, apply, decode_aux, difference, encode_aux, encode_sections
from sim.kernel.plain_data import PlainEncoder


def test_the_bytes_of_a_block() -> None:
    changes = [AuxChange(5, {"a": b"\x01"}, []), AuxChange(7, {}, ["a"])]
    assert encode_aux(5, 4, changes, {}, whole=True).hex(" ") == (
        "93 05 04 c3 93 05 81 a1 61 c4 01 01 90 93 07 80 91 a1 61"
    )
    assert encode_aux(5, 4, [], {}, whole=False).hex(" ") == "93 05 04 c2"


def test_values_come_back_from_their_differences() -> None:
    """Random edits of random values, against a plain dict."""
    seed = 20261126
    draw = random.Random(seed)
    present: dict[str, bytes] = {}
    for tick in range(300):
        now = dict(present)
        name = draw.choice("abc")
        value = bytearray(now.get(name, draw.randbytes(draw.randrange(300))))
        start = draw.randrange(len(value) + 1)
        value[start : start + draw.randrange(4)] = draw.randbytes(draw.randrange(4))
        now[name] = bytes(value)
        if draw.random() < 0.1:
            now.pop(draw.choice(list(now)))
        payload = encode_aux(tick, 1, [difference(tick, present, now)], present, whole=False)
        read = decode_aux(payload, tick, 0)
        for _, sections, gone in read.changes:
            present = apply(present, sections, gone)
        assert present == now, f"seed {seed}, tick {tick}"


HEAD = [5, 3, False]


@pytest.mark.parametrize(
    "values",
    [
        [],
        [5],
        [[5, 3]],
        [[6, 3, False]],
        [[5, 0, False]],
        [[5, 20_000, False]],
        [[5, 3, 1]],
        [[5, 3, True]],
        [[5, 3, True], [6, {}, []]],
        [HEAD, 4],
        [HEAD, [4, {}, []]],
        [HEAD, [8, {}, []]],
        [HEAD, [6, {}, []], [6, {}, []]],
        [HEAD, [6, {1: b""}, []]],
        [HEAD, [6, {}, [2]]],
        [HEAD, [6, [], []]],
    ],
)
def test_anything_else_is_refused(values: list[Any]) -> None:
    with pytest.raises(CorruptError, match="corrupt at byte 77: an AUX block that cannot be decoded"):
        decode_aux(b"".join(map(msgpack.packb, values)), 5, 77)


@pytest.mark.parametrize("stored", [1, "a", [0, b"", 5], [-1, b"", 0], [2, b"", 2], [0, "a", 0], [0, b""]])
def test_a_change_that_does_not_fit_is_refused(stored: Any) -> None:
    with pytest.raises(ValueError, match="section a: "):
        apply({"a": b"abc"}, {"a": stored}, [])
    with pytest.raises(ValueError, match="section b: "):
        apply({"a": b"abc"}, {"b": [0, b"", 0]}, [])


def test_too_many_bytes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aux_block, "AUX_BYTES_MAX", 100)
    with pytest.raises(ValueError, match="the sections take 104 bytes, expected at most 100"):
        encode_sections(PlainEncoder(), {"a": bytes(50), "b": bytes(50)})
    with pytest.raises(ValueError, match="section a takes 101 bytes"):
        apply({"a": bytes(60)}, {"a": [60, bytes(41), 0]}, [])
    with pytest.raises(ValueError, match="the sections of a tick take more than 100 bytes"):
        apply({"a": bytes(60)}, {"b": bytes(60)}, [])
