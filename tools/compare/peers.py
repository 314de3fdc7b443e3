"""The compared formats MCAP, HDF5, GSD and SQLite, each used as its documentation recommends."""

from __future__ import annotations

import contextlib
import io
import itertools
import sqlite3
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gsd.fl
import h5py
import mcap.records
import numpy as np
from history import INPUT_BYTES, STATE_CELLS, Frame
from mcap.reader import make_reader
from mcap.stream_reader import StreamReader, breakup_chunk
from mcap.writer import Writer
from minari_peer import Minari
from our_peer import Ours
from peer import Peer, Reading, Sink

TICK_MESSAGE = struct.Struct(f"<QQ{INPUT_BYTES}s")
STATE_HEAD = struct.Struct("<Q")


class McapSink:
    """An MCAP file with one channel for ticks and one for states."""

    def __init__(self, path: Path, *, each_tick: bool, data_crc: bool) -> None:
        self.stream = path.open("wb")
        self.each_tick = each_tick
        self.writer: Any = Writer(self.stream, use_chunking=not each_tick, enable_data_crcs=data_crc)
        self.writer.start()
        schema = self.writer.register_schema("run", "", b"")
        self.ticks = self.writer.register_channel("/ticks", "x-tick", schema)
        self.states = self.writer.register_channel("/states", "x-state", schema)

    def put(self, frame: Frame) -> None:
        """Add a message, and one for the state."""
        if frame.state is not None:
            self._add(self.states, frame.tick - 1, STATE_HEAD.pack(frame.tick - 1) + frame.state)
        self._add(self.ticks, frame.tick, TICK_MESSAGE.pack(*frame.row))

    def _add(self, channel: int, tick: int, data: bytes) -> None:
        time_ns = tick * 1_000_000
        self.writer.add_message(channel, log_time=time_ns, data=data, publish_time=time_ns, sequence=tick)
        if self.each_tick:
            self.stream.flush()

    def close(self) -> None:
        """Write the summary."""
        self.writer.finish()
        self.stream.close()


class Mcap(Peer):
    """MCAP by its Python library."""

    library = "mcap"
    strength = (
        "An open, documented format with readers in many languages and good viewers. With validate_crcs=True and the "
        "streaming reader its checksums do catch damage to messages, and complete chunks survive a crash. The checksums "
        "are off by default, and readers do not check the summary."
    )
    rescue_how = "streaming reader"

    def __init__(
        self, name: str, *, stream: bool = False, crc: bool = False, data_crc: bool = False, each_tick: bool = False
    ) -> None:
        """stream: use the streaming reader. crc: validate. data_crc: write the optional CRC of the data section.

        each_tick: without chunks and flushed after each message.
        """
        super().__init__(name)
        self.stream, self.crc, self.data_crc, self.each_tick = stream, crc, data_crc, each_tick
        self.takes_damage = not each_tick
        self.takes_kills = not (stream or crc or data_crc)
        self.thoroughness = "some" if stream != data_crc or crc != data_crc else "all"

    def create(self, folder: Path, state_every: int) -> Sink:  # noqa: ARG002, D102
        return McapSink(self.find_file(folder), each_tick=self.each_tick, data_crc=self.data_crc)

    def find_file(self, folder: Path) -> Path:  # noqa: D102
        return folder / "run.mcap"

    def read(self, folder: Path, reading: Reading, state_ticks: Sequence[int]) -> None:  # noqa: ARG002, D102
        with self.find_file(folder).open("rb") as file:
            if self.stream:
                self._read_stream(file, reading)
                return
            found = make_reader(file, validate_crcs=self.crc)
            found.get_summary()
            reading.opened = True
            for _, channel, message in found.iter_messages():
                self._take(reading, channel.topic, message.data)

    def rescue(self, folder: Path, reading: Reading) -> None:  # noqa: D102
        with self.find_file(folder).open("rb") as file:
            self._read_stream(file, reading)

    def _read_stream(self, file: Any, reading: Reading) -> None:
        topics: dict[int, str] = {}
        for record in StreamReader(file, validate_crcs=self.crc).records:
            reading.opened = True
            if isinstance(record, mcap.records.Channel):
                topics[record.id] = record.topic
            elif isinstance(record, mcap.records.Message):
                self._take(reading, topics[record.channel_id], record.data)

    @staticmethod
    def _take(reading: Reading, topic: str, data: bytes) -> None:
        if topic == "/ticks":
            tick, state_hash, inputs = TICK_MESSAGE.unpack(data)
            reading.rows.append((tick, state_hash, inputs))
        elif topic == "/states":
            (tick,) = STATE_HEAD.unpack_from(data)
            reading.states.append((tick, data[STATE_HEAD.size :]))

    def find_row_ends(self, data: bytes, frames: Sequence[Frame]) -> dict[int, int]:  # noqa: ARG002
        """The end of each tick's chunk: a chunk is decompressed completely."""
        ends: dict[int, int] = {}
        stream = io.BytesIO(data)
        for record in StreamReader(stream, emit_chunks=True).records:
            if isinstance(record, mcap.records.Chunk):
                for inner in breakup_chunk(record):
                    if isinstance(inner, mcap.records.Message) and len(inner.data) == TICK_MESSAGE.size:
                        ends[TICK_MESSAGE.unpack(inner.data)[0]] = stream.tell()
        return ends


HDF5_TICK = np.dtype([("tick", "<u8"), ("hash", "<u8"), ("inputs", "u1", (INPUT_BYTES,))])
HDF5_STATE = np.dtype([("tick", "<u8"), ("cells", "<i4", (STATE_CELLS,))])


class Hdf5Sink:
    """An HDF5 file with a table of ticks and one of states, both growing."""

    def __init__(self, path: Path, *, checksums: bool, swmr: bool) -> None:
        # SWMR needs the latest file format, which also has checksums over all metadata. The older format has none.
        self.file = h5py.File(path, "w", libver="latest" if checksums or swmr else None)
        self.swmr = swmr
        self.ticks = self._make(
            "ticks", HDF5_TICK, 128, checksums
        )  # Chunks of about 4 KB: the small file needs only one.
        self.states = self._make("states", HDF5_STATE, 4, checksums)
        if swmr:
            self.file.swmr_mode = True

    def _make(self, name: str, dtype: np.dtype[Any], chunk_rows: int, checksums: bool) -> Any:  # noqa: FBT001
        return self.file.create_dataset(
            name, shape=(0,), maxshape=(None,), dtype=dtype, chunks=(chunk_rows,), fletcher32=checksums
        )

    def put(self, frame: Frame) -> None:
        """Append a row, and one for the state."""
        if frame.state is not None:
            self._append(self.states, (frame.tick - 1, np.frombuffer(frame.state, "<i4")))
        self._append(self.ticks, (frame.tick, frame.state_hash, np.frombuffer(frame.inputs, np.uint8)))

    def _append(self, dataset: Any, row: tuple[Any, ...]) -> None:
        count = len(dataset)
        dataset.resize(count + 1, axis=0)
        dataset[count] = np.array(row, dataset.dtype)
        if self.swmr:
            dataset.flush()

    def close(self) -> None:
        """Close."""
        self.file.close()


class Hdf5(Peer):
    """HDF5 by h5py."""

    library = "h5py"
    strength = (
        "It reads any slice of large typed arrays directly, and every scientific tool opens it. With fletcher32 and the "
        "latest file format nearly everything has a checksum. A file that was not closed can only be read if "
        "it was written in SWMR mode and flushed."
    )
    rescue_how = "swmr=True"

    def __init__(self, name: str, *, checksums: bool = False, swmr: bool = False) -> None:
        """checksums: fletcher32 and the latest file format. swmr: flush each tick in single-writer mode."""
        super().__init__(name)
        self.checksums, self.swmr = checksums, swmr
        self.takes_damage, self.takes_kills = not swmr, not checksums

    def create(self, folder: Path, state_every: int) -> Sink:  # noqa: ARG002, D102
        return Hdf5Sink(self.find_file(folder), checksums=self.checksums, swmr=self.swmr)

    def find_file(self, folder: Path) -> Path:  # noqa: D102
        return folder / "run.h5"

    def read(self, folder: Path, reading: Reading, state_ticks: Sequence[int]) -> None:  # noqa: ARG002, D102
        with h5py.File(self.find_file(folder), "r") as file:
            self._take(file, reading)

    def rescue(self, folder: Path, reading: Reading) -> None:  # noqa: D102
        with h5py.File(self.find_file(folder), "r", libver="latest", swmr=True) as file:
            self._take(file, reading)

    @staticmethod
    def _take(file: Any, reading: Reading) -> None:
        reading.opened = True
        for row in file["ticks"][:]:
            reading.rows.append((int(row["tick"]), int(row["hash"]), row["inputs"].tobytes()))
        for row in file["states"][:]:
            reading.states.append((int(row["tick"]), row["cells"].tobytes()))


class GsdSink:
    """A GSD file with a frame for each tick."""

    def __init__(self, path: Path, *, each_tick: bool) -> None:
        self.file = gsd.fl.open(str(path), "w", application="compare", schema="run", schema_version=(1, 0))
        self.each_tick = each_tick

    def put(self, frame: Frame) -> None:
        """Write a frame of three or four chunks."""
        if frame.state is not None:
            self.file.write_chunk("state", np.frombuffer(frame.state, np.int32))
        self.file.write_chunk("tick", np.array([frame.tick], np.uint64))
        self.file.write_chunk("hash", np.array([frame.state_hash], np.uint64))
        self.file.write_chunk("inputs", np.frombuffer(frame.inputs, np.uint8))
        self.file.end_frame()
        if self.each_tick:
            self.file.flush()

    def close(self) -> None:
        """Close."""
        self.file.close()


class Gsd(Peer):
    """GSD by its file layer."""

    library = "gsd"
    strength = (
        "Fast random access to any frame and a simple layout that particle codes agree on. A file that was "
        "flushed opens after a crash. It has no checksums."
    )

    def __init__(self, name: str, *, each_tick: bool = False) -> None:
        """each_tick: flush after each frame."""
        super().__init__(name)
        self.each_tick = each_tick
        self.takes_damage = not each_tick

    def create(self, folder: Path, state_every: int) -> Sink:  # noqa: ARG002, D102
        return GsdSink(self.find_file(folder), each_tick=self.each_tick)

    def find_file(self, folder: Path) -> Path:  # noqa: D102
        return folder / "run.gsd"

    def read(self, folder: Path, reading: Reading, state_ticks: Sequence[int]) -> None:  # noqa: ARG002, D102
        with gsd.fl.open(str(self.find_file(folder)), "r") as file:
            reading.opened = True
            for index in range(file.nframes):
                if file.chunk_exists(index, "state"):
                    reading.states.append((index, file.read_chunk(index, "state").tobytes()))
                (tick,), (state_hash,) = file.read_chunk(index, "tick"), file.read_chunk(index, "hash")
                reading.rows.append((int(tick), int(state_hash), file.read_chunk(index, "inputs").tobytes()))


class SqliteSink:
    """A database in WAL mode with a table of ticks and one of states."""

    def __init__(self, path: Path, *, commit_interval_s: float) -> None:
        self.connection = sqlite3.connect(path)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = NORMAL")  # As its documentation recommends for WAL.
        self.connection.execute("CREATE TABLE ticks (tick INTEGER PRIMARY KEY, hash BLOB, inputs BLOB)")
        self.connection.execute("CREATE TABLE states (tick INTEGER PRIMARY KEY, cells BLOB)")
        self.connection.commit()
        self.commit_interval_s = commit_interval_s
        self.committed_s = time.monotonic()

    def put(self, frame: Frame) -> None:
        """Insert a row, and one for the state."""
        if frame.state is not None:
            self.connection.execute("INSERT INTO states VALUES (?, ?)", (frame.tick - 1, frame.state))
        row = (frame.tick, frame.state_hash.to_bytes(8, "little"), frame.inputs)
        self.connection.execute("INSERT INTO ticks VALUES (?, ?, ?)", row)
        if time.monotonic() - self.committed_s >= self.commit_interval_s:
            self.connection.commit()
            self.committed_s = time.monotonic()

    def close(self) -> None:
        """Commit what is left and fold the log into the database."""
        self.connection.commit()
        self.connection.close()


class Sqlite(Peer):
    """SQLite by the standard library."""

    library = "sqlite3"
    strength = (
        "With a commit for each tick a kill loses nothing and the file always opens. Any program can query it. "
        "Rows have no checksums (an extension adds them to pages), and the checks inspect only the structure."
    )

    def __init__(self, name: str, *, check: str = "", commit_interval_s: float = 1.0, kills: bool = False) -> None:
        """check: a PRAGMA to run first. commit_interval_s: 0 commits each tick; the default is our own sync interval."""
        super().__init__(name)
        self.check, self.commit_interval_s = check, commit_interval_s
        self.takes_damage, self.takes_kills = not kills, kills

    def create(self, folder: Path, state_every: int) -> Sink:  # noqa: ARG002, D102
        return SqliteSink(self.find_file(folder), commit_interval_s=self.commit_interval_s)

    def find_file(self, folder: Path) -> Path:  # noqa: D102
        return folder / "run.db"

    def read(self, folder: Path, reading: Reading, state_ticks: Sequence[int]) -> None:  # noqa: ARG002, D102
        with contextlib.closing(sqlite3.connect(self.find_file(folder))) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # connect alone reads nothing.
            reading.opened = True
            if self.check:
                found = connection.execute(f"PRAGMA {self.check}").fetchall()
                reading.reports += [str(text) for (text,) in found if text != "ok"]
            for tick, state_hash, inputs in connection.execute("SELECT tick, hash, inputs FROM ticks ORDER BY tick"):
                reading.rows.append((tick, int.from_bytes(state_hash, "little"), inputs))
            for tick, cells in connection.execute("SELECT tick, cells FROM states ORDER BY tick"):
                reading.states.append((tick, cells))


def make_peers() -> list[Peer]:
    """Return all peers, in the order of the tables."""
    families: list[list[Peer]] = [
        [Ours("ours"), Ours("ours, check_blocks", check="blocks"), Ours("ours, verify", check="verify")],
        [
            Mcap("MCAP"),
            Mcap("MCAP, validate_crcs", crc=True),
            Mcap("MCAP, streaming", stream=True),
            Mcap("MCAP, streaming, all CRCs", stream=True, crc=True, data_crc=True),
            Mcap("MCAP, no chunks, flush each tick", each_tick=True),
        ],
        [
            Hdf5("HDF5"),
            Hdf5("HDF5, latest, fletcher32", checksums=True),
            Hdf5("HDF5, SWMR, flush each tick", swmr=True),
        ],
        [Gsd("GSD"), Gsd("GSD, flush each tick", each_tick=True)],
        [
            Sqlite("SQLite"),
            Sqlite("SQLite, quick_check", check="quick_check"),
            Sqlite("SQLite, integrity_check", check="integrity_check"),
            Sqlite("SQLite, commit each second", kills=True),
            Sqlite("SQLite, commit each tick", commit_interval_s=0.0, kills=True),
        ],
        [Minari("Minari")],
    ]
    return list(itertools.chain.from_iterable(families))
