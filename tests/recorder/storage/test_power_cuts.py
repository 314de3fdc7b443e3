"""The power fails at any moment: synced ⊆ recovered ⊆ truth, and torn differs from corrupt (promises P4 and P5).

tools/campaigns/power_cuts.py runs the same checks for any time.
"""

from __future__ import annotations

import random

import pytest

from recorder.reopen.resume import resume_in

from oracle.crash_images import Image, powerless
from oracle.fake_files import MemoryFiles
from oracle.power_cuts import RUNS, TICKS, Adder, Run, assembled_in, check_cut, record_run

pytestmark = pytest.mark.share(0.18)

CUTS_AT_EACH_OPERATION = 6


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry at once, since these disks recover at once."""
    monkeypatch.setattr("recorder.writer.retries.RETRY_S", (0.0, 0.0))


@pytest.mark.parametrize("name", RUNS)
def test_synced_is_recovered_and_recovered_is_true(name: str) -> None:
    """At each operation some of the unsynced sectors are lost, zeroed or garbage; nothing synced is lost."""
    files, live, synced_ticks = record_run(RUNS[name])
    seed = random.randrange(1 << 32)
    numbers = random.Random(seed)
    for count in range(1, len(files.history) + 1):
        for _ in range(CUTS_AT_EACH_OPERATION):
            problem = check_cut(files, live, synced_ticks, count, numbers, is_ring=RUNS[name].keep is not None)
            assert problem is None, f"{problem} (seed {seed}, operation {count})"


def test_a_recording_resumes_after_a_power_cut_while_a_file_took_over_from_a_failed_sync() -> None:
    """The end of the old file may be torn then, and the start of the new one lost: that is not damage."""
    files, live, synced_ticks = record_run(RUNS["failing sync"])
    failed = next(place for place, one in enumerate(files.history) if one.kind == "failed_fdatasync")
    both = 0
    for count in range(failed + 2, failed + 6):
        for seed in range(40):
            image = powerless(files.history, count, random.Random(seed))
            if not {0, 1} <= {damage.segment for damage in assembled_in(image).damages}:
                continue
            both += 1
            disk = image.files()
            with resume_in(disk, "memory", Adder()) as tape:
                reached = tape.tick
                assert reached >= max(tick for done, tick in synced_ticks.items() if done <= count)
                for tick in range(reached + 1, TICKS + 1):
                    tape.step(live[tick][0])
            found = assembled_in(Image({n: bytes(data) for n, data in disk.segments.items()}, b"", {}))
            assert found.status == "not checked", (count, seed)
            assert [found.recording.frame(tick).state_hash for tick in range(1, TICKS + 1)] == [
                state_hash for _, (_, state_hash) in sorted(live.items())[1:]
            ]
    assert both > 2


def test_the_machine_can_find_something() -> None:
    """A recorder that does not really sync is detected."""
    files, live, synced_ticks = record_run(Run(sync="block"))
    numbers, found = random.Random(1), 0
    for number, operation in enumerate(files.history):
        if operation.kind == "fdatasync":
            lying = MemoryFiles()
            lying.history = [one for one in files.history[: number + 1] if one.kind != "fdatasync"]
            count = len(lying.history)
            ticks = {count: max((tick for done, tick in synced_ticks.items() if done <= number + 1), default=-1)}
            found += any(check_cut(lying, live, ticks, count, numbers) is not None for _ in range(5))
    assert found > 5
