"""The lookup file of a tape, ``run.tape.lookup``: facts about its intervals, bound to exactly this tape.

Layout: magic, the length of what follows, plain data {version, run, files, intervals}, BLAKE2b-128 of all before it.
intervals is an array of [first_tick, last_tick, raw_bytes, facts], where facts is an LZ4 block of plain data.

Invariants:
    1. Nothing is used of a file that is damaged, or that was made for another tape: another run, other files, sizes or seals.
    2. Of an undamaged tape, all questions have the same answers without the file. Of a sealed file the blocks are not read
       to compare them: damage inside them is found by a check of the tape, and not by a question that skips them.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import lz4.block

from recorder.storage.atomic_file import write_file
from recorder.storage.file_names import journal_path, segment_path
from replayer.search.lookup.interval_facts import IntervalFacts
from replayer.tape.tape import Tape
from sim.kernel.plain_data import decode_plain, encode_plain

SUFFIX = ".lookup"
MAGIC = b"\x89TLK\r\n\x1a\n"
VERSION = 1
_HEAD = struct.Struct("<8sQ")
_DIGEST_BYTES = 16
FILE_BYTES_MAX = 1 << 30  # A larger file is not read: a question would take longer than without it.
FACTS_BYTES_MAX = 1 << 28  # Of one interval.


class UnusableLookupError(ValueError):
    """A lookup file cannot be used; the message says why."""


def lookup_path(tape: str | os.PathLike[str]) -> Path:
    """The path of a tape's lookup file."""
    return Path(f"{os.fspath(tape)}{SUFFIX}")


@attrs.frozen
class Stored:
    """The facts of one interval as they are stored."""

    first_tick: int
    last_tick: int
    raw_bytes: int
    facts: bytes

    def decoded(self) -> IntervalFacts:
        """Decode them. Raises UnusableLookupError."""
        try:
            if not 0 < self.raw_bytes <= FACTS_BYTES_MAX:
                raise ValueError(f"facts of {self.raw_bytes:,} bytes")
            raw = lz4.block.decompress(self.facts, uncompressed_size=self.raw_bytes)
            return IntervalFacts.from_plain(decode_plain(raw))
        except (ValueError, lz4.block.LZ4BlockError) as error:
            raise UnusableLookupError(f"the interval of tick {self.first_tick:,} cannot be decoded: {error}") from None


def stored(facts: IntervalFacts) -> Stored:
    """Encode the facts of one interval."""
    raw = encode_plain(facts.to_plain())
    return Stored(facts.first_tick, facts.last_tick, len(raw), lz4.block.compress(raw, store_size=False))


def identity_of(tape: Tape) -> list[Any]:
    """What a lookup file is bound to: number, size and digest of each file of the tape.

    Of a sealed file the digest is that of its seal, which covers all blocks; of others, that of all bytes. Raises OSError.
    """
    files: list[Any] = []
    for segment in tape.segments:
        seal = segment.contents.seal
        digest = seal.digest if seal is not None else _digest(segment_path(tape.path, segment.number))
        files.append([segment.number, segment.contents.size_bytes, digest])
    journal = journal_path(tape.path)
    if journal.exists():
        files.append([-1, journal.stat().st_size, _digest(journal)])
    return files


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").digest()


def write_lookup(tape: Tape, path: Path, intervals: Sequence[Stored]) -> int:
    """Write the lookup file of a tape, and return its size. An older one is replaced. Raises OSError."""
    content = encode_plain(
        {
            "version": VERSION,
            "run": tape.run_id,
            "files": identity_of(tape),
            "intervals": [list(attrs.astuple(one)) for one in intervals],
        }
    )
    whole = _HEAD.pack(MAGIC, len(content)) + content
    whole += hashlib.blake2b(whole, digest_size=_DIGEST_BYTES).digest()
    write_file(path, whole, existing="replace")
    return len(whole)


def read_lookup(tape: Tape, path: Path) -> list[Stored]:
    """The intervals in the lookup file of a tape, in the order of their ticks.

    Raises FileNotFoundError if there is none, UnusableLookupError if it is damaged, of another tape or of another state
    of this one, OSError.
    """
    if path.stat().st_size > FILE_BYTES_MAX:
        raise UnusableLookupError(f"it is larger than {FILE_BYTES_MAX:,} bytes")
    data = path.read_bytes()
    plain = _content(data)
    match plain:
        case {"version": int(version)} if version != VERSION:
            raise UnusableLookupError(f"it has version {version}, this program reads version {VERSION}")
        case {"run": str(run)} if run != tape.run_id:
            raise UnusableLookupError("it was made for another run")
        case {"files": list(files), "intervals": list(intervals)}:
            if files != identity_of(tape):
                raise UnusableLookupError("the tape is not the one that it was made for: the files have changed")
            return list(_intervals(intervals))
    raise UnusableLookupError("it is damaged: something is missing in it")


def _content(data: bytes) -> Any:
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if len(data) < _HEAD.size + _DIGEST_BYTES or data[: len(MAGIC)] != MAGIC:
        raise UnusableLookupError("it is damaged, or not a lookup file")
    if _HEAD.unpack_from(body)[1] != len(body) - _HEAD.size:
        raise UnusableLookupError("it is damaged: its length is wrong")
    if hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest() != digest:
        raise UnusableLookupError("it is damaged: its digest is wrong")
    try:
        return decode_plain(body[_HEAD.size :])
    except ValueError as error:
        raise UnusableLookupError(f"it is damaged: {error}") from None


def _intervals(values: list[Any]) -> Iterator[Stored]:
    last = -1
    for value in values:
        match value:
            case [int(first_tick), int(last_tick), int(raw), bytes(facts)] if last < first_tick <= last_tick:
                yield Stored(first_tick, last_tick, raw, facts)
                last = last_tick
            case _:
                raise UnusableLookupError("it is damaged: its intervals are not in order")
