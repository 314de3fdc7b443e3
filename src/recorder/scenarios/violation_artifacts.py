"""What a scenario leaves beside its tape: checkpoints and, of a violated property, a smaller scenario that violates it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recorder.console.output import say, say_aside
from recorder.console.progress import progress_bar
from recorder.exit_codes import DIFFERS, SAME
from recorder.runs.input_source import Course
from recorder.scenarios.checkpoints import Checkpoints
from recorder.scenarios.shrink import Minimised, write_minimised
from recorder.scenarios.shrink_batch import BUDGET_S, search
from recorder.storage.file_names import first_free, numbered
from recorder.text import counted
from sim.scenario.config.load import Scenario
from sim.scenario.results.result import Violation
from sim.scenario.scenario_simulation import ScenarioSimulation


class Violations:
    """Those of one run, as they come; it makes the run's checkpoints, too.

    Attributes:
        all: by tick.
        before: properties that were violated when the run began, if that goes on from an earlier one.
    """

    def __init__(self, notes: Mapping[str, Any]) -> None:
        """notes: of the run, as its tape has them; checkpoints keep them, and that nobody played, if nobody did."""
        self.all: list[Violation] = []
        self.before: tuple[str, ...] = ()
        self._begins_at = 0
        self._notes = {"players": {}, **notes}
        self._checkpoints: Checkpoints | None = None

    def begin(self, simulation: Any, tick: int) -> None:
        """Look at the state in which the run begins, at this tick."""
        self._begins_at = tick
        if isinstance(simulation, ScenarioSimulation):
            self.before = simulation.violated

    def watch(self, simulation: Any, tick: int) -> None:
        """Look at the tick that was just made, if there is a scenario around the simulation."""
        if not isinstance(simulation, ScenarioSimulation):
            return
        self.all += [Violation.of(tick, event) for event in simulation.events() if event["kind"] == "violation"]
        self._checkpoints = self._checkpoints or Checkpoints.of(simulation.config, notes=self._notes)
        self._checkpoints.write_if_due(simulation, tick)

    def say(self) -> None:
        """A line for each, and for checkpoints."""
        if self._checkpoints is not None and self._checkpoints.written:
            written = self._checkpoints.written
            say_aside(f"{counted(len(written), 'checkpoint')} in {written[0].path.parent}")
        if self._checkpoints is not None and self._checkpoints.error is not None:
            say_aside(f"warning: {self._checkpoints.error}")
        for name in self.before:
            say_aside(f"violated at tick {self._begins_at:,} or before: {name}")
        for one in self.all:
            say_aside(f"violated at tick {one.tick:,}: {one.name}: {one.details}")

    def leave_behind(
        self, tape: Path, loaded: Scenario, players: Mapping[str, str], course: Course, *, quiet: bool
    ) -> int:
        """Say what was violated, and write a smaller scenario beside the tape; a user may interrupt the search.

        Returns the exit code; without violations there is nothing to be said.
        """
        self.say()
        if not self.all:
            return DIFFERS if self.before else SAME
        target = first_free(numbered(tape.with_name(f"{tape.stem}.smaller.toml"), ".toml"))
        options = [f"--player {name}={policy}" for name, policy in players.items()]
        options += [f"--sim {course.sim}"] if course.sim else []
        options += [f"--inputs {course.file}"] if course.file is not None else []
        found = _minimised(loaded, self.all[0], course, quiet=quiet)
        if found is not None and not found.is_smaller_than(loaded.provocation or {}):
            say_aside("  nothing in the scenario can be left out")
        elif found is not None:
            try:
                write_minimised(target, found, loaded.config if loaded.world.name else None, options)
            except OSError as error:
                say_aside(f"warning: {target}: {error.strerror}")
            else:
                end = "" if found.is_minimal else ", and not to the end"
                say_aside(f"  made smaller in {counted(found.trials, 'run')}{end}: {target}")
        if not quiet:
            say(f"next: {_seek_command(tape, course, self.all[0].tick)}")
        return DIFFERS


def _minimised(loaded: Scenario, violation: Violation, course: Course, *, quiet: bool) -> Minimised | None:
    """None if it was interrupted."""
    scenario = loaded.provocation or {}
    with progress_bar("making it smaller", round(BUDGET_S), quiet=quiet) as show:
        try:
            return search(loaded.world, loaded.config, scenario, course.inputs, violation, budget_s=BUDGET_S, show=show)
        except KeyboardInterrupt:
            return None


def _seek_command(tape: Path, course: Course, tick: int) -> str:
    sim = f" --sim {shlex.quote(course.sim)}" if course.sim else ""
    return f"replay seek {shlex.quote(str(tape))}{sim} --tick {tick}"
