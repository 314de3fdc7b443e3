"""Packed tapes: the frames, keyframes and other blocks of the original, read by a second reader and by the product."""

from __future__ import annotations

import random
import struct
import sys
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from asked_worlds import Garden, battle_run, garden_run

import recorder
import replayer
from recorder import CorruptError
from recorder.format.blocks.file_header import PACKED
from recorder.format.blocks.frame import Frame
from recorder.format.blocks.packed.frame_streams import FORMS, HEAD_BYTES, join_frames, split_frames
from recorder.format.blocks.packed.value_streams import join_values, split_values
from recorder.format.limits import BLOCK_TICKS_MAX
from recorder.format.zstandard_frames import (
    MissingCodecError,
    compress_frame,
    compress_frames,
    decompress_frame,
    decompress_frames,
)
from replayer.reshape import pack
from replayer.reshape.cut import cut_tape
from replayer.reshape.pack import pack_tape
from replayer.tape.copied_range import UnfitTapeError
from sim.kernel.plain_data import encode_plain

from oracle.second_reader import Reader, read_packed
from small_worlds import Herd, Saved, Walkers, record

zstandard = pytest.importorskip("zstandard")

WORLDS: dict[str, tuple[Any, list[Any], dict[str, Any]]] = {
    "walkers": (Walkers, [[[i % 20, i]] * (i % 7) for i in range(90)], {}),
    "herd": (Herd, [None] * 90, {"mode": "changes"}),
    "chained": (Herd, [None] * 90, {"mode": "changes", "hashes": "changes"}),
    "no blame": (Walkers, [[[7, i * 10**6]] for i in range(90)], {"blame": "none"}),
    "saved": (Saved, list(range(90)), {"split": 2_000}),
}


def incompatible(path: Path) -> int:
    """The feature flags of a tape."""
    return int(struct.unpack_from("<I", path.read_bytes(), 16)[0])


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", WORLDS)
def test_a_packed_tape_holds_what_the_tape_holds(tmp_path: Path, name: str) -> None:
    """Block for block by a second reader; and every tick has the live run's state."""
    make, inputs, options = WORLDS[name]
    path, target = tmp_path / "run.tape", tmp_path / "packed.tape"
    live = record(path, make(), inputs, keyframe_interval_ticks=20, full_every=2, **options)
    report = pack_tape(path, target, level=random.choice([1, 3, 19]))
    assert (report.first_tick, report.last_tick, report.size_bytes) == (0, 90, target.stat().st_size)
    assert report.size_bytes < report.bytes_before
    assert incompatible(path) & PACKED == 0 < incompatible(target) & PACKED
    packed = Reader(target.read_bytes())
    assert {block.codec for block in packed.blocks} & {2, 3}
    plain = tmp_path / "plain.tape"
    cut_tape(target, plain, 0, -1)  # Unpacked again.
    assert incompatible(plain) & PACKED == 0
    found = [(block.kind, block.first_tick, block.payload) for block in packed.blocks[1:-2]]
    assert found
    if name != "saved":  # Whose original is in several files.
        ours = [(block.kind, block.payload) for block in Reader(path.read_bytes()).blocks if block.kind in (3, 4)]
        assert [(kind, payload) for kind, _, payload in found if kind in (3, 4)] == ours
        assert (
            list(Reader(plain.read_bytes()).frames())
            == list(packed.frames())
            == list(Reader(path.read_bytes()).frames())
        )
    for one in (target, plain):
        with replayer.open(one, make) as run:
            for tick in random.sample(range(91), 12):
                assert run[tick].arena.tobytes() == live[tick]
            assert run.tape.check_blocks() == []
            assert run.verify().ok


def test_figures_events_and_digests_are_packed_too(tmp_path: Path) -> None:
    """Telemetry of a garden; the digest of the values of objects."""
    garden_run(tmp_path / "garden.tape", 3, 60, 20)
    battle_run(tmp_path / "battle.tape", 3, 60, 20)
    for name in ("garden", "battle"):
        path, target = tmp_path / f"{name}.tape", tmp_path / f"{name}-packed.tape"
        pack_tape(path, target)
        with replayer.Tape(path) as old, replayer.Tape(target) as new:
            ours, theirs = old.telemetry(), new.telemetry()
            assert ours.keys() == theirs.keys()
            assert all(np.array_equal(ours[key], theirs[key]) for key in ours)
            assert [old.frame(tick).encode() for tick in range(1, 61)] == [
                new.frame(tick).encode() for tick in range(1, 61)
            ]
            digests = [[tape.recording.value_digest(one) for one in tape.keyframes] for tape in (old, new)]
            assert digests[0] == digests[1]
            assert (old.outcome, old.run_id, old.meta["settings"]) == (new.outcome, new.run_id, new.meta["settings"])
    with replayer.open(tmp_path / "garden-packed.tape", Garden) as run:
        assert run.verify().ok


def test_a_packed_tape_can_be_continued_and_cut_and_packed_again(tmp_path: Path) -> None:
    """A resumed one has blocks of both kinds."""
    path, target = tmp_path / "run.tape", tmp_path / "packed.tape"
    inputs: list[Any] = [[[i % 20, i]] for i in range(120)]
    live = record(path, Walkers(), inputs[:60], keyframe_interval_ticks=20)
    pack_tape(path, target)
    with recorder.resume(target, Walkers()) as tape:
        for one in inputs[60:]:
            tape.step(one)
        expected = tape.simulation.state.arena.tobytes()
    pack_tape(target, tmp_path / "again.tape")
    for one in (target, tmp_path / "again.tape"):
        with replayer.open(one, Walkers) as run:
            assert (run[60].arena.tobytes(), run[-1].arena.tobytes()) == (live[60], expected)
            assert run.verify().ok


def random_frames(drawn: random.Random) -> list[Frame]:
    """Frames of one kind, with inputs of any kind."""
    fields, phases, is_chained = (*drawn.choice([(0, 0), (3, 0), (3, 4), (0, 2), (200, 0)]), drawn.random() < 0.3)
    values: list[Any] = [
        None,
        5,
        -7,
        300,
        1e9,
        "text" * drawn.randrange(20),
        b"\1\2",
        {"a": [1, {"b": -(2**40)}]},
        [[]],
    ]
    first = drawn.choice([1, 2**32 - 3, 2**63])
    frames = []
    for tick in range(first, first + drawn.randrange(1, 40)):
        inputs = encode_plain([drawn.choice([*values, drawn.randrange(2**63)]) for _ in range(drawn.randrange(6))])
        hashed = drawn.randbytes(8)
        proof, link = (None, hashed) if is_chained else (int.from_bytes(hashed), b"")
        frames.append(Frame(tick, proof, inputs, drawn.randbytes(fields), drawn.randbytes(phases), link=link))
    return frames


@pytest.mark.sample(8)
@pytest.mark.parametrize("seed", range(40))
def test_streams_join_to_the_frames(seed: int) -> None:
    """Byte for byte, for frames with and without each kind of hash."""
    frames = random_frames(random.Random(seed))
    payload = b"".join(frame.encode() for frame in frames)
    for form in FORMS:
        streams = split_frames(payload, form)
        assert streams is not None
        joined = b"".join(streams)
        assert len(joined) <= len(payload) + HEAD_BYTES + 24
        assert join_frames(joined, len(payload)) == payload
        for stored in (compress_frames(streams, 3), compress_frames([joined], 3)):
            assert decompress_frames(stored, len(joined)) == joined
            assert read_packed(stored, is_streams=True) == payload
            with pytest.raises(ValueError, match="expected at most"):
                decompress_frames(stored, len(joined) - 1)


def test_frames_of_several_kinds_are_not_split() -> None:
    """Nor is anything else than frames in their shortest form."""
    one, other = Frame(1, 2, b"\xc0", b"ab").encode(), Frame(2, 2, b"\xc0").encode()
    later = b"\x96" + one[1:] + b"\xc4\x00\xc0"  # Of a later version.
    for form in FORMS:
        assert all(split_frames(payload, form) is None for payload in (one + other, b"", one[:-1], b"\xc0", later))
        assert split_frames(one, form) is not None
    array = Frame(1, 2, encode_plain(np.arange(3))).encode()
    assert (split_frames(array, 0) is None, split_frames(array, 1) is None) == (False, True)


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(20))
def test_values_of_every_kind_are_split_or_left(seed: int) -> None:
    """Joined, they are the same bytes; those with other kinds, or cut, are not split."""
    drawn = random.Random(seed)
    pack = msgpack.Packer(use_single_float=True).pack
    kinds: list[Any] = [*(2**bits - 1 for bits in range(65)), *(-(2**bits) for bits in range(64)), 1.5, None, True]
    kinds += [
        "ä" * 9,
        "x" * 31,
        "x" * 255,
        b"",
        b"\xcd" * 255,
        [1] * 20,
        {"a": 2},
        dict.fromkeys(range(20)),
        [0] * 70_000,
    ]
    values = b"".join(pack(drawn.choice(kinds)) for _ in range(drawn.randrange(60)))
    values += msgpack.packb(drawn.random())
    streams = split_values(values)
    assert streams is not None
    assert join_values(b"".join(streams), len(values)) == values
    assert split_values(values[:-1]) is None
    for other in ("x" * 256, b"x" * 256, "x" * 70_000, msgpack.ExtType(1, b"abc"), msgpack.ExtType(1, b"abcd")):
        assert split_values(values + msgpack.packb(other)) is None


@pytest.mark.sample(5)
@pytest.mark.parametrize("seed", range(30))
def test_damaged_streams_raise_value_error_or_give_other_frames(seed: int) -> None:
    """Whatever they hold, nothing else is raised and no more memory is taken than they have."""
    drawn = random.Random(seed)
    payload = b"".join(frame.encode() for frame in random_frames(drawn))
    streams = bytearray(b"".join(split_frames(payload, drawn.choice(FORMS)) or []))
    for _ in range(60):
        changed = streams.copy()
        for _ in range(drawn.randrange(1, 4)):
            changed[drawn.choice([drawn.randrange(HEAD_BYTES), drawn.randrange(len(changed))])] ^= 1 << drawn.randrange(
                8
            )
        cut = drawn.choice([None, drawn.randrange(len(changed))])
        try:
            joined = join_frames(bytes(changed[:cut]), len(payload))
        except ValueError:
            continue
        assert len(joined) <= 4 * len(payload) + 64


def test_hostile_frames_of_zstandard_are_refused() -> None:
    """A bomb, an unknown size, a cut, and what follows; the size is checked before memory is taken."""
    good = compress_frame(b"x" * 1000, 19)
    assert decompress_frame(good, 1000) == b"x" * 1000
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 28))
    unknown = zstandard.ZstdCompressor(write_content_size=False).compress(b"x" * 1000)
    for stored in (bomb, unknown, good[:-1], good + b"\0", good + good, b"", b"text"):
        with pytest.raises(ValueError, match=r"expected at most|rror|rame|unused data"):
            decompress_frame(stored, 1000)
    several = compress_frames([b"x" * 600, b"y" * 600], 3)
    assert decompress_frames(several, 1200) == b"x" * 600 + b"y" * 600
    for stored in (b"", b"\0", several[:-1], several + b"\0", several[:5], b"\xff" + several[1:]):
        with pytest.raises(ValueError, match=r"sizes of frames|bytes for"):
            decompress_frames(stored, 1200)
    with pytest.raises(ValueError, match="a frame of 1000 bytes, expected at most 999"):
        decompress_frame(good, 999)
    head = struct.pack("<BBHHHIQ", 3, 0, 0, 0, 0, BLOCK_TICKS_MAX + 1, 1)
    with pytest.raises(ValueError, match="bytes of streams for 16385 frames"):
        join_frames(head + bytes(12 * (BLOCK_TICKS_MAX + 1)), 1 << 20)


@pytest.mark.share(0.5)
def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    """A frame that is read from a damaged packed tape is the recorded one."""
    path, target = tmp_path / "run.tape", tmp_path / "packed.tape"
    record(path, Walkers(), [[[i % 20, i]] for i in range(40)], keyframe_interval_ticks=20)
    pack_tape(path, target)
    data, drawn = target.read_bytes(), random.Random(random.randrange(1 << 20))
    with replayer.Tape(path) as tape:
        expected = [tape.frame(tick).encode() for tick in range(1, 41)]
    for _ in range(60):
        damaged = bytearray(data)
        damaged[drawn.randrange(64, len(data))] ^= 1 << drawn.randrange(8)
        target.write_bytes(damaged)
        with replayer.Tape(target) as tape:
            for tick in range(1, tape.last_tick + 1):
                try:
                    assert tape.frame(tick).encode() == expected[tick - 1]
                except (recorder.MissingTickError, CorruptError):
                    continue


def test_a_tape_that_is_not_complete_is_refused(tmp_path: Path) -> None:
    """And a level out of range; nothing is written."""
    path, target = tmp_path / "run.tape", tmp_path / "packed.tape"
    record(path, Walkers(), [[[i % 20, i]] for i in range(40)], keyframe_interval_ticks=20)
    data = bytearray(path.read_bytes())
    frames = next(block for block in Reader(bytes(data)).blocks if block.kind == 2)
    data[frames.offset + 80] ^= 1
    path.write_bytes(data)
    with pytest.raises(UnfitTapeError, match="tick 1 cannot be read"):
        pack_tape(path, target)
    for level in (0, 20):
        with pytest.raises(ValueError, match="level: expected 1 to 19"):
            pack_tape(path, target, level=level)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["run.tape"]


def test_a_packed_tape_that_differs_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison at the end decides."""
    path, target = tmp_path / "run.tape", tmp_path / "packed.tape"
    record(path, Walkers(), [[[i % 20, i]] for i in range(40)], keyframe_interval_ticks=20)
    record(tmp_path / "other.tape", Walkers(), [[[i % 20, 1]] for i in range(40)], keyframe_interval_ticks=20)
    with replayer.Tape(tmp_path / "other.tape") as other:
        copy_all = pack.copy_all
        monkeypatch.setattr(pack, "copy_all", lambda _, *more: copy_all(other.recording, *more))
        with pytest.raises(CorruptError, match="the packed frame of tick 1 differs"):
            pack_tape(path, target)
    assert not target.exists()


def test_without_the_package_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To pack, and to read a packed tape; other tapes are read as before."""
    path, target = tmp_path / "run.tape", tmp_path / "packed.tape"
    live = record(path, Walkers(), [[[i % 20, i]] for i in range(40)], keyframe_interval_ticks=20)
    pack_tape(path, target)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingCodecError, match="needs the package zstandard: pip install zstandard"):
        replayer.open(target, Walkers)
    with pytest.raises(MissingCodecError):
        pack_tape(path, tmp_path / "third.tape")
    with replayer.open(path, Walkers) as run:
        assert run[-1].arena.tobytes() == live[40]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["packed.tape", "run.tape"]
