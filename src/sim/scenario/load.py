"""Read scenario files: from a path, or by name from those that ship with the installed worlds."""

from __future__ import annotations

import tomllib
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import attrs

from sim.kernel.registry import ConfigError, World, find_world, world_names

SUFFIX = ".toml"


@attrs.frozen
class Scenario:
    """A scenario as it was read.

    Attributes:
        name: its ``name`` key, or the file's name without suffix.
        world: the world that it is for.
        config: the whole file as plain data, with the changes that were asked for.
    """

    name: str
    world: World
    config: dict[str, Any]


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
    """Read a scenario; seed replaces the file's own.

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
    try:
        config = tomllib.loads(content.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError("", f"{name_or_path} is no TOML: {error}") from None
    if not isinstance(config.get("world"), str):
        raise ConfigError("world", "the name of a world was expected, such as " + ", ".join(world_names()))
    world = find_world(config["world"])
    if seed is not None:
        config["seed"] = seed
    return Scenario(config.get("name") or stem, world, config)
