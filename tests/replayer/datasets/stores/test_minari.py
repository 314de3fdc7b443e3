"""A Minari data set has an episode for each run and agent, with the live run's observations, actions and rewards."""

from __future__ import annotations

import itertools
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional_packages import lazily, needs

import replayer
from recorder import Recorder
from replayer.commands.main import main
from replayer.datasets import plan
from replayer.datasets.dataset import DatasetError
from replayer.datasets.parts import worker as work
from replayer.datasets.request import ExtractionError
from sim import Field, RandomStream, Schema, State
from sim.extras import missing_package

from oracle.command_lines import assert_one_line, files, run
from oracle.live_runs import Live, look_at, splitting_seed
from small_worlds import Herd, Kinds

minari = lazily("minari")
needs("h5py", "PIL")

HERE = Path(__file__).stem
TICKS = 30
AGENTS = ("red", "blue")
ASKED = {"observations": f"{HERE}:view", "actions": f"{HERE}:pull", "rewards": f"{HERE}:gain", "agents": AGENTS}


class Duel:
    """Two agents pull; there is a photo large enough that Minari would make it a JPEG."""

    def __init__(self, seed: int = 0) -> None:
        self.state = State(
            Schema(
                Field("place", "i4", (2,)),
                Field("photo", "u1", (32, 40)),
                Field("near", "?", (2, 3)),
                Field("share", "f4"),
                Field("rng", "u8", (4,)),
            )
        )
        RandomStream.seed(self.state["rng"], seed)

    def step(self, inputs: Any) -> None:
        state = self.state
        state["place"][:] += (inputs["red"], inputs["blue"])
        drawn = RandomStream(state["rng"]).integers(0, 256, 32 * 40).reshape(32, 40)
        state["photo"][:] = drawn
        state["near"][:] = drawn[:2, :3] % 2
        state["share"][...] = drawn[0, 0] / 7


class Strays(Duel):
    """Diverges from tick 20 up to the next keyframe."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if self.state["place"][0] == 20:
            self.state["share"][...] = -1
            RandomStream.seed(self.state["rng"], 99)


def view(state: Any, agent: str) -> dict[str, Any]:
    side = AGENTS.index(agent)
    return {"own": state["place"][side], "photo": state["photo"], "near": state["near"], "share": state["share"]}


def pull(inputs: int) -> dict[str, Any]:
    return {"strength": np.int8(inputs), "is_strong": inputs > 3}


def gain(before: Any, after: Any, agent: str) -> float:
    side = AGENTS.index(agent)
    return float(after["place"][side] - before["place"][side]) / 3


def inputs_at(tick: int) -> dict[str, int]:
    return {"red": 1, "blue": tick % 7}


def recorded(path: Path, seed: int, outcome: Any = None, ticks: int = TICKS, **settings: Any) -> Live:
    with Recorder(path, Duel(seed), keyframe_interval_ticks=8, **settings) as tape:
        live = {0: look_at(tape.simulation.state)}
        for tick in range(ticks):
            tape.step(inputs_at(tick))
            live[tick + 1] = look_at(tape.simulation.state)
        tape.close(outcome)
    return live


@pytest.fixture(scope="module")
def runs(tmp_path_factory: Any) -> list[tuple[Path, Live]]:
    folder = tmp_path_factory.mktemp("runs")
    outcomes = (None, {"reason": "fell"}, {"reason": "ticks"})
    paths = [folder / f"{name}.tape" for name in "abc"]
    return [
        (path, recorded(path, seed, outcome)) for seed, (path, outcome) in enumerate(zip(paths, outcomes, strict=True))
    ]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: Any) -> None:
    """A small batch size, so that episodes consist of many pieces."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    monkeypatch.setattr(plan, "PART_TICKS", 16)
    monkeypatch.setattr(work, "BUFFER_BYTES", 20_000)


def extracted(runs: Any, output: Path, **wanted: Any) -> Any:
    asked = {"world": Duel, "tables": "pairs", **ASKED} | wanted
    return replayer.extract([path for path, _ in runs], output, file_format="minari", **asked)


def load(folder: Path, identity: str, monkeypatch: Any) -> Any:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    return minari.load_dataset(identity)


def assert_episode(episode: Any, live: Live, agent: str, ticks: list[int]) -> None:
    """Check T actions and T + 1 observations of these ticks."""
    side = AGENTS.index(agent)
    states = [live[tick][2] for tick in ticks]
    expected = {
        "own": np.array([state["place"][side] for state in states]),
        "photo": np.array([state["photo"] for state in states]),
        "near": np.array([state["near"] for state in states]),
        "share": np.array([state["share"] for state in states]),
    }
    assert episode.observations.keys() == expected.keys()
    for name, values in expected.items():
        assert episode.observations[name].dtype == values.dtype
        assert np.array_equal(episode.observations[name], values)
    gained = np.diff(expected["own"]) / 3
    assert episode.rewards.tolist() == gained.tolist()
    assert episode.infos["tick"].tolist() == ticks
    assert len(episode) == len(ticks) - 1


@pytest.mark.seldom(0.15)
def test_episodes_are_the_live_runs(runs: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """One episode for each run and agent, terminated if the world ended the run, else truncated."""
    made = extracted(runs, tmp_path / "duel")
    replayer.Dataset(made.path).verify()
    data = load(made.path, "duel-v0", monkeypatch)
    assert (data.total_episodes, data.total_steps) == (6, 6 * TICKS)
    abouts = list(data.storage.get_episode_metadata(range(6)))
    for number, episode in enumerate(data):
        (path, live), agent = runs[number // 2], AGENTS[number % 2]
        assert_episode(episode, live, agent, list(range(TICKS + 1)))
        sent = [inputs_at(tick)[agent] for tick in range(TICKS)]
        assert (episode.actions["strength"].tolist(), episode.actions["strength"].dtype) == (sent, np.int8)
        assert episode.actions["is_strong"].tolist() == [one > 3 for one in sent]
        is_end = path.name == "b.tape"
        assert episode.terminations.tolist() == [False] * (TICKS - 1) + [is_end]
        assert episode.truncations.tolist() == [False] * (TICKS - 1) + [not is_end]
        about = abouts[number]
        assert (about["tape"], about["agent"], about["total_steps"]) == (path.name, agent, TICKS)
        assert (about["run"], about["reason"]) == (run_of(path), ("closed", "fell", "ticks")[number // 2])
        for step in range(TICKS):
            for space, values in (
                (data.observation_space, episode.observations),
                (data.action_space, episode.actions),
            ):
                assert space.contains({name: np.asarray(value[step]) for name, value in values.items()})


def run_of(path: Path) -> str:
    with replayer.Tape(path) as tape:
        assert tape.run_id is not None
        return tape.run_id


def test_spaces_are_all_that_the_dtypes_hold(runs: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """The limits of a world's values are unknown: spaces hold exactly the values of the dtype."""
    made = extracted(runs[:1], tmp_path / "duel-v3", rewards=f"{HERE}:gain")
    spaces = load(made.path, "duel-v3", monkeypatch).observation_space.spaces
    shown = {name: str(space) for name, space in spaces.items()}
    assert shown == {
        "near": "Box(False, True, (2, 3), bool)",
        "own": "Box(-2147483648, 2147483647, (), int32)",
        "photo": "Box(0, 255, (32, 40), uint8)",
        "share": "Box(-inf, inf, (), float32)",
    }
    extracted(runs[:1], tmp_path / "one", observations=(), fields="place", actions=(f"{HERE}:alone",))
    alone = load(tmp_path / "one", "one-v0", monkeypatch)
    assert str(alone.observation_space) == "Box(-2147483648, 2147483647, (2,), int32)"
    assert str(alone.action_space) == "Box(-9223372036854775808, 9223372036854775807, (1,), int64)"
    assert alone[1].actions.tolist() == [[inputs_at(tick)["blue"]] for tick in range(TICKS)]


def alone(inputs: int) -> Any:
    return np.array([inputs])


@pytest.mark.parametrize(
    ("ranges", "stride", "ticks"),
    [
        (((5, 25),), 1, list(range(5, 26))),
        (((5, 25),), 4, [5, 9, 13, 17, 21, 25]),
        ((), 7, [0, 7, 14, 21, 28, 30]),
        (((29, 30),), 1, [29, 30]),
    ],
)
def test_ranges_and_strides(
    runs: Any, tmp_path: Path, monkeypatch: Any, ranges: Any, stride: int, ticks: list[int]
) -> None:
    """An episode that ends before its run is truncated; actions of several ticks are stacked."""
    made = extracted(runs[:1], tmp_path / "duel", ranges=ranges, stride=stride)
    data = load(made.path, "duel-v0", monkeypatch)
    for episode, agent in zip(data, AGENTS, strict=True):
        assert_episode(episode, runs[0][1], agent, ticks)
        assert episode.truncations.tolist() == [False] * (len(ticks) - 2) + [True]
        assert not episode.terminations.any()
        sent = np.zeros((len(ticks) - 1, stride), np.int8)
        for place, (begin, end) in enumerate(itertools.pairwise(ticks)):
            sent[place, : end - begin] = [inputs_at(tick)[agent] for tick in range(begin, end)]
        assert np.array_equal(episode.actions["strength"], sent if stride > 1 else sent[:, 0])


@pytest.mark.seldom(0.15)
def test_splits_are_data_sets_of_their_own(runs: Any, tmp_path: Path, monkeypatch: Any) -> None:
    splits = (("train", 0.67), ("test", 0.33))
    seed = splitting_seed([path for path, _ in runs], splits, 2, 1)
    made = extracted(runs, tmp_path / "my duel.1", splits=splits, seed=seed)
    found = {}
    for split, count in (("train", 4), ("test", 2)):
        data = load(made.path, f"my-duel-1-{split}-v0", monkeypatch)
        assert data.total_episodes == count
        found[split] = {about["run"] for about in data.storage.get_episode_metadata(range(count))}
    assert found["train"] | found["test"] == {run_of(path) for path, _ in runs}
    assert not found["train"] & found["test"]
    assert set(minari.list_local_datasets()) == {"my-duel-1-train-v0", "my-duel-1-test-v0"}
    assert made.manifest["tables"]["pairs"]["datasets"] == ["my-duel-1-train-v0", "my-duel-1-test-v0"]


@pytest.mark.seldom(0.15)
def test_the_bytes_are_the_same_for_any_number_of_jobs(runs: Any, tmp_path: Path) -> None:
    found = []
    for jobs in (1, 2):
        extracted(runs, tmp_path / str(jobs) / "duel", jobs=jobs)
        found.append(files(tmp_path / str(jobs)))
    assert found[0] == found[1]
    assert set(found[0]) == {f"duel/{name}" for name in ("manifest.json", *WITHIN)}


WITHIN = ("duel-v0/data/main_data.hdf5", "duel-v0/data/metadata.json")


@pytest.mark.seldom(0.15)
def test_who_made_it_is_what_the_tapes_say(tmp_path: Path, monkeypatch: Any) -> None:
    """Metadata have the notes of the tapes and the players' policies; unknown entries are left out."""
    people = {"author": "Ada", "author_email": "ada@example.org", "code_permalink": "https://example.org/duel"}
    players = {"red": "greedy", "blue": "random", "green": "idle"}
    tapes = [tmp_path / "a.tape", tmp_path / "b.tape", tmp_path / "c.tape"]
    recorded(tapes[0], 0, ticks=9, notes=people | {"players": players})
    recorded(tapes[1], 1, ticks=9, notes={"author": "Bob", "players": {"red": "idle"}})
    recorded(tapes[2], 2, ticks=9)
    extracted([(tape, None) for tape in tapes], tmp_path / "duel")
    metadata = load(tmp_path / "duel", "duel-v0", monkeypatch).storage.metadata
    assert metadata["author"] == {"Ada, Bob"}
    assert metadata["author_email"] == {"ada@example.org"}
    assert metadata["code_permalink"] == "https://example.org/duel"
    assert metadata["algorithm_name"] == "red=greedy, blue=random, red=idle"
    assert metadata["description"] == (
        "Recordings of the user's own simulation: 6 episodes of 3 runs, one for each run and agent. The reward is gain."
    )
    assert (metadata["minari_version"], metadata["jpeg_encoding"]) == (version("minari"), False)
    extracted([(tapes[2], None)], tmp_path / "unknown")
    metadata = load(tmp_path / "unknown", "unknown-v0", monkeypatch).storage.metadata
    assert not metadata.keys() & {"author", "author_email", "code_permalink", "algorithm_name", "eval_env_spec"}


def test_an_episode_with_a_gap_is_refused(runs: Any, tmp_path: Path) -> None:
    """The message names the ticks, and the fix that it suggests works."""
    with pytest.raises(ExtractionError) as caught:
        extracted(runs[:1], tmp_path / "duel", world=Strays)
    assert str(caught.value) == (
        f"{runs[0][0]}, agent red: the pairs from tick 19 to 24 are missing, and an episode of Minari must not have gaps: "
        "give --ticks without them, or use parquet"
    )
    assert not (tmp_path / "duel").exists()
    extracted(runs[:1], tmp_path / "before", world=Strays, ranges=((0, 19),))


def short(state: Any) -> Any:
    return np.flatnonzero(state["near"][0])


@pytest.mark.seldom(0.15)
def test_mistakes_get_one_line(runs: Any, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    start = f"extract {runs[0][0]} -o {tmp_path}/duel --format minari -j 1 --sim {HERE}:Duel"
    view, gain = f"--observe {HERE}:view", f"--reward {HERE}:gain"
    pull, agents = f"--action {HERE}:pull", "--agent red --agent blue"
    for rest, text in (
        (f"--table states {view}", "are columns of the table pairs: add it to the tables"),
        ("--table states", "Minari holds only pairs or transitions, not the table states"),
        (
            f"--table pairs --table events {view} {gain} {pull} {agents}",
            "Minari holds only pairs or transitions, not the table events",
        ),
        (f"{view} {pull} {agents}", "Minari holds one reward per step: expected one reward, got none"),
        (f"{view} {pull} {agents} {gain} --reward {HERE}:view", f"expected one reward, got {HERE}:gain, {HERE}:view"),
        (f"{view} {gain} {agents}", "Minari needs actions: give an encoding, since the inputs are not numbers"),
        (f"{view} {gain} {agents} {pull} --mode inputs", "which only pairs with inputs would cause"),
        (
            f"{view} {gain} {agents} {pull} --ticks 1..5 --ticks 9..12",
            "which several ranges of ticks would cause",
        ),
        (
            f"--observe {HERE}:short --list short {gain} {agents} {pull}",
            "Minari holds arrays of one shape, and obs.short is a list of any length (table pairs)",
        ),
    ):
        assert run(main, f"{start} {rest}") == 2
        assert_one_line(capsys.readouterr(), text)
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert run(main, f"{start} {view} {gain} {agents} {pull}") == 2
    assert_one_line(capsys.readouterr(), missing_package("the format minari", "h5py", "minari"))


def test_lists_of_a_world_are_refused(tmp_path: Path) -> None:
    with Recorder(tmp_path / "herd.tape", Herd()) as tape:
        for _ in range(5):
            tape.step(3)
    with pytest.raises(ExtractionError, match=r"arrays of one shape, and obs.animals.age is a list of any length"):
        replayer.extract(
            tmp_path / "herd.tape", tmp_path / "set", world=Herd, tables="pairs", fields="animals.age",
            rewards=f"{HERE}:nothing", file_format="minari",
        )  # fmt: skip


def nothing(_before: Any, _after: Any) -> float:
    return 0.0


def test_numbers_are_actions_as_they_are(tmp_path: Path, monkeypatch: Any) -> None:
    """The command prints how to open the data set."""
    with Recorder(tmp_path / "run.tape", Kinds()) as tape:
        for tick in range(5):
            tape.step(tick)
    made = replayer.extract(
        tmp_path / "run.tape", tmp_path / "set", world=Kinds, tables="pairs", fields=("half", "wide"),
        rewards=f"{HERE}:nothing", file_format="minari",
    )  # fmt: skip
    data = load(made.path, "set-v0", monkeypatch)
    assert data[0].actions.tolist() == [0, 1, 2, 3, 4]
    assert data[0].observations["wide"].tolist() == [0, *((1 << 63) + tick for tick in range(5))]
    assert data[0].observations["half"].dtype == np.float16


def test_others_read_it(runs: Any, tmp_path: Path, capsys: Any) -> None:
    line = f"extract {runs[0][0]} -o '{tmp_path}/my duel' --format minari -j 1 --sim {HERE}:Duel --observe {HERE}:view"
    assert run(main, f"{line} --reward {HERE}:gain --action {HERE}:pull --agent red") == 0
    assert (
        f"MINARI_DATASETS_PATH='{tmp_path}/my duel' python -c \"import minari; print(minari.load_dataset('my-duel-v0')"
        in (capsys.readouterr().out)
    )
    data = replayer.Dataset(tmp_path / "my duel")
    with pytest.raises(ExtractionError, match=r"of format minari: open it with minari\.load_dataset$"):
        data.table("pairs")
    path = tmp_path / "my duel/my-duel-v0/data/main_data.hdf5"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(DatasetError, match=rf"^{path} has [\d,]+ bytes, expected [\d,]+ as in the manifest"):
        data.verify()
