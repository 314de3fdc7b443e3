"""Power cuts while whole folders are made: batches with their manifests, data sets, repaired tapes.

Each takes a Cuts, runs the program once with its calls recorded, cuts the power at every call, and yields what is broken.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import replayer
from recorder import Recorder
from recorder.format.recording.assembly import NOT_CHECKED
from recorder.format.segments.seal import TRAILER_BYTES
from recorder.processes.inline_pool import InlinePool
from recorder.scenarios.batch import Job, RunRecord
from recorder.scenarios.sweep import run_batch
from recorder.storage.open_tape import OpenTape
from replayer.repair.repair import repair_tape

from disk.cut_programs import TAPE, inputs_at, quiet, recorded
from disk.cut_promises import Broken, Cuts
from disk.file_calls import Call, Calls
from disk.power_model import Disk, State
from oracle.power_cuts import Adder

RUNS = 3
TICKS = 12


def record_plain(path: Path, ticks: int = TICKS, **options: Any) -> None:
    """A sealed tape."""
    with Recorder(path, Adder(), trial_ms=0.0, keyframe_interval_ticks=5, **options) as tape:
        for tick in range(1, ticks + 1):
            tape.step(inputs_at(tick, 0))


def whole(path: Path) -> str | None:
    """Why a tape is not sealed and complete."""
    with OpenTape(path) as opened:
        assembled = opened.assemble()
    return None if assembled.status == NOT_CHECKED and assembled.final else f"{path.name} is {assembled.status}"


def batch_of_tapes(folder: Path, ran: list[int], calls: Calls | None = None) -> None:
    """Run a batch of recordings; ran: gets the indices of those that ran."""
    config = {"world": "meadow", "seed": 1}
    jobs = [
        Job(n, "x", "meadow", config, scenario={}, ticks=5, bindings={"seed": n}, tape=folder / f"run-{n:05d}.tape")
        for n in range(RUNS)
    ]

    def work(job: Job) -> RunRecord:
        ran.append(job.index)
        assert job.tape is not None
        record_plain(job.tape, durability="block")
        return RunRecord(job.index, job.name, job.bindings, job.ticks, tape=str(job.tape))

    def acknowledge(record: RunRecord) -> None:
        if calls is not None:
            calls.mark(("done", record.index))

    with quiet():
        run_batch(jobs, folder, workers=1, work=work, finished=acknowledge)


def batch(cuts: Cuts) -> Iterator[Broken]:
    """A batch with tapes: it continues after a cut, and does not repeat a run whose record was acknowledged."""
    calls = recorded(lambda folder, made: batch_of_tapes(folder, [], made), cuts.folder / "live")
    shutil.rmtree(cuts.folder / "live")
    done: set[int] = set()

    def check(place: Path, _: State) -> str | None:
        for number in sorted(done):
            if (what := whole(place / f"run-{number:05d}.tape")) is not None:
                return f"run {number} was acknowledged: {what}"
        ran: list[int] = []
        batch_of_tapes(place, ran)
        if done & set(ran):
            return f"the runs {done & set(ran)} were acknowledged, and were run again"
        return next((what for n in range(RUNS) if (what := whole(place / f"run-{n:05d}.tape"))), None)

    def note(call: Call) -> None:
        if call.kind == "mark":
            done.add(call.mark[1])

    yield from cuts.during(calls, Disk(calls.start), check, note)


def digest_of(folder: Path) -> dict[str, str]:
    """The digests of all files below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.blake2b(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def extraction(cuts: Cuts, file_format: str = "parquet") -> Iterator[Broken]:
    """A data set: nothing is there, or all of it; a second call completes what the first began."""
    tapes = Path(tempfile.mkdtemp(dir=cuts.folder))
    for number in range(2):
        record_plain(tapes / f"{number}.tape", TICKS + number)

    def extract(folder: Path) -> None:
        replayer.extract(
            tapes,
            folder / "set",
            world=Adder,
            tables=("states",),
            fields=("sum",),
            file_format=file_format,
            pool=InlinePool(),
        )

    def program(folder: Path, calls: Calls) -> None:
        extract(folder)
        calls.mark(("done", digest_of(folder / "set")))

    calls = recorded(program, cuts.folder / "live")
    shutil.rmtree(cuts.folder / "live")
    expected = next(call.mark[1] for call in calls.calls if call.kind == "mark")
    done = [False]

    def check(place: Path, _: State) -> str | None:
        if not (place / "set").exists():
            if done[0]:
                return "the data set is gone, it was complete"
            extract(place)
        found = digest_of(place / "set")
        differing = [name for name in expected | found if expected.get(name) != found.get(name)]
        return f"{differing} are not what was extracted" if differing else None

    def note(call: Call) -> None:
        done[0] = done[0] or call.kind == "mark"

    yield from cuts.during(calls, Disk(calls.start), check, note)


def append(cuts: Cuts) -> Iterator[Broken]:
    """A second tape for a data set: it holds the rows of one tape or of both, and each file that it names is whole."""
    tapes = Path(tempfile.mkdtemp(dir=cuts.folder))
    for number in range(2):
        record_plain(tapes / f"{number}.tape", TICKS + number)

    def extract(folder: Path, *names: str) -> None:
        wanted: Any = {"tables": ("states",), "fields": ("sum",), "append": True}
        replayer.extract([tapes / name for name in names], folder / "set", world=Adder, pool=InlinePool(), **wanted)

    def program(folder: Path, calls: Calls) -> None:
        extract(folder, "0.tape", "1.tape")
        calls.mark(("done", None))

    live = cuts.folder / "live"
    live.mkdir()
    extract(live, "0.tape")
    calls = recorded(program, live)
    shutil.rmtree(live)
    done = [False]

    def check(place: Path, _: State) -> str | None:
        rows = [_rows(place / "set")]
        extract(place, "0.tape", "1.tape")
        rows.append(_rows(place / "set"))
        both = 2 * TICKS + 3
        if rows[0] not in ({both} if done[0] else {TICKS + 1, both}) or rows[1] != both:
            return f"{rows} rows, before and after a further call"
        return None

    def note(call: Call) -> None:
        done[0] = done[0] or call.kind == "mark"

    yield from cuts.during(calls, Disk(calls.start), check, note)


def _rows(folder: Path) -> int:
    """The number of rows of a data set whose files are all as its manifest says."""
    manifest = json.loads((folder / "manifest.json").read_text())
    files = manifest["tables"]["states"]["files"]
    for file in files:
        assert hashlib.sha256((folder / file["path"]).read_bytes()).hexdigest() == file["sha256"], file["path"]
    return sum(file["rows"] for file in files)


def repair(cuts: Cuts) -> Iterator[Broken]:
    """A repaired copy: it is not there, or whole; the damaged tape stays, and can be repaired again."""
    damaged = cuts.folder / "damaged"
    damaged.mkdir()
    record_plain(damaged / TAPE)
    data = bytearray((damaged / TAPE).read_bytes())
    with OpenTape(damaged / TAPE) as opened:
        place = opened.assemble().recording.keyframes[1]
    data[place.entry.offset + 100] ^= 1
    (damaged / TAPE).write_bytes(data)

    def program(folder: Path, calls: Calls) -> None:
        repair_tape(folder / TAPE, folder / "repaired.tape", Adder)
        calls.mark(("done", None))

    live = cuts.folder / "live"
    shutil.copytree(damaged, live)
    calls = recorded(program, live)
    calls_end = (live / "repaired.tape").read_bytes()[-TRAILER_BYTES:]
    shutil.rmtree(live)
    done = [False]

    def check(place: Path, _: State) -> str | None:
        if (place / TAPE).read_bytes() != bytes(data):
            return "the damaged tape has changed"
        if not (place / "repaired.tape").exists():
            if done[0]:
                return "the repaired tape is gone"
            try:
                repair_tape(place / TAPE, place / "repaired.tape", Adder)
            except FileExistsError:  # A copy with its end may be the only one of a ring's ticks.
                if not (place / "repaired.tape.part").read_bytes().endswith(calls_end):
                    raise
                (place / "repaired.tape.part").rename(place / "aside.tape")
                repair_tape(place / TAPE, place / "repaired.tape", Adder)
        with replayer.open(place / "repaired.tape", world=Adder) as timeline:
            report = timeline.verify()
            return None if report.ok and timeline.last_tick == TICKS else f"the repaired tape: {report}"

    def note(call: Call) -> None:
        done[0] = done[0] or call.kind == "mark"

    yield from cuts.during(calls, Disk(calls.start), check, note)


FOLDERS = {"batch": batch, "extraction": extraction, "append": append, "repair": repair}
