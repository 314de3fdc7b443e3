"""Conformance tests of a simulation as a test class: subclass it, override make, and inherit the tests.

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
    check_recorder,
    check_same_seed,
)
from recorder.conformance.fresh_processes import check_process

__all__ = ["SimulationContract"]


class SimulationContract:
    """The conformance tests of a simulation; pytest collects the subclasses.

    Attributes:
        seeds: number of runs, each with its own inputs.
        ticks: length of each run.
    """

    __test__ = False  # Only subclasses are tests: __init_subclass__ sets it.
    seeds: ClassVar[int] = SEEDS
    ticks: ClassVar[int] = TICKS
    made_runs: ClassVar[list[ConformanceRun]]

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.__test__ = True

    def make(self) -> Any:
        """Make a new simulation, always the same: with .state and .step, with .save, .load and .step, or with an adapter."""
        raise TypeError(f"{type(self).__name__} has no make method: override make to return a new simulation")

    def inputs(self, simulation: Any, seed: int) -> Callable[[], Any]:
        """Make the source of each step's inputs from a simulation and a seed; by default that of the adapter, or None."""
        return Subject(self.make).player(simulation, seed)

    def _subject(self) -> Subject:
        file = inspect.getsourcefile(type(self))
        location = (file, type(self).__qualname__) if file is not None else None
        return Subject(self.make, self.inputs, location)

    def _runs(self) -> list[ConformanceRun]:
        """The live runs, made once per class."""
        own_class = type(self)
        if "made_runs" not in vars(own_class):
            subject = self._subject()
            own_class.made_runs = [subject.live(seed, self.ticks) for seed in range(self.seeds)]
        return own_class.made_runs

    def test_the_same_seed_gives_the_same_run(self) -> None:
        """Two instances with the same inputs have the same states."""
        subject = self._subject()
        _ensure_none([check_same_seed(subject, run) for run in self._runs()])

    def test_a_fresh_process_gives_the_same_run(self) -> None:
        """An instance in another process, with a different order of sets, has the same states."""
        _ensure_none(check_process(self._subject(), self._runs()))

    def test_a_state_that_is_loaded_goes_on_as_the_run_did(self) -> None:
        """A state loaded into a fresh or a used instance continues with the states of the live run."""
        subject = self._subject()
        _ensure_none([violation for run in self._runs() for violation in check_loads(subject, run)])

    def test_a_recorder_does_not_change_the_run(self) -> None:
        """A run that is recorded and saved every few ticks has the states of the live run."""
        subject = self._subject()
        _ensure_none([check_recorder(subject, run) for run in self._runs()])


def _ensure_none(violations: list[ConformanceViolation] | list[ConformanceViolation | None]) -> None:
    lines = [str(violation) for violation in violations if violation is not None]
    assert not lines, "\n".join(lines)


def __dir__() -> list[str]:
    return sorted(__all__)
