"""The power goes at any moment: synced ⊆ recovered ⊆ truth, and torn is told from corrupt (promises P4 and P5).

tools/campaigns/power_cuts.py runs the same for as long as one likes.
"""

from __future__ import annotations

import random

import pytest

from oracle.fake_files import MemoryFiles
from oracle.power_cuts import RUNS, Run, check_cut, record_run

CUTS_AT_EACH_OPERATION = 6


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again at once, since these disks recover at once."""
    monkeypatch.setattr("recorder.writer.RETRY_S", (0.0, 0.0))


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


def test_the_machine_can_find_something() -> None:
    """A recorder that only pretends to sync is found out."""
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
