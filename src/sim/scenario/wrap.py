"""Wrap a simulation in the scenario of a file or a tape. The scenario modules are imported only if there is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sim.kernel.hooks import HasOrigin, HasRoles, HasScenario, hook
from sim.kernel.registry import ConfigError, Origin
from sim.kernel.simulation import Simulation, as_simulation, inner_of


def wrap_scenario(
    simulation: Any, plain: Any, functions: Mapping[str, Callable[[Any], str | None]] | None = None
) -> Simulation:
    """A simulation with the scenario plain around it; unchanged if plain is None or it already has this scenario.

    Raises ConfigError for a mistake in plain. Raises TypeError as ScenarioSimulation does, and if the simulation already
    has a different scenario.
    """
    if plain is not None and not isinstance(plain, Mapping):
        raise ConfigError("scenario", f"expected a table, got {str(plain)[:80]!r}")
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


def with_input_form(simulation: Any, plain: Mapping[str, Any]) -> dict[str, Any]:
    """A scenario as plain data, for a new run around a simulation: with the form of its inputs, if it declares roles.

    A simulation of the user's own gets the value of its only role, or a table with an entry for each. Without this key,
    as on tapes of earlier versions, one that declares roles gets a list, as a registered world does.
    """
    world = inner_of(simulation)
    with_roles, with_origin = hook(world, HasRoles), hook(simulation, HasOrigin)
    is_registered = with_origin is not None and isinstance(with_origin.origin, Origin)
    if with_roles is None or is_registered or hasattr(world, "router") or plain.get("inputs", "auto") != "auto":
        return dict(plain)
    return {**plain, "inputs": "one" if len(with_roles.roles) == 1 else "by_role"}


def ensure_new_run(simulation: Any, last_tick: int | None) -> None:
    """Raise ConfigError if the scenario around a simulation has a part that can never act; see can_act.ensure_can_act."""
    from sim.scenario.config.can_act import ensure_can_act  # noqa: PLC0415 - as above.

    try:
        ensure_can_act(simulation, last_tick)
    except ConfigError as error:
        raise ConfigError(f"scenario.{error.key}", error.problem) from None


def _ensure_same(wrapped: Any, plain: Mapping[str, Any] | None) -> None:
    """Raise TypeError if the scenario around a simulation does not have the hash of the recorded one."""
    from sim.scenario.config.identity import scenario_hash, scenario_hash_around  # noqa: PLC0415

    if plain is None:
        raise TypeError(
            f"expected a simulation without a scenario, as recorded, got one with the scenario {_name(wrapped.scenario)}"
        )
    actual, recorded = scenario_hash(wrapped), scenario_hash_around(wrapped, plain)
    if actual != recorded:
        raise TypeError(
            f"expected the recorded scenario around the simulation: {_name(plain)}, hash {recorded}; "
            f"got {_name(wrapped.scenario)}, hash {actual}"
        )


def _name(plain: Mapping[str, Any]) -> str:
    return str(plain.get("name", "scenario"))
