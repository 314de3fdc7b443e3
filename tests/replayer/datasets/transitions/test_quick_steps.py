"""The quick way to transitions gives the rows of the way step by step, and no row of a state that is not as recorded."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from optional_packages import needs

import recorder
import replayer

needs("gymnasium", "pettingzoo", "pyarrow")

import gymnasium  # noqa: E402
import numpy as np  # noqa: E402
from environment_runs import REBUILT, recorded  # noqa: E402

from recorder.processes.inline_pool import InlinePool  # noqa: E402
from replayer.datasets.transitions.quick.quick_steps import QuickSteps  # noqa: E402
from replayer.tape.tape import Tape  # noqa: E402

from oracle.columns_of_values import ensure_row  # noqa: E402


class Walk(gymnasium.Env[Any, Any]):
    """Returns the same array at each step, changes its action in place, and raises for large actions."""

    observation_space = gymnasium.spaces.Box(-100, 100, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-9, 9, (2,), np.float32)
    lasting_at = passing_at = -1  # A step that moves further, or whose reward differs: another version of the code.
    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.place, self.steps = np.zeros(2), 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002 - Gymnasium passes it
        super().reset(seed=seed)
        self.place[:] = self.np_random.random(2)
        self.steps = 0
        return self.place, {}

    def step(self, action: Any) -> Any:
        if action[0] > 5:
            raise ValueError("too far")
        self.steps += 1
        self.place += action * (2 if self.steps == type(self).lasting_at else 1)
        action[:] = 0
        reward: Any = self.steps if self.steps % 3 else 0.5
        return self.place, reward + (self.steps == type(self).passing_at), False, self.steps == 37, {}


def walks(path: Path, steps: int = 200) -> list[dict[str, Any]]:
    """Record walks and return what a plain loop collects, resets with and without a seed among them."""
    random, env = (
        np.random.default_rng(4),
        recorder.record(Walk(), path, quiet=True, keyframe_interval_ticks=40, trial_ms=0),
    )
    rows: list[dict[str, Any]] = []
    is_over, episode = True, -1
    while len(rows) < steps:
        if is_over:
            episode += 1
            seen, step = env.reset(seed=None if episode % 2 else episode)[0].copy(), 0
        if len(rows) % 50 == 49:
            with pytest.raises(ValueError, match="too far"):
                env.step(np.float32([6, 0]))
        action = random.uniform(-4, 4, 2).astype(np.float32)
        before = action.copy()
        then, reward, terminated, is_over, _ = env.step(action)
        row = {"episode": episode, "step": step, "agent": "", "env": None, "seed": None if episode % 2 else episode}
        row |= {"options": None, "obs": seen, "action": before, "reward": reward, "next": then.copy()}
        rows.append(row | {"terminated": terminated, "truncated": is_over})
        seen, step = then.copy(), step + 1
    env.close()
    return rows


def extracted(path: Path, folder: Path, **wanted: Any) -> Any:
    return replayer.extract(path, folder, world=Walk, pool=InlinePool(), **wanted)


def ensure_rows(found: Any, rows: list[dict[str, Any]]) -> None:
    assert found.num_rows == len(rows)
    for row, expected in zip(found.to_pylist(), rows, strict=True):
        ensure_row(row, expected, found.schema, None)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "transitions").iterdir()}


@pytest.mark.parametrize("proof", ["ticks", "sampled"])
def test_rows_equal_those_of_a_plain_loop(proof: str, tmp_path: Path, monkeypatch: Any) -> None:
    """Although the environment overwrites what it returned and what it was given; nothing goes the slow way."""
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 60)
    rows = walks(tmp_path / "run.tape")
    monkeypatch.setattr("replayer.datasets.parts.worker.transitions_of_part", lambda *_, **__: pytest.fail("slow"))
    made = extracted(tmp_path / "run.tape", tmp_path / "set", proof=proof)

    assert made.code == 0
    assert len(made.manifest["tables"]["transitions"]["files"]) > 2
    ensure_rows(made.table("transitions").to_arrow(), rows)


QUICK = ["cart", "lake", "autoreset", "camera", "parallel", "turns", "next_step", "same_step", "disabled", "cameras"]


@pytest.mark.parametrize("proof", ["ticks", "sampled"])
@pytest.mark.parametrize("name", ["camera", "parallel", "turns", "next_step", "same_step", "disabled", "cameras"])
@pytest.mark.seldom(0.15)
def test_dicts_agents_and_vectors_go_the_quick_way(name: str, proof: str, tmp_path: Path, monkeypatch: Any) -> None:
    """Dicts of arrays that the environment writes in place, options of resets, agents, and vectors of environments."""
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 60)
    rows = recorded(name, tmp_path / "run.tape")
    monkeypatch.setattr("replayer.datasets.parts.worker.transitions_of_part", lambda *_, **__: pytest.fail("slow"))
    wanted: dict[str, Any] = {"world": REBUILT.get(name), "pool": InlinePool(), "proof": proof}
    made = replayer.extract(tmp_path / "run.tape", tmp_path / "set", **wanted)

    ensure_rows(made.table("transitions").to_arrow(), rows)


@pytest.mark.share(0.22)
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        *((name, {}) for name in [*QUICK, "guests"]),
        ("camera", {"fields": ("image", "pose.turn")}),
        ("camera", {"tables": "transitions", "ranges": ((30, 95),)}),
        ("parallel", {"agents": "player_1"}),
        ("next_step", {"tables": "transitions", "ranges": ((30, 45), (50, 60))}),
        ("turns", {"agents": "player_2"}),
        ("turns", {"ranges": ((30, 95),)}),
        ("guests", {"agents": "ann"}),
    ],
    ids=str,
)
def test_the_files_are_those_of_the_way_step_by_step(
    name: str, wanted: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    """Byte for byte, with row groups of any size, and whichever states are compared."""
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 60)
    monkeypatch.setattr("replayer.datasets.parts.worker.BUFFER_BYTES", 3000)
    recorded(name, tmp_path / "run.tape")
    settings: dict[str, Any] = {"world": REBUILT.get(name), "pool": InlinePool(), **wanted}
    for proof in ("ticks", "sampled"):
        replayer.extract(tmp_path / "run.tape", tmp_path / proof, proof=proof, **settings)
    monkeypatch.setattr(QuickSteps, "fits", lambda *_: False)
    replayer.extract(tmp_path / "run.tape", tmp_path / "slow", **settings)

    assert files_of(tmp_path / "ticks") == files_of(tmp_path / "slow")
    assert files_of(tmp_path / "sampled") == files_of(tmp_path / "slow")


def test_samples_cut_chunks_at_the_same_rows(tmp_path: Path, monkeypatch: Any) -> None:
    """So the order of a shuffled epoch, which depends on them, is that of the way step by step."""
    recorded("lake", tmp_path / "run.tape")
    wanted: dict[str, Any] = {"seed": 3, "buffer_rows": 40, "columns": ("tick",)}
    quick = [int(row["tick"]) for row in replayer.samples(tmp_path / "run.tape", **wanted)]
    monkeypatch.setattr(QuickSteps, "fits", lambda *_: False)
    assert quick == [int(row["tick"]) for row in replayer.samples(tmp_path / "run.tape", **wanted)]
    assert quick != sorted(quick)


@pytest.mark.filterwarnings("ignore::replayer.datasets.request.ExtractionWarning")
def test_a_difference_that_passes_is_noticed_where_each_state_is_compared(tmp_path: Path, monkeypatch: Any) -> None:
    """Rows up to it are there, those after it up to the next keyframe are not. Sampled proofs need not see it."""
    rows = walks(tmp_path / "run.tape")
    monkeypatch.setattr(Walk, "passing_at", 20)
    made = extracted(tmp_path / "run.tape", tmp_path / "set")

    assert made.code == 1
    found = made.table("transitions").numpy()
    assert len(found["reward"]) < len(rows)
    by_step = {(row["episode"], row["step"]): row["reward"] for row in rows}
    assert (found["episode"] == 0).sum() == 19  # The first keyframe after the difference is in the second episode.
    for episode, step, reward in zip(found["episode"], found["step"], found["reward"], strict=True):
        assert reward == by_step[int(episode), int(step)]


@pytest.mark.parametrize("proof", ["ticks", "sampled"])
@pytest.mark.filterwarnings("ignore::replayer.datasets.request.ExtractionWarning")
def test_no_row_is_of_a_state_that_differs(proof: str, tmp_path: Path, monkeypatch: Any) -> None:
    """A difference that lasts until the next state that is compared: the way step by step finds the tick."""
    rows = walks(tmp_path / "run.tape", 30)
    monkeypatch.setattr(Walk, "lasting_at", 20)
    made = extracted(tmp_path / "run.tape", tmp_path / "set", proof=proof)

    assert made.code == 1
    found = made.table("transitions").numpy()
    assert found["step"].tolist() == list(range(19))
    assert np.array_equal(found["obs"], np.array([row["obs"] for row in rows[:19]]))
    [missing] = made.manifest["missing"]
    assert "desync: the state at tick" in missing["why"]


def test_tapes_of_one_environment_share_what_is_made_for_them(tmp_path: Path, monkeypatch: Any) -> None:
    """Of six tapes one is replayed to see the columns, and one environment makes the rows of all."""
    paths = [tmp_path / f"{number}.tape" for number in range(6)]
    rows = [row for path in paths for row in walks(path, 10)]
    monkeypatch.setattr(Walk, "made", 0)
    made = extracted(paths, tmp_path / "set")  # type: ignore[arg-type]
    assert Walk.made == 2
    ensure_rows(made.table("transitions").to_arrow(), rows)


@pytest.mark.parametrize("proof", ["ticks", "sampled"])
def test_one_environment_goes_from_tape_to_tape_and_back(proof: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """Parts in a random order: each begins with a keyframe of its own tape, whichever tape the environment was at."""
    monkeypatch.setattr("replayer.datasets.stream.samples.PART_STRIDES", 20)
    paths = [tmp_path / f"{number}.tape" for number in range(3)]
    rows = {path.name: walks(path, 120) for path in paths}
    monkeypatch.setattr(Walk, "made", 0)
    wanted: dict[str, Any] = {"world": Walk, "seed": 3, "buffer_rows": 1, "proof": proof}
    found = list(replayer.samples(paths, **wanted))

    assert Walk.made == 2
    runs = {Tape(path).run_id: path.name for path in paths}
    order = [runs[row["run"]] for row in found]
    assert sum(one != other for one, other in itertools.pairwise(order)) > 6
    for name, expected in rows.items():
        mine = sorted((row for row in found if runs[row["run"]] == name), key=lambda row: int(row["tick"]))
        assert [(row["obs"].tolist(), float(row["reward"]), row["next"].tolist()) for row in mine] == [
            (row["obs"].tolist(), float(row["reward"]), row["next"].tolist()) for row in expected
        ]


@pytest.mark.filterwarnings("ignore::replayer.datasets.request.ExtractionWarning")
def test_tapes_of_other_environments_have_their_own(tmp_path: Path) -> None:
    """The same class with other arguments is another environment."""
    counts = {}
    for name, map_name in (("a", "4x4"), ("b", "8x8"), ("c", "4x4")):
        env = recorder.record(gymnasium.make("FrozenLake-v1", map_name=map_name), tmp_path / f"{name}.tape", quiet=True)
        env.reset(seed=1)
        seen = [int(env.step(action)[0]) for action in (1, 2, 1, 2)]
        env.close()
        counts[name] = seen
    found = list(replayer.samples(tmp_path, shuffle=False))
    runs = {Tape(tmp_path / f"{name}.tape").run_id: name for name in counts}
    by_name: dict[str, list[int]] = {name: [] for name in counts}
    for row in found:
        by_name[runs[row["run"]]].append(int(row["next"]))
    assert by_name == counts


class Named(Walk):
    """Observes a text as well, which the quick way does not take."""

    observation_space = gymnasium.spaces.Dict({"place": Walk.observation_space, "name": gymnasium.spaces.Text(9)})
    made = closed = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        seen, info = super().reset(seed=seed, options=options)
        return {"place": seen.copy(), "name": "start"}, info

    def step(self, action: Any) -> Any:
        seen, *others = super().step(action)
        return {"place": seen.copy(), "name": f"t{self.steps}"}, *others


class ClosedWalk(Walk):
    """Counts what is closed."""

    made = closed = 0

    def close(self) -> None:
        type(self).closed += 1


def parts_of_a_tape(kind: type[Any], folder: Path, monkeypatch: Any, **wanted: Any) -> tuple[int, int, int]:
    """The numbers of parts, of environments made for them, and of environments that were closed."""
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 20)
    env = recorder.record(kind(), folder / "run.tape", quiet=True, keyframe_interval_ticks=10, trial_ms=0)
    env.reset(seed=1)
    for _ in range(99):
        env.step(np.float32([1, -1]))
    env.close()
    kind.made = kind.closed = 0
    made = replayer.extract(folder / "run.tape", folder / "set", world=kind, pool=InlinePool(), **wanted)
    [table] = made.manifest["tables"].values()
    assert table["rows"] in {99, 101}  # Steps, or states.
    return len(table["files"]), kind.made, kind.closed


def test_no_environment_is_made_for_the_quick_way_where_it_does_not_fit(tmp_path: Path, monkeypatch: Any) -> None:
    """Those that the way step by step makes are the same as without a quick way at all."""
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    parts, made, _ = parts_of_a_tape(Named, tmp_path / "with", monkeypatch)
    monkeypatch.setattr("replayer.datasets.parts.kept_tape.KeptTape.quick_steps", lambda *_: None)
    assert (parts, made) == parts_of_a_tape(Named, tmp_path / "without", monkeypatch)[:2]
    assert parts > 2


@pytest.mark.parametrize("wanted", [{}, {"info": True}, {"tables": "states", "fields": "ClosedWalk.place"}])
def test_each_environment_that_was_made_is_closed(wanted: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """The quick way makes one for all parts of a tape, all others one for each part, and one sees the columns."""
    parts, made, closed = parts_of_a_tape(ClosedWalk, tmp_path, monkeypatch, **wanted)
    assert parts > 2
    assert made >= parts if wanted else made == 2
    assert closed == made


def test_an_environment_that_cannot_go_the_quick_way_is_closed(tmp_path: Path, monkeypatch: Any) -> None:
    """And no second one is tried."""
    monkeypatch.setattr(QuickSteps, "takes", lambda *_: False)
    parts, made, closed = parts_of_a_tape(ClosedWalk, tmp_path, monkeypatch)
    assert made > 1 + parts
    assert closed == made
