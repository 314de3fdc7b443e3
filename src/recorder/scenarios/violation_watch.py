"""Watch a run for violated properties, and write its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recorder.scenarios.checkpoints import Checkpoint, Checkpoints
from sim.scenario.results.result import Violation
from sim.scenario.scenario_simulation import ScenarioSimulation


class ViolationWatch:
    """Collects the violations of one run, and writes its checkpoints.

    Attributes:
        violations: in the order of ticks.
        before: properties that were violated before the run began, if it continues an earlier one.
        first_tick: the tick at which the run began.
    """

    def __init__(self, notes: Mapping[str, Any]) -> None:
        """notes: notes of the run, as on its tape; checkpoints keep them, with an empty table if there are no players."""
        self.violations: list[Violation] = []
        self.before: tuple[str, ...] = ()
        self.first_tick = 0
        self._notes = {"players": {}, **notes}
        self._checkpoints: Checkpoints | None = None

    @property
    def checkpoints(self) -> Sequence[Checkpoint]:
        """The written checkpoints, oldest first."""
        return self._checkpoints.written if self._checkpoints is not None else ()

    @property
    def checkpoint_error(self) -> str | None:
        """The reason of the last failed checkpoint; None without failures."""
        return self._checkpoints.error if self._checkpoints is not None else None

    def begin(self, simulation: Any, tick: int) -> None:
        """Note the violations of the state in which the run begins, at this tick."""
        self.first_tick = tick
        if isinstance(simulation, ScenarioSimulation):
            self.before = simulation.violated

    def watch(self, simulation: Any, tick: int) -> None:
        """Check the last tick, if the simulation is wrapped in a scenario."""
        if not isinstance(simulation, ScenarioSimulation):
            return
        self.violations += [Violation.of(tick, event) for event in simulation.events() if event["kind"] == "violation"]
        self._checkpoints = self._checkpoints or Checkpoints.of(simulation.config, notes=self._notes)
        self._checkpoints.write_if_due(simulation, tick)
