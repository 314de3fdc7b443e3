"""Our tapes, by the public interface of recorder and replayer."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from history import Frame, Walk
from peer import Peer, Reading, Sink

import recorder
import replayer


class OurSink:
    """A tape. The recorder steps its own simulation, which has the same states for the same inputs."""

    def __init__(self, path: Path, state_every: int) -> None:
        self.tape = recorder.Recorder(path, Walk(), keyframe_interval_ticks=state_every)

    def put(self, frame: Frame) -> None:
        """Step."""
        self.tape.step(frame.inputs)

    def close(self) -> None:
        """Seal."""
        self.tape.close()


class Ours(Peer):
    """Our tapes."""

    library = "simulation-flight-recorder"
    strength = (
        "Every block has checksums over header and payload: damage is located and costs one block. The states "
        "of a damaged keyframe are simulated again. It is young, read by this project only, and needs the "
        "simulation's code for the states between keyframes."
    )

    def __init__(self, name: str, *, check: str = "") -> None:
        """check: "" reads as a program would, "blocks" checks all blocks first, "verify" re-simulates everything."""
        super().__init__(name)
        self.check = check
        self.takes_kills = not check
        self.thoroughness = {"": "all", "blocks": "some", "verify": "few"}[check]  # "verify" starts many processes.

    def create(self, folder: Path, state_every: int) -> Sink:  # noqa: D102
        return OurSink(self.find_file(folder), state_every)

    def find_file(self, folder: Path) -> Path:  # noqa: D102
        return folder / "run.tape"

    def read(self, folder: Path, reading: Reading, state_ticks: Sequence[int]) -> None:  # noqa: D102
        path = self.find_file(folder)
        with replayer.Tape(path) as tape:
            reading.opened = True
            if self.check:
                reading.reports += [str(problem) for problem in tape.check_blocks()]
            for tick in range(1, tape.last_tick + 1):
                try:
                    frame = tape.frame(tick)
                    reading.rows.append((frame.tick, tape.state_hash(tick), frame.inputs))
                except replayer.RecordingError as error:  # The next tick may be in an intact block.
                    reading.reports.append(str(error))
            reading.reports += [str(damage) for damage in tape.damages]
            if tape.status != "not checked":
                reading.reports.append(tape.status)
        if state_ticks:
            with replayer.open(path, Walk) as run:
                for tick in state_ticks:
                    try:
                        run.seek(tick)
                        reading.states.append((tick, run.state["cells"].tobytes()))
                    except replayer.RecordingError as error:
                        reading.reports.append(str(error))
        if self.check == "verify":
            with replayer.open(path, Walk) as run:
                report = run.verify()
            if not report.ok or report.status != "intact":
                reading.reports.append(f"verify: {report.status}, {report.problems}")

    def find_row_ends(self, data: bytes, frames: Sequence[Frame]) -> dict[int, int]:
        """The end of each tick's block; offsets as in SPEC.md."""
        ends: dict[int, int] = {}
        (offset,) = struct.unpack_from("<I", data, 12)
        while len(ends) < len(frames):
            first_tick, tick_count, stored_bytes = struct.unpack_from("<QII", data, offset + 40)
            is_frames = data[offset + 64] == 2
            offset += 72 + (stored_bytes + 7) // 8 * 8
            if is_frames:
                ends |= dict.fromkeys(range(first_tick, first_tick + tick_count), offset)
        return ends
