"""Mutate tapes as an attacker would: any field of any structure, with all checksums corrected afterwards.

Without corrected checksums every change is refused, and the code after the check is never reached. The choices come from
outside: from a seeded generator in the tests, from a coverage-guided fuzzer in the long campaign.
"""

from __future__ import annotations

import random
import struct
from typing import Protocol

import google_crc32c
import lz4.block

from recorder.errors import CorruptError
from recorder.format.blocks.block import HEADER_BYTES, Codec, decode_header
from recorder.format.blocks.file_header import HEADER_BYTES as FILE_HEADER_BYTES
from recorder.format.journal_bytes import AREA_HEADER, area_salt
from recorder.format.journal_bytes import HEADER_BYTES as JOURNAL_HEADER_BYTES
from recorder.format.segments.seal import TRAILER_BYTES, TRAILER_TAG

INTERESTING = (0, 1, 2, 7, 8, 63, 64, 72, 255, 4096, 16384, 65535, 1 << 20, (1 << 24) - 1, 1 << 31, (1 << 32) - 1)
WIDE = (1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
FIELDS = ((8, 8), (16, 8), (24, 8), (32, 8), (40, 8), (48, 4), (52, 4), (56, 4), (64, 1), (65, 1), (66, 2), (68, 4))


class Choices(Protocol):
    """The source of random choices."""

    def integer(self, low: int, high: int) -> int:
        """A number from low to high, both included."""

    def some_bytes(self, count: int) -> bytes:
        """This many bytes."""


class SeededChoices:
    """Choices from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        """See Choices."""
        return self._random.randint(low, high)

    def some_bytes(self, count: int) -> bytes:
        """See Choices."""
        return self._random.randbytes(count)


def mutate_tape(data: bytes, choices: Choices) -> bytes:
    """An intact segment with one to four changes and corrected checksums."""
    blocks, tail = _split(data)
    head = bytearray(data[:FILE_HEADER_BYTES])
    for _ in range(choices.integer(1, 4)):
        action = choices.integer(0, 9)
        if action == 0:
            _overwrite(head, choices, 0, FILE_HEADER_BYTES - 4)
        elif not blocks:
            break
        elif action == 1:
            del blocks[choices.integer(0, len(blocks) - 1)]
        elif action == 2:
            block = blocks[choices.integer(0, len(blocks) - 1)]
            blocks.insert(choices.integer(0, len(blocks)), (bytearray(block[0]), block[1]))
        elif action == 3:
            tail = bytes(choices.some_bytes(choices.integer(0, 40)))
        else:
            place = choices.integer(0, len(blocks) - 1)
            blocks[place] = _change_block(*blocks[place], choices)
    head[60:64] = _crc(bytes(head[:60]))
    return _join(head, blocks, tail, keep_offsets=choices.integer(0, 3) == 0)


def mutate_journal(data: bytes, choices: Choices) -> bytes:
    """A journal with some changes; checksums of header and areas are corrected, those of records sometimes."""
    changed = bytearray(data)
    for _ in range(choices.integer(1, 4)):
        _overwrite(changed, choices, 0, min(len(changed), 4096))
    changed[60:64] = _crc(bytes(changed[:60]))
    area_bytes, run_id = struct.unpack_from("<Q16s", changed, 16)
    for start in (JOURNAL_HEADER_BYTES, JOURNAL_HEADER_BYTES + area_bytes):
        if start + 64 < len(changed):
            generation = struct.unpack_from("<Q", changed, start)[0]
            salt = area_salt(run_id, generation)
            struct.pack_into("<I", changed, start + 8, salt)
            first = start + AREA_HEADER.size
            size = struct.unpack_from("<I", changed, first)[0]
            if first + 8 + size <= len(changed):
                record = bytes(changed[first + 8 : first + 8 + size])
                struct.pack_into("<I", changed, first + 4, google_crc32c.extend(salt, record))
    return bytes(changed)


def _split(data: bytes) -> tuple[list[tuple[bytearray, bytes]], bytes]:
    """Header and raw payload of each block, and the bytes after the last one."""
    blocks, place = [], FILE_HEADER_BYTES
    while True:
        try:
            header = decode_header(data[place : place + HEADER_BYTES], place)
        except CorruptError:
            return blocks, data[place:]
        stored = data[place + HEADER_BYTES :][: header.stored_bytes]
        raw = lz4.block.decompress(stored, header.raw_bytes) if header.codec == Codec.LZ4 else stored
        blocks.append((bytearray(data[place : place + HEADER_BYTES]), raw))
        place = header.end_offset


def _change_block(header: bytearray, raw: bytes, choices: Choices) -> tuple[bytearray, bytes]:
    if choices.integer(0, 2) == 0:
        offset, size = FIELDS[choices.integer(0, len(FIELDS) - 1)]
        header[offset : offset + size] = _number(choices, size)
        return header, raw
    changed = bytearray(raw)
    action = choices.integer(0, 3)
    place = choices.integer(0, len(changed))
    if action == 0:
        del changed[place : place + choices.integer(1, 16)]
    elif action == 1:
        changed[place:place] = choices.some_bytes(choices.integer(1, 16))
    else:
        _overwrite(changed, choices, 0, len(changed))
    return header, bytes(changed)


def _overwrite(data: bytearray, choices: Choices, low: int, high: int) -> None:
    if high <= low:
        return
    place = choices.integer(low, high - 1)
    size = (1, 1, 2, 4, 8)[choices.integer(0, 4)]
    new = _number(choices, size) if choices.integer(0, 1) else choices.some_bytes(size)
    if choices.integer(0, 3) == 0:
        new = new[::-1]  # MessagePack is big-endian.
    data[place : place + len(new)] = new[: high - place]


def _number(choices: Choices, size: int) -> bytes:
    known = INTERESTING + WIDE if size == 8 else INTERESTING
    return (known[choices.integer(0, len(known) - 1)] & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _join(head: bytearray, blocks: list[tuple[bytearray, bytes]], tail: bytes, *, keep_offsets: bool) -> bytes:
    """Join the blocks with right checksums, lengths and, unless keep_offsets, right offsets."""
    parts, place, end_offset = [bytes(head)], FILE_HEADER_BYTES, 0
    for header, raw in blocks:
        packed = lz4.block.compress(raw, store_size=False)
        codec, stored = (header[65], packed) if len(packed) < len(raw) and header[65] else (0, raw)
        padded = stored + bytes(-len(stored) % 8)
        lengths = struct.unpack_from("<II", header, 52)
        fits = lengths[1] == len(raw) or lengths[1] in INTERESTING
        struct.pack_into("<I", header, 52, len(stored))
        struct.pack_into("<I", header, 56, lengths[1] if fits and lengths[1] >= len(stored) else len(raw))
        struct.pack_into("<I", header, 60, google_crc32c.value(padded))
        if header[65] in {0, 1}:
            header[65] = codec
        if not keep_offsets:
            struct.pack_into("<Q", header, 24, place)
        header[4:8] = _crc(bytes(header[8:72]))
        end_offset = place
        parts += [bytes(header), padded]
        place += HEADER_BYTES + len(padded)
    if tail[:4] == TRAILER_TAG and len(tail) >= TRAILER_BYTES:
        body = tail[8:16] + struct.pack("<Q", end_offset)
        tail = TRAILER_TAG + _crc(body) + body + tail[TRAILER_BYTES:]
    return b"".join([*parts, tail])


def _crc(data: bytes) -> bytes:
    return struct.pack("<I", google_crc32c.value(data))
