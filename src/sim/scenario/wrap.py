"""Put the scenario that a file or a tape holds around a simulation again; what that needs is loaded only then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sim.kernel.hooks import HasScenario, hook
from sim.kernel.registry import ConfigError
from sim.kernel.simulation import Simulation, as_simulation


def wrap_scenario(
    simulation: Any, plain: Any, functions: Mapping[str, Callable[[Any], str | None]] | None = None
) -> Simulation:
    """A simulation with the scenario around it that was read as plain, if there is one and it is not there already.

    Raises ConfigError if it cannot be, TypeError as for ScenarioSimulation and if another one is around it already.
    """
    if plain is not None and not isinstance(plain, Mapping):
        raise ConfigError("scenario", "a table was expected")
    if hook(simulation, HasScenario) is not None:
        _ensure_same(simulation, plain)
        return as_simulation(simulation)
    if plain is None:
        return as_simulation(simulation)
    from sim.scenario.config.scenario import read_scenario_config  # noqa: PLC0415 - cattrs takes time to load.
    from sim.scenario.scenario_simulation import ScenarioSimulation  # noqa: PLC0415

    try:
        return ScenarioSimulation(simulation, read_scenario_config(plain), plain, functions)
    except ConfigError as error:
        raise ConfigError(f"scenario.{error.key}" if error.key else "scenario", error.problem) from None
    except LookupError as error:
        raise ConfigError("scenario.properties", str(error)) from None


def _ensure_same(staged: Any, plain: Mapping[str, Any] | None) -> None:
    """Raise TypeError if the scenario around a simulation gives another run than the one that was recorded."""
    from sim.scenario.config.identity import scenario_hash, scenario_hash_around  # noqa: PLC0415

    if plain is None:
        raise TypeError(f"the simulation has the scenario {_name(staged.scenario)} around it, the recording has none")
    ours, theirs = scenario_hash(staged), scenario_hash_around(staged, plain)
    if ours != theirs:
        raise TypeError(
            f"the simulation has another scenario around it than was recorded: {_name(staged.scenario)}, hash {ours}; "
            f"recorded: {_name(plain)}, hash {theirs}"
        )


def _name(plain: Mapping[str, Any]) -> str:
    return str(plain.get("name", "scenario"))
