"""Fuzz the reader, guided by coverage, with a mutator that corrects all checksums (promise P13).

Without the correction, every change would fail at a checksum, and the code after it would never run. Reading any bytes
must end in a RecordingError or in data. Any other exception, more than a gigabyte of memory or more than twenty seconds
for a few kilobytes is a defect: the input is kept in a file and the exit code is 1.

    pip install --group fuzz
    python tools/campaigns/fuzz.py [--minutes N] [--seed N]
    python tools/campaigns/fuzz.py --again FILE     run one kept input
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))  # The mutator and the small worlds are part of the tests.

RSS_LIMIT_MIB = 1024
ALLOCATION_LIMIT_MIB = 256
SECONDS_FOR_ONE = 20
INPUT_BYTES_MAX = 4096  # Choices, not tapes: enough for dozens of them.


def make_bases(folder: Path) -> list[tuple[list[bytes], bytes]]:
    """Intact tapes for the mutator, each as its segments and its journal."""
    from small_worlds import Herd, Saved, record  # noqa: PLC0415 - after the fuzzer has prepared the imports

    record(folder / "herd.tape", Herd(1), [None] * 40, keyframe_interval_ticks=6, full_every=3, deterministic=True)
    record(folder / "saved.tape", Saved(), list(range(30)), keyframe_interval_ticks=5, deterministic=True)
    record(folder / "split.tape", Herd(2), [None] * 40, keyframe_interval_ticks=5, deterministic=True, split=2000)
    bases = []
    for name in ("herd", "saved", "split"):
        files = sorted(folder.glob(f"{name}.tape*"), key=lambda file: (len(file.name), file.name))
        bases.append(([file.read_bytes() for file in files], b""))
    bases.append((bases[0][0], make_journal(bases[0][0][0])))
    return bases


def make_journal(tape: bytes) -> bytes:
    """A journal with some frames after the last tick of the tape."""
    import google_crc32c  # noqa: PLC0415

    from recorder.format import journal_bytes as journal  # noqa: PLC0415
    from recorder.format.blocks.frame import encode_frame  # noqa: PLC0415

    run_id, area_bytes = tape[24:40], 2048
    areas = b""
    for generation in (1, 2):
        salt = journal.area_salt(run_id, generation)
        area = journal.encode_area_header(run_id, generation)
        for tick in range(31 + 10 * generation, 41 + 10 * generation):
            frame = encode_frame(tick, tick, b"\xc0")
            crc = google_crc32c.extend(salt, frame)
            area += len(frame).to_bytes(4, "little") + crc.to_bytes(4, "little") + frame
        areas += area.ljust(area_bytes, b"\0")
    return journal.encode_journal_header(run_id, area_bytes) + areas


def fuzz(arguments: Sequence[str]) -> None:
    """Run the fuzzer in this separate process; does not return."""
    import atheris  # noqa: PLC0415 - only needed here

    with atheris.instrument_imports(include=["recorder.format", "sim.kernel.schema"]):
        from oracle.exhaust import exhaust  # noqa: PLC0415
        from oracle.mending_mutator import mutate_journal, mutate_tape  # noqa: PLC0415

    class Provided:
        """Choices made by the fuzzer."""

        def __init__(self, data: bytes) -> None:
            self._provider: Any = atheris.FuzzedDataProvider(data)

        def integer(self, low: int, high: int) -> int:
            """See Choices."""
            return int(self._provider.ConsumeIntInRange(low, high))

        def some_bytes(self, count: int) -> bytes:
            """See Choices."""
            return bytes(self._provider.ConsumeBytes(count)).ljust(count, b"\0")

    with tempfile.TemporaryDirectory() as folder:
        bases = make_bases(Path(folder))

    def run_one(data: bytes) -> None:
        choices = Provided(data)
        segments, journal = bases[choices.integer(0, len(bases) - 1)]
        segments = list(segments)
        changed = choices.integer(0, len(segments) - 1)
        if journal and choices.integer(0, 1):
            journal = mutate_journal(journal, choices)
        else:
            segments[changed] = mutate_tape(segments[changed], choices)
        exhaust(segments, journal, believe_index=bool(choices.integer(0, 1)))

    atheris.Setup([sys.argv[0], *arguments], run_one)
    atheris.Fuzz()


def main() -> int:
    """Run the fuzzer for the given time and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", type=Path, help="run a kept input again")
    arguments = parser.parse_args()
    options = [
        f"-max_total_time={round(arguments.minutes * 60)}",
        f"-seed={arguments.seed}",
        f"-rss_limit_mb={RSS_LIMIT_MIB}",
        f"-malloc_limit_mb={ALLOCATION_LIMIT_MIB}",
        f"-timeout={SECONDS_FOR_ONE}",
        f"-max_len={INPUT_BYTES_MAX}",
        "-len_control=0",  # Long inputs from the start: one byte is hardly a choice.
        "-print_final_stats=1",
    ]
    if arguments.again:
        options = [str(arguments.again), *options[2:]]
    with subprocess.Popen(
        [sys.executable, __file__, "--fuzz-process", *options], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        units = covered = "unknown"
        for line in process.stderr:
            if "cov:" in line:
                covered = line.split("cov:")[1].split()[0]
            if "number_of_executed_units" in line:
                units = line.split(":")[-1].strip()
            if arguments.again or not line.startswith("#") or "pulse" in line:
                print(line, end="", flush=True)
    print(
        f"{units} tapes read in {arguments.minutes:g} minutes, {covered} branches covered, seed {arguments.seed}: "
        f"{'no defect' if process.returncode == 0 else 'DEFECT, see above'}"
    )
    return 0 if process.returncode == 0 else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--fuzz-process"]:
        fuzz(sys.argv[2:])
    sys.exit(main())
