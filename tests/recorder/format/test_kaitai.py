"""tape.ksy, compiled by Kaitai Struct's compiler, finds in every golden tape what the second reader finds."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any

import lz4.block
import numpy as np
import pytest
from google_crc32c import value as crc32c

from recorder import Recorder
from sim import Blob, Field, Schema, State

from oracle.second_checks import COLUMNS
from oracle.second_reader import CONTINUATION, END, HEADER, Reader, extension, read_journal, unpack
from project_paths import GOLDEN, ROOT
from small_worlds import Herd

TAPES = sorted(GOLDEN.glob("*/*.tape*"))
JOURNALS = [path for path in TAPES if path.suffix == ".journal"]
SEGMENTS = [path for path in TAPES if path not in JOURNALS]
NODE, PACKAGES = Path(sys.executable).with_name("node"), Path(sys.prefix) / "kaitai" / "node_modules"
NAMES = {"seq": "seq_number", "stored": "stored_bytes", "raw": "raw_bytes", "crc": "payload_crc"}  # As in tape.ksy.
LISTS = ["offsets", "first_ticks", "tick_counts", "seq_numbers", "baselines", "kinds", "flags"]


@pytest.fixture(scope="module")
def kaitai(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The parser that the compiler makes of tape.ksy."""
    if not NODE.exists() or not PACKAGES.exists():
        pytest.fail("the compiler of Kaitai Struct is missing: run tools/get_kaitai.sh .venv", pytrace=False)
    folder = tmp_path_factory.mktemp("kaitai")
    command = [NODE, ROOT / "tools" / "kaitai" / "compile.js", ROOT / "tape.ksy", "python", folder]
    subprocess.run(command, env={**os.environ, "NODE_PATH": str(PACKAGES)}, check=True)
    spec = importlib.util.spec_from_file_location("kaitai_tape", folder / "tape.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parse(kaitai: ModuleType, data: bytes, type_name: str = "") -> Any:
    """Parse bytes as a complete file, or as one of the types in tape.ksy."""
    made = getattr(kaitai.Tape, type_name) if type_name else kaitai.Tape
    return made(kaitai.KaitaiStream(kaitai.BytesIO(data)))


def named(path: Path) -> str:
    """A path as a test's name."""
    return f"{path.parent.name}-{path.name}"


def longest_reader(data: bytes) -> Reader:
    """The second reader of the longest beginning that it accepts, without torn or damaged bytes."""
    for end in range(len(data), 0, -1):
        try:
            return Reader(data[:end])
        except AssertionError:
            continue
    raise AssertionError("no tape")


def value_of(plain: Any) -> Any:
    """The value that a parsed `plain` stands for."""
    if plain.is_map:
        values = [value_of(item) for item in plain.items]
        return dict(zip(values[::2], values[1::2], strict=True))
    if plain.is_array:
        return [value_of(item) for item in plain.items]
    if plain.is_string or plain.is_binary:
        return plain.content.decode("utf-8") if plain.is_string else plain.content
    if plain.is_extension:
        return extension(int(plain.extension), plain.content)
    if plain.is_small_integer:
        return plain.small_integer
    numbers = (getattr(plain, name, None) for name in ("unsigned", "signed", "floating"))
    return next((n for n in numbers if n is not None), {0xC0: None, 0xC2: False, 0xC3: True}.get(plain.mark))


def same(parsed: Any, truth: Any) -> bool:
    """Compare values, including NaN and arrays."""
    return repr(parsed) == repr(truth)


def check_payload(kaitai: ModuleType, parsed: Any, truth: Any, payload: bytes) -> None:
    """A block's payload is split into its parts; `payload` is that of all its pieces, decompressed."""
    kind = parsed.kind.name
    type_name = {"meta": "Plain", "end": "Plain", "drop": "Plain", "full": "Keyframe", "delta": "Keyframe"}
    content = parsed.payload
    if not parsed.is_plainly_stored:
        assert isinstance(content, bytes)
        raw = (
            lz4.block.decompress(content, uncompressed_size=parsed.raw_bytes) if parsed.codec.name == "lz4" else content
        )
        assert raw == truth.payload
        content = parse(kaitai, payload, type_name.get(kind, kind.capitalize()))
    if kind in {"meta", "end", "drop"}:
        assert same(value_of(content), unpack(payload)[0])
    elif kind == "frames":
        frames = [(frame.tick, value_of(frame.proof), value_of(frame.inputs)) for frame in content.frames]
        assert same(frames, [tuple(frame) for frame in unpack(payload)])
    elif kind in ("events", "aux"):
        assert same([value_of(content.ticks), *map(value_of, content.found)], unpack(payload))
    elif kind == "index":
        (head,) = unpack(payload[4 : 4 + content.head_bytes])
        assert value_of(content.head) == head
        columns = b"".join(
            np.array(getattr(content, name), f"<{code}").tobytes()
            for name, code in zip(LISTS, COLUMNS.values(), strict=True)
        )
        assert (content.count, columns) == (head["count"], payload[4 + content.head_bytes :])
    else:
        assert payload[: 4 + content.head_bytes].endswith(content.head._io.to_byte_array())
        assert value_of(content.head)["first_tick" if kind == "changes" else "tick"] == truth.first_tick
        assert 4 + content.head_bytes + len(content.bodies) == len(payload)


def check_segment(kaitai: ModuleType, data: bytes) -> Any:
    """A file parsed by tape.ksy equals the result of the second reader; return the parsed file."""
    reader, segment = longest_reader(data), parse(kaitai, data).segment
    header = segment.header
    assert (header.major, header.minor, header.header_size) == (0, reader.minor, 64)
    assert (header.incompatible & ~1, header.compatible, segment.later_header) == (0, 0, b"")
    assert (header.run_id, header.marker) == (reader.run_id, reader.marker)
    assert (header.segment, header.first_seq, header.crc32c) == (reader.segment, reader.first_seq, crc32c(data[:60]))
    blocks = [item.block for item in segment.items if item.is_block]
    assert [block.offset for block in blocks] == [item.start for item in segment.items if item.is_block]
    for number, truth in enumerate(reader.blocks):
        parsed = blocks[number]
        for name in HEADER.split():
            assert getattr(parsed, NAMES.get(name, name)) == getattr(truth, name), name
        assert (parsed.crc32c, not any(parsed.padding)) == (crc32c(truth.header[8:]), True)
        if not truth.flags & CONTINUATION:
            rest = takewhile(lambda block: block.flags & CONTINUATION, reader.blocks[number + 1 :])
            check_payload(kaitai, parsed, truth, truth.payload + b"".join(block.payload for block in rest))
    trailers = [item.trailer for item in segment.items if item.is_trailer]
    assert [trailer.end_offset for trailer in trailers] == [b.offset for b in reader.blocks if b.kind == END]
    assert {trailer.marker for trailer in trailers} <= {reader.marker}
    return segment


@pytest.mark.parametrize("path", SEGMENTS, ids=named)
@pytest.mark.seldom(0.15)
def test_golden_tapes(kaitai: ModuleType, path: Path) -> None:
    """Every field of file header, block headers, frames, heads, INDEX and trailers, in intact and in torn files."""
    data = path.read_bytes()
    segment = check_segment(kaitai, data)

    last = segment.items[-1]
    assert last.is_block or last.is_trailer or data.endswith(last.rest)
    assert not hasattr(parse(kaitai, data), "journal")


@pytest.mark.parametrize("path", JOURNALS, ids=named)
def test_golden_journals(kaitai: ModuleType, path: Path) -> None:
    """Header, areas and records; records with right checksums are the frames that the second reader finds."""
    data = path.read_bytes()
    journal = parse(kaitai, data).journal
    found = {}
    for area in sorted(journal.areas, key=lambda area: area.generation):
        salt = journal.run_id + area.generation.to_bytes(8, "little")
        if area.generation and area.crc32c == crc32c(salt):
            for record in takewhile(lambda record: record.is_whole, area.records):
                if record.crc32c != crc32c(salt + record.frame_bytes):
                    break
                frame = parse(kaitai, record.frame_bytes, "Frame")
                found[frame.tick] = (frame.tick, value_of(frame.proof), value_of(frame.inputs))

    assert (journal.major, journal.minor, journal.crc32c) == (0, 2, crc32c(data[:60]))
    assert len(data) == 64 + 2 * journal.area_bytes
    assert found == read_journal(data, journal.run_id)
    assert found


class Large:
    """A state whose full keyframes are cut into pieces, some compressed and some not; takes any inputs."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "u1", (10,)), Blob("noise", capacity=3 << 20)))
        self.state.set_blob("noise", np.random.default_rng(0).bytes(1_200_000))

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["x"][3] += 1


@pytest.mark.seldom(0.15)
def test_pieces_and_inputs_of_every_kind(kaitai: ModuleType, tmp_path: Path) -> None:
    """Keyframes of several blocks, all types of MessagePack, zeros after the last block."""
    inputs = [None, True, False, 0, 127, 128, 1 << 8, 1 << 16, 1 << 32, 2**64 - 1, -1, -32, -33, -129, -(1 << 15) - 1,
              -(1 << 31) - 1, 1.5, "", "ä" * 20, "x" * 300, "y" * 70_000, b"", b"\0" * 300, b"z" * 70_000, [], [1, [2]],
              list(range(20)), list(range(70_000)), {}, {"a": {1: None}}, {str(n): n for n in range(20)},
              np.float32(2), np.arange(6.0).reshape(2, 3), {"x": [np.zeros((0, 2), "u1")]}]  # fmt: skip
    path = tmp_path / "run.tape"
    with Recorder(path, Large(), keyframe_interval_ticks=10, full_every=2) as tape:
        for given in inputs:
            tape.step(given)
        tape.flush()
        unsealed = path.read_bytes()
    segment = check_segment(kaitai, path.read_bytes())
    blocks = [item.block for item in segment.items if item.is_block]
    padded = check_segment(kaitai, unsealed + bytes(4096))

    pieces = [block for block in blocks if block.continues or block.is_continuation]
    assert {(block.kind.name, block.codec.name) for block in pieces} == {("full", "none"), ("full", "lz4")}
    assert padded.items[-1].rest == bytes(4096)


class Telling(Large):
    """A simulation with events, seldom many."""

    def events(self) -> list[dict[str, Any]]:
        n = int(self.state["x"][3])
        return [{"kind": "many", "n": number, "half": number / 2} for number in range(n if n % 3 else 0)]


def test_events(kaitai: ModuleType, tmp_path: Path) -> None:
    """Blocks with and without compression."""
    path = tmp_path / "run.tape"
    with Recorder(path, Telling(), keyframe_interval_ticks=5) as tape:
        for _ in range(17):
            tape.step()
    segment = check_segment(kaitai, path.read_bytes())
    found = [item.block for item in segment.items if item.is_block and item.block.kind.name == "events"]
    assert {block.codec.name for block in found} == {"none", "lz4"}
    assert value_of(found[0].payload.ticks) == [0, 1]


def test_aux(kaitai: ModuleType, tmp_path: Path) -> None:
    """Blocks with sections, after the first keyframe and after frames."""
    path = tmp_path / "run.tape"
    with Recorder(path, Telling(), aux=lambda world: {"n": int(world.state.hash() % 3)}) as tape:
        for _ in range(17):
            tape.step()
    segment = check_segment(kaitai, path.read_bytes())
    found = [item.block for item in segment.items if item.is_block and item.block.kind.name == "aux"]
    assert [block.first_tick for block in found] == [0, 1]
    assert value_of(found[0].payload.ticks) == [0, 1, True]


def test_changes(kaitai: ModuleType, tmp_path: Path) -> None:
    """Blocks with and without compression."""
    path = tmp_path / "run.tape"
    with Recorder(path, Telling(), keyframe_interval_ticks=1, mode="changes") as tape:
        for _ in range(17):
            tape.step()
    segment = check_segment(kaitai, path.read_bytes())
    found = [item.block for item in segment.items if item.is_block and item.block.kind.name == "changes"]
    assert len(found) == 17
    assert {block.codec.name for block in found} <= {"none", "lz4"}


def test_other_files(kaitai: ModuleType) -> None:
    """A file of a different kind has neither a segment nor a journal."""
    found = parse(kaitai, b"PK\3\4" + bytes(100))

    assert not hasattr(found, "segment")
    assert not hasattr(found, "journal")


def test_links(kaitai: ModuleType, tmp_path: Path) -> None:
    """Frames with links in place of state hashes, in a tape whose header states that."""
    path = tmp_path / "linked.tape"
    with Recorder(path, Herd(), mode="changes", hashes="changes", blame="none") as tape:
        for _ in range(30):
            tape.step()
    assert check_segment(kaitai, path.read_bytes()).header.incompatible == 1
