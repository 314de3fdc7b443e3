"""Forks: simulations that leave a run at some tick in memory, for tree search and trials. Nothing is written.

A fork is a state that was restored into a simulation. Simulations are expensive to make and cheap to restore, so a pool
keeps those of closed forks. The steps of a fork do not save the state: that is done when the state is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, cast

from replayer.playback.subject_type import SubjectT
from sim.closed_on_exit import ClosedOnExit
from sim.kernel.hooks import HasAdapter, SkipsCapture, hook
from sim.kernel.simulation import ArenaOfSaved, Simulation, capture, inner_of, restore, subject_of
from sim.kernel.state import Snapshot, State

if TYPE_CHECKING:
    from sim.adapters.capture.recapture import ProvedSimulation

FAILURES_MAX = 3  # Of going back to a start that was kept: then it is loaded each time.


class PooledSimulation:
    """A simulation that forks use one after the other.

    A fork that begins where the one before it began goes back there: quicker than a load, where that was proved.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self._start: Snapshot | None = None
        self._go_back: Callable[[], bool] | None = None
        self.captured = _captured_by_adapter(simulation)
        self._failures = 0

    def is_near(self, start: Snapshot) -> bool:
        """Return True if the last fork began with this state."""
        return self._start is start

    def place(self, start: Snapshot, *, as_recorded: bool) -> None:
        """Put the simulation into a state. as_recorded: by a load. Raises what restoring raises."""
        again, self._start = self._start is start and not as_recorded, None
        if not (again and self._go_back is not None and self._go_back()):
            self._failures += again and self._go_back is not None
            self._go_back = None
            restore(self.simulation, start)
            if again and self.captured is not None and self._failures < FAILURES_MAX:
                self._go_back = self.captured.keep_start()
                if self._go_back is None:
                    self._failures = FAILURES_MAX
                    restore(self.simulation, start)  # The trial may have left it in any state.
        self._start = start


def _captured_by_adapter(simulation: Simulation) -> ProvedSimulation | None:
    """The simulation of an adapter that captures objects of Python; None for any other."""
    inner = inner_of(simulation)
    if hook(inner, HasAdapter) is None:
        return None
    from sim.adapters.capture.recapture import ProvedSimulation  # noqa: PLC0415 - only for a tape of an adapter

    return inner if isinstance(inner, ProvedSimulation) else None


class SimulationPool:
    """The simulations of closed forks of one run."""

    def __init__(self, make: Callable[[], Simulation]) -> None:
        """make: makes a further simulation, of an object of its own."""
        self._make = make
        self._free: list[PooledSimulation] = []
        self._subjects: dict[
            int, Any
        ] = {}  # Of all simulations that were made: kept, so that their ids are not reused.

    def take(self, start: Snapshot) -> PooledSimulation:
        """A simulation that no other fork has; the last one that began with this state, if there is one.

        Raises ValueError if the user's factory returns one object again.
        """
        for pooled in reversed(self._free):
            if pooled.is_near(start):
                self._free.remove(pooled)
                return pooled
        if self._free:
            return self._free.pop()
        simulation = self._make()
        subject = subject_of(simulation)
        if id(subject) in self._subjects:
            raise ValueError("the factory of the simulation returned an object that another fork has: make a new one")
        self.claim(subject)
        return PooledSimulation(simulation)

    def give(self, pooled: PooledSimulation) -> None:
        """Take a simulation back."""
        self._free.append(pooled)

    def claim(self, subject: object) -> None:
        """Refuse to hand out this object: something moves it."""
        self._subjects[id(subject)] = subject


class Fork(ClosedOnExit, Generic[SubjectT]):
    """A simulation on its own way from a tick of a run; a context manager.

    Step it with ``step``, in the form of the recorded inputs, or use its ``subject`` as your program does. The run and
    other forks are not touched. Close it when it is done: its simulation is then used by the next fork.

    Attributes:
        start_tick: the tick of the run, or of the fork, that it left.
        steps: the number of calls of step since then.

    Examples:
        >>> with replayer.open("run.tape", world=Walkers) as run:
        ...     _ = run.seek(500)
        ...     with run.fork() as what_if:
        ...         what_if.step(99)
        ...         print(what_if.steps, what_if.state["x"].mean() > run.state["x"].mean())
        1 True
    """

    def __init__(self, pool: SimulationPool, start: Snapshot, tick: int, *, saves_each_step: bool = False) -> None:
        """saves_each_step: see BranchedTimeline.fork. Raises what making and restoring a simulation raise."""
        self._pool, self._start, self._saves_each_step = pool, start, saves_each_step
        self.start_tick, self.steps = tick, 0
        self._pooled: PooledSimulation | None = pool.take(start)
        self._simulation = simulation = self._pooled.simulation
        inner = self._inner = inner_of(simulation)
        self._saves_late = isinstance(simulation, ArenaOfSaved) and not saves_each_step
        self._captured = self._pooled.captured
        skips = hook(inner, SkipsCapture)
        if skips is not None:
            skips.capture_skipped = self._saves_late = not saves_each_step
        try:
            self.restart()
        except BaseException:
            self._pooled = None  # It may be restored by half: no other fork gets it.
            raise

    @property
    def tick(self) -> int:
        """The tick of the state, if each call of step is a tick."""
        return self.start_tick + self.steps

    @property
    def subject(self) -> SubjectT:
        """The object to step and change: the environment, the game, the model, or your simulation."""
        return cast("SubjectT", subject_of(self._open()))

    def step(self, inputs: Any = None) -> Any:
        """Make a step; return what the simulation's step returned, and raise what it raises.

        inputs: in the form of the recorded ones.
        """
        simulation = self._open()
        result = (self._inner if self._saves_late else simulation).step(inputs)
        self.steps += 1
        return result

    @property
    def state(self) -> State:
        """The present state, taken from the objects when it is asked for."""
        simulation = self._open()
        if self._saves_late and self._captured is not None:
            self._captured.capture_as_first()
        elif self._saves_late:
            capture(simulation)
        return simulation.state

    def hash(self) -> int:
        """The hash of the present state. Equal ones mean equal states.

        Of objects that are not saved after each step it depends on their values alone. A recording of the same steps may
        have another hash, since it uses the places of objects that are gone again.
        """
        return self.state.hash()

    def snapshot(self) -> Snapshot:
        """A copy of the present state."""
        return self.state.snapshot()

    def fork(self) -> Fork[SubjectT]:
        """A further fork, from the present state."""
        return Fork(self._pool, self.snapshot(), self.tick, saves_each_step=self._saves_each_step)

    def restart(self) -> None:
        """Go back to the state that the fork began with."""
        self._open()
        if self._pooled is not None:
            self._pooled.place(self._start, as_recorded=self._saves_each_step)
        self.steps = 0

    def close(self) -> None:
        """Give the simulation back; the fork, and its subject, must not be used after that."""
        if self._pooled is not None:
            self._pool.give(self._pooled)
            self._pooled = None

    def _open(self) -> Simulation:
        if self._pooled is None:
            raise ValueError("this fork is closed: make a new one with fork()")
        return self._simulation
