"""The test of every adapter: restored at random ticks, here and in a second process, a run continues as the live one.

The foreign object itself is compared, not the adapter's report on it.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

import replayer
from recorder import Recorder
from recorder.conformance.contract_checks import adapter_of_simulation
from sim.kernel.plain_data import decode_plain, encode_plain

AHEAD = 30  # Steps that a restored simulation continues.


@attrs.frozen
class Case:
    """One case: make returns an adapted simulation, shown the bytes of its visible state."""

    make: Callable[[], Any]
    shown: Callable[[Any], bytes]


def record_run(path: Path, case: Case, steps: int, seed: int, **settings: Any) -> list[bytes]:
    """Record a run of the adapter's own random player; return the visible state at each tick, from tick 0."""
    simulation = case.make()
    adapter = adapter_of_simulation(simulation)
    assert adapter is not None
    play = adapter.player(simulation, seed)
    shown = [case.shown(simulation)]
    with Recorder(path, simulation, keyframe_interval_ticks=97, durability="none", **settings) as tape:
        for _ in range(steps):
            tape.step(decode_plain(encode_plain(play())))
            shown.append(case.shown(simulation))
    return shown


def continued(path: Path, case: Case, ticks: list[int], last_tick: int) -> str:
    """Seek to each tick, continue from there, and digest the visible states; each must have the recorded hash."""
    digest = hashlib.sha256()
    with replayer.open(path, world=case.make) as run:
        for tick in ticks:
            run.seek(tick)
            simulation = run.simulation
            digest.update(case.shown(simulation))
            for later in range(tick + 1, min(last_tick, tick + AHEAD) + 1):
                simulation.step(run.tape.frame(later).inputs)
                digest.update(case.shown(simulation))
                assert simulation.state.hash() == run.tape.state_hash(later)
            run._cursor.leave()
    return digest.hexdigest()


def assert_continues(module: str, name: str, tmp_path: Path, *, steps: int, loads: int) -> None:
    """Run the complete test for a case of a test module's CASES."""
    case = importlib.import_module(module).CASES[name]
    seed = random.randrange(1 << 20)
    print("seed", seed)
    shown = record_run(tmp_path / "run.tape", case, steps, seed)
    ticks = sorted(random.Random(seed).sample(range(1, steps - 10), loads))
    expected = hashlib.sha256()
    for tick in ticks:
        for state in shown[tick : min(steps, tick + AHEAD) + 1]:
            expected.update(state)

    assert len(set(shown)) > min(10, steps // 10), "a run in which nothing happens proves nothing"
    assert continued(tmp_path / "run.tape", case, ticks, steps) == expected.hexdigest()
    call = f"continuation.in_a_second_process({module}.CASES, *sys.argv[1:])"
    code = f"import sys, {module}, continuation; print({call})"
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, name, str(tmp_path / "run.tape"), str(steps), *map(str, ticks)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "12", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert finished.stdout.strip().splitlines()[-1:] == [expected.hexdigest()], finished.stderr


def in_a_second_process(cases: dict[str, Case], name: str, path: str, last_tick: str, *ticks: str) -> str:
    """The result of continued, called in a second process."""
    return continued(Path(path), cases[name], [int(tick) for tick in ticks], int(last_tick))
