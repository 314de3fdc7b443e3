"""The public environments of the campaign environments.py: how each is made, and what did not install."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import attrs

Kind = str  # "gymnasium", "parallel", "aec" (agents in turn) or "mesa"
# What a collector has gathered is output. Events are numbered by a counter that all models of a process share.
_MESA_SKIPPED = frozenset({"datacollector", "WolfSheep.simulator"})
_CHECKED = frozenset({"_has_updated"})  # A check of the caller's loop, and no state.


# What Gymnasium's checker notes of its own checks: no step's result depends on it, and the recorder leaves it out.
_CHECKER = ("checked_reset", "checked_step", "checked_data_reuse", "_previous_data", "checked_render", "close_called")
UNREAD = frozenset(f"PassiveEnvChecker.{name}" for name in _CHECKER) | {
    "OrderEnforcing._disable_render_order_enforcing"
}


@attrs.frozen
class Entry:
    """One environment.

    Attributes:
        name: unique, for --only.
        kind: the interface by which it is played.
        package: the module that has to be installed.
        make: makes a fresh one.
        steps_max: the most steps of a run, for environments with slow steps or very many values.
        skipped: attributes that the walk leaves out, "Class.name" or "name": what differs between two equal runs.
    """

    name: str
    kind: Kind
    package: str
    make: Callable[[], Any]
    skipped: frozenset[str] = frozenset()
    steps_max: int = 100_000

    @property
    def is_installed(self) -> bool:
        """True if its package is installed."""
        return importlib.util.find_spec(self.package) is not None


def _gymnasium(
    *names: str,
    package: str = "gymnasium",
    skipped: frozenset[str] = frozenset(),
    steps_max: int = 100_000,
    **arguments: Any,
) -> list[Entry]:
    def maker(name: str) -> Callable[[], Any]:
        def make() -> Any:
            import gymnasium  # noqa: PLC0415 - the list can be read without it

            # Packages that were imported, but not registered, have no names in Gymnasium's registry.
            module = importlib.import_module(package)
            if package != "gymnasium" and not any(name == key for key in gymnasium.registry):
                gymnasium.register_envs(module)
            return gymnasium.make(name, **arguments)

        return make

    return [Entry(name, "gymnasium", package.partition(".")[0], maker(name), skipped, steps_max) for name in names]


def _pettingzoo(*modules: str) -> list[Entry]:
    """The entries of modules, each "folder.module", or "folder.module:parallel"."""

    def entry(path: str, kind: Kind) -> Entry:
        def make() -> Any:
            module = importlib.import_module(f"pettingzoo.{path}")
            return module.env() if kind == "aec" else module.parallel_env()

        name = path.replace(".", "/") + ("" if kind == "aec" else f":{kind}")
        return Entry(name, kind, "pettingzoo", make, _CHECKED)

    return [entry(path, kind or "aec") for path, _, kind in (module.partition(":") for module in modules)]


def _mesa(**models: dict[str, int]) -> list[Entry]:
    """The entries of Mesa's examples: by class, the arguments. Most are made smaller than usual."""

    def entry(name: str, arguments: dict[str, Any]) -> Entry:
        def make() -> Any:
            more = {"seed": 5}
            if name == "WolfSheep":
                more["simulator"] = importlib.import_module("mesa.experimental.devs").ABMSimulator()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                module = importlib.import_module(f"mesa.examples.{_MESA_MODULES[name]}.model")
                return getattr(module, name)(**arguments, **more)

        return Entry(
            f"mesa/{name}", "mesa", "mesa", make, _MESA_SKIPPED, steps_max=12 if name == "SugarscapeG1mt" else 40
        )

    return [entry(name, arguments) for name, arguments in models.items()]


_MESA_MODULES = {
    "BoltzmannWealth": "basic.boltzmann_wealth_model",
    "Schelling": "basic.schelling",
    "ConwaysGameOfLife": "basic.conways_game_of_life",
    "VirusOnNetwork": "basic.virus_on_network",
    "BoidFlockers": "basic.boid_flockers",
    "WolfSheep": "advanced.wolf_sheep",
    "SugarscapeG1mt": "advanced.sugarscape_g1mt",
    "PdGrid": "advanced.pd_grid",
    "EpsteinCivilViolence": "advanced.epstein_civil_violence",
}


def _new_world() -> Any:
    """BipedalWalker with a new world for each episode: its own outlives a reset."""
    import gymnasium  # noqa: PLC0415 - the list can be read without it

    box2d = importlib.import_module("Box2D")

    class NewWorld(gymnasium.Wrapper[Any, Any, Any, Any]):
        def reset(self, **arguments: Any) -> Any:
            inner: Any = self.env.unwrapped
            inner._destroy()  # noqa: SLF001 - as docs/adapt.md shows it
            inner.world = box2d.b2World()
            return self.env.reset(**arguments)

    return NewWorld(gymnasium.make("BipedalWalker-v3"))


def _battle() -> Any:
    """MAgent's battle on a small map; its game is an object of C++."""
    return importlib.import_module("magent2.environments.battle_v4").parallel_env(map_size=16, max_cycles=60)


def _open_spiel(game: str) -> Entry:
    def make() -> Any:
        pyspiel: Any = importlib.import_module("pyspiel")
        return importlib.import_module("shimmy").OpenSpielCompatibilityV0(pyspiel.load_game(game))

    return Entry(f"open_spiel/{game}", "aec", "pyspiel", make)


ENTRIES: tuple[Entry, ...] = (
    *_gymnasium("FrozenLake-v1", "Taxi-v4", "Blackjack-v1", "CliffWalking-v1"),
    *_gymnasium("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"),
    *_gymnasium("LunarLander-v3", "CarRacing-v3", package="Box2D"),
    Entry("BipedalWalker-v3 (new world)", "gymnasium", "Box2D", _new_world),
    *_gymnasium("HalfCheetah-v5", "Ant-v5", "Humanoid-v5", "Hopper-v5", "Walker2d-v5", "Swimmer-v5", "Reacher-v5"),
    *_gymnasium("Pusher-v5", "InvertedPendulum-v5", "InvertedDoublePendulum-v5", "HumanoidStandup-v5"),
    *_gymnasium(
        "MiniGrid-Empty-5x5-v0",
        "MiniGrid-DoorKey-5x5-v0",
        "MiniGrid-FourRooms-v0",
        "MiniGrid-Dynamic-Obstacles-Random-6x6-v0",
        "MiniGrid-KeyCorridorS3R1-v0",
        "MiniGrid-MultiRoom-N2-S4-v0",
        "MiniGrid-LavaCrossingS9N1-v0",
        "MiniGrid-MemoryS7-v0",
        "MiniGrid-Fetch-5x5-N2-v0",
        "MiniGrid-PutNear-6x6-N2-v0",
        "MiniGrid-ObstructedMaze-1Dl-v0",
        "BabyAI-GoToLocal-v0",
        "BabyAI-PickupLoc-v0",
        package="minigrid",
    ),
    *_gymnasium(
        "highway-v0",
        "merge-v0",
        "roundabout-v0",
        "parking-v0",
        "intersection-v1",
        package="highway_env",
        steps_max=60,
        config={"simulation_frequency": 5, "vehicles_count": 8},  # Less than usual: a step takes 100 ms otherwise.
    ),
    *_gymnasium("ALE/Breakout-v5", "ALE/Pong-v5", package="ale_py"),
    *_gymnasium(
        "PointMaze_UMaze-v3", package="gymnasium_robotics", skipped=frozenset({"tmp_xml_file_path", "fullpath"})
    ),
    *_gymnasium("AdroitHandDoor-v1", package="gymnasium_robotics"),
    *_gymnasium("deep-sea-treasure-v0", "minecart-v0", "resource-gathering-v0", package="mo_gymnasium"),
    *_gymnasium("FlappyBird-v0", package="flappy_bird_gymnasium", use_lidar=False),
    *_gymnasium("VizdoomBasic-v1", package="vizdoom.gymnasium_wrapper"),
    *_gymnasium(
        "HopperBulletEnv-v0",
        package="pybullet_envs_gymnasium",
        skipped=frozenset({"_client", "physicsClientId", "_pid"}),  # The numbers of a connection and of a process.
    ),
    *_gymnasium("gymnasium_2048/TwentyFortyEight-v0", package="gymnasium_2048"),
    *_gymnasium("tetris_gymnasium/Tetris", package="tetris_gymnasium.envs.tetris"),
    *_gymnasium("Foraging-8x8-2p-3f-v3", package="lbforaging"),
    *_gymnasium("rware-tiny-2ag-v2", package="rware"),
    *_gymnasium("popgym-ConcentrationEasy-v0", "popgym-MineSweeperEasy-v0", package="popgym"),
    Entry("magent2/battle_v4:parallel", "parallel", "magent2", _battle, _CHECKED),
    *_pettingzoo(
        "classic.tictactoe_v3",
        "classic.connect_four_v3",
        "classic.chess_v6",
        "classic.go_v5",
        "classic.hanabi_v5",
        "classic.leduc_holdem_v4",
        "classic.texas_holdem_v4",
        "classic.rps_v2",
        "classic.rps_v2:parallel",
        "butterfly.pistonball_v6:parallel",
        "butterfly.cooperative_pong_v6:parallel",
        "butterfly.knights_archers_zombies_v11",
        "butterfly.knights_archers_zombies_v11:parallel",
        "sisl.multiwalker_v9:parallel",
        "sisl.pursuit_v5:parallel",
    ),
    _open_spiel("tic_tac_toe"),
    _open_spiel("kuhn_poker"),
    *_mesa(
        BoltzmannWealth={"n": 40},
        Schelling={"width": 10, "height": 10},
        ConwaysGameOfLife={"width": 12, "height": 12},
        VirusOnNetwork={},
        BoidFlockers={},
        WolfSheep={"width": 10, "height": 10, "initial_sheep": 30, "initial_wolves": 10},
        SugarscapeG1mt={"initial_population": 30},
        PdGrid={"width": 10, "height": 10},
        EpsteinCivilViolence={"width": 12, "height": 12},
    ),
)

# Tried with Python 3.11 on Linux x86-64, without a display, with the newest versions of all packages together.
NOT_INSTALLABLE = {
    "procgen": "not installable here: no wheel for Python 3.11",
    "gym-pybullet-drones": "not installable here: not on the package index",
    "babyai": "not installable here: not on the package index; its levels are in minigrid",
    "sinergym": "not installable here: needs packages from direct addresses",
    "dm_control": "does not run here: it reads arrays that MjModel no longer has in MuJoCo 4",
    "FetchReach, FrankaKitchen": "do not run here: they refuse MuJoCo 4",
    "metaworld": "does not run here: its registration fails with Gymnasium 1.4",
    "miniworld": "does not run here: it needs a display",
    "pettingzoo[atari]": "not tried: it needs the ROMs of multi-agent-ale-py",
}


def entry_of(name: str) -> Entry:
    """The entry of this name. Raises KeyError."""
    return next((entry for entry in ENTRIES if entry.name == name), None) or _unknown(name)


def _unknown(name: str) -> Entry:
    raise KeyError(f"no environment {name!r}: one of {', '.join(entry.name for entry in ENTRIES)}")
