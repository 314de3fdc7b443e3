"""Arrays of two dimensions that are places or lists are no maps: neither in plots nor for other viewers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from optional_packages import needs

import recorder
import replayer.commands.main
from recorder.console.app import run_app
from replayer.tape.fields import has_sides_of_map

needs("matplotlib", "mcap")


@pytest.mark.parametrize(
    ("shape", "is_map"),
    [((24, 32), True), ((3, 3), True), ((2, 15), True), ((200, 2), False), ((3, 16), False), ((1, 9), False)],
)
def test_few_columns_of_many_rows_are_no_map(shape: tuple[int, ...], *, is_map: bool) -> None:
    """In either order of axes."""
    assert has_sides_of_map(shape) is is_map
    assert has_sides_of_map((5, *shape)) is is_map


class Flock:
    """Places, and no map."""

    def __init__(self) -> None:
        """Put all at the origin."""
        self.places = np.zeros((200, 2))

    def step(self) -> None:
        """Move."""
        self.places += 1


def test_places_are_not_drawn_as_a_map(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By replay plot --tick, and as MCAP."""
    from mcap.reader import make_reader

    with recorder.record(Flock(), tmp_path / "flock.tape", quiet=True, trial_ms=0) as flock:
        flock.step()
    tape, sim = str(tmp_path / "flock.tape"), ("--sim", f"{__name__}:Flock")
    words = ["plot", tape, "--tick", "1", "-o", str(tmp_path / "a.png"), *sim]
    assert run_app(replayer.commands.main.load(words), words) == 2
    assert "no layers to draw as maps: a method layers() of the simulation" in capsys.readouterr().err
    words_of_render = ["render", tape, "--ticks", "1", "-o", str(tmp_path / "b.png"), *sim]
    assert run_app(replayer.commands.main.load(words_of_render), words_of_render) == 2
    assert "layers() maps and points() places on them (docs/view.md)" in capsys.readouterr().err
    monkeypatch.setattr(Flock, "layers", lambda flock: {"grid": flock.places[:20].reshape(5, 8)}, raising=False)
    for command in (words, words_of_render):  # The method is new: the tape stays as it is.
        assert run_app(replayer.commands.main.load(command), command) == 0
    monkeypatch.undo()
    words = ["export", tape, "-o", str(tmp_path / "a.mcap"), *sim]
    assert run_app(replayer.commands.main.load(words), words) == 0
    with (tmp_path / "a.mcap").open("rb") as file:
        topics = {channel.topic for _, channel, _ in make_reader(file).iter_messages()}
    assert [topic for topic in topics if topic.startswith("/layers")] == []
    assert any("places" in topic for topic in topics)
