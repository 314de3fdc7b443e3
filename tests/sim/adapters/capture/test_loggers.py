"""A logger is kept by its name: its handlers, levels and caches are not in the state."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from sim.adapters.capture.digest.loggers import logger_name, logger_named
from sim.adapters.find_adapter import adapt
from sim.kernel.simulation import restore

Unnamed = logging.Logger  # Made without getLogger, which alone finds loggers by their names.


class Part:
    """It has a logger of its own."""

    def __init__(self, logger: logging.Logger) -> None:
        self.logger = logger


class Game:
    """It logs, as most programs do, and gets further loggers in its steps."""

    def __init__(self) -> None:
        self.logger = logging.getLogger(__name__)
        self.root = logging.getLogger()
        self.say = self.logger.warning
        self.parts = [Part(self.logger.getChild("part"))]
        self.adapter = logging.LoggerAdapter(self.logger, {"game": 1})
        self.ticks = 0

    def step(self) -> None:
        """One tick."""
        self.ticks += 1
        self.say("tick %d", self.ticks)
        self.adapter.info("tick %d", self.ticks)
        if self.ticks % 3 == 0:
            self.parts.append(Part(logging.getLogger(f"another.{self.ticks}")))


@pytest.fixture
def written() -> Any:
    """What the game's logger writes, by a handler that holds a stream and a lock."""
    logger, stream = logging.getLogger(__name__), io.StringIO()
    handler = logging.StreamHandler(stream)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def test_a_game_with_a_logger_is_recorded(written: io.StringIO, tmp_path: Path) -> None:
    """Without a warning of the trial; after a seek it has the same loggers of this program."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with recorder.record(Game(), tmp_path / "run.tape", step="step", quiet=True, keyframe_interval_ticks=4) as game:
            for _ in range(12):
                game.step()
    assert "tick 12" in written.getvalue()
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        run.seek(8)
        subject = run.subject
        assert subject.logger is logging.getLogger(__name__)
        assert subject.root is logging.getLogger()
        assert subject.say.__self__ is subject.adapter.logger is subject.logger
        assert [one.logger.name for one in subject.parts] == [f"{__name__}.part", "another.3", "another.6"]
        assert all(one.logger is logging.getLogger(one.logger.name) for one in subject.parts)
        assert run.verify(jobs=1).ok


def test_a_script_and_the_same_file_imported_give_equal_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module of the subject's class is "."; a name that the file is imported under counts in the script, too."""
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__file__", "/somewhere/a_game_with_logs.py", raising=False)
    monkeypatch.setattr(main, "__spec__", None)
    by_name, literal = logging.getLogger("__main__.a"), logging.getLogger("a_game_with_logs.b")
    imported = logging.getLogger("a_game_with_logs.a")

    assert logger_name(by_name, "__main__") == logger_name(imported, "a_game_with_logs") == ".a"
    assert logger_name(literal, "__main__") == logger_name(literal, "a_game_with_logs") == ".b"
    assert logger_named(".a", "__main__") is by_name
    assert logger_named(".b", "__main__") is literal
    assert logger_named(".b", "a_game_with_logs") is literal
    assert logger_name(logging.getLogger("a_game_with_logs_too"), "a_game_with_logs") == "a_game_with_logs_too"
    assert logger_name(logging.getLogger(), "__main__") == "root"
    assert logger_named("root", "__main__") is logging.getLogger()


def test_a_logger_that_no_name_finds_is_an_object() -> None:
    """It is saved by its attributes, also after one that has a name."""
    made = Unnamed("of its own", 17)
    assert logger_name(made, "x") is None
    assert logger_name("x", "x") is None

    class Holder:
        def __init__(self) -> None:
            self.loggers = [Unnamed("of its own", 17), logging.getLogger("a.b"), Unnamed("other", 3)]

        def step(self, _: Any = None) -> None:
            self.loggers[0].level += 1

    live = adapt(Holder())
    live.step(None)
    fresh = adapt(Holder())
    restore(fresh, live.state.snapshot())
    loggers = fresh.subject.loggers
    assert [one.level for one in loggers] == [18, 0, 3]
    assert loggers[1] is logging.getLogger("a.b")
    assert loggers[0] is not live.subject.loggers[0]
