"""With enough time, an environment that can be rebuilt is also restored in another interpreter."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import recorder
from recorder.errors import RecordingWarning

pytestmark = pytest.mark.tried

ENVIRONMENTS = """
import gymnasium
import numpy as np

NAMES = ["ann", "bob", "cleo", "dan", "eve", "fay"]

class Sorted(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1e6, 1e6, (1,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = np.zeros(1, np.float32)
        return self.x.copy(), {}

    def step(self, action):
        for place, name in enumerate(self.order()):
            self.x[0] = (self.x[0] * 3 + place * ord(name[0])) % 1009
        return self.x.copy(), 0.0, False, False, {}

    def order(self):
        return sorted(set(NAMES))

class OfASet(Sorted):
    def order(self):
        return set(NAMES)                            # made in the step: no attribute holds it

def register():
    for kind in (Sorted, OfASet):
        gymnasium.register(f"Order{kind.__name__}-v0", entry_point=f"ordered_envs:{kind.__name__}")
"""


@pytest.fixture
def _registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Register the environments, in new interpreters too: the rebuilt one is found by its name alone."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "ordered_envs.py").write_text(ENVIRONMENTS)
    (site / "sitecustomize.py").write_text("import ordered_envs; ordered_envs.register()")
    monkeypatch.syspath_prepend(str(site))
    import ordered_envs  # type: ignore[import-not-found]

    ordered_envs.register()
    yield
    for name in ("OrderSorted-v0", "OrderOfASet-v0"):
        del gymnasium.registry[name]
    del sys.modules["ordered_envs"]


@pytest.mark.usefixtures("_registered")
@pytest.mark.filterwarnings("ignore:.*saw no step")
@pytest.mark.seldom(0.18)
def test_an_order_that_only_another_interpreter_shows_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A set that a step makes and forgets; its sorted elements are no reason for a warning."""
    recorder.record(gymnasium.make("OrderSorted-v0"), tmp_path / "sorted.tape", trial_ms=4000).close()
    assert (
        "restored and run again with the same states and results, in a new interpreter too" in capsys.readouterr().err
    )

    with pytest.warns(
        RecordingWarning, match=r"restored in a new interpreter with another PYTHONHASHSEED.*the order of a"
    ):
        recorder.record(gymnasium.make("OrderOfASet-v0"), tmp_path / "set.tape", trial_ms=4000).close()


@pytest.mark.usefixtures("_registered")
@pytest.mark.filterwarnings("ignore:.*saw no step")
def test_a_short_trial_starts_no_interpreter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would take longer than the trial may."""
    recorder.record(gymnasium.make("OrderOfASet-v0"), tmp_path / "set.tape", trial_ms=1900).close()
    assert "with the same states and results\n" in capsys.readouterr().err
