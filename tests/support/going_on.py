"""The proof that every adapter owes: restored at random ticks, here and in another process, all goes on as it did live.

By what the foreign object itself shows, not by what the adapter says of it.
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

AHEAD = 30  # How far a restored one goes on.


@attrs.frozen
class Case:
    """What is proved: make gives an adapted simulation, shown the bytes that a user would see of it."""

    make: Callable[[], Any]
    shown: Callable[[Any], bytes]


def record_run(path: Path, case: Case, steps: int, seed: int, **settings: Any) -> list[bytes]:
    """Record a run of the adapter's own random player; what was shown at each tick, from tick 0."""
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
    """Seek to each tick, go on from there, and digest what is shown; each state must have the recorded hash."""
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


def prove(module: str, name: str, tmp_path: Path, *, steps: int, loads: int) -> None:
    """Do all of it for a case of a test module's CASES."""
    case = importlib.import_module(module).CASES[name]
    seed = random.randrange(1 << 20)
    print("seed", seed)
    shown = record_run(tmp_path / "run.tape", case, steps, seed)
    ticks = sorted(random.Random(seed).sample(range(1, steps - 10), loads))
    wanted = hashlib.sha256()
    for tick in ticks:
        for one in shown[tick : min(steps, tick + AHEAD) + 1]:
            wanted.update(one)

    assert len(set(shown)) > min(10, steps // 10), "a run in which nothing happens proves nothing"
    assert continued(tmp_path / "run.tape", case, ticks, steps) == wanted.hexdigest()
    code = f"import sys, {module}, going_on; print(going_on.in_another_process({module}.CASES, *sys.argv[1:]))"
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, name, str(tmp_path / "run.tape"), str(steps), *map(str, ticks)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "12", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert finished.stdout.strip().splitlines()[-1:] == [wanted.hexdigest()], finished.stderr


def in_another_process(cases: dict[str, Case], name: str, path: str, last_tick: str, *ticks: str) -> str:
    """What continued gives there."""
    return continued(Path(path), cases[name], [int(one) for one in ticks], int(last_tick))
