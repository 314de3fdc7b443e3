"""The cost of noting what the first steps of a recording read of the outside world.

Games of units (unit_games.py) of several sizes, each tried before it is recorded. The times are CPU times of the process
and its copies; the trial's is that of everything else that it does, with the default of record().

    python tools/bench/outside_note.py [--repeats N]
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable
from typing import Any

import unit_games

from recorder.ambient.outside.process_facts import process_facts
from recorder.trial import trial
from recorder.trial.outside_reads import note_reads
from sim.adapters import adapt
from sim.kernel.simulation import as_simulation

SIZES = (20, 200, 2_000)
TRIAL_MS = 200.0
FACTS_COUNT = 1_000


def cpu_ms(call: Callable[[], Any]) -> float:
    """The processor time of a call, with that of the processes that it started."""
    before = os.times()
    call()
    after = os.times()
    return 1000 * sum(after[number] - before[number] for number in range(4))


def main() -> None:
    """Print a line for each size, and one for the settings of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
    setattr(trial, "note_reads", lambda *_: None)  # noqa: B010 - it is not exported
    for unit_count in SIZES:
        game = as_simulation(adapt(unit_games.make_game(unit_count, "10 %")))
        reports = []
        tried = [cpu_ms(lambda: reports.append(trial.try_simulation(game, TRIAL_MS))) for _ in range(repeats)]  # noqa: B023
        run = reports[-1].run
        assert run is not None
        noted = [cpu_ms(lambda: note_reads(game, run, 1.0)) for _ in range(repeats)]  # noqa: B023
        each = f"{statistics.mean(noted):.0f} ms, the rest of the trial {statistics.mean(tried):.0f} ms"
        print(f"{unit_count:,} units: watching the first steps {each}")
    print(
        f"settings of the process: {1000 * cpu_ms(lambda: [process_facts() for _ in range(FACTS_COUNT)]) / FACTS_COUNT:.0f} µs"
    )


if __name__ == "__main__":
    main()
