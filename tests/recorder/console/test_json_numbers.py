"""What --json prints is JSON for any parser: numbers that JSON lacks are texts."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import recorder
import replayer.commands.main
from recorder.json_text import json_text

from oracle.command_lines import run

SIM = f"--sim {__name__}:Broken"


class Broken(gymnasium.Env[Any, Any]):
    """An environment whose rewards and observations are no numbers, from its third step on."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-9, 9, (2,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.steps, self.limit, self.heat = 0, math.inf, 0.0

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002 - the interface's
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start."""
        super().reset(seed=seed)
        return np.zeros(2), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Fail after two steps."""
        self.steps += 1
        self.heat = math.nan if self.steps > 2 else float(action)
        return np.array([self.heat, -math.inf]), self.heat, self.steps == 5, False, {}


def no_constant(word: str) -> None:
    """As JSON.parse, which takes none of them."""
    raise AssertionError(f"{word} is not JSON")


@pytest.fixture(autouse=True)
def _recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        env = recorder.record(Broken(), f"{name}.tape", quiet=True, trial_ms=0)
        env.reset(seed=1)
        for _ in range(5):
            env.step(1 if name == "one" else 0)
        env.close()


@pytest.mark.parametrize(
    "line",
    [
        "info one.tape",
        "ls .",
        f"seek one.tape --tick -1 --changes --field Broken.heat {SIM}",
        f"verify one.tape {SIM}",
        f"find 'Broken.heat > 0' one.tape {SIM}",
        f"who one.tape --field Broken.limit --at -1 {SIM}",
        f"diff one.tape two.tape {SIM}",
        "tail one.tape --no-follow",
        f"follow one.tape --no-wait {SIM}",
        f"extract one.tape -o data {SIM}",
    ],
)
def test_any_parser_reads_it(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the exit code is."""
    assert run(replayer.commands.main.main, f"{line} --json") in (0, 1, 3)
    out = capsys.readouterr().out
    for part in out.splitlines() if line.startswith(("tail", "follow")) else [out]:
        json.loads(part, parse_constant=no_constant)


def test_the_numbers_are_texts(capsys: pytest.CaptureFixture[str]) -> None:
    """The return of an episode that ended in NaN, and the values of a state."""
    assert run(replayer.commands.main.main, "info one.tape --json") == 0
    assert json.loads(capsys.readouterr().out)["episodes"][-1]["return"] == "NaN"


def test_what_json_has_stays() -> None:
    """Every other value, also beside one that JSON lacks; the keys, too."""
    kept = {"a": [1, 2.5, 1e300, None, True, "NaN", "ü\x7f", 1 << 70], "b": {"0.1": 0.1}}
    facts: dict[Any, Any] = {**kept, "n": [math.nan, math.inf, -math.inf], math.nan: 1}
    read = json.loads(json_text(facts, indent=1), parse_constant=no_constant)
    assert read == {**kept, "n": ["NaN", "Infinity", "-Infinity"], "NaN": 1}
    assert json_text(kept) == json.dumps(kept).replace("\x7f", "\\u007f")
