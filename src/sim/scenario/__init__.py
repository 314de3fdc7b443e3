"""Scenarios: the configuration of a run, and the interference with it, as TOML files."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.scenario.scenario_file import load_scenario

__all__ = ["load_scenario"]


def __getattr__(name: str) -> Any:
    if name != "load_scenario":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sim.scenario.scenario_file import load_scenario  # noqa: PLC0415 - cattrs takes time to load, each time.

    return load_scenario


def __dir__() -> list[str]:
    return sorted(__all__)
