"""Scenarios: what a run starts from and what is sent to it, as TOML files."""

from sim.scenario.scenario_file import load_scenario

__all__ = ["load_scenario"]
