"""The run that every format stores: for each tick its number, a state hash and inputs; every N ticks a state.

It is the same for all formats and is generated from a seed. What is read back is compared with the generated run.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

import attrs
import numpy as np

from sim import Field, Schema, State

INPUT_BYTES = 20
STATE_CELLS = 64
STATE_BYTES = 4 * STATE_CELLS
HALF = INPUT_BYTES // 2

Row = tuple[int, int, bytes]
Saved = tuple[int, bytes]


@attrs.frozen
class Frame:
    """One tick of the run.

    Attributes:
        tick: from 1 on.
        state_hash: of the state at tick, 64 bits.
        inputs: INPUT_BYTES of the step from tick - 1 to tick.
        state: STATE_BYTES of the state at tick - 1, every state_every ticks; else None.
    """

    tick: int
    state_hash: int
    inputs: bytes
    state: bytes | None

    @property
    def row(self) -> Row:
        """The expected row of this tick."""
        return self.tick, self.state_hash, self.inputs


class Walk:
    """A small simulation: each pair of input bytes changes one cell."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("cells", "i4", (STATE_CELLS,))))

    def step(self, inputs: bytes) -> None:
        """Add the second half of the inputs to the cells that the first half names."""
        values = np.frombuffer(inputs, np.uint8)
        np.add.at(self.state["cells"], values[:HALF] % STATE_CELLS, values[HALF:])


def run_history(seed: int, state_every: int) -> Iterator[Frame]:
    """The endless run. state_every: ticks from one stored state to the next; the first is that at tick 0."""
    random = np.random.Generator(np.random.PCG64(seed))
    walk = Walk()
    for tick in itertools.count(1):
        state = walk.state["cells"].tobytes() if (tick - 1) % state_every == 0 else None
        inputs = random.bytes(INPUT_BYTES)
        walk.step(inputs)
        yield Frame(tick, walk.state.hash(), inputs, state)


@attrs.frozen
class Truth:
    """The first ticks of a run.

    Attributes:
        frames: in order.
        state_every: ticks between two states.
    """

    frames: list[Frame]
    state_every: int

    @functools.cached_property
    def rows(self) -> list[Row]:
        """The expected rows of all ticks."""
        return [frame.row for frame in self.frames]

    @functools.cached_property
    def states(self) -> list[Saved]:
        """All states, each with its tick."""
        return [(frame.tick - 1, frame.state) for frame in self.frames if frame.state is not None]


def take_truth(seed: int, ticks: int, state_every: int) -> Truth:
    """The first `ticks` ticks of the run."""
    return Truth(list(itertools.islice(run_history(seed, state_every), ticks)), state_every)
