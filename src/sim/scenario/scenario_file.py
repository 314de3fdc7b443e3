"""Read scenario files: from a path, or by name from those that ship with the installed worlds."""

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
from sim.scenario.config.scenario import read_scenario_config
from sim.scenario.wrap import wrap_scenario

SUFFIX = ".toml"


def _no_world() -> ConfigError:
    return ConfigError("world", "the name of a world was expected, such as " + ", ".join(world_names()))


def _make_nothing(_: Config) -> Simulation:
    raise _no_world()


# Stands for a simulation that the user names on the command line.
FOREIGN = World("", 0, _make_nothing, lambda _: lambda _: [], lambda *_: {})


@attrs.frozen
class Scenario:
    """A scenario as it was read.

    Attributes:
        name: its ``name`` key, or the file's name without suffix.
        world: the world that it is for; FOREIGN if it is for a simulation that is named elsewhere.
        config: the world's part of the file as plain data, with the changes that were asked for.
        provocation: what stands under ``scenario``: roles, network, adversaries, properties; None if nothing does.
    """

    name: str
    world: World
    config: dict[str, Any]
    provocation: dict[str, Any] | None = None

    def make(self) -> Simulation:
        """The world at tick 0, with its scenario around it. Raises ConfigError."""
        return wrap_scenario(self.world.make(self.config), self.provocation, self.world.properties)

    @property
    def ticks(self) -> Any:
        """How far it is to be run: as many rounds as make its samples, or as the world's part says; unchecked."""
        steps = (self.provocation or {}).get("steps")
        return steps - 1 if isinstance(steps, int) and not isinstance(steps, bool) else self.config.get("ticks", 1000)


def shipped_scenarios() -> dict[str, Traversable]:
    """The scenarios that ship with the installed worlds, by name, sorted."""
    found: dict[str, Traversable] = {}
    for name in world_names():
        folder = find_world(name).scenarios
        for file in folder.iterdir() if folder is not None else ():
            if file.name.endswith(SUFFIX):
                found[file.name.removesuffix(SUFFIX)] = file
    return dict(sorted(found.items()))


def load_scenario(name_or_path: str, *, seed: int | None = None) -> Scenario:
    """Read a scenario; seed replaces the file's own. ``base`` names another scenario, upon which the file stands.

    Raises FileNotFoundError, with the names that ship, if there is no such file or name; ConfigError if it is no TOML
    or names no world; UnknownWorldError if that world is not installed. The world checks the rest when it is made.
    """
    path = Path(name_or_path)
    shipped = shipped_scenarios()
    if path.is_file():
        content, stem = path.read_bytes(), path.stem
    elif name_or_path in shipped:
        content, stem = shipped[name_or_path].read_bytes(), name_or_path
    else:
        raise FileNotFoundError(
            f"there is no scenario file {name_or_path}, and none of that name ships; shipped: {', '.join(shipped)}"
        )
    config = _with_base(_parse(content, name_or_path), path.parent, shipped)
    name = config.get("name") or stem
    provocation = config.pop("scenario", None)
    if seed is not None:
        config["seed"] = seed
    if provocation is not None:
        provocation = _settled(provocation, name, config, seed)
    if "world" not in config and provocation is not None:
        return Scenario(name, FOREIGN, config, provocation)
    if not isinstance(config.get("world"), str):
        raise _no_world()
    return Scenario(name, find_world(config["world"]), config, provocation)


def _parse(content: bytes, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # Of numbers and lists beyond what Python takes, too.
        raise ConfigError("", f"{name} is no TOML: {error}") from None


def _with_base(config: dict[str, Any], folder: Path, shipped: Mapping[str, Traversable]) -> dict[str, Any]:
    """The configuration upon that of the scenario that its ``base`` names; a base has no base itself."""
    base = config.pop("base", None)
    if base is None:
        return config
    if isinstance(base, str) and base in shipped:
        content = shipped[base].read_bytes()
    elif isinstance(base, str) and (folder / base).is_file():
        content = (folder / base).read_bytes()
    else:
        raise ConfigError("base", f"a file or one of {', '.join(shipped)} was expected, found {base!r}")
    under = _parse(content, base)
    if "base" in under:
        raise ConfigError("base", f"{base} has a base itself")
    under.pop("name", None)
    return _merged(under, config)


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Tables are merged key by key; anything else that is in both is taken from the upper one."""
    both = {key: _merged(under[key], over[key]) for key in over if _are_tables(under.get(key), over[key])}
    return {**under, **over, **both}


def _are_tables(one: Any, other: Any) -> bool:
    return isinstance(one, dict) and isinstance(other, dict)


def _settled(provocation: Any, name: str, config: dict[str, Any], seed: int | None) -> dict[str, Any]:
    """The scenario's part with name and seed in it, as it is put on a tape."""
    if not isinstance(provocation, dict):
        raise ConfigError("scenario", "a table was expected")
    if not isinstance(name, str):
        raise ConfigError("name", f"text was expected, found {name!r}")
    settled = {"name": re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "scenario", "seed": config.get("seed", 0)}
    settled |= provocation | ({"seed": seed} if seed is not None else {})
    try:
        read_scenario_config(settled)
    except ConfigError as error:
        if error.key == "seed" and "seed" not in provocation:
            raise  # It is the file's, not the table's.
        raise ConfigError(f"scenario.{error.key}" if error.key else "scenario", error.problem) from None
    return settled
