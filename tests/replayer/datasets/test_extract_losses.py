"""Damaged, torn and lying tapes: intact ticks are extracted, missing ones are reported; mistakes get one line."""

from __future__ import annotations

import json
import random
import shlex
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pyarrow.parquet as pq
import pytest

import recorder
import replayer.commands.main
from recorder.errors import RecordingError, UnreadableError
from recorder.exit_codes import CORRUPT, DIFFERS, INCOMPLETE, UNREADABLE
from recorder.format.blocks.block import HEADER_BYTES
from replayer.datasets import plan
from replayer.datasets.extract import extract
from replayer.datasets.request import ExtractionError, ExtractionWarning

from oracle.command_lines import assert_one_line, run
from oracle.live_runs import record_live
from oracle.second_reader import DELTA, FRAMES, FULL, Reader
from small_worlds import Walkers, record

pytestmark = pytest.mark.share(0.18)

TICKS = 60


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in its own folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))  # For module:function.
    monkeypatch.setattr(plan, "PART_TICKS", 14)
    return Path("run.tape")


def rows_of(folder: Path) -> dict[int, np.ndarray]:
    """The extracted values of x by tick."""
    found = {}
    for file in sorted((folder / "states").glob("*.parquet")):
        table = pq.read_table(file)
        for tick, x in zip(table["tick"].to_pylist(), table["x"].combine_chunks().to_numpy_ndarray(), strict=True):
            assert tick not in found
            found[tick] = x
    return found


def assert_accounted(made: Any, live: dict[int, Any], last_tick: int) -> set[int]:
    """Check that each sampled tick is extracted as it was or reported as missing, never both; return the extracted ones."""
    found = rows_of(made.path)
    for tick, x in found.items():
        assert np.array_equal(x, live[tick][2]["x"])
    missing = [tick for one in made.manifest["missing"] for tick in range(one["first_tick"], one["last_tick"] + 1)]
    assert sorted([*found, *missing]) == list(range(last_tick + 1))
    return set(found)


@pytest.mark.seldom(0.15)
@pytest.mark.filterwarnings("ignore::replayer.datasets.request.ExtractionWarning")  # It is about what is missing.
def test_of_a_damaged_tape_the_intact_ticks_are_extracted(path: Path) -> None:
    live = record_live(path, Walkers(4), [None] * TICKS, keyframe_interval_ticks=7, full_every=2, blame="none")
    whole, numbers, damaged_found = path.read_bytes(), random.Random(7), 0
    blocks = [block for block in Reader(whole, 0).blocks if block.kind in {FRAMES, FULL, DELTA}]
    frames = [block for block in blocks if block.kind == FRAMES]
    for number, block in enumerate([*numbers.sample(frames, 2), *numbers.sample(blocks, 4)]):
        data = bytearray(whole)
        place = block.offset + HEADER_BYTES + numbers.randrange(block.stored)
        data[place] ^= 0x40
        path.write_bytes(data)
        made = extract(path, f"out{number}", world=Walkers, tables="states", jobs=2)
        there = assert_accounted(made, live, TICKS)
        assert (made.code == CORRUPT) or len(there) == TICKS + 1, f"byte {place}"
        damaged_found += len(there) < TICKS + 1
        assert len(there) > TICKS - 25, f"byte {place}"
    assert damaged_found > 1


@pytest.mark.seldom(0.15)
@pytest.mark.filterwarnings("ignore::replayer.datasets.request.ExtractionWarning")
def test_ticks_at_either_end_whose_blocks_are_not_found_are_listed_as_missing(path: Path) -> None:
    """A damaged header hides a block: only the seal states that the tape had more ticks."""
    live = record_live(path, Walkers(4), [None] * TICKS, keyframe_interval_ticks=7, full_every=2, blame="none")
    whole = path.read_bytes()
    blocks = [block for block in Reader(whole, 0).blocks if block.kind in {FRAMES, FULL, DELTA}]
    last_frames = next(block for block in reversed(blocks) if block.kind == FRAMES)
    for number, block in enumerate([last_frames, *blocks[-2:], blocks[0]]):
        data = bytearray(whole)
        data[block.offset + 20] ^= 0x40
        path.write_bytes(data)
        made = extract(path, f"out{number}", world=Walkers, tables="states")
        assert made.code == CORRUPT
        there = assert_accounted(made, live, TICKS)
        assert block is not last_frames or TICKS not in there
    [tape] = json.loads(Path("out0/manifest.json").read_text())["tapes"]
    assert tape["last_tick"] == TICKS
    [tape] = json.loads(Path("out3/manifest.json").read_text())["tapes"]
    assert tape["lost_first"] == 0 < tape["first_tick"]


def test_of_a_torn_tape_what_there_is(path: Path) -> None:
    live = record_live(path, Walkers(4), [None] * TICKS, keyframe_interval_ticks=7)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    made = extract(path, "out", world=Walkers, tables=("states", "pairs"), fields="x", actions=())
    [tape] = made.manifest["tapes"]
    assert made.code == INCOMPLETE
    assert 10 < tape["last_tick"] < TICKS
    assert_accounted(made, live, tape["last_tick"])
    pairs = pq.read_table("out/pairs")
    assert pairs["truncated"].to_pylist() == [False] * (tape["last_tick"] - 1) + [True]


class Astray(Walkers):
    """Diverges from tick 30 on."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if self.state["x"].sum() % 5 == 0:
            self.state["x"][3] += 1


def test_of_a_desync_only_what_the_run_had(path: Path, capsys: Any) -> None:
    live = record_live(path, Walkers(4), [None] * TICKS, keyframe_interval_ticks=7)
    said = "missing: run.tape, ticks 1 to 6: desync: the state at tick 1 differs .*and 6 more ranges: manifest"
    with pytest.warns(ExtractionWarning, match=said) as warned:
        made = extract(path, "out", world=Astray, tables="states")
    assert len(warned) == 1
    there = assert_accounted(made, live, TICKS)
    assert made.code == DIFFERS
    assert {0, 7, 14, 56} <= there  # Keyframes are the run's.
    assert len(there) < TICKS
    assert all(one["is_desync"] for one in made.manifest["missing"])
    assert (
        run(replayer.commands.main.main, "extract run.tape -o again --table states --sim test_extract_losses:Astray")
        == DIFFERS
    )
    assert (
        "missing: run.tape, ticks 1 to 6: desync: the state at tick 1 differs from the recorded one"
        in capsys.readouterr().err
    )


@pytest.mark.filterwarnings("ignore::replayer.datasets.request.ExtractionWarning")
def test_a_table_without_a_row_says_why(path: Path) -> None:
    """All rows of a desync are left out: "tables: none" alone is no reason."""
    record_live(path, Walkers(4), [None] * TICKS, keyframe_interval_ticks=7)
    made = extract(path, "out", world=Astray, tables="states", ranges=((1, 6),))
    assert made.tables == ()
    said = (
        "no table states: the data set has no rows; left out, by the manifest: run.tape, ticks? 1.*: desync: the state"
    )
    with pytest.raises(ExtractionError, match=said):
        made.table("states")


SCALE = 1.0


class Lantern(gymnasium.Env[Any, Any]):
    """An environment that returns its own array."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-9, 9, (2,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.glow = np.zeros(2)

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.glow[:] = 1.0
        return self.glow, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.glow += action - 0.25
        return self.glow, SCALE * float(self.glow[0]), False, False, {}


@pytest.mark.parametrize("writes", [True, False])
def test_a_desync_names_the_next_step_and_what_was_seen(
    path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch, *, writes: bool
) -> None:
    """An agent that writes into the observation is named; changed code of the reward is not that, and leaves no row."""
    env = recorder.record(Lantern(), path, quiet=True, trial_ms=0)
    observation, _ = env.reset(seed=1)
    for _ in range(20):
        if writes:
            observation *= 0.5
        observation = env.step(1)[0]
    env.close()
    monkeypatch.setitem(globals(), "SCALE", 1.0 if writes else 2.0)
    assert run(replayer.commands.main.main, f"extract run.tape -o out --sim {__name__}:Lantern") == DIFFERS
    said = capsys.readouterr()
    assert said.err.splitlines()[-1] == f"next: replay verify run.tape --sim {__name__}:Lantern"
    seen = "  changed between tick 1 and 2, outside of the step: Lantern.glow, as the recorder saw live"
    assert (seen in said.err.splitlines()) is writes
    assert run(replayer.commands.main.main, f"extract run.tape -o json --sim {__name__}:Lantern --json") == DIFFERS
    json.loads(capsys.readouterr().out)


def test_the_tape_with_the_desync_is_named_among_tapes_of_one_name(
    path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of two folders has an intact tape of the same file name."""
    for scale, folder in ((2.0, "later"), (1.0, "first")):
        Path(folder).mkdir()
        monkeypatch.setitem(globals(), "SCALE", scale)
        env = recorder.record(Lantern(), Path(folder) / path.name, quiet=True, trial_ms=0)
        env.reset(seed=1)
        for _ in range(5):
            env.step(1)
        env.close()
    Path("later/run.tape").rename("run.tape")
    sim = f"--sim {__name__}:Lantern"
    for tapes in ("first/run.tape run.tape", "run.tape first/run.tape"):
        name = tapes.replace(" ", "-").replace("/", "-")
        assert run(replayer.commands.main.main, f"extract {tapes} -o out-{name} {sim}") == DIFFERS
        assert capsys.readouterr().err.splitlines()[-1] == f"next: replay verify run.tape {sim}"
    Path("run.tape").rename("later/run.tape")
    assert run(replayer.commands.main.main, f"extract first/run.tape later/run.tape -o out {sim}") == DIFFERS
    assert capsys.readouterr().err.splitlines()[-1] == f"next: replay verify later/run.tape {sim}"


def test_appending_what_is_there_says_so(path: Path, capsys: Any) -> None:
    """Only then."""
    record(path, Walkers(4), [None] * 9)
    line = f"extract run.tape -o out {SIM} --table states --append"
    said = "out: nothing new: it holds the runs of all these tapes already"
    for again in (False, True, True):
        assert run(replayer.commands.main.main, line) == 0
        assert (said in capsys.readouterr().out.splitlines()) is again


class Failing(Walkers):
    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if self.state["x"][0] > 2:
            raise ValueError("too far")


@pytest.mark.filterwarnings("ignore::replayer.datasets.request.ExtractionWarning")
def test_a_simulation_that_fails_gives_what_comes_before(path: Path) -> None:
    live = record_live(path, Walkers(1), [None] * TICKS, keyframe_interval_ticks=7)
    made = extract(path, "out", world=Failing, tables="states")
    there = assert_accounted(made, live, TICKS)
    assert (made.code, len(there) < TICKS) == (DIFFERS, True)
    assert "too far" in made.manifest["missing"][0]["why"]


@pytest.mark.filterwarnings("ignore::replayer.datasets.request.ExtractionWarning")
def test_pairs_do_not_reach_over_what_is_missing(path: Path) -> None:
    inputs = [[[1, tick]] for tick in range(TICKS)]
    live = record_live(path, Walkers(4), inputs, keyframe_interval_ticks=7)
    extract(path, "out", world=Astray, tables=("states", "pairs"), fields="x")
    there = set(rows_of(Path("out")))

    def leads_on(tick: int) -> bool:
        astray = Astray()
        astray.state.arena[:] = np.frombuffer(live[tick][1], np.uint8)
        astray.step(inputs[tick])
        return astray.state.arena.tobytes() == live[tick + 1][1]

    pairs = pq.read_table("out/pairs")
    assert pairs["tick"].to_pylist() == sorted(tick for tick in there if tick + 1 in there and leads_on(tick))
    assert set(pairs["ticks"].to_pylist()) == {1}


def test_among_several_tapes_the_unreadable_one_is_left_out(path: Path, capsys: Any) -> None:
    record(path, Walkers(4), [None] * 9)
    Path("text.tape").write_text("hello")
    made = extract(["text.tape", path], "out", world=Walkers, tables="states")
    assert made.code == UNREADABLE
    assert made.manifest["notes"][0].startswith("text.tape is left out: ")
    assert made.rows == {"states": 10}
    with pytest.raises(UnreadableError):
        extract("text.tape", "none", world=Walkers, tables="states")
    assert not list(Path().glob("none*"))
    assert run(replayer.commands.main.main, "extract text.tape -o none --table states") == UNREADABLE
    assert_one_line(capsys.readouterr(), "text.tape")


def test_a_copy_counts_once_and_another_run_of_its_name_not_at_all(path: Path) -> None:
    record(path, Walkers(4), [None] * 9, deterministic=True)
    Path("copy.tape").write_bytes(path.read_bytes())
    made = extract([path, "copy.tape"], "out", world=Walkers, tables="states")
    assert made.manifest["notes"] == ["copy.tape is left out: it is a copy of run.tape"]
    assert made.rows == {"states": 10}
    record("other.tape", Walkers(4), [None] * 5, deterministic=True)
    with pytest.raises(RecordingError, match="the same run id"):
        extract([path, "other.tape"], "more", world=Walkers, tables="states")


def give_text(_: Any) -> Any:
    return "text"


def give_objects(_: Any) -> Any:
    return {"a": object()}


def give_other_shapes(state: Any) -> Any:
    return np.zeros(abs(int(state["x"][0])) + 1)


def need_too_much(_state: Any, _agent: Any, _more: Any) -> Any:
    return 0


def give_nothing(_: Any) -> Any:
    return np.zeros((3, 0))


SIM = "--sim small_worlds:Walkers"
MISTAKES = [
    ("extract run.tape", "--output"),
    ("extract missing.tape -o out", "missing.tape"),
    (f"extract run.tape -o out {SIM} --table pairs", "pairs need an observation"),
    (f"extract run.tape -o out {SIM} --table states --reward nothing", "columns of the table pairs"),
    (
        f"extract run.tape -o out {SIM} --table states --field z",
        "there is no field z at tick 0; fields there: x, y, rng",
    ),
    (f"extract run.tape -o out {SIM} --stride 0", "--stride"),
    (f"extract run.tape -o out {SIM} --table states --ticks 5", "expected a range such as"),
    (f"extract run.tape -o out {SIM} --table states --ticks 70..80", "has ticks 0 to 60"),
    (
        f"extract run.tape -o out {SIM} --table states --ticks 0..9 --ticks 5..20",
        "tick 5 is in two of the requested ranges",
    ),
    (f"extract run.tape -o out {SIM} --observe nothing", "your own simulation has no observation nothing"),
    (f"extract run.tape -o out {SIM} --observe no_such:thing", "no_such"),
    (
        f"extract run.tape -o out {SIM} --observe test_extract_losses:give_text",
        "expected numbers or arrays of numbers, got str",
    ),
    (
        f"extract run.tape -o out {SIM} --observe test_extract_losses:give_objects",
        "a: expected numbers or arrays of numbers, got object",
    ),
    (f"extract run.tape -o out {SIM} --observe test_extract_losses:give_other_shapes", "--list give_other_shapes"),
    (f"extract run.tape -o out {SIM} --observe test_extract_losses:give_nothing", "has no values, its shape is (3, 0)"),
    (f"extract run.tape -o out {SIM} --observe test_extract_losses:need_too_much", "some of (state, agent)"),
    (f"extract run.tape -o out {SIM} --field x --action nothing", "no action array nothing"),
    (f"extract run.tape -o out {SIM} --field x --reward nothing", "no reward nothing"),
    (f"extract run.tape -o out {SIM} --field x --mode balanced", "there is nothing to balance"),
    (f"extract run.tape -o out {SIM} --table states --split train=0.5", "1 in sum"),
    (f"extract run.tape -o out {SIM} --table states --split train:1", "expected NAME=SHARE"),
    (f"extract run.tape -o there {SIM} --table states", "there exists already"),
    (f"extract empty -o out {SIM} --table states", "there is no tape in empty"),
    ("extract run.tape -o out --table states", "--sim"),
    (f"extract run.tape -o run.tape/out {SIM} --table states", "run.tape"),
]


@pytest.mark.parametrize(("line", "said"), MISTAKES)
def test_mistakes_get_one_line(path: Path, capsys: Any, line: str, said: str) -> None:
    record(path, Walkers(4), [None] * TICKS)
    Path("there").mkdir()
    Path("empty").mkdir()
    assert run(replayer.commands.main.main, line) == 2
    assert_one_line(capsys.readouterr(), said)
    assert not Path("out").exists()


def test_the_command_says_what_it_made(path: Path, capsys: Any) -> None:
    record(path, Walkers(4), [[[0, 1]]] * TICKS)
    line = f"extract run.tape -o out {SIM} --field x --table pairs --table actions --no-actions --ticks ..-10 -j 2"
    assert run(replayer.commands.main.main, line) == 0
    said = capsys.readouterr().out
    assert "out/pairs: 51 rows in " in said
    assert "out/actions: 51 rows in " in said
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert manifest["command"][0] == "replay"
    next_line = next(one for one in said.splitlines() if one.startswith("next: "))
    assert shlex.split(next_line)[1:3] == ["python", "-c"]
    assert run(replayer.commands.main.main, f"extract run.tape -o more {SIM} --table states --json") == 0
    assert json.loads(capsys.readouterr().out) == {"path": "more", "rows": {"states": 61}, "code": 0}
