"""What record() can refuse at once is refused before the object is surveyed and tried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder


class Slow:
    """Counts what a trial, or a survey, does with it."""

    looked_at = 0

    def __init__(self) -> None:
        self.t = 0

    def trial_inputs(self, _: int) -> Any:
        type(self).looked_at += 1
        raise AssertionError("tried")

    def step(self, _: Any = None) -> None:
        self.t += 1

    def __getattribute__(self, name: str) -> Any:
        if name == "__dict__":
            Slow.looked_at += 1
        return super().__getattribute__(name)


def test_a_name_that_is_taken_is_refused_before_the_trial(tmp_path: Path) -> None:
    (tmp_path / "run.tape").write_bytes(b"mine")
    Slow.looked_at = 0
    with pytest.raises(FileExistsError, match="exists already: choose a different name, or continue it"):
        recorder.record(Slow(), tmp_path / "run.tape")
    with pytest.raises(FileNotFoundError):
        recorder.record(Slow(), tmp_path / "missing" / "run.tape")
    assert Slow.looked_at == 0
    assert (tmp_path / "run.tape").read_bytes() == b"mine"


class Saved:
    """A simulation with save and load, which a Recorder tries with its own inputs."""

    def __init__(self) -> None:
        self.t = 0

    def step(self, _: Any) -> None:
        self.t += 1

    def save(self) -> dict[str, Any]:
        return {"t": np.int64(self.t)}

    def load(self, saved: dict[str, Any]) -> None:
        self.t = int(saved["t"])


def test_a_recorder_refuses_a_name_before_the_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.tape").write_bytes(b"mine")
    tried: list[Any] = []
    monkeypatch.setattr("recorder.session.recorder.warn_of_hidden_state", lambda *given: tried.append(given))
    with pytest.raises(FileExistsError):
        recorder.Recorder(tmp_path / "run.tape", Saved())
    assert not tried
    recorder.Recorder(tmp_path / "other.tape", Saved()).close()
    assert len(tried) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"keyframes": 5},
            "expected an option of a recording, got keyframes=...: use keyframe_after_ms or keyframe_interval_ticks",
        ),
        ({"steps": "advance"}, "expected an option of a recording, got steps=...: use step or notes"),
        (
            {"xyzzy": 1},
            "expected an option of a recording, got xyzzy=...: the options are keyframe_interval_ticks, keyframe",
        ),
    ],
)
def test_an_unknown_option_is_refused_with_the_right_name(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(TypeError) as refused:
        recorder.record(Saved(), tmp_path / "run.tape", **options)
    assert str(refused.value).startswith(message)
    assert not list(tmp_path.iterdir())


def test_a_recorder_refuses_an_unknown_option_with_the_right_name(tmp_path: Path) -> None:
    options: dict[str, Any] = {"keyframe_interval": 5}
    with pytest.raises(
        TypeError, match=r"^expected an option .* keyframe_interval=\.\.\.: use keyframe_interval_ticks or "
    ):
        recorder.Recorder(tmp_path / "run.tape", Saved(), **options)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("run.tape", Slow()), "expected record(object, path), got the path 'run.tape' first: swap the two arguments"),
        (
            (Path("a.tape"), Slow()),
            "expected record(object, path), got the path 'a.tape' first: swap the two arguments",
        ),
        ((Slow(), 5), "expected record(object, path), got int in place of the path of a new tape"),
        (
            (None, "run.tape"),
            "expected a simulation, got None: a function that makes one returns it (is a return missing?)",
        ),
    ],
)
def test_wrong_arguments_are_named_in_one_line(
    arguments: tuple[Any, Any], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Swapped ones, a path of another type, and an object that a function forgot to return; nothing is written."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError) as raised:
        recorder.record(*arguments)

    assert str(raised.value) == line
    assert list(tmp_path.iterdir()) == []


def test_a_factory_that_returns_nothing_is_named(tmp_path: Path) -> None:
    """As the world of a tape, whose object no factory of that kind made."""
    import replayer
    from replayer.playback.make_simulation import UnfitSimulationError

    with recorder.record(Slow(), tmp_path / "run.tape", quiet=True, trial_ms=0) as slow:
        slow.step()
    expected = r"^expected a simulation, got None: a function that makes one returns it \(is a return missing\?\)$"
    with (
        replayer.open(tmp_path / "run.tape", world=lambda: None) as run,
        pytest.raises(UnfitSimulationError, match=expected),
    ):
        run.seek(1)
