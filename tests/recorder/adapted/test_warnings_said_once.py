"""What the processes of a command warn of is said once, without a line of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.project_paths import ROOT

WORLD = """
import gymnasium
from gymnasium import spaces


class Dice(gymnasium.Env):
    def __init__(self):
        self.action_space, self.observation_space = spaces.Discrete(6), spaces.Discrete(60)
        self.sum = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.sum = 0
        return self.sum, {}

    def step(self, action):
        self.sum = (self.sum + self.action_space.sample()) % 60
        return self.sum, 0.0, False, False, {}
"""
RUN = """
import warnings
import recorder, dice

warnings.simplefilter("ignore")
env = recorder.record(dice.Dice(), "dice.tape", trial_ms=0, keyframe_interval_ticks=5)
env.reset(seed=1)
for _ in range(20):
    env.step(0)
env.close()
"""


def test_a_command_warns_once_without_a_line_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "dice.py").write_text(WORLD)
    subprocess.run([sys.executable, "-c", RUN], cwd=tmp_path, check=True)
    found = subprocess.run(
        [sys.executable, "-m", "replayer", "verify", "dice.tape", "--sim", "dice:Dice"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 1, found
    assert found.stderr.count("a step draws from Dice.action_space") == 1, found.stderr
    assert "warning: a step draws from Dice.action_space, " in found.stderr
    assert not any(word in found.stderr for word in (".py:", "CapturedWarning", str(ROOT / "src")))
