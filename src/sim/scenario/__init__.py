"""Scenarios: the configuration of a run, and the interference with it, as TOML files."""

from sim.scenario.scenario_file import load_scenario

__all__ = ["load_scenario"]
