"""Put the scenario that a file or a tape holds around a simulation again; what that needs is loaded only then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sim.kernel.registry import ConfigError
from sim.kernel.simulation import Simulation, as_simulation


def restage(
    simulation: Any, plain: Any, functions: Mapping[str, Callable[[Any], str | None]] | None = None
) -> Simulation:
    """A simulation with the scenario around it that was read as plain, if there is one and it is not there already.

    Raises ConfigError if it cannot be, TypeError as for ScenarioSimulation.
    """
    if not plain or getattr(simulation, "scenario", None):
        return as_simulation(simulation)
    if not isinstance(plain, Mapping):
        raise ConfigError("scenario", "a table was expected")
    from sim.scenario.config import read_scenario_config  # noqa: PLC0415 - cattrs takes time to load.
    from sim.scenario.rounds import ScenarioSimulation  # noqa: PLC0415

    try:
        return ScenarioSimulation(simulation, read_scenario_config(plain), plain, functions)
    except ConfigError as error:
        raise ConfigError(f"scenario.{error.key}" if error.key else "scenario", error.problem) from None
    except LookupError as error:
        raise ConfigError("scenario.properties", str(error)) from None
