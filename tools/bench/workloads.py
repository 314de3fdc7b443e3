"""The shared workloads S, M, L and G as simulations: many entities, or a grid. Some of them change at each tick.

S has 500 entities (33 KB), and a tenth of them change a tick. M has 100,000 (6.5 MB), and a hundredth change. L has 4.1
million (268 MB), and a thousandth change. Nine in ten of the changed entities come from a hot pool of twice their number.
G has six layers of 512 × 512 cells (12.6 MB); drifting discs change a twentieth of them. A tick has 5 to 20 small inputs.
The random generator's state is in the state, so the workloads can be replayed.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from sim import Field, Schema, State

WORD = (1 << 64) - 1
FIELDS = (
    ("x", "i4"),
    ("y", "i4"),
    ("vx", "i4"),
    ("vy", "i4"),
    ("kind", "i4"),
    ("owner", "i4"),
    ("energy", "i8"),
    ("mass", "i8"),
    ("target", "i8"),
    ("heat", "f8"),
    ("angle", "f8"),
    ("alive", "?"),
)
SIZES = {"S": (500, 0.10), "M": (100_000, 0.01), "L": (256 * 2**20 // 65, 0.001)}
GRID, DISC_RADIUS, GRID_SHARE = 512, 16, 0.05
LAYERS = ("plant", "signal", "toxin", "ienergy", "iflow", "istock")


class KeepsRandom:
    """Keeps the random generator's state in the field rng."""

    random: np.random.Generator
    state: State

    def _keep_random(self) -> None:
        kept: Any = self.random.bit_generator.state
        inner = kept["state"]
        words = [part for value in (inner["state"], inner["inc"]) for part in (value & WORD, value >> 64)]
        self.state["rng"][:] = [*words, kept["has_uint32"], kept["uinteger"]]

    def after_restore(self) -> None:
        """Take the generator's state from the arena."""
        words = [int(word) for word in self.state["rng"]]
        self.random.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": {"state": words[0] | words[1] << 64, "inc": words[2] | words[3] << 64},
            "has_uint32": words[4],
            "uinteger": words[5],
        }


class Entities(KeepsRandom):
    """One of the workloads; marks its writes if marks_writes is set."""

    def __init__(self, name: str, *, marks_writes: bool = True, seed: int = 1) -> None:
        self.count, share = SIZES[name]
        self.marks_writes = marks_writes
        self.changed = max(1, int(self.count * share))
        self.random = np.random.Generator(np.random.PCG64(seed))
        self.state = State(
            Schema(*(Field(field, dtype, (self.count,)) for field, dtype in FIELDS), Field("rng", "u8", (6,)))
        )
        self._fill()
        self.hot = self.random.choice(self.count, min(self.count, 2 * self.changed), replace=False)
        self._keep_random()

    def _fill(self) -> None:
        random, state, n = self.random, self.state, self.count
        state["x"][:], state["y"][:] = random.integers(0, 1 << 20, (2, n))
        state["vx"][:], state["vy"][:] = random.integers(-64, 64, (2, n))
        state["kind"][:], state["owner"][:] = random.integers(0, 12, n), random.integers(0, 4, n)
        state["energy"][:], state["mass"][:] = random.integers(0, 1000, n) * 65536, random.integers(1, 50, n) * 1000
        state["target"][:], state["alive"][:] = random.integers(-1, n, n), random.random(n) < 0.97
        state["heat"][:], state["angle"][:] = random.random(n) * 20, random.random(n) * 6.28

    def step(self, inputs: Any) -> None:  # noqa: ARG002 - the inputs are recorded; the workload does not read them
        """Move some entities, and change one more number of each."""
        random, state = self.random, self.state
        often = max(1, int(self.changed * 0.9))
        hot = self.hot[random.integers(0, len(self.hot), often)]
        rows = np.unique(np.concatenate([hot, random.integers(0, self.count, self.changed - often)]))
        state["x"][rows] += state["vx"][rows]
        state["y"][rows] += state["vy"][rows]
        first, second, third = rows[0::3], rows[1::3], rows[2::3]
        state["energy"][first] -= random.integers(0, 4096, len(first))
        state["heat"][second] = state["heat"][second] * 0.97 + random.random(len(second))
        state["angle"][third] += random.random(len(third)) * 0.1
        self._keep_random()
        if self.marks_writes:
            for name, written in (("x", rows), ("y", rows), ("energy", first), ("heat", second), ("angle", third)):
                state.mark(name, written)
            state.mark("rng")


class Grid(KeepsRandom):
    """The workload G; marks its writes if marks_writes is set."""

    def __init__(self, *, marks_writes: bool = True, seed: int = 2) -> None:
        self.marks_writes = marks_writes
        self.random = random = np.random.Generator(np.random.PCG64(seed))
        shape = (GRID, GRID)
        self.state = state = State(
            Schema(
                *(Field(name, "f8" if number < 3 else "i8", shape) for number, name in enumerate(LAYERS)),
                Field("places", "i8", (max(1, int(GRID_SHARE * GRID * GRID / (np.pi * DISC_RADIUS**2))), 2)),
                Field("rng", "u8", (6,)),
            )
        )
        for name in LAYERS:
            full = random.random(shape) if state[name].dtype.kind == "f" else random.integers(0, 100, shape) * 256
            state[name][:] = full * (random.random(shape) < 0.3)
        state["places"][:] = random.integers(DISC_RADIUS, GRID - DISC_RADIUS, state["places"].shape)
        rows, columns = np.mgrid[-DISC_RADIUS : DISC_RADIUS + 1, -DISC_RADIUS : DISC_RADIUS + 1]
        self.disc = rows * rows + columns * columns <= DISC_RADIUS**2
        self._keep_random()

    def step(self, inputs: Any) -> None:  # noqa: ARG002 - the inputs are recorded; the workload does not read them
        """Let the discs drift, and change three layers under them."""
        random, state, radius = self.random, self.state, DISC_RADIUS
        drift = random.integers(-2, 3, state["places"].shape)
        state["places"][:] = np.clip(state["places"] + drift, radius, GRID - radius - 1)
        under = np.zeros((GRID, GRID), np.bool_)
        for row, column in state["places"].tolist():
            under[row - radius : row + radius + 1, column - radius : column + radius + 1] |= self.disc
        cells = np.flatnonzero(under)
        plant, signal, energy = (state[name].reshape(-1) for name in ("plant", "signal", "ienergy"))
        plant[cells] = np.maximum(0, plant[cells] * 0.95 - 0.01)
        signal[cells] = signal[cells] * 0.9 + random.random(len(cells)) * 0.1
        energy[cells] += random.integers(-3, 4, len(cells)) * 256
        self._keep_random()
        if self.marks_writes:
            for name in ("plant", "signal", "ienergy"):
                state.mark(name, cells)
            state.mark("places")
            state.mark("rng")


def make(name: str, *, marks_writes: bool = True) -> Any:
    """The workload of this name."""
    return Grid(marks_writes=marks_writes) if name == "G" else Entities(name, marks_writes=marks_writes)


class Timed:
    """A simulation that measures its own step, to separate it from the rest of a tick."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.state = inner, inner.state
        self.marks_writes = inner.marks_writes
        self.step_ns = 0

    def step(self, inputs: Any) -> None:
        """Step and store its duration."""
        start = time.perf_counter_ns()
        self.inner.step(inputs)
        self.step_ns = time.perf_counter_ns() - start


def orders(random: np.random.Generator) -> list[list[int]]:
    """The inputs of one tick: 5 to 20 commands of [kind, actor, target, x, y]."""
    made: list[list[int]] = random.integers(0, 1000, (int(random.integers(5, 21)), 5)).tolist()
    return made


def many_orders(count: int = 500) -> list[list[list[int]]]:
    """The inputs of many ticks, the same for all ways."""
    random = np.random.Generator(np.random.PCG64(7))
    return [orders(random) for _ in range(count)]
