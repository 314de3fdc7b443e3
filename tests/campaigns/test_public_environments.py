"""The campaign of public environments in short, and its judge: a walk over values that shares no code with the capture."""

from __future__ import annotations

import collections
import copy
import enum
import json
import os
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from optional_packages import needs

needs("gymnasium")
CAMPAIGNS = Path(__file__).parents[2] / "tools/campaigns"


def campaign(folder: Path, *names: str) -> tuple[int, dict[str, Any]]:
    """Run the campaign in a folder; its exit code and results."""
    command = [sys.executable, CAMPAIGNS / "environments.py", "--only", *names, "--json", "results.json"]
    short = ["--steps", "80", "--seeds", "1", "--seeks", "4"]
    done = subprocess.run([*command, *short], cwd=folder, capture_output=True, text=True, check=False)
    assert (folder / "results.json").exists(), done.stderr
    return done.returncode, json.loads((folder / "results.json").read_text())


@pytest.mark.seldom(0.15)
def test_environments_come_back_in_a_process_with_a_different_hash_seed(tmp_path: Path) -> None:
    """Every value of every tick that is sought, and of the steps after it, is that of the live run."""
    code, results = campaign(tmp_path, "FrozenLake-v1", "CartPole-v1")

    rows = {row["name"]: row for row in results["environments"]}
    assert set(rows) == {"FrozenLake-v1", "CartPole-v1"}
    assert [row["problems"] for row in rows.values()] == [[], []]
    assert all(row["level"] == "exact" and row["seek"]["seeks"] == 5 for row in rows.values())
    assert all(row["record"]["resets"] > 1 and row["seek"]["verified"] == [True] for row in rows.values())
    assert code == 0


SEEK_IN_A_FALSE_LOG = """
import json, pickle, sys
from pathlib import Path
import environment_runs as runs
from environment_list import entry_of

entry, folder = entry_of("FrozenLake-v1"), Path(sys.argv[1])
made = runs.record_all(entry, folder, 1, 30, 4, trust=False)
path = folder / made["folder"] / "0.log"
log = pickle.loads(path.read_bytes())
log["sought"] = [10]
found = []
for key, change in (("none", None), ("values", {"FrozenLakeEnv.s": "false"}), ("results", "false")):
    if change is not None:
        log = pickle.loads(path.read_bytes()) | {"sought": [10]}
        log[key][13] = log[key][13] | change if key == "values" else change
    (folder / "false").mkdir(exist_ok=True)
    (folder / "false/0.log").write_bytes(pickle.dumps(log))
    if not (folder / "false/0.tape").exists():
        (folder / made["folder"] / "0.tape").rename(folder / "false/0.tape")
    found.append(runs.seek_all(entry, folder / "false", made["options"]))
print(json.dumps(found))
"""


@pytest.mark.seldom(0.4)
def test_a_difference_from_the_log_is_a_wrong_state(tmp_path: Path) -> None:
    """One value, or one result, three ticks after the one that was sought."""
    done = subprocess.run(
        [sys.executable, "-c", SEEK_IN_A_FALSE_LOG, tmp_path],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(CAMPAIGNS), *sys.path])},
        capture_output=True,
        text=True,
        check=True,
    )
    right, value, result = json.loads(done.stdout.splitlines()[-1])

    assert (right["wrong"], right["messages"]) == (0, [])
    assert (value["wrong"], result["wrong"]) == (1, 1)
    assert "restored at tick 10, then tick 13: FrozenLakeEnv.s" in value["messages"][0]
    assert "restored at tick 10, then tick 13: the result" in result["messages"][0]


# --- the walk


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Unit:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class Slotted:
    __slots__ = ("health", "place")

    def __init__(self, health: Any) -> None:
        self.health = health


class Pair(NamedTuple):
    a: int
    b: int


def drawn(count: int) -> random.Random:
    """A generator after some draws."""
    generator = random.Random(1)
    for _ in range(count):
        generator.random()
    return generator


def shared(*, is_shared: bool) -> list[Any]:
    """Two equal lists, or the same one twice."""
    first = [1, 2]
    return [first, first if is_shared else [1, 2]]


def views(*, is_shared: bool) -> list[Any]:
    """Two equal arrays over the same memory, or not."""
    array = np.zeros(4)
    return [array[:2], array[2:] if is_shared else np.zeros(2)]


UNLIKE: list[tuple[Any, Any]] = [
    (1, True), (1, 1.0), (0.0, -0.0), (1.0, np.float64(1.0)), (np.int32(1), np.int64(1)), ("1", b"1"), (None, "None"),
    ([1], (1,)), ((1, 2), Pair(1, 2)), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({1}, frozenset({1})),
    (collections.deque([1]), collections.deque([1], 3)), (collections.Counter(a=1), {"a": 1}),
    (collections.defaultdict(int), collections.defaultdict(list)), (Colour.RED, Colour.BLUE), (range(3), range(4)),
    (Fraction(1, 3), Fraction(1, 4)), (Unit(x=1), Unit(x=2)), (Unit(x=1), Unit(y=1)), (Slotted(1), Slotted(2)),
    (np.zeros(2), np.zeros((1, 2))), (np.zeros(2), np.zeros(2, np.float32)), (np.zeros(2), np.array([0.0, -0.0])),
    (drawn(1), drawn(2)), (np.random.default_rng(1), np.random.default_rng(2)), (len, sum), (Unit, Slotted),
    (Unit(x=1).__init__, Unit(x=2).__init__), ({8, 0}, {0, 8}), ({(1, 2): Unit(x=1)}, {(1, 2): Unit(x=2)}),
    (shared(is_shared=True), shared(is_shared=False)), (views(is_shared=True), views(is_shared=False)),
]  # fmt: skip


@pytest.fixture
def walk(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the walk."""
    monkeypatch.syspath_prepend(CAMPAIGNS)
    import value_walk

    return value_walk


@pytest.mark.parametrize(("one", "other"), UNLIKE, ids=lambda value: type(value).__name__)
def test_values_that_differ_have_different_texts(walk: Any, one: Any, other: Any) -> None:
    """By type, sign, order, aliasing or shared memory."""
    assert walk.texts_of(one) != walk.texts_of(other)


@pytest.mark.parametrize(
    "value", [one for one, _ in UNLIKE if not isinstance(one, set)], ids=lambda value: type(value).__name__
)
def test_a_copy_has_the_same_texts(walk: Any, value: Any) -> None:
    """They depend on no identity and on no address."""
    both_views = isinstance(value, list) and isinstance(value[0], np.ndarray)  # Copies do not share memory.
    assert walk.texts_of(value) == walk.texts_of(views(is_shared=True) if both_views else copy.deepcopy(value))


def test_texts_are_the_same_in_every_process() -> None:
    """Sets of texts, of objects and of enumerations, cycles and references into sets, under three hash seeds."""
    program = (
        "import value_walk, enum\n"
        "class C(enum.Enum):\n    A = 1\n    B = 2\n    D = 3\n"
        "class U: pass\n"
        "units = []\n"
        "for n in range(20):\n    u = U(); u.n, u.friends = n, units; units.append(u)\n"
        "print(value_walk.texts_of([set('abcdefgh'), set(C), set(units), units, frozenset({('a', 1), ('b', 2)})]))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONPATH": str(CAMPAIGNS), "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in (1, 2, 3)
    }
    assert len(outputs) == 1


def test_a_difference_is_shown_with_what_stands_before_it(walk: Any) -> None:
    """The first one, and also where one of the two ends."""
    assert walk.first_difference(["a", "b", "c"], ["a", "b", "d"]) == "after [a b] expected c, got d"
    assert walk.first_difference(["a", "b"], ["a"]) == "after [a] expected b, got nothing"
