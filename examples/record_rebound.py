"""Record REBOUND, an N-body integrator without an adapter, in the save/load form.

Its own archive is exact, also for IAS15, which chooses the length of its steps. But two archives of one state differ:
they hold the time that the steps took, the addresses of the particles in memory, and a seed that is drawn when the
simulation is made. The saved data must depend only on the state: ``save`` blanks the first two, and the seed is fixed.

Needs rebound. Run it in an empty folder: python record_rebound.py
"""

from __future__ import annotations

import ctypes
import random
import tempfile
from pathlib import Path
from typing import Any

import rebound

import recorder
import replayer

ADDRESSES = (rebound.Particle._name, rebound.Particle.ap, rebound.Particle._sim)  # noqa: SLF001 - ctypes' descriptors


class Probe:
    """A star, two planets, and a probe: the inputs fire its engine, or release a pebble."""

    def __init__(self) -> None:
        self.sim = rebound.Simulation()
        self.sim.rand_seed = 1
        for body in ({"m": 1}, {"m": 1e-3, "a": 1, "e": 0.05}, {"m": 3e-4, "a": 1.7, "e": 0.1}, {"a": 0.3, "e": 0.3}):
            self.sim.add(**body)
        self.sim.move_to_com()

    def step(self, inputs: Any) -> list[float]:
        """Do one step of the integrator. Returns the time, and the probe's position and velocity."""
        probe = self.sim.particles[3]
        if inputs == "pebble":
            self.sim.remove(4) if self.sim.N > 6 else None
            self.sim.add(x=probe.x, y=probe.y, z=1e-3, vx=probe.vx, vy=probe.vy, vz=1e-3)
        elif inputs is not None:
            probe.vx += inputs[0]
            probe.vy += inputs[1]
        self.sim.steps(1)
        probe = self.sim.particles[3]
        return [self.sim.t, probe.x, probe.y, probe.vx, probe.vy]

    def save(self) -> dict[str, bytes]:
        """Return the archive, without data that is not state."""
        sim = self.sim
        sim.walltime = sim.walltime_last_step = sim._walltime_last_steps_sum = 0.0  # noqa: SLF001
        archive = bytearray(sim.__reduce__()[1][0])
        size = ctypes.sizeof(rebound.Particle)
        first = archive.index(ctypes.string_at(sim._particles, sim.N * size))  # noqa: SLF001
        for start in range(first, first + sim.N * size, size):
            for field in ADDRESSES:
                archive[start + field.offset : start + field.offset + field.size] = bytes(field.size)
        return {"archive": bytes(archive)}

    def load(self, saved: dict[str, bytes]) -> None:
        """Make a new simulation from the archive; nothing of the old one remains."""
        self.sim = rebound.Simulation(saved["archive"])


def random_inputs(seed: int) -> Any:
    """Return a function that gives the inputs of the next step, drawn by a seed."""
    draws = random.Random(seed)  # noqa: S311 - inputs, not secrets
    return lambda: "pebble" if draws.random() < 0.01 else [draws.gauss(0, 1e-3), draws.gauss(0, 1e-3)]


def main() -> None:
    """Record 2,000 steps and go back to one of them."""
    with tempfile.TemporaryDirectory() as folder:
        path, play = Path(folder) / "probe.tape", random_inputs(1)
        with recorder.Recorder(path, Probe()) as tape:
            for _ in range(2000):
                tape.step(play())
        with replayer.open(path, world=Probe) as run:
            run.seek(1234)
            print(f"step 1234: t = {run.simulation.sim.t:.6f}, {run.simulation.sim.N} bodies")
            print(
                f"all {len(run):,} states are the same: {run.verify().ok}; {path.stat().st_size / 2000:.0f} bytes a step"
            )


if __name__ == "__main__":
    main()
