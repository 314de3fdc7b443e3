"""The contract of a simulation as a test class: subclass it, say how one is made, and inherit the tests.

class TestWalkers(SimulationContract):
    def make(self):
        return Walkers(seed=7)

    def inputs(self, simulation, seed):
        draws = random.Random(seed)
        return lambda: draws.randrange(3)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from recorder.conformance.contract_checks import (
    SEEDS,
    TICKS,
    ConformanceRun,
    ConformanceViolation,
    Subject,
    check_loads,
    check_process,
    check_recorder,
    check_same_seed,
)


class SimulationContract:
    """What every simulation promises; pytest collects the subclasses.

    Attributes:
        seeds: so many runs are tried, each with its own inputs.
        ticks: how long each is.
    """

    __test__ = False  # Only subclasses are tests: they say so below.
    seeds: ClassVar[int] = SEEDS
    ticks: ClassVar[int] = TICKS
    made_runs: ClassVar[list[ConformanceRun]]

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.__test__ = True

    def make(self) -> Any:
        """A new simulation, always the same: with .state and .step, with .save, .load and .step, or what an adapter is for."""
        raise TypeError(f"{type(self).__name__} does not say how a simulation is made: override make")

    def inputs(self, simulation: Any, seed: int) -> Callable[[], Any]:
        """From a simulation and a seed to what gives the inputs of each next step; by default the adapter's own, or None."""
        return Subject(self.make).player(simulation, seed)

    def _subject(self) -> Subject:
        file = inspect.getsourcefile(type(self))
        place = (file, type(self).__qualname__) if file is not None else None
        return Subject(self.make, self.inputs, place)

    def _runs(self) -> list[ConformanceRun]:
        """The live runs, made once a class."""
        mine = type(self)
        if "made_runs" not in vars(mine):
            subject = self._subject()
            mine.made_runs = [subject.live(seed, self.ticks) for seed in range(self.seeds)]
        return mine.made_runs

    def test_the_same_seed_gives_the_same_run(self) -> None:
        """Two instances that are given the same inputs have the same states."""
        subject = self._subject()
        _ensure_none([check_same_seed(subject, run) for run in self._runs()])

    def test_a_fresh_process_gives_the_same_run(self) -> None:
        """So has one in another process, whose sets and dicts of texts have another order."""
        _ensure_none(check_process(self._subject(), self._runs()))

    def test_a_state_that_is_loaded_goes_on_as_the_run_did(self) -> None:
        """Loaded at random ticks, into a fresh instance and into a used one, it has the states of the live run."""
        subject = self._subject()
        _ensure_none([one for run in self._runs() for one in check_loads(subject, run)])

    def test_a_recorder_does_not_change_the_run(self) -> None:
        """Being recorded, and saved every few ticks, it has the states that it has alone."""
        subject = self._subject()
        _ensure_none([check_recorder(subject, run) for run in self._runs()])


def _ensure_none(found: list[ConformanceViolation] | list[ConformanceViolation | None]) -> None:
    broken = [str(one) for one in found if one is not None]
    assert not broken, "\n".join(broken)
