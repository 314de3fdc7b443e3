"""Ways of storing a run: this recorder and its peers, each as its own documentation recommends, with its defaults.

A way gets the inputs of each tick and, every tick or every 300, the complete state. Then its files are measured, and
random states are read and compared with the original ones. Minari and rebound's archive record only one kind of world:
own_worlds.py compares them on worlds of that kind.
"""

from __future__ import annotations

import importlib.util
import json
import mmap
import pickle
import sqlite3
import statistics
import struct
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import google_crc32c
import lz4.frame
import msgpack
import numpy as np
import turns
import workloads
import xxhash

import recorder
import replayer

INTERVAL = 300  # Between keyframes, if not every tick has its state.
READS = 30
DISTINCT_ORDERS = 8000  # More than the ticks of any run: repeated inputs would be compressed away.
FIRST_SAMPLES, SAMPLE_SHARE = 8, 0.1  # The ticks whose state hash is stored, to check the states that are read.


def hash_of_fields(fields: Any) -> int:
    """The hash of the bytes of all arrays, in their order."""
    digest = xxhash.xxh3_64()
    for name in fields:
        digest.update(np.ascontiguousarray(fields[name]).data)
    return digest.intdigest()


class Way:
    """Steps a workload and stores it, in a subclass. read returns the state's bytes, or its fields by name.

    Attributes:
        every: ticks from one stored state to the next.
        step_ns: duration of the last step.
    """

    needs = ""  # The package; a missing one is named in the table.

    def __init__(self, folder: Path, workload: str, every: int) -> None:
        self.folder, self.workload, self.every = folder, workload, every
        self.world = workloads.make(workload)
        self.tick_inputs = workloads.many_orders(DISTINCT_ORDERS)
        self.step_ns = 0
        self._hashes: dict[int, tuple[int, int]] = {}
        self.open()

    def open(self) -> None:
        """Begin."""

    def put(self, tick: int, inputs: Any, state: Any) -> None:
        """Store a tick; state is None if it is not stored."""

    def close(self) -> None:
        """End."""

    def reader(self) -> Callable[[int], Any] | None:
        """Return a function that reads the state of a tick from the closed files; None if there is none."""
        return None

    def is_keyframe(self, tick: int) -> bool:
        """True if the state was stored in that tick, and not in each tick."""
        return self.every > 1 and tick % self.every == 0

    def tick(self, tick: int) -> None:
        """Step and store."""
        inputs = self.tick_inputs[tick % len(self.tick_inputs)]
        start = time.perf_counter_ns()
        self.world.step(inputs)
        self.step_ns = time.perf_counter_ns() - start
        self.put(tick, inputs, self.world.state if tick % self.every == 0 else None)

    def after(self, tick: int) -> None:
        """Record the hashes of some states."""
        if tick <= FIRST_SAMPLES or tick * 2654435761 % (1 << 32) < SAMPLE_SHARE * (1 << 32):
            state = self.world.state
            self._hashes[tick] = xxhash.xxh3_64_intdigest(state.arena.data), hash_of_fields(state)

    def finish(self) -> dict[str, Any]:
        """Close, and read states at random."""
        memory = turns.rss_bytes("VmHWM")
        state_bytes = len(self.world.state.arena)
        start = time.perf_counter()
        self.close()
        figures: dict[str, Any] = {
            "close_s": time.perf_counter() - start,
            "size_bytes": turns.folder_bytes(self.folder),
            "memory_bytes": memory,
            "state_bytes": state_bytes,
        }
        read = self.reader()
        if read is not None:
            figures["read_ms"] = [self._timed_read(read, tick) for tick in self._ticks_to_read()]
            figures["access_ms"] = statistics.median(figures["read_ms"])
        return figures

    def _ticks_to_read(self) -> list[int]:
        random = np.random.Generator(np.random.PCG64(3))
        found: list[int] = random.permutation(list(self._hashes))[:READS].tolist()
        return found

    def _timed_read(self, read: Callable[[int], Any], tick: int) -> float:
        start = time.perf_counter()
        found = read(tick)
        took_ms = (time.perf_counter() - start) * 1e3
        if isinstance(found, dict):
            same = hash_of_fields({name: found[name] for name in self.world.state}) == self._hashes[tick][1]
        else:
            same = xxhash.xxh3_64_intdigest(found) == self._hashes[tick][0]
        assert same, f"another state was read than there was at tick {tick}"
        return took_ms


class Alone(Way):
    """Stores nothing: the cost of measuring a tick."""


class Floor(Way):
    """Hash, MessagePack, a checksum and one store into mapped memory each tick, a copy at a keyframe: the limit."""

    def open(self) -> None:
        """Map a ring."""
        self.size = 1 << 20
        with (self.folder / "ring").open("w+b") as file:
            file.truncate(self.size)
            self.memory = mmap.mmap(file.fileno(), self.size)
        self.place, self.encoder, self.copy = 0, msgpack.Packer(), self.world.state.arena.copy()

    def put(self, tick: int, inputs: Any, state: Any) -> None:
        """Store."""
        encoded = self.encoder.pack((tick, xxhash.xxh3_64_intdigest(self.world.state.arena.data), inputs))
        end = self.place + len(encoded) + 4
        if end > self.size:
            self.place, end = 0, len(encoded) + 4
        self.memory[self.place : end] = encoded + google_crc32c.value(encoded).to_bytes(4, "little")
        self.place = end
        if state is not None:
            np.copyto(self.copy, state.arena)

    def finish(self) -> dict[str, Any]:
        """The ring is overwritten: its size is not a figure, and nothing can be read."""
        return super().finish() | {"size_bytes": None}


class Ours(Way):
    """This recorder: mode "changes" if each tick's state is stored, else "events"."""

    def open(self) -> None:
        """Begin a tape."""
        self.path = self.folder / "run.tape"
        self.timed = workloads.Timed(self.world)
        mode: Any = "changes" if self.every == 1 else "events"
        self.tape = recorder.Recorder(self.path, self.timed, keyframe_interval_ticks=INTERVAL, mode=mode)

    def tick(self, tick: int) -> None:
        """The recorder steps."""
        self.tape.step(self.tick_inputs[tick % len(self.tick_inputs)])
        self.step_ns = self.timed.step_ns

    def is_keyframe(self, tick: int) -> bool:
        """There are keyframes in both modes."""
        return tick % INTERVAL == 0

    def close(self) -> None:
        """Seal."""
        self.tape.close()

    def reader(self) -> Callable[[int], Any] | None:
        """Through the change log without the simulation, or by re-simulating."""
        world = partial(workloads.make, self.workload)
        timeline = replayer.open(self.path, None if self.every == 1 else world)

        def read(tick: int) -> Any:
            timeline.seek(tick)
            return timeline.state.arena.data

        return read


class Records(Way):
    """A peer that keeps records of bytes: the inputs as MessagePack, the state as its bytes."""

    def put(self, tick: int, inputs: Any, state: Any) -> None:
        """Keep both."""
        self.put_record(tick, msgpack.packb(inputs), None if state is None else state.arena.data)

    def put_record(self, tick: int, inputs: bytes, state: memoryview | None) -> None:
        """Keep the records of a tick."""


class Mcap(Records):
    """MCAP, chunked, with zstd."""

    needs = "mcap"
    compression = "ZSTD"

    def open(self) -> None:
        """Two channels."""
        from mcap.writer import CompressionType, Writer  # noqa: PLC0415 - in its own process only

        self.path = self.folder / "run.mcap"
        self.writer = Writer(str(self.path), compression=CompressionType[self.compression])
        self.writer.start()
        schema = self.writer.register_schema("bytes", "raw", b"")
        self.inputs_channel = self.writer.register_channel("inputs", "msgpack", schema)
        self.state_channel = self.writer.register_channel("state", "raw", schema)

    def put_record(self, tick: int, inputs: bytes, state: memoryview | None) -> None:
        """A message each."""
        self.writer.add_message(self.inputs_channel, tick, inputs, tick)
        if state is not None:
            self.writer.add_message(self.state_channel, tick, bytes(state), tick)

    def close(self) -> None:
        """Write the summary."""
        finish: Any = self.writer.finish
        finish()

    def reader(self) -> Callable[[int], Any] | None:
        """By the index."""
        if self.every > 1:
            return None
        from mcap.reader import make_reader  # noqa: PLC0415

        indexed = make_reader(self.path.open("rb"))

        def read(tick: int) -> Any:
            return next(indexed.iter_messages("state", start_time=tick, end_time=tick + 1))[2].data

        return read


class McapLz4(Mcap):
    """MCAP, chunked, with LZ4."""

    compression = "LZ4"


class Lmdb(Records):
    """LMDB, a transaction a tick, not synced: recorded data survives kill -9. States by lz4.frame."""

    needs = "lmdb"

    def open(self) -> None:
        """Reserve as much space as the turns allow."""
        import lmdb  # noqa: PLC0415

        self.lmdb: Any = lmdb
        self.database = lmdb.open(str(self.folder), map_size=16 << 30, sync=False, metasync=False)

    def put_record(self, tick: int, inputs: bytes, state: memoryview | None) -> None:
        """Two keys a tick."""
        key = struct.pack(">Q", tick)
        with self.database.begin(write=True) as transaction:
            transaction.put(b"i" + key, inputs)
            if state is not None:
                transaction.put(b"s" + key, lz4.frame.compress(state))

    def close(self) -> None:
        """Sync."""
        self.database.sync()
        self.database.close()

    def finish(self) -> dict[str, Any]:
        """The file has holes: its size on the disk counts."""
        figures = super().finish()
        return figures | {"size_bytes": sum(one.stat().st_blocks * 512 for one in self.folder.iterdir())}

    def reader(self) -> Callable[[int], Any] | None:
        """By the key."""
        if self.every > 1:
            return None
        database = self.lmdb.open(str(self.folder), readonly=True, lock=False, map_size=16 << 30)

        def read(tick: int) -> Any:
            with database.begin() as transaction:
                return lz4.frame.decompress(transaction.get(b"s" + struct.pack(">Q", tick)))

        return read


class Sqlite(Records):
    """SQLite, WAL, a commit every 100 ticks. States by lz4.frame."""

    def open(self) -> None:
        """One table."""
        self.path = self.folder / "run.sqlite"
        self.database = sqlite3.connect(self.path, isolation_level=None)
        self.database.execute("PRAGMA journal_mode=WAL")
        self.database.execute("PRAGMA synchronous=NORMAL")
        self.database.execute("CREATE TABLE ticks (tick INTEGER PRIMARY KEY, inputs BLOB, state BLOB)")
        self.database.execute("BEGIN")

    def put_record(self, tick: int, inputs: bytes, state: memoryview | None) -> None:
        """A row a tick."""
        packed = None if state is None else lz4.frame.compress(state)
        self.database.execute("INSERT INTO ticks VALUES (?, ?, ?)", (tick, inputs, packed))
        if tick % 100 == 0:
            self.database.execute("COMMIT")
            self.database.execute("BEGIN")

    def close(self) -> None:
        """Commit."""
        self.database.execute("COMMIT")
        self.database.close()

    def reader(self) -> Callable[[int], Any] | None:
        """By the key."""
        if self.every > 1:
            return None
        database = sqlite3.connect(self.path)

        def read(tick: int) -> Any:
            (found,) = database.execute("SELECT state FROM ticks WHERE tick = ?", (tick,)).fetchone()
            return lz4.frame.decompress(found)

        return read


class PickleLz4(Way):
    """pickle and lz4.frame into one file, as a project would write it first; a list of offsets in memory."""

    def open(self) -> None:
        """One file."""
        self.path = self.folder / "run.pickles"
        self.file = self.path.open("wb")
        self.places: dict[int, int] = {}

    def put(self, tick: int, inputs: Any, state: Any) -> None:
        """A frame of lz4 for each state; inputs are too short to compress alone."""
        self.file.write(pickle.dumps(inputs, protocol=5))
        if state is not None:
            self.places[tick] = self.file.tell()
            fields = {name: state[name] for name in state}
            self.file.write(lz4.frame.compress(pickle.dumps(fields, protocol=5)))

    def close(self) -> None:
        """Close."""
        self.file.close()

    def reader(self) -> Callable[[int], Any] | None:
        """By the place."""
        if self.every > 1:
            return None
        file = self.path.open("rb")

        def read(tick: int) -> Any:
            file.seek(self.places[tick])
            with lz4.frame.LZ4FrameFile(file, "rb") as unpacked:
                return pickle.load(unpacked)

        return read


class Npz(Way):
    """numpy.savez_compressed, a file for each state; the inputs as JSON lines."""

    def open(self) -> None:
        """The file of inputs."""
        self.lines = (self.folder / "inputs.jsonl").open("w", encoding="utf-8")

    def put(self, tick: int, inputs: Any, state: Any) -> None:
        """A line, and a file."""
        self.lines.write(json.dumps(inputs) + "\n")
        if state is not None:
            fields: dict[str, Any] = {name: state[name] for name in state}
            np.savez_compressed(self.folder / f"{tick}.npz", **fields)

    def close(self) -> None:
        """Close."""
        self.lines.close()

    def reader(self) -> Callable[[int], Any] | None:
        """By the file's name."""
        return None if self.every > 1 else lambda tick: dict(np.load(self.folder / f"{tick}.npz"))


class Hdf5(Way):
    """h5py: a chunked data set for each field, one chunk a state, gzip 4 with shuffle; inputs as variable-length bytes."""

    needs = "h5py"
    settings: dict[str, Any] = {"compression": "gzip", "shuffle": True}  # noqa: RUF012

    def open(self) -> None:
        """Data sets that grow."""
        import h5py  # noqa: PLC0415

        self.h5py: Any = h5py
        self.path = self.folder / "run.h5"
        self.file = h5py.File(self.path, "w")
        state = self.world.state
        self.fields = {
            name: self.file.create_dataset(
                name,
                (0, *state[name].shape),
                state[name].dtype,
                maxshape=(None, *state[name].shape),
                chunks=(1, *state[name].shape),
                **self.settings,
            )
            for name in state
        }
        kind = h5py.vlen_dtype(np.uint8)
        self.inputs = self.file.create_dataset("inputs", (0,), kind, maxshape=(None,), chunks=(1000,))

    def put(self, tick: int, inputs: Any, state: Any) -> None:
        """A row each."""
        self.inputs.resize(tick, 0)
        self.inputs[tick - 1] = np.frombuffer(msgpack.packb(inputs), np.uint8)
        if state is not None:
            row = tick // self.every
            for name, field in self.fields.items():
                field.resize(row, 0)
                field[row - 1] = state[name]

    def close(self) -> None:
        """Close."""
        self.file.close()

    def reader(self) -> Callable[[int], Any] | None:
        """By the row."""
        if self.every > 1:
            return None
        file = self.h5py.File(self.path)
        return lambda tick: {name: file[name][tick - 1] for name in self.fields}


class Hdf5Lzf(Hdf5):
    """h5py with lzf, which is faster."""

    settings = {"compression": "lzf"}  # noqa: RUF012


class Zarr(Way):
    """zarr 3: a folder, an array for each field, one chunk a state, its default compression; inputs as JSON lines."""

    needs = "zarr"

    def open(self) -> None:
        """Arrays that grow."""
        import zarr  # noqa: PLC0415

        self.zarr: Any = zarr
        self.path = self.folder / "run.zarr"
        self.group = zarr.open_group(str(self.path), mode="w")
        state = self.world.state
        for name in state:
            shape = state[name].shape
            self.group.create_array(name, shape=(0, *shape), chunks=(1, *shape), dtype=state[name].dtype)
        self.arrays: dict[str, Any] = {name: self.group[name] for name in state}
        self.lines = (self.folder / "inputs.jsonl").open("w", encoding="utf-8")

    def put(self, tick: int, inputs: Any, state: Any) -> None:  # noqa: ARG002
        """Append."""
        self.lines.write(json.dumps(inputs) + "\n")
        if state is not None:
            for name, array in self.arrays.items():
                array.append(state[name][None])

    def close(self) -> None:
        """Close."""
        self.lines.close()

    def reader(self) -> Callable[[int], Any] | None:
        """By the row."""
        if self.every > 1:
            return None
        group = self.zarr.open_group(str(self.path), mode="r")
        arrays = {name: group[name] for name in self.arrays}
        return lambda tick: {name: array[tick - 1] for name, array in arrays.items()}


class Gsd(Way):
    """GSD, by its file layer: a chunk for each field, raw; inputs as a chunk, too."""

    needs = "gsd"

    def open(self) -> None:
        """One file."""
        import gsd.fl  # noqa: PLC0415

        self.fl: Any = gsd.fl
        self.path = self.folder / "run.gsd"
        self.file = gsd.fl.open(str(self.path), "w", "bench", "state", [1, 0])

    def put(self, tick: int, inputs: Any, state: Any) -> None:  # noqa: ARG002
        """A frame a tick."""
        self.file.write_chunk("inputs", np.frombuffer(msgpack.packb(inputs), np.uint8))
        if state is not None:
            for name in state:
                field = state[name]
                self.file.write_chunk(name, field.view(np.uint8) if field.dtype == np.bool_ else field)
        self.file.end_frame()

    def close(self) -> None:
        """Close."""
        self.file.close()

    def reader(self) -> Callable[[int], Any] | None:
        """By the frame."""
        if self.every > 1:
            return None
        file = self.fl.open(str(self.path), "r")
        return lambda tick: {name: file.read_chunk(tick - 1, name) for name in self.world.state}


class Blosc2(Way):
    """blosc2: a frame of chunks in one file, bitshuffle and LZ4; the inputs as MessagePack in a file."""

    needs = "blosc2"

    def open(self) -> None:
        """A chunk is a state."""
        import blosc2  # noqa: PLC0415

        self.blosc2: Any = blosc2
        self.path = self.folder / "run.b2frame"
        compression = {"codec": blosc2.Codec.LZ4, "filters": [blosc2.Filter.BITSHUFFLE], "typesize": 8}
        size = len(self.world.state.arena)
        self.chunks = blosc2.SChunk(chunksize=size, urlpath=str(self.path), contiguous=True, cparams=compression)
        self.inputs = (self.folder / "inputs.msgpack").open("wb")

    def put(self, tick: int, inputs: Any, state: Any) -> None:  # noqa: ARG002
        """Append."""
        self.inputs.write(msgpack.packb(inputs))
        if state is not None:
            self.chunks.append_data(state.arena)

    def close(self) -> None:
        """Close."""
        self.inputs.close()
        del self.chunks

    def reader(self) -> Callable[[int], Any] | None:
        """By the chunk."""
        if self.every > 1:
            return None
        chunks = self.blosc2.open(str(self.path), mode="r")
        return lambda tick: chunks.decompress_chunk(tick - 1)


class Arrow(Way):
    """Arrow IPC files with LZ4: states a batch each, a column for each field; inputs in batches of 300 rows."""

    needs = "pyarrow"

    def open(self) -> None:
        """Two files."""
        import pyarrow as pa  # noqa: PLC0415

        self.pa: Any = pa
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self.schema = pa.schema([(name, pa.large_binary()) for name in self.world.state])
        self.path = self.folder / "states.arrow"
        self.states = pa.ipc.new_file(str(self.path), self.schema, options=options)
        self.inputs_schema = pa.schema([("inputs", pa.binary())])
        self.inputs = pa.ipc.new_file(str(self.folder / "inputs.arrow"), self.inputs_schema, options=options)
        self.waiting: list[bytes] = []

    def put(self, tick: int, inputs: Any, state: Any) -> None:  # noqa: ARG002
        """A batch for a state, or for many inputs."""
        self.waiting.append(msgpack.packb(inputs))
        if len(self.waiting) == INTERVAL:
            self._put_inputs()
        if state is not None:
            pa = self.pa
            columns = [
                pa.Array.from_buffers(
                    pa.large_binary(), 1, [None, pa.py_buffer(np.array([0, one.nbytes])), pa.py_buffer(one)]
                )
                for one in (state[name] for name in state)
            ]
            self.states.write_batch(pa.record_batch(columns, schema=self.schema))

    def _put_inputs(self) -> None:
        pa = self.pa
        self.inputs.write_batch(pa.record_batch([pa.array(self.waiting, pa.binary())], schema=self.inputs_schema))
        self.waiting = []

    def close(self) -> None:
        """The last inputs, and the footers."""
        self._put_inputs()
        self.inputs.close()
        self.states.close()

    def reader(self) -> Callable[[int], Any] | None:
        """By the batch."""
        if self.every > 1:
            return None
        file = self.pa.ipc.open_file(self.pa.memory_map(str(self.path)))

        def read(tick: int) -> Any:
            batch = file.get_batch(tick - 1)
            return {name: np.frombuffer(batch.column(name)[0].as_buffer(), np.uint8) for name in self.world.state}

        return read


@attrs.frozen
class Known:
    """A way by its name in the tables.

    Attributes:
        kind: the class.
        workloads: those with a state every 300 ticks, and those with a state each tick.
    """

    kind: type[Way]
    workloads: tuple[str, str]


WAYS = {
    "no recorder": Known(Alone, ("SMGL", "SMGL")),
    "hash + encode + store": Known(Floor, ("SMGL", "")),
    "ours": Known(Ours, ("SMGL", "SMGL")),
    "MCAP zstd": Known(Mcap, ("SMGL", "SMGL")),
    "MCAP lz4": Known(McapLz4, ("SMG", "SMG")),
    "h5py gzip": Known(Hdf5, ("SMG", "SMG")),
    "h5py lzf": Known(Hdf5Lzf, ("SMG", "SMG")),
    "zarr": Known(Zarr, ("SMG", "SMG")),
    "GSD": Known(Gsd, ("SMGL", "SMGL")),
    "LMDB lz4": Known(Lmdb, ("SMG", "SMG")),
    "SQLite lz4": Known(Sqlite, ("SMG", "SMG")),
    "pickle + lz4": Known(PickleLz4, ("SMGL", "SMG")),
    "npz + JSON lines": Known(Npz, ("SMG", "SMG")),
    "blosc2": Known(Blosc2, ("SMGL", "SMGL")),
    "Arrow IPC lz4": Known(Arrow, ("SMG", "SMG")),
}


def missing(known: Known) -> str:
    """The name of a missing package that a way needs, else empty."""
    needs = known.kind.needs
    return needs if needs and importlib.util.find_spec(needs) is None else ""


def make_way(folder: Path, *, kind: type[Way], workload: str, every: int) -> Way:
    """Make one way, in its process."""
    return kind(folder, workload, every)
