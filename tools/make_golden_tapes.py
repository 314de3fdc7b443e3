"""Write the golden tapes of the format's current version: small tapes of every form, and the truth about them.

They are made once for each version and kept forever, to test later readers. The same program gives the
same bytes each time. An existing folder is never written into.

    python tools/make_golden_tapes.py [FOLDER]      by default tests/golden/VERSION
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import recorder
import recorder.writer.journal
from recorder import Recorder
from recorder.format.blocks.file_header import MAJOR, MINOR, make_file_header
from recorder.format.blocks.frame import encode_frame
from recorder.format.segments.segment_encoder import SegmentEncoder, drop_piece, frames_piece, full_pieces
from recorder.storage.tape_files import TapeFile
from replayer import Tape
from sim.kernel.plain_data import encode_plain

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS / "support"))

from keyframe_payloads import encode_full  # noqa: E402
from small_worlds import Herd, Saved, Walkers  # noqa: E402

TAPE_BYTES_MAX = 8_000  # A golden tape is kept as long as the project exists.
JOURNAL_AREA_BYTES = 1024
WALKS = [[[tick % 20, tick]] if tick % 3 else None for tick in range(1, 41)]  # Inputs of Walkers for forty ticks.


class Run:
    """A recorded run and the truth about it.

    Attributes:
        inputs: those of the ticks from 1 on.
        states: for each tick the BLAKE2b of the arena.
    """

    def __init__(self, simulation: Any) -> None:
        self.simulation = simulation
        self.inputs: list[Any] = []
        self.states: list[str] = []

    def record(self, tape: Recorder, inputs: list[Any]) -> None:
        """Step through inputs."""
        if not self.states:
            self.add_state(tape.simulation)
        for tick_inputs in inputs:
            tape.step(tick_inputs)
            self.inputs.append(tick_inputs)
            self.add_state(tape.simulation)

    def step(self, inputs: Any) -> None:
        """Step the simulation itself, without a recorder."""
        if not self.states:
            self.add_state(self.simulation)
        self.simulation.step(inputs)
        self.inputs.append(inputs)
        self.add_state(self.simulation)

    def add_state(self, simulation: Any) -> None:
        """Append the hash of the state."""
        self.states.append(hashlib.blake2b(simulation.state.arena.tobytes(), digest_size=16).hexdigest())

    def truth(self, status: str, *, first_tick: int = 0, lost: tuple[int, int] | None = None) -> dict[str, Any]:
        """Return what readers must find: status, ticks from first_tick on, no frames of the lost ticks."""
        states = {str(tick): state for tick, state in enumerate(self.states)}
        return {"status": status, "first_tick": first_tick, "lost": lost, "inputs": self.inputs, "states": states}


def closed(path: Path, simulation: Any, inputs: list[Any], **settings: Any) -> Run:
    """A tape that was recorded and closed."""
    run = Run(simulation)
    with Recorder(path, simulation, deterministic=True, **settings) as tape:
        run.record(tape, inputs)
    return run


def make_herd(path: Path) -> dict[str, Any]:
    """A table, a blob, marked writes."""
    return closed(path, Herd(), [None] * 60, keyframe_interval_ticks=7, full_every=4).truth("intact")


def make_saved(path: Path) -> dict[str, Any]:
    """A simulation with save and load, notes in META."""
    notes = {"who": "golden"}
    return closed(path, Saved(), list(range(40)), keyframe_interval_ticks=9, notes=notes).truth("intact")


def make_walkers(path: Path) -> dict[str, Any]:
    """Fixed fields, inputs."""
    return closed(path, Walkers(), WALKS, keyframe_interval_ticks=10).truth("intact")


def make_split(path: Path) -> dict[str, Any]:
    """Three segments."""
    return closed(path, Walkers(), WALKS, keyframe_interval_ticks=5, split=1600).truth("intact")


def make_ring(path: Path) -> dict[str, Any]:
    """The last ticks of a longer run."""
    run = closed(path, Walkers(), [*WALKS, *WALKS], keyframe_interval_ticks=3, keep=16)
    with Tape(path) as tape:
        return run.truth("intact", first_tick=tape.first_tick)


def make_resumed(path: Path) -> dict[str, Any]:
    """Two sessions; the first one was closed."""
    run = closed(path, Walkers(), WALKS[:17], keyframe_interval_ticks=10)
    with recorder.resume(path, Walkers()) as tape:
        run.record(tape, WALKS[17:])
    return run.truth("intact")


def make_takeover(path: Path) -> dict[str, Any]:
    """A segment whose fourth sync failed. The next segment repeats the blocks that were not yet durable."""
    real, calls = TapeFile.fdatasync, iter(range(1, 1000))

    def fdatasync(self: TapeFile) -> None:
        if next(calls) == 4:
            raise OSError(errno.EIO, "Input/output error")
        real(self)

    TapeFile.fdatasync = fdatasync  # type: ignore[method-assign]
    try:
        with warnings.catch_warnings(action="ignore"):
            return closed(path, Walkers(), WALKS, keyframe_interval_ticks=10, sync="block").truth("intact")
    finally:
        TapeFile.fdatasync = real  # type: ignore[method-assign]


def make_killed(path: Path) -> dict[str, Any]:
    """The files of a killed process: an unsealed tape, and a journal with the ticks after its last block."""
    run, live = Run(Walkers()), path.with_name("live.tape")
    with Recorder(live, run.simulation, keyframe_interval_ticks=10, deterministic=True) as tape:
        run.record(tape, WALKS[:27])
        tape.flush()
        run.record(tape, WALKS[27:29])  # No block holds these yet: blocks are cut by ticks and size only.
        shutil.copy(live, path)
        shutil.copy(f"{live}.journal", f"{path}.journal")
    live.unlink()
    return run.truth("incomplete")


def make_torn(path: Path) -> dict[str, Any]:
    """An unsealed tape that ends inside its last block of frames."""
    truth = make_killed(path)
    Path(f"{path}.journal").unlink()
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    del truth["inputs"][20:]
    truth["states"] = {tick: state for tick, state in truth["states"].items() if int(tick) <= 20}
    return truth


def make_flipped(path: Path) -> dict[str, Any]:
    """An unsealed tape with one wrong bit in the frames of the ticks 11 to 20."""
    truth = make_killed(path)
    Path(f"{path}.journal").unlink()
    with Tape(path) as tape:
        block = next(entry for segment in tape.segments for entry in segment.contents.entries if entry.first_tick == 11)
    data = bytearray(path.read_bytes())
    data[block.offset + 72 + 30] ^= 0x04
    path.write_bytes(data)
    del truth["inputs"][27:]
    truth["states"] = {tick: state for tick, state in truth["states"].items() if int(tick) <= 27}
    return {**truth, "status": "incomplete", "lost": (11, 20)}  # None of its bytes was known to be durable.


def make_dropped(path: Path) -> dict[str, Any]:
    """A tape without the frames of the ticks 11 to 17, as after a full disk."""
    run = Run(Walkers())
    with Tape(path.with_name("walkers.tape")) as tape:
        meta = encode_plain(tape.meta)
    encoder = SegmentEncoder(make_file_header(bytes(range(16)), 0, 0), meta)
    data = [encoder.start()]

    def place_full(tick: int) -> None:
        snapshot = run.simulation.state.snapshot()
        pieces, _ = full_pieces(tick, encode_full(tick, snapshot.hash(), snapshot))
        data.extend(encoder.place(piece) for piece in pieces)

    def step(first: int, last: int) -> bytes:
        frames = b""
        for tick in range(first, last + 1):
            run.step(WALKS[tick - 1])
            frames += encode_frame(tick, run.simulation.state.hash(), encode_plain(WALKS[tick - 1]))
        return frames

    place_full(0)
    data.append(encoder.place(frames_piece(1, 10, step(1, 10))))
    step(11, 17)
    data.append(encoder.place(drop_piece(11, 17, "No space left on device")))
    place_full(17)
    data.append(encoder.place(frames_piece(18, 13, step(18, 30))))
    data += [encoder.last_index(), encoder.end({"reason": "closed"}, final=True)]
    path.write_bytes(b"".join(data))
    return run.truth("incomplete", lost=(11, 17))


MAKERS: list[Callable[[Path], dict[str, Any]]] = [
    make_herd,
    make_saved,
    make_walkers,
    make_split,
    make_ring,
    make_resumed,
    make_takeover,
    make_killed,
    make_torn,
    make_flipped,
    make_dropped,
]


def main(arguments: list[str]) -> int:
    """Write all golden tapes."""
    folder = Path(arguments[0]) if arguments else TESTS / "golden" / f"{MAJOR}.{MINOR}"
    if folder.exists():
        print(f"expected a new folder, {folder} exists; golden tapes are never overwritten", file=sys.stderr)
        return 2
    recorder.writer.journal.AREA_BYTES = JOURNAL_AREA_BYTES
    folder.mkdir(parents=True)
    truth = {}
    for make in MAKERS:
        name = make.__name__.removeprefix("make_")
        truth[name] = make(folder / f"{name}.tape")
        with Tape(folder / f"{name}.tape") as tape:
            tape.check_blocks()
            assert (tape.status, tape.last_tick) == (truth[name]["status"], len(truth[name]["inputs"])), name
    (folder / "truth.json").write_text(json.dumps(truth, separators=(",", ":")) + "\n", encoding="utf-8")
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    print(*(f"{size:6} {name}" for name, size in sizes.items()), f"{sum(sizes.values()):6} bytes", sep="\n")
    assert all(size <= TAPE_BYTES_MAX for name, size in sizes.items() if ".tape" in name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
