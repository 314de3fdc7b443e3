"""Watch a run for violated properties, and write its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recorder.scenarios.checkpoints import Checkpoint, Checkpoints
from sim.scenario.results.result import Violation
from sim.scenario.scenario_simulation import ScenarioSimulation


class ViolationWatch:
    """The violations of one run, as they come; it writes the run's checkpoints, too.

    Attributes:
        violations: by tick.
        before: properties that were violated when the run began, if that continues an earlier one.
        first_tick: at which the run began.
    """

    def __init__(self, notes: Mapping[str, Any]) -> None:
        """notes: of the run, as its tape has them; checkpoints keep them, and an empty table of players if none play."""
        self.violations: list[Violation] = []
        self.before: tuple[str, ...] = ()
        self.first_tick = 0
        self._notes = {"players": {}, **notes}
        self._checkpoints: Checkpoints | None = None

    @property
    def checkpoints(self) -> Sequence[Checkpoint]:
        """Those that were written, the oldest first."""
        return self._checkpoints.written if self._checkpoints is not None else ()

    @property
    def checkpoint_error(self) -> str | None:
        """Why the last checkpoint that failed did; None if none has."""
        return self._checkpoints.error if self._checkpoints is not None else None

    def begin(self, simulation: Any, tick: int) -> None:
        """Check the state in which the run begins, at this tick."""
        self.first_tick = tick
        if isinstance(simulation, ScenarioSimulation):
            self.before = simulation.violated

    def watch(self, simulation: Any, tick: int) -> None:
        """Check the tick that was just made, if there is a scenario around the simulation."""
        if not isinstance(simulation, ScenarioSimulation):
            return
        self.violations += [Violation.of(tick, event) for event in simulation.events() if event["kind"] == "violation"]
        self._checkpoints = self._checkpoints or Checkpoints.of(simulation.config, notes=self._notes)
        self._checkpoints.write_if_due(simulation, tick)
