"""Make a scenario that violates a property smaller: fewer parts, smaller budgets, fewer steps, and still violating it.

What is left is 1-minimal where the time allowed it: without any one part more, the property holds.
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
from sim.scenario.results.result import Violation

Plain = dict[str, Any]
Trial = Callable[[Plain, int], Violation | None]  # From a scenario and its ticks to the violation, if there is one.

_LISTS = ("adversaries", "reconfigurations")
_TABLES = ("environment", "network")


@attrs.frozen
class Minimised:
    """A smaller scenario that violates the same property.

    Attributes:
        scenario: what stands under ``scenario``.
        violation: as it is in the smaller one.
        trials: how many runs it took.
        is_minimal: whether no part can be left out; not known where the time was over before.
    """

    scenario: Plain
    violation: Violation
    trials: int
    is_minimal: bool

    def is_smaller_than(self, scenario: Mapping[str, Any]) -> bool:
        """Whether anything was left out but for how far it runs."""
        left_out = {"steps", "checkpoint_interval"}
        one, other = ({k: v for k, v in plain.items() if k not in left_out} for plain in (self.scenario, scenario))
        return one != other

    @property
    def ticks(self) -> int:
        """How far the smaller one has to run."""
        return self.violation.tick


def trial_of(world: World, config: Mapping[str, Any], inputs: InputsOf, name: str) -> Trial:
    """Runs a world with variants of a scenario and looks for the violation of one property."""

    def trial(scenario: Plain, ticks: int) -> Violation | None:
        try:
            result = run_with_scenario(
                world.make(config),
                scenario,
                inputs=inputs,
                steps=ticks + 1,
                functions=world.properties,
            )
        except ConfigError:
            return None  # A part that another one needs was left out.
        return next((one for one in result.violations if one.name == name), None)

    return trial


def minimise(scenario: Mapping[str, Any], violation: Violation, trial: Trial, budget_s: float) -> Minimised:
    """The smallest scenario that was found in budget_s seconds and violates the same property.

    trial: told a scenario and how many ticks to run at most.
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
        """Leave out whatever can be, until nothing more can; then make numbers smaller."""
        self.scenario.pop("checkpoint_interval", None)
        own = [one for one in self.scenario.get("properties", ()) if one.get("name") == self.violation.name]
        self._try(self.scenario | {"properties": own})
        changed = True
        while changed and not self.is_over:
            changed = sum(map(self._try, self._smaller())) > 0
        for index in range(len(self.scenario.get("adversaries", ()))):
            self._shrink_budget(index)
        if "steps" in self.scenario:
            self.scenario["steps"] = self.violation.tick + 1

    def _smaller(self) -> Iterator[Plain]:
        """The scenario without one of its parts, each made when it is asked for: one before it may have gone by then."""
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
        """The smallest total with which it is still violated, if more is never better for the property."""
        low, high = 0, self.scenario["adversaries"][index]["budget"]["total"]
        while high - low > 1 and not self.is_over:
            middle = (low + high) // 2
            smaller = copy.deepcopy(self.scenario)
            smaller["adversaries"][index]["budget"]["total"] = middle
            low, high = (low, middle) if self._try(smaller) else (middle, high)

    def _try(self, smaller: Plain) -> bool:
        """Take the smaller scenario if it violates the property, too, and not later."""
        if smaller == self.scenario:
            return False
        if time.monotonic() > self.until_s:
            self.is_over = True
            return False
        self.trials += 1
        found = self.trial(smaller, self.violation.tick)
        if found is None:
            return False
        self.scenario, self.violation = smaller, found
        return True


def write_minimised(path: Path, found: Minimised, world: Mapping[str, Any] | None, options: Sequence[str] = ()) -> None:
    """Write the scenario as a file that record run takes, whole or not at all, with the world's part before it, and the options that it needs.

    Raises FileExistsError, OSError.
    """
    plain = {key: value for key, value in (world or {}).items() if value is not None}
    plain |= {"name": found.scenario.get("name", "scenario"), "ticks": found.ticks}
    if world is None:
        plain.pop("ticks")
    plain["scenario"] = {**found.scenario, "steps": found.ticks + 1}
    comment = f"# Made smaller: violates {found.violation.name} at tick {found.violation.tick}.\n"
    comment += f"# Recorded with: record run {' '.join([path.name, *options])}\n" if options else ""
    write_file(path, comment + tomli_w.dumps(plain), existing="refuse")
