"""Scenario files by path and by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim import ConfigError, UnknownWorldError, world_names
from sim.scenario.scenario_file import load_scenario, shipped_scenarios
from sim.worlds.meadow import WORLD


def test_a_shipped_scenario_by_name() -> None:
    """quiet-meadow ships with the meadow; its plain data is the complete file."""
    scenario = load_scenario("quiet-meadow")

    assert "quiet-meadow" in shipped_scenarios()
    assert (scenario.name, scenario.world) == ("quiet-meadow", WORLD)
    assert (scenario.config["seed"], scenario.config["grid"]) == (7, {"width": 64, "height": 48})


def test_a_seed_replaces_the_files_own() -> None:
    """Only the seed changes, and 0 counts."""
    plain = load_scenario("quiet-meadow").config

    assert load_scenario("quiet-meadow", seed=0).config == {**plain, "seed": 0}


def test_a_file_by_path(tmp_path: Path) -> None:
    """A path takes precedence; its stem is the default name; line ends and non-ASCII letters do no harm."""
    path = tmp_path / "höhe.toml"
    path.write_bytes("world = 'meadow'\r\nseed = 3\r\n# Wiese: ä\r\n".encode())

    scenario = load_scenario(str(path))
    assert (scenario.name, scenario.config) == ("höhe", {"world": "meadow", "seed": 3})
    path.write_text("world = 'meadow'\nname = 'other'\n", encoding="utf-8")
    assert load_scenario(str(path)).name == "other"


def test_an_unknown_scenario(tmp_path: Path) -> None:
    """The message lists the shipped names; a folder is not a scenario."""
    shipped = ", ".join(shipped_scenarios())
    for name in ("quiet", str(tmp_path)):
        with pytest.raises(FileNotFoundError) as caught:
            load_scenario(name)
        assert str(caught.value) == f"{name} is neither a scenario file nor a shipped scenario; shipped: {shipped}"


@pytest.mark.parametrize("content", [b"world = ", b"\xff\xfe", b"[a]\n[a]\n"])
def test_a_file_that_is_not_toml(tmp_path: Path, content: bytes) -> None:
    """Bytes that are not TOML, or not text, give one line that names the file."""
    path = tmp_path / "bad.toml"
    path.write_bytes(content)

    with pytest.raises(ConfigError) as caught:
        load_scenario(str(path))
    assert str(caught.value).startswith(f"{path} is not valid TOML: ")


@pytest.mark.parametrize("content", ["", "world = 5", "name = 'x'"])
def test_a_scenario_names_its_world(tmp_path: Path, content: str) -> None:
    """Without the key 'world', nothing can check the rest."""
    path = tmp_path / "bad.toml"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(ConfigError) as caught:
        load_scenario(str(path))
    assert str(caught.value) == f"world: expected the name of a world, one of {', '.join(world_names())}"


def test_a_world_that_is_not_installed(tmp_path: Path) -> None:
    """The name is looked up only among installed worlds."""
    path = tmp_path / "bad.toml"
    path.write_text("world = 'pathlib'", encoding="utf-8")

    with pytest.raises(UnknownWorldError, match="no world named 'pathlib' is installed; installed: "):
        load_scenario(str(path))
