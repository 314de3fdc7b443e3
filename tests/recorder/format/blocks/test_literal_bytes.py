"""Every structure of fixed layout as literal bytes, encoded and decoded."""

from __future__ import annotations

import struct

import attrs
import google_crc32c
import numpy as np
import pytest

from recorder.errors import CorruptError, TornError, UnsupportedVersionError
from recorder.format import limits
from recorder.format.blocks.block import (
    BlockHeader,
    BlockKind,
    Codec,
    Flags,
    compress,
    decode_header,
    decode_payload,
    encode_header,
    pad,
)
from recorder.format.blocks.file_header import FileHeader, decode_file_header, encode_file_header
from recorder.format.blocks.frame import Frame, decode_frames, encode_frame, ensure_inputs_fit
from recorder.format.segments.index import IndexPartSummary
from recorder.format.segments.seal import Seal, decode_seal, decode_trailer, encode_seal, encode_trailer
from sim.kernel.plain_data import decode_plain, encode_plain

RUN_ID = bytes(range(16))
MARKER = b"\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7"
FILE_HEADER = bytes.fromhex(
    "89544150 0d0a1a0a 0000 0200 40000000 00000000 00000000"
    "00010203 04050607 08090a0b 0c0d0e0f a0a1a2a3a4a5a6a7 03000000 0807060504030201"
)
HEADER = BlockHeader(
    marker=MARKER,
    seq=1,
    offset=0x0203,
    durable_bytes=0x0405,
    first_tick=0x0607,
    tick_count=8,
    stored_bytes=9,
    raw_bytes=10,
    payload_crc=0x0B0C0D0E,
    kind=BlockKind.DELTA,
    codec=Codec.LZ4,
    flags=Flags.SESSION_START | Flags.CONTINUES,
    baseline=0x11121314,
)
BLOCK_HEADER = bytes.fromhex(
    "a0a1a2a3a4a5a6a7 0100000000000000 0302000000000000 0504000000000000 0706000000000000"
    "08000000 09000000 0a000000 0e0d0c0b 04 01 0600 14131211"
)


def with_crc(data: bytes) -> bytes:
    """Append the crc32c of data."""
    return data + struct.pack("<I", google_crc32c.value(data))


def under_crc(tag: bytes, data: bytes) -> bytes:
    """A tag, the crc32c of data, data."""
    return tag + struct.pack("<I", google_crc32c.value(data)) + data


def test_file_header() -> None:
    """The 64 bytes of a file header, encoded and decoded."""
    assert len(FILE_HEADER) == 60
    header = FileHeader(RUN_ID, MARKER, segment=3, first_seq=0x0102030405060708)
    assert encode_file_header(header) == with_crc(FILE_HEADER)
    assert decode_file_header(with_crc(FILE_HEADER)) == header


def changed(offset: int, layout: str, value: int) -> bytes:
    """The file header with one changed value and a right checksum."""
    data = bytearray(FILE_HEADER)
    struct.pack_into(layout, data, offset, value)
    return with_crc(bytes(data))


@pytest.mark.parametrize("size", [64, 72, 4096])
def test_a_longer_file_header_is_obeyed(size: int) -> None:
    """header_size is the offset of the first block, up to 4096."""
    assert decode_file_header(changed(12, "<I", size)).size_bytes == size


@pytest.mark.parametrize("size", [0, 56, 63, 65, 4097, 4104, 0xFFFFFFF8])
def test_an_impossible_header_size_is_corrupt(size: int) -> None:
    """A header_size below 64, above 4096 or not a multiple of 8 is damage."""
    with pytest.raises(CorruptError):
        decode_file_header(changed(12, "<I", size))


def test_versions_of_the_file_header() -> None:
    """A different major or an unknown incompatible flag is refused; a different minor or a compatible flag is not."""
    for data in (changed(8, "<H", 1), changed(8, "<H", 0xFFFF), changed(16, "<I", 4), changed(16, "<I", 1 << 31)):
        with pytest.raises(UnsupportedVersionError):
            decode_file_header(data)
    assert decode_file_header(changed(10, "<H", 9)).minor == 9
    assert decode_file_header(changed(20, "<I", 0xFFFFFFFF)).compatible == 0xFFFFFFFF


def test_a_short_or_wrong_file_header() -> None:
    """63 bytes are torn; a wrong magic or checksum is corrupt."""
    with pytest.raises(TornError) as caught:
        decode_file_header(with_crc(FILE_HEADER)[:63])
    assert (caught.value.offset, caught.value.need_bytes, caught.value.have_bytes) == (0, 64, 63)
    for place in (0, 7, 24, 59, 60, 63):
        data = bytearray(with_crc(FILE_HEADER))
        data[place] ^= 1
        with pytest.raises(CorruptError):
            decode_file_header(bytes(data))


def test_block_header() -> None:
    """The 72 bytes of a block header, encoded and decoded."""
    encoded = under_crc(b"\xf5BLK", BLOCK_HEADER)

    assert len(encoded) == 72
    assert encode_header(HEADER) == encoded
    assert decode_header(encoded, 0x0203) == HEADER
    assert decode_header(encoded + b"more", 0x0203) == HEADER


def test_sizes_that_follow_from_a_block_header() -> None:
    """The stored bytes are padded to a multiple of 8; the final tick is that of the last frame."""
    for stored, padded in ((0, 0), (1, 8), (7, 8), (8, 8), (9, 16)):
        header = attrs.evolve(HEADER, stored_bytes=stored, raw_bytes=16)
        assert (header.padded_bytes, header.end_offset) == (padded, 0x0203 + 72 + padded)
        assert len(pad(bytes(stored))) == padded
    for count, final in ((0, 0x0607), (1, 0x0607), (2, 0x0608)):
        assert attrs.evolve(HEADER, tick_count=count).final_tick == final


@pytest.mark.parametrize(
    ("changes", "is_right"),
    [
        ({"raw_bytes": limits.BLOCK_RAW_BYTES_MAX}, True),
        ({"raw_bytes": limits.BLOCK_RAW_BYTES_MAX + 1}, False),
        ({"stored_bytes": 10}, True),
        ({"stored_bytes": 11}, False),
        ({"stored_bytes": 0, "raw_bytes": 0}, True),
        ({"tick_count": limits.BLOCK_TICKS_MAX}, True),
        ({"tick_count": limits.BLOCK_TICKS_MAX + 1}, False),
        ({"kind": 0xFF, "codec": 0xFF, "flags": 0xFFFF}, True),
    ],
)
def test_limits_of_a_block_header(changes: dict[str, int], is_right: bool) -> None:  # noqa: FBT001
    """A header at a limit is valid; one beyond it is refused, although its checksum is right."""
    header = attrs.evolve(HEADER, **changes)
    if is_right:
        assert decode_header(encode_header(header), header.offset) == header
    else:
        with pytest.raises(CorruptError):
            decode_header(encode_header(header), header.offset)


def test_invalid_block_headers_are_corrupt() -> None:
    """Too few bytes, a wrong tag, checksum or offset is corrupt."""
    encoded = encode_header(HEADER)
    for data, offset in ((encoded[:71], 0x0203), (b"\xf5END" + encoded[4:], 0x0203), (encoded, 0x0204)):
        with pytest.raises(CorruptError):
            decode_header(data, offset)
    for bit in range(576):
        flipped = bytearray(encoded)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptError):
            decode_header(bytes(flipped), 0x0203)


def block_of(raw: bytes) -> tuple[BlockHeader, bytes]:
    """Make a header and padded bytes for a payload."""
    codec, stored = compress(raw)
    padded = pad(stored)
    crc = google_crc32c.value(padded)
    sizes = {"stored_bytes": len(stored), "raw_bytes": len(raw), "payload_crc": crc, "codec": codec}
    return attrs.evolve(HEADER, **sizes), padded


@pytest.mark.parametrize("raw", [b"", b"x", bytes(8), bytes(1000), bytes(range(256)), "ä".encode() * 99])
def test_payloads_come_back(raw: bytes) -> None:
    """A payload is stored as LZ4 only if that is shorter, and comes back."""
    header, padded = block_of(raw)

    assert decode_payload(header, padded) == raw
    assert (header.codec == Codec.LZ4) == (header.stored_bytes < len(raw))
    assert (header.codec == Codec.LZ4) == (len(set(raw)) < len(raw) > 8)


def test_payloads_that_are_refused() -> None:
    """A wrong length, checksum, codec, LZ4 stream or raw length is corrupt."""
    header, padded = block_of(bytes(1000))
    junk = b"\xff" * 16
    wrong = [
        (header, padded + bytes(8)),
        (header, padded[:-8]),
        (header, padded[:-1] + b"\x01"),
        (attrs.evolve(header, codec=Codec.ZSTD), padded),
        (attrs.evolve(header, codec=3), padded),
        (attrs.evolve(header, codec=Codec.NONE), padded),
        (attrs.evolve(header, raw_bytes=999), padded),
        (attrs.evolve(header, raw_bytes=1001), padded),
        (attrs.evolve(header, stored_bytes=16, payload_crc=google_crc32c.value(junk)), junk),
    ]
    for wrong_header, data in wrong:
        with pytest.raises(CorruptError):
            decode_payload(wrong_header, data)


FRAME = bytes.fromhex("93 cf0000000000000102 cf1122334455667788") + b"\xa1x"


def test_frame() -> None:
    """The bytes of a frame, encoded and decoded."""
    assert encode_frame(0x0102, 0x1122334455667788, encode_plain("x")) == FRAME
    header = attrs.evolve(HEADER, first_tick=0x0102, tick_count=1)
    assert decode_frames(header, FRAME) == [Frame(0x0102, 0x1122334455667788, b"\xa1x")]
    assert decode_frames(header, FRAME)[0].inputs == "x"


@pytest.mark.parametrize(
    ("first", "fields", "phases", "rest"),
    [
        ("94", b"\x01\x02", b"", "c402 0102"),
        ("95", b"", b"\x03\x04", "c400 c402 0304"),
        ("95", bytes(255), bytes(256), f"c4ff {'00' * 255} c50100 {'00' * 256}"),
        ("95", bytes(65535), bytes(65536), f"c5ffff {'00' * 65535} c600010000 {'00' * 65536}"),
    ],
)
def test_frames_with_field_and_phase_hashes(first: str, fields: bytes, phases: bytes, rest: str) -> None:
    """The bytes of a frame with hashes of fields and phases, encoded and decoded."""
    encoded = bytes.fromhex(first) + FRAME[1:] + bytes.fromhex(rest)
    assert encode_frame(0x0102, 0x1122334455667788, encode_plain("x"), fields, phases) == encoded
    header = attrs.evolve(HEADER, first_tick=0x0102, tick_count=1)
    (frame,) = decode_frames(header, encoded)
    assert frame == Frame(0x0102, 0x1122334455667788, b"\xa1x", fields, phases)
    assert frame.encode() == encoded


def test_later_frames_may_have_more_elements() -> None:
    """Elements after the inputs are ignored; a frame without inputs is corrupt."""
    header = attrs.evolve(HEADER, first_tick=0x0102, tick_count=1)

    assert decode_frames(header, b"\x95" + FRAME[1:] + b"\xc0\x07") == [Frame(0x0102, 0x1122334455667788, b"\xa1x")]
    with pytest.raises(CorruptError):
        decode_frames(header, b"\x92" + FRAME[1:19])


def test_frames_must_be_those_that_were_announced() -> None:
    """Fewer, more, different, repeated, truncated or no frames are corrupt."""
    one, two, three = (encode_frame(tick, 0, b"\xc0") for tick in (1, 2, 3))
    header = attrs.evolve(HEADER, first_tick=1, tick_count=2)
    assert [frame.tick for frame in decode_frames(header, one + two)] == [1, 2]
    for payload in (b"", one, one + two + three, one + one, two + three, two + one, one + three, one + two + b"\x93",
                    one + two[:-1], one + b"\xc0", one + two + b"\xc1", one + b"\x93\xa1x\x00\xc0"):  # fmt: skip
        with pytest.raises(CorruptError):
            decode_frames(header, payload)


def test_the_longest_inputs() -> None:
    """Inputs of 16 MiB can be encoded; one byte more is refused."""
    longest = bytes(limits.INPUT_BYTES_MAX)
    assert len(encode_frame(1, 2, longest)) == 19 + (16 << 20)
    with pytest.raises(ValueError, match="16777217"):
        ensure_inputs_fit(1, longest + b"\0")


def test_trailer() -> None:
    """The 24 bytes of a trailer, encoded and decoded; any flipped bit is detected."""
    encoded = under_crc(b"\xf5END", MARKER + bytes.fromhex("0807060504030201"))
    assert encode_trailer(MARKER, 0x0102030405060708) == encoded
    assert decode_trailer(encoded, 0) == (MARKER, 0x0102030405060708)
    with pytest.raises(CorruptError):
        decode_trailer(encoded[:23], 0)
    for bit in range(192):
        flipped = bytearray(encoded)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptError):
            decode_trailer(bytes(flipped), 0)


def test_seal() -> None:
    """END comes back; each missing part, a wrong type, and an index after END are corrupt."""
    parts = [IndexPartSummary(24, 1, 2, 3), IndexPartSummary(64, 3, 4, 5)]
    seal = Seal(b"m", bytes(32), 5, 4, 0, 4, 64, {"reason": "ü"}, b"r", 2, False, b"d", {1: 2, 129: 1}, parts, 1)
    plain = decode_plain(encode_seal(seal))
    assert plain == attrs.asdict(seal) | {"parts": [[24, 1, 2, 3], [64, 3, 4, 5]]}
    assert decode_seal(encode_seal(seal), 65) == seal
    assert decode_seal(encode_plain(plain | {"later": 1}), 65) == seal
    optional = {
        "run_id",
        "segment",
        "final",
        "previous_digest",
        "counts",
        "parts",
        "oldest_segment",
    }  # Not in format 0.1: all or none.
    no_ring = {name: value for name, value in plain.items() if name != "oldest_segment"}
    assert decode_plain(encode_seal(attrs.evolve(seal, oldest_segment=0))) == no_ring
    assert decode_seal(encode_plain(no_ring), 65) == attrs.evolve(seal, oldest_segment=0)
    hostile = [{name: value for name, value in plain.items() if name != left_out} for left_out in no_ring]
    hostile += [plain | {"oldest_segment": number} for number in (-1, 3, "1")]
    older = {name: value for name, value in plain.items() if name not in optional}
    assert decode_seal(encode_plain(older), 65) == Seal(b"m", bytes(32), 5, 4, 0, 4, 64, {"reason": "ü"})
    hostile += [plain | {"index_offset": place} for place in (-1, 65, 2**64 - 1)]
    hostile += [plain | {name: None} for name in plain if name != "outcome"]
    hostile += [plain | {"parts": parts} for parts in ([1], [[1, 2, 3]], [[1, 2, 3, -1]], [[1, 2, 3, "4"]])]
    hostile += [plain | {"counts": counts} for counts in ({1: -1}, {"1": 1}, {1: None})]
    for payload in [*map(encode_plain, hostile), b"", b"\xc1", b"\x80", b"\x90"]:
        with pytest.raises(CorruptError):
            decode_seal(payload, 65)


PLAIN = [
    (None, "c0"),
    (False, "c2"),
    (True, "c3"),
    (0, "00"),
    (127, "7f"),
    (128, "cc80"),
    (-1, "ff"),
    (-32, "e0"),
    (-33, "d0df"),
    (65535, "cdffff"),
    (65536, "ce00010000"),
    (2**63 - 1, "cf7fffffffffffffff"),
    (2**64 - 1, "cfffffffffffffffff"),
    (-(2**63), "d38000000000000000"),
    (1.5, "cb3ff8000000000000"),
    (-0.0, "cb8000000000000000"),
    ("", "a0"),
    ("ä", "a2c3a4"),
    ("\0" * 32, "d920" + "00" * 32),
    (b"", "c400"),
    (b"\xff", "c401ff"),
    ([], "90"),
    ([1, [None]], "920191c0"),
    ({}, "80"),
    ({"b": 1, "a": 2}, "82a16201a16102"),
    ({3: "x"}, "8103a178"),
]


@pytest.mark.parametrize(("value", "encoded"), PLAIN, ids=[encoded[:16] for _, encoded in PLAIN])
def test_plain_data(value: object, encoded: str) -> None:
    """Each kind of plain value as bytes, encoded and decoded, with its type, sign and order."""
    assert encode_plain(value).hex() == encoded
    assert repr(decode_plain(bytes.fromhex(encoded))) == repr(value)


ARRAYS = [
    (np.array([1, -2], "<i2"), "c70b01 92a33c69329102 0100feff"),
    (np.array([1, -2], ">i2"), "c70b01 92a33c69329102 0100feff"),
    (np.array(7, "u1"), "d70192a37c753190 07".replace("d701", "c70701")),
    (np.zeros((0, 3), "<f4"), "d70192a33c6634920003"),
    (np.array([True]), "d70192a37c6231910101"),
    (np.float64(1.5), "c70e02 92a33c663890 000000000000f83f"),
    (np.bool_(False), "c70702 92a37c623190 00"),
]


@pytest.mark.parametrize(("value", "encoded"), ARRAYS, ids=[encoded[:24] for _, encoded in ARRAYS])
def test_arrays_and_numbers(value: np.ndarray | np.generic, encoded: str) -> None:
    """Arrays and NumPy numbers as bytes, encoded and decoded: little-endian, with dtype and shape."""
    assert encode_plain(value).hex() == encoded.replace(" ", "")
    back = decode_plain(bytes.fromhex(encoded))
    assert type(back) is type(value)
    assert (back.dtype, back.shape) == (value.dtype.newbyteorder("<"), value.shape)
    assert back.tolist() == value.tolist()


@pytest.mark.parametrize("place", [2, 11])
@pytest.mark.parametrize(
    ("encoded", "good"),
    [
        ("cf ffffffffffffffff", True),
        ("cf 0000000000000000", True),
        ("01", True),
        ("d3 ffffffffffffffff", False),
        ("c3", False),
        ("a1 78", False),
        ("cb 3ff0000000000000", False),
    ],
)
def test_ticks_and_hashes_are_64_bits(place: int, encoded: str, good: bool) -> None:  # noqa: FBT001 - a parameter
    """All 64-bit values are valid; negative numbers, booleans, texts and floats are neither ticks nor hashes."""
    value = bytes.fromhex(encoded)
    payload = FRAME[: place - 1] + value + FRAME[place + 8 :]
    first_tick = int.from_bytes(value[1:] or value) if place == 2 and good else 0x0102
    header = attrs.evolve(HEADER, first_tick=first_tick, tick_count=1, offset=4096)
    if good:
        assert len(decode_frames(header, payload)) == 1
        assert decode_frames(header, payload)[0].offset == 4096
        return
    with pytest.raises(CorruptError, match="corrupt at byte 4096: frames that cannot be decoded"):
        decode_frames(header, payload)
