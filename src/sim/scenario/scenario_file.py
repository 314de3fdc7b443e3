"""Read scenario files: from a path, or by the name of one that ships with an installed world."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import attrs

from sim.kernel.registry import Config, ConfigError, World, find_world, world_names
from sim.kernel.simulation import Simulation
from sim.near_names import did_you_mean
from sim.scenario.config.scenario import read_scenario_config
from sim.scenario.config.structure import shown
from sim.scenario.wrap import ensure_new_run, with_input_form, wrap_scenario

SUFFIX = ".toml"


def _no_world() -> ConfigError:
    return ConfigError("world", "expected the name of a world, one of " + ", ".join(world_names()))


def _make_nothing(_: Config) -> Simulation:
    raise _no_world()


# A placeholder for the simulation that the user names on the command line.
FOREIGN = World("", 0, _make_nothing, lambda _: lambda _: [], lambda *_: {})


@attrs.frozen
class Scenario:
    """A scenario file after reading.

    Attributes:
        name: its ``name`` key, or the file's name without suffix.
        world: its world; FOREIGN if the file names none and the caller names the simulation.
        config: the world's configuration as plain data, with the requested changes.
        provocation: the table ``scenario``: roles, network, adversaries, properties; None if the file has none.
    """

    name: str
    world: World
    config: dict[str, Any]
    provocation: dict[str, Any] | None = None

    def make(self, ticks: int | None = None) -> Simulation:
        """Build the world at tick 0, with its scenario around it, for a new run.

        ticks: of the run; by default the scenario's own. Raises ConfigError, also for a part that can never act.
        """
        world = self.world.make(self.config)
        provocation = with_input_form(world, self.provocation) if self.provocation is not None else None
        simulation = wrap_scenario(world, provocation, self.world.properties)
        if self.provocation is not None:
            is_named = "steps" in self.provocation or "ticks" in self.config
            plans = [
                count for count in (ticks, self.ticks if is_named or ticks is None else None) if type(count) is int
            ]
            ensure_new_run(simulation, max(plans, default=None))
        return simulation

    @property
    def ticks(self) -> Any:
        """The ticks to run: one less than the samples in ``steps``, or ``ticks`` of the world's configuration; unchecked."""
        steps = (self.provocation or {}).get("steps")
        return steps - 1 if isinstance(steps, int) and not isinstance(steps, bool) else self.config.get("ticks", 1000)


def shipped_scenarios() -> dict[str, Traversable]:
    """The scenarios that ship with the installed worlds, by name, sorted."""
    shipped: dict[str, Traversable] = {}
    for name in world_names():
        folder = find_world(name).scenarios
        for file in folder.iterdir() if folder is not None else ():
            if file.name.endswith(SUFFIX):
                shipped[file.name.removesuffix(SUFFIX)] = file
    return dict(sorted(shipped.items()))


def load_scenario(name_or_path: str, *, seed: int | None = None) -> Scenario:
    """Read a scenario. seed replaces the seed of the file. A file with ``base`` extends the scenario of that name.

    Raises FileNotFoundError, with the names that ship, for an unknown file or name; ConfigError if the file is not TOML
    or names no world; UnknownWorldError if that world is not installed. The world checks its configuration when it is
    made.
    """
    path = Path(name_or_path)
    shipped = shipped_scenarios()
    if path.is_file():
        content, stem = path.read_bytes(), path.stem
    elif name_or_path in shipped:
        content, stem = shipped[name_or_path].read_bytes(), name_or_path
    else:
        raise FileNotFoundError(
            f"{name_or_path} is neither a scenario file nor a shipped scenario; shipped: {', '.join(shipped)}"
            f"{did_you_mean(name_or_path.removesuffix(SUFFIX), shipped)}"
        )
    config = _with_base(_parse(content, name_or_path), path.parent, shipped)
    name = config.get("name") or stem
    if isinstance(name, str) and {"/", "\\"} & set(name):
        raise ConfigError("name", f"expected a name, got a path: {name!r}")
    provocation = config.pop("scenario", None)
    if seed is not None:
        config["seed"] = seed
    if provocation is not None:
        provocation = _with_name_and_seed(provocation, name, config, seed)
    if "world" not in config and provocation is not None:
        return Scenario(name, FOREIGN, config, provocation)
    if not isinstance(config.get("world"), str):
        raise _no_world()
    return Scenario(name, find_world(config["world"]), config, provocation)


def _parse(content: bytes, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # Also for numbers and nested lists beyond the limits of Python.
        raise ConfigError("", f"{name} is not valid TOML: {error}") from None


def _with_base(config: dict[str, Any], folder: Path, shipped: Mapping[str, Traversable]) -> dict[str, Any]:
    """Merge the configuration into the scenario that its ``base`` names; a base has no base itself."""
    base = config.pop("base", None)
    if base is None:
        return config
    if isinstance(base, str) and base in shipped:
        content = shipped[base].read_bytes()
    elif isinstance(base, str) and (folder / base).is_file():
        content = (folder / base).read_bytes()
    else:
        raise ConfigError("base", f"expected a file or one of {', '.join(shipped)}, got {base!r}")
    base_config = _parse(content, base)
    if "base" in base_config:
        raise ConfigError("base", f"expected a scenario without a base, but {base} has one")
    base_config.pop("name", None)
    return _merged(base_config, config)


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Merge tables key by key; any other value of over replaces that of under."""
    both = {key: _merged(under[key], over[key]) for key in over if _are_tables(under.get(key), over[key])}
    return {**under, **over, **both}


def _are_tables(*values: Any) -> bool:
    return all(isinstance(value, dict) for value in values)


def _with_name_and_seed(provocation: Any, name: str, config: dict[str, Any], seed: int | None) -> dict[str, Any]:
    """The table ``scenario`` with name and seed, as META stores it."""
    if not isinstance(provocation, dict):
        raise ConfigError("scenario", f"expected a table, got {shown(provocation)}")
    if not isinstance(name, str):
        raise ConfigError("name", f"expected text, got {shown(name)}")
    completed = {
        "name": re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "scenario",
        "seed": config.get("seed", 0),
    }
    completed |= provocation | ({"seed": seed} if seed is not None else {})
    try:
        read_scenario_config(completed)
    except ConfigError as error:
        if error.key == "seed" and "seed" not in provocation:
            raise  # The seed is the file's, not the table's.
        raise ConfigError(f"scenario.{error.key}" if error.key else "scenario", error.problem) from None
    return completed
