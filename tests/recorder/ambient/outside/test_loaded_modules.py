"""The packages that a recording notes: modules are looked at, and neither loaded nor asked."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import pytest

import recorder
from recorder import Recorder
from recorder.ambient.outside.loaded_modules import loaded_modules
from recorder.ambient.outside.outside_note import decode_note
from replayer.tape.tape import Tape

from small_worlds import Walkers


class Asked(ModuleType):
    """As of a package that loads its parts when they are asked for, one of which is not installed."""

    def __getattribute__(self, name: str) -> Any:
        raise ImportError(f"{name} needs a package that is not installed")


def test_a_module_that_answers_no_question_stops_no_recording(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "asked_module", Asked("asked_module"))
    with Recorder(tmp_path / "run.tape", Walkers(), trial_ms=0) as tape:
        tape.step(None)

    with Tape(tmp_path / "run.tape") as recorded:
        assert decode_note(recorded.meta["outside"]).modules


def test_a_module_that_is_loaded_when_it_is_needed_is_not_loaded_by_the_note(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is noted, as it was imported."""
    (tmp_path / "slow_to_load.py").write_text("loaded = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = importlib.util.find_spec("slow_to_load")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "slow_to_load", module)

    assert "slow_to_load" in loaded_modules()
    assert "loaded" not in object.__getattribute__(module, "__dict__")


def test_an_environment_that_leads_back_to_itself_stops_no_recording(tmp_path: Path) -> None:
    """The search for the wrapped one went on for ever."""

    class Ring(gymnasium.Env[int, int]):
        observation_space = action_space = gymnasium.spaces.Discrete(4)

        def __init__(self) -> None:
            self.env = self
            self.steps = 0

        def reset(self, **_: Any) -> tuple[int, dict[str, Any]]:
            self.steps = 0
            return 0, {}

        def step(self, _: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            self.steps += 1
            return self.steps % 4, 0.0, False, False, {}

    with recorder.record(Ring(), tmp_path / "ring.tape", trial_ms=0, quiet=True) as ring:
        ring.reset()
        ring.step(1)
    with Tape(tmp_path / "ring.tape") as recorded:
        assert recorded.last_tick == 2
