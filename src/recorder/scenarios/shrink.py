"""Minimise a scenario that violates a property: fewer parts, smaller budgets, fewer steps, the same violation.

The result is 1-minimal if the time allowed it: without any one of its parts, the property holds.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import tomli_w

from recorder.scenarios.run_scenario import InputsOf, run_with_scenario
from recorder.storage.atomic_file import write_file
from sim.kernel.registry import ConfigError, World
from sim.scenario.config.can_act import without_late_parts
from sim.scenario.results.result import Violation

Plain = dict[str, Any]
Trial = Callable[[Plain, int], Violation | None]  # Maps a scenario and its ticks to the violation, or None.

_LISTS = ("adversaries", "reconfigurations")
_TABLES = ("environment", "network")


@attrs.frozen
class Minimised:
    """A smaller scenario that violates the same property.

    Attributes:
        scenario: the table ``scenario``.
        violation: the violation in the smaller scenario.
        trials: number of runs of the search.
        is_minimal: True if no part can be omitted; False if the time ran out before that was known.
    """

    scenario: Plain
    violation: Violation
    trials: int
    is_minimal: bool

    def is_smaller_than(self, scenario: Mapping[str, Any]) -> bool:
        """Return True if it omits a part of the scenario, apart from the number of steps."""
        ignored = {"steps", "checkpoint_interval"}
        smaller, original = (
            {k: v for k, v in plain.items() if k not in ignored} for plain in (self.scenario, scenario)
        )
        return smaller != original

    @property
    def ticks(self) -> int:
        """The last tick that the smaller scenario needs."""
        return self.violation.tick


def trial_of(world: World, config: Mapping[str, Any], inputs: InputsOf, name: str) -> Trial:
    """Make a trial: run a world with a variant of a scenario, and return the violation of the property of this name."""

    def trial(scenario: Plain, ticks: int) -> Violation | None:
        try:
            result = run_with_scenario(
                world.make(config),
                without_late_parts(scenario, ticks),
                inputs=inputs,
                steps=ticks + 1,
                functions=world.properties,
            )
        except ConfigError:
            return None  # A part that another part needs was omitted.
        return next((violation for violation in result.violations if violation.name == name), None)

    return trial


def minimise(scenario: Mapping[str, Any], violation: Violation, trial: Trial, budget_s: float) -> Minimised:
    """Search for budget_s seconds for the smallest scenario that violates the same property.

    trial: takes a scenario and the maximum number of ticks.
    """
    search = _Search(copy.deepcopy(dict(scenario)), violation, trial, time.monotonic() + budget_s)
    search.run()
    return Minimised(search.scenario, search.violation, search.trials, not search.is_over)


@attrs.define
class _Search:
    scenario: Plain
    violation: Violation
    trial: Trial
    until_s: float
    trials: int = 0
    is_over: bool = False

    def run(self) -> None:
        """Omit parts until no more can be omitted; then reduce budgets."""
        self.scenario.pop("checkpoint_interval", None)
        violated = [entry for entry in self.scenario.get("properties", ()) if entry.get("name") == self.violation.name]
        self._try(self.scenario | {"properties": violated})
        changed = True
        while changed and not self.is_over:
            changed = sum(map(self._try, self._smaller())) > 0
        for index in range(len(self.scenario.get("adversaries", ()))):
            self._shrink_budget(index)
        self.scenario = without_late_parts(self.scenario, self.violation.tick)
        if "steps" in self.scenario:
            self.scenario["steps"] = self.violation.tick + 1

    def _smaller(self) -> Iterator[Plain]:
        """Yield the scenario without one of its parts. Lazy: an earlier part may have been omitted by then."""
        for key in _LISTS:
            index = len(self.scenario.get(key, ())) - 1
            while index >= 0:
                parts = self.scenario[key]
                yield self.scenario | {key: parts[:index] + parts[index + 1 :]}
                index -= 1
        for key in _TABLES:
            if key in self.scenario:
                yield {name: value for name, value in self.scenario.items() if name != key}
            for inner in sorted(self.scenario.get(key, ())):
                table = self.scenario.get(key, {})
                yield self.scenario | {key: {name: value for name, value in table.items() if name != inner}}

    def _shrink_budget(self, index: int) -> None:
        """Bisect the total of a budget. Finds the smallest if a larger budget never repairs the property."""
        low, high = 0, self.scenario["adversaries"][index]["budget"]["total"]
        while high - low > 1 and not self.is_over:
            middle = (low + high) // 2
            smaller = copy.deepcopy(self.scenario)
            smaller["adversaries"][index]["budget"]["total"] = middle
            low, high = (low, middle) if self._try(smaller) else (middle, high)

    def _try(self, smaller: Plain) -> bool:
        """Keep the smaller scenario if it violates the property at the same tick or earlier. Returns True if kept."""
        if smaller == self.scenario:
            return False
        if time.monotonic() > self.until_s:
            self.is_over = True
            return False
        self.trials += 1
        violation = self.trial(smaller, self.violation.tick)
        if violation is None:
            return False
        self.scenario, self.violation = smaller, violation
        return True


def write_minimised(
    path: Path, smaller: Minimised, world: Mapping[str, Any] | None, options: Sequence[str] = ()
) -> None:
    """Write the scenario atomically as a file for record run: the world's configuration, then the scenario.

    options: the options that record run needs, for a comment.

    Raises FileExistsError, OSError.
    """
    plain = {key: value for key, value in (world or {}).items() if value is not None}
    plain |= {"name": smaller.scenario.get("name", "scenario"), "ticks": smaller.ticks}
    if world is None:
        plain.pop("ticks")
    plain["scenario"] = {**smaller.scenario, "steps": smaller.ticks + 1}
    comment = f"# Made smaller: violates {smaller.violation.name} at tick {smaller.violation.tick}.\n"
    comment += f"# Recorded with: record run {' '.join([path.name, *options])}\n" if options else ""
    write_file(path, comment + tomli_w.dumps(plain), existing="refuse")
