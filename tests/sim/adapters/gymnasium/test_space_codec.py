"""Spaces are described as plain data and made from it again, equal, and read without Gymnasium."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional_packages import needs

import recorder
from sim.kernel.plain_data import decode_plain, encode_plain

needs("gymnasium")

import gymnasium  # noqa: E402
from gymnasium import spaces  # noqa: E402

from sim.adapters.gymnasium.described_spaces import BYTES_MAX, describe_env  # noqa: E402
from sim.adapters.gymnasium.space_codec import (  # noqa: E402
    LIMITS_MAX,
    SpaceNotKnownError,
    space_from_plain,
    space_to_plain,
)

IMAGE = {"type": "Box", "dtype": "|u1", "shape": [32, 32, 3], "low": 0, "high": 255}
SPACES: list[spaces.Space[Any]] = [
    spaces.Box(0, 255, (32, 32, 3), np.uint8),
    spaces.Box(-np.inf, np.inf, (3,), np.float64),
    spaces.Box(np.array([-1.5, -np.inf], np.float32), np.array([0.1, 9], np.float32)),
    spaces.Box(-1, 1, (), np.float32),
    spaces.Box(0, 1, (0,), np.float16),
    spaces.Discrete(5, start=-2),
    spaces.Discrete(5, dtype=np.int32),
    spaces.MultiBinary([2, 3]),
    spaces.MultiBinary([2]),
    spaces.MultiDiscrete([3, 2], start=[1, -1]),
    spaces.MultiDiscrete(np.array([[3, 2], [2, 2]]), np.int32),
    spaces.Text(8, min_length=0, charset="äbc"),
    spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Tuple((spaces.Text(3), spaces.MultiBinary(2)))}),
    spaces.OneOf((spaces.Discrete(2), spaces.Box(0, 1, (2,)))),
    spaces.Sequence(spaces.Dict({"x": spaces.Box(0, 1, (2,))}), stack=True),
    spaces.Sequence(spaces.Text(4)),
    spaces.Graph(spaces.Box(0, 1, (2,)), spaces.Discrete(3)),
    spaces.Graph(spaces.Box(0, 1, (2,)), None),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_space_comes_back_equal(space: Any) -> None:
    """Through the bytes of a tape."""
    again = space_from_plain(decode_plain(encode_plain(space_to_plain(space))))

    assert again == space
    assert again.dtype == space.dtype


def test_an_image_has_two_numbers_as_limits() -> None:
    assert space_to_plain(SPACES[0]) == IMAGE


def test_limits_that_are_too_many_are_left_out() -> None:
    """The description says so when a space is to be made of it."""
    plain = space_to_plain(spaces.Box(np.arange(LIMITS_MAX + 1, dtype=np.float64), np.inf, dtype=np.float64))

    assert (plain["low"], plain["high"]) == (None, np.inf)
    with pytest.raises(SpaceNotKnownError, match="its limits are not on the tape"):
        space_from_plain(plain)


class Own(spaces.Space[Any]):
    """A space of the user's."""


def test_a_space_of_the_user_is_named() -> None:
    plain = space_to_plain(Own())

    assert plain == {"type": "Other", "class": f"{Own.__module__}.Own"}
    with pytest.raises(SpaceNotKnownError, match="is not a space of Gymnasium"):
        space_from_plain(plain)


@pytest.mark.parametrize(
    "plain",
    [
        {},
        {"type": "Box"},
        {"type": "Box", "dtype": "nonsense", "shape": [1], "low": 0, "high": 1},
        IMAGE | {"shape": 3},
    ],
)
def test_bad_descriptions_are_refused(plain: Any) -> None:
    with pytest.raises(SpaceNotKnownError):
        space_from_plain(plain)


class Bare(gymnasium.Env):
    """An environment without spaces, or with far too many."""

    def __init__(self, count: int = 0) -> None:
        if count:
            self.observation_space = spaces.Dict({f"{number:0200}": spaces.Discrete(2) for number in range(count)})

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        return 0, {}

    def step(self, _: Any) -> Any:
        return 0, 0.0, False, False, {}


def test_an_environment_is_recorded_whatever_its_spaces_are(tmp_path: Path) -> None:
    """What cannot be described is None."""
    assert describe_env(Bare()) == {"spaces": {"observation": None, "action": None}, "env_spec": None}
    assert describe_env(Bare(BYTES_MAX // 200)) == {"spaces": None, "env_spec": None}
    env = recorder.record(Bare(), tmp_path / "run.tape", quiet=True)
    env.reset(seed=1)
    env.step(0)
    env.close()


READING = """
import sys
sys.modules["gymnasium"] = None
import replayer
with replayer.open(sys.argv[1]) as run:
    print(run.call(1).options, run.call(2).action, run.episodes[0].terminated)
    print(run.tape.meta["adapter"]["spaces"]["action"], run.tape.meta["adapter"]["env_spec"][:20])
"""


def test_calls_and_spaces_are_read_without_gymnasium(tmp_path: Path) -> None:
    """Nothing of a tape is imported or run."""
    env = recorder.record(gymnasium.make("CartPole-v1"), tmp_path / "run.tape", quiet=True)
    env.reset(seed=1, options={"low": 0.0, "high": 0.01})
    env.step(np.int64(1))
    env.close()
    done = subprocess.run(
        [sys.executable, "-c", READING, str(tmp_path / "run.tape")], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "{'low': 0.0, 'high': 0.01} 1 False",
        "{'type': 'Discrete', 'dtype': '<i8', 'n': 2, 'start': 0} {\"id\": \"CartPole-v1\"",
    ]
