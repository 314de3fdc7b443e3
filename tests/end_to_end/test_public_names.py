"""The public interface stays: names to import, parameters, commands, options, names on tapes, exit codes.

public_names.toml lists the names. One that is missing fails; one more does not.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
import simulation_flight_recorder
from recorder.errors import RecordingError
from sim.kernel.registry import find_world

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
KNOWN = tomllib.loads(Path(__file__).with_name("public_names.toml").read_text(encoding="utf-8"))
IMPORTABLE = {**KNOWN["public"], **KNOWN["documented"]}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DECLARED = {"console_scripts": PROJECT["scripts"], **PROJECT["entry-points"]}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").glob("*.py"))]
NEEDS = {  # Importable only if the package is installed.
    "replayer.datasets": "torch",
    **{f"sim.adapters:{name}": name for name in ("gymnasium", "mesa", "mujoco", "pettingzoo")},
    "xarray.backends:tape": "xarray",
}
IMPORT = re.compile(r"^\s*from ((?:sim|recorder|replayer)[\w.]*) import ([\w, ]+)", re.MULTILINE)
MODULE = re.compile(r"^\s*import ((?:sim|recorder|replayer)\b[\w., ]*)", re.MULTILINE)
GOLDEN_SIMULATIONS = {"small_worlds.Herd", "small_worlds.Saved", "small_worlds.Walkers"}
EXIT_CODES = {"the same": 0, "differs": 1, "usage": 2, "incomplete": 3, "corrupt": 4, "no tape": 5}
# Mesa's agents are pickled, and with them these names: with others, every recorded model would have a new state hash.
NAMED_IN_MESA_STATES = {
    f"sim.adapters.mesa_graph {name}"
    for name in ("_make_array", "_make_empty", "_make_method_reference", "_make_reference", "_make_view")
}


def imported(module: str) -> Any:
    """Import the module; skip the test if a package that it needs is not installed."""
    if module in NEEDS:
        pytest.importorskip(NEEDS[module])
    return importlib.import_module(module)


def parameters(text: str) -> tuple[list[str], set[str]]:
    """Parse a list in public_names.toml: the parameters by position, in order, and all parameters with a name."""
    words = [word.strip() for word in text.split(",")]
    first_named = next((place for place, word in enumerate(words) if word.startswith("*")), len(words))
    return words[:first_named], {word for word in words if not word.startswith("*")}


@pytest.mark.parametrize("module", IMPORTABLE)
def test_names_are_imported_from_where_they_were(module: str) -> None:
    found = imported(module)
    assert [name for name in IMPORTABLE[module].split() if not hasattr(found, name)] == []


@pytest.mark.parametrize("place", KNOWN["signatures"])
def test_parameters_keep_their_names_and_places(place: str) -> None:
    """Positional parameters stay positional, named ones keep their names. Further ones may be added."""
    module, _, name = place.partition(":")
    positional, named = parameters(KNOWN["signatures"][place])
    now = inspect.signature(getattr(imported(module), name)).parameters
    by_position = [one.name for one in now.values() if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    assert by_position[: len(positional)] == positional
    assert named - set(now) == set()
    added = [
        one for one in now.values() if one.name not in named and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
    ]
    assert [one.name for one in added if one.default is one.empty] == [], "calls as they were would lack these"


@pytest.mark.parametrize("place", KNOWN["members"])
def test_classes_keep_their_members(place: str) -> None:
    module, _, name = place.partition(":")
    found = set(dir(getattr(imported(module), name)))
    assert set(KNOWN["members"][place].split()) - found == set()


@pytest.mark.parametrize("name", KNOWN["request"])
def test_arguments_of_an_extraction_keep_their_names(name: str) -> None:
    """A known argument is accepted (the missing tapes are refused next); an unknown one is a TypeError."""
    for function in (replayer.extract, replayer.samples):
        if function is replayer.samples and name in ("tables", "seed"):
            continue  # It has its own table and seed.
        with pytest.raises(RecordingError, match="no tape was given"):
            function([], **{name: KNOWN["request"][name]})
    with pytest.raises(TypeError):
        replayer.extract([], **{f"{name}_of_nothing": None})


def test_the_methods_of_agents_keep_their_names_and_arguments(tmp_path: Path) -> None:
    """Each is called by this name, with this number of arguments."""
    results = {"agent_names": ["one"], "agent_observation": 0.5, "agent_actions": {"one": 1}, "agent_reward": 2.0}
    called: dict[str, int] = {}

    def method(name: str) -> Any:
        def ask(_: Any, *given: Any) -> Any:
            called[name] = len(given)
            return results[name]

        return ask

    acting = type(
        "Acting", (importlib.import_module("small_worlds").Walkers,), {name: method(name) for name in results}
    )
    with recorder.Recorder(tmp_path / "run.tape", acting(), durability="none") as tape:
        tape.step([])
    rows = replayer.extract(tmp_path / "run.tape", world=acting).table("transitions").to_arrow().to_pylist()
    assert [(row["agent"], row["obs"], row["action"], row["reward"]) for row in rows] == [("one", 0.5, 1, 2.0)]
    assert called == KNOWN["agent_methods"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_the_pages_import_is_listed(page: Path) -> None:
    """Every name that a page shows is pinned here."""
    text = page.read_text(encoding="utf-8")
    for module, names in IMPORT.findall(text):
        listed = IMPORTABLE.get(module, "").split()
        assert [name for name in re.split(r"[\s,]+", names.partition("#")[0]) if name and name not in listed] == []
    for modules in MODULE.findall(text):
        for module in re.split(r"[\s,]+", modules.strip()):
            assert module in IMPORTABLE


def test_the_pages_import_something() -> None:
    """Otherwise the test above would pass on an empty list."""
    found = {module for page in PAGES for module, _ in IMPORT.findall(page.read_text(encoding="utf-8"))}
    assert len(found) > 10


def help_text(program: str, *words: str) -> str:
    """Return the help of a command as the console script prints it, in wide lines."""
    printed = io.StringIO()
    before, sys.argv = sys.argv, [program, *words, "--help"]
    try:
        with contextlib.redirect_stdout(printed), pytest.raises(SystemExit) as caught:
            getattr(simulation_flight_recorder, program)()
    finally:
        sys.argv = before
    assert caught.value.code == 0
    return printed.getvalue()


@pytest.mark.parametrize(
    ("program", "command"),
    [(program, command) for program in KNOWN["commands"] for command in KNOWN["commands"][program]],
)
def test_commands_keep_their_options(program: str, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = help_text(program, command)
    assert text.startswith(f"Usage: {program} {command}")
    rows = re.findall(r"^│ [* ]? *((?:--?[a-z][a-z0-9-]*,? ?)+)", text, re.MULTILINE)
    found = {option for row in rows for option in re.findall(r"--?[a-z][a-z0-9-]*", row)}
    assert set(KNOWN["commands"][program][command].split()) - found == set()


@pytest.mark.parametrize("group", KNOWN["entry_points"])
def test_entry_points_are_declared_and_lead_somewhere(group: str) -> None:
    """Those of packages that are not installed lead at least to a module that exists."""
    assert set(KNOWN["entry_points"][group].split()) - set(DECLARED[group]) == set()
    for name, place in DECLARED[group].items():
        module, _, attribute = place.partition(":")
        needed = NEEDS.get(f"{group}:{name}")
        if needed is not None and importlib.util.find_spec(needed) is None:
            assert (ROOT / "src" / module.replace(".", "/")).with_suffix(".py").is_file()
            continue
        found = getattr(importlib.import_module(module), attribute)
        assert callable(found) or found.name == name


def test_simulations_named_by_golden_tapes_are_where_the_tapes_say() -> None:
    """META names module and class; recorded now, the simulation has the same name, and no tape names an adapter."""
    named = set()
    for path in sorted(GOLDEN.glob("*/*.tape")):
        with replayer.Tape(path) as tape:
            named.add(tape.meta["simulation"])
            assert (tape.meta.get("world"), tape.meta.get("adapter")) == (None, None)
    assert named == GOLDEN_SIMULATIONS
    for name in named:
        module, _, kind = name.rpartition(".")
        found = getattr(importlib.import_module(module), kind)
        assert f"{found.__module__}.{found.__qualname__}" == name


@pytest.mark.parametrize("name", KNOWN["entry_points"]["sim.worlds"].split())
def test_tapes_refer_to_worlds_by_name(name: str, tmp_path: Path) -> None:
    """A tape is replayed by the world's name and configuration; the class in META can be imported."""
    world = find_world(name)
    scenario = min(one.name for one in Path(str(world.scenarios)).glob("*.toml")).removesuffix(".toml")
    before, sys.argv = sys.argv, ["record", "run", scenario, "--ticks", "1", "-o", str(tmp_path / "run.tape"), "-q"]
    try:
        with pytest.raises(SystemExit):
            simulation_flight_recorder.record()
    finally:
        sys.argv = before
    with replayer.Tape(tmp_path / "run.tape") as tape:
        assert tape.meta["world"].keys() >= {"name", "version", "config"}
        assert tape.meta["world"]["name"] == name
        module, _, kind = tape.meta["simulation"].rpartition(".")
    assert hasattr(importlib.import_module(module), kind)


class Rock:
    """A rock that rolls as far as it is pushed."""

    def __init__(self) -> None:
        self.x = 0

    def step(self, inputs: int) -> None:
        self.x += inputs


def rock() -> Any:
    from sim.adapters import fields

    return Rock(), fields("x")


def cart_pole() -> Any:
    return (pytest.importorskip("gymnasium").make("CartPole-v1"),)


def game() -> Any:
    pytest.importorskip("pettingzoo")
    return (pytest.importorskip("pettingzoo.classic.tictactoe.tictactoe").env(),)


def ball() -> Any:
    mujoco = pytest.importorskip("mujoco")
    text = '<mujoco><worldbody><body><freejoint/><geom type="sphere" size="1"/></body></worldbody></mujoco>'
    return (mujoco.MjData(mujoco.MjModel.from_xml_string(text)),)


@pytest.mark.parametrize(
    ("name", "make", "simulation"),
    [
        ("plain_object", rock, f"{__name__}.Rock"),
        ("gymnasium", cart_pole, "gymnasium.envs.classic_control.cartpole.CartPoleEnv"),
        ("pettingzoo", game, "pettingzoo.classic.tictactoe.tictactoe.raw_env"),
        ("mujoco", ball, "mujoco.MjData"),
    ],
)
def test_tapes_refer_to_adapters_by_name(name: str, make: Any, simulation: str, tmp_path: Path) -> None:
    """A replay finds the adapter by name; the states name no module of ours, which can therefore move."""
    thing, *what = make()
    subject = recorder.record(thing, tmp_path / "run.tape", *what, quiet=True)
    if name == "plain_object":
        subject.step(1)
    else:
        subject.reset()
    subject.tape.close()
    with replayer.Tape(tmp_path / "run.tape") as tape:
        assert (tape.meta["adapter"]["name"], tape.meta["simulation"]) == (name, simulation)
        arenas = b"".join(tape.snapshot(place).arena.tobytes() for place in tape.keyframes)
    assert re.findall(rb"(?:sim|recorder|replayer)\.[a-z_]+\.?[a-z_]*", arenas) == []


def test_states_of_mesa_models_name_the_functions_that_they_always_did(tmp_path: Path) -> None:
    """With other names no recorded model could be loaded, and each would be called a desync."""
    pytest.importorskip("mesa")
    from mesa.examples.advanced.wolf_sheep.model import WolfSheep
    from mesa.experimental.devs import ABMSimulator

    with recorder.record(
        WolfSheep(simulator=ABMSimulator(), seed=3), tmp_path / "wolf.tape", trust=True, quiet=True
    ) as model:
        model.step()
    with replayer.Tape(tmp_path / "wolf.tape") as tape:
        arenas = b"".join(tape.snapshot(place).arena.tobytes() for place in tape.keyframes)
    assert set(re.findall(rb"(?:sim|recorder|replayer)\.[a-z_.]+", arenas)) == {b"sim.adapters.mesa_graph"}
    for one in NAMED_IN_MESA_STATES:
        module, name = one.split()
        assert callable(getattr(importlib.import_module(module), name))


def strays() -> Any:
    """As the golden tapes' walkers, but one of them steps aside once."""
    walkers: Any = importlib.import_module("small_worlds").Walkers()
    step = walkers.step

    def stray(inputs: Any) -> None:
        step(inputs)
        walkers.state["x"][0] += 1

    walkers.step = stray
    return walkers


@pytest.mark.parametrize("meaning", EXIT_CODES)
def test_exit_codes_mean_what_they_did(meaning: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the README lists them; test_exit_codes.py tests that the worst finding wins."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    monkeypatch.chdir(tmp_path)
    tapes = GOLDEN / "0.2"
    flipped = bytearray((tapes / "walkers.tape").read_bytes())
    flipped[len(flipped) // 2] ^= 1
    Path("corrupt.tape").write_bytes(flipped)
    Path("no.tape").write_text("not a tape")
    for name in ("torn.tape", "walkers.tape"):  # A desync leaves a dump next to its tape.
        shutil.copy(tapes / name, name)
    line = {
        "the same": ["verify", "walkers.tape", "--sim", "small_worlds:Walkers"],
        "differs": ["verify", "walkers.tape", "--sim", f"{Path(__file__).stem}:strays"],
        "usage": ["info", "--no-such-option"],
        "incomplete": ["info", "torn.tape"],
        "corrupt": ["info", "corrupt.tape"],
        "no tape": ["info", "no.tape"],
    }[meaning]
    monkeypatch.setattr(sys, "argv", ["replay", *line])
    with pytest.raises(SystemExit) as caught:
        simulation_flight_recorder.replay()
    assert caught.value.code == EXIT_CODES[meaning]


def test_the_importer_leaves_other_files_to_other_importers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the exit code that the Rerun viewer knows."""
    (tmp_path / "note.txt").write_text("not a tape")
    monkeypatch.setattr(sys, "argv", ["rerun-importer-tape", str(tmp_path / "note.txt")])
    with pytest.raises(SystemExit) as caught:
        simulation_flight_recorder.rerun_importer()
    assert caught.value.code == 66


def test_the_readme_lists_the_exit_codes() -> None:
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    listed = re.search(r"Exit codes: 0 [\w ]+, 1 [^0-9]+, 2 usage, 3 incomplete, 4 corrupt, 5 [\w ]+\.", text)
    assert listed is not None
