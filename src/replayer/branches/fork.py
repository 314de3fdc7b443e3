"""Forks: simulations that leave a run at some tick in memory, for tree search and trials. Nothing is written.

A fork is a state that was restored into a simulation. Simulations are expensive to make and cheap to restore, so a pool
keeps those of closed forks. The steps of a fork do not save the state: that is done when the state is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from sim.kernel.hooks import SkipsCapture, hook
from sim.kernel.simulation import ArenaOfSaved, Simulation, capture, inner_of, restore, subject_of
from sim.kernel.state import Snapshot, State


class ForkPool:
    """The simulations of closed forks of one run."""

    def __init__(self, make: Callable[[], Simulation]) -> None:
        """make: makes a further simulation, of an object of its own."""
        self._make = make
        self._free: list[Simulation] = []
        self._subjects: set[int] = set()  # Of all simulations that were made, which live as long as the pool.
        self._made: list[Simulation] = []

    def take(self) -> Simulation:
        """A simulation that no other fork has. Raises ValueError if the user's factory returns one object again."""
        if self._free:
            return self._free.pop()
        simulation = self._make()
        subject = id(subject_of(simulation))
        if subject in self._subjects:
            raise ValueError("the factory of the simulation returned an object that another fork has: make a new one")
        self._subjects.add(subject)
        self._made.append(simulation)
        return simulation

    def give(self, simulation: Simulation) -> None:
        """Take a simulation back."""
        self._free.append(simulation)

    def claim(self, subject: object) -> None:
        """Refuse to hand out this object: something else moves it."""
        self._subjects.add(id(subject))


class Fork:
    """A simulation on its own way from a tick of a run; a context manager.

    Step it with ``step``, in the form of the recorded inputs, or use its ``subject`` as your program does. The run and
    other forks are not touched. Close it when it is done: its simulation is then used by the next fork.

    Attributes:
        start_tick: the tick of the run, or of the fork, that it left.
        steps: the number of calls of step since then.
    """

    def __init__(self, pool: ForkPool, start: Snapshot, tick: int, *, saves_each_step: bool = False) -> None:
        """saves_each_step: see BranchedTimeline.fork. Raises what making and restoring a simulation raise."""
        self._pool, self._start, self._saves_each_step = pool, start, saves_each_step
        self.start_tick, self.steps = tick, 0
        self._simulation: Simulation | None = pool.take()
        inner = self._inner = inner_of(self._simulation)
        self._saves_late = isinstance(self._simulation, ArenaOfSaved) and not saves_each_step
        skips = hook(inner, SkipsCapture)
        if skips is not None:
            skips.capture_skipped = self._saves_late = not saves_each_step
        try:
            self.restart()
        except BaseException:
            self._simulation = None  # It may be restored by half: no other fork gets it.
            raise

    @property
    def tick(self) -> int:
        """The tick of the state, if each call of step is a tick."""
        return self.start_tick + self.steps

    @property
    def subject(self) -> Any:
        """The object to step and change: the environment, the game, the model, or your simulation."""
        return subject_of(self._open())

    def step(self, inputs: Any = None) -> Any:
        """Make a step; return what the simulation's step returned. inputs: in the form of the recorded ones."""
        simulation = self._open()
        result = (self._inner if self._saves_late else simulation).step(inputs)
        self.steps += 1
        return result

    @property
    def state(self) -> State:
        """The present state, taken from the objects when it is asked for."""
        simulation = self._open()
        if self._saves_late:
            capture(simulation)
        return simulation.state

    def hash(self) -> int:
        """The hash of the present state. Equal ones mean equal states.

        Of objects that were not saved after each step: a recording of the same steps may have another hash of the same
        values, since places of objects that came and went are used again in another order.
        """
        return self.state.hash()

    def snapshot(self) -> Snapshot:
        """A copy of the present state."""
        return self.state.snapshot()

    def fork(self) -> Fork:
        """A further fork, from the present state."""
        return Fork(self._pool, self.snapshot(), self.tick, saves_each_step=self._saves_each_step)

    def restart(self) -> None:
        """Go back to the state that the fork began with."""
        restore(self._open(), self._start)
        self.steps = 0

    def close(self) -> None:
        """Give the simulation back; the fork, and its subject, must not be used after that."""
        if self._simulation is not None:
            self._pool.give(self._simulation)
            self._simulation = None

    def _open(self) -> Simulation:
        if self._simulation is None:
            raise ValueError("this fork is closed")
        return self._simulation

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
