"""What verify says is possible, and not tested: only what nothing else that it knows makes needless."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recorder
from recorder.environment import describe_environment
from replayer.desync import tested_causes
from replayer.desync.causes import text_hashes
from replayer.timeline.verify import verify_tape

NAME = "loom_of_a_village"
LOOM = """import functools
import time


class Loom:
    def __init__(self):
        self.cloth, self.name = 0, "Ada"

    def step(self):
        self.cloth += self.thread()

    def thread(self):
        return 1 if self.cloth < {start} else getattr(functools, "secret_of_a_loom", 1)

    def label(self):
        return {label}
"""
BETWEEN = "a change between two steps"
Verified = Callable[..., dict[str, str]]


@pytest.fixture
def verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Verified]:
    """What verify says of a run that something differs in which no module of the user's has, by causes."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def loaded(text: str) -> Any:
        (tmp_path / f"{NAME}.py").write_text(text)
        sys.modules.pop(NAME, None)
        importlib.invalidate_caches()
        return importlib.import_module(NAME).Loom

    def found(step: str = "", *, start: int = 3, label: str = "self.name", edited: str = "") -> dict[str, str]:
        text = LOOM.format(start=start, label=label).replace("+= self.thread()", f"+= self.thread(){step}")
        with recorder.record(loaded(text)(), tmp_path / "run.tape", quiet=True, trial_ms=0) as loom:
            for _ in range(6):
                loom.step()
        with monkeypatch.context() as patched:
            patched.setattr(functools, "secret_of_a_loom", 2, raising=False)
            (finding,) = verify_tape(
                tmp_path / "run.tape", loaded(text.replace("else getattr", edited or "else getattr"))
            ).findings
        assert finding.tick == start + 1
        assert not any(one.suspicious for one in finding.tested)
        return {one.cause: one.found for one in finding.tested}

    yield found
    sys.modules.pop(NAME, None)


def test_a_change_between_two_steps_is_told_where_nothing_else_is_known(verified: Verified) -> None:
    """With why the tape does not tell of it: it compares the first steps, and notes what it has seen."""
    told = verified()[BETWEEN]
    assert "the tape tells of no comparison before the step to tick 4: " in told
    assert "of the first 500 steps it tells only if a change was seen; record" not in told
    assert "(of the first 500 steps it tells only if a change was seen); record the run with between_steps=True" in told


OTHER = {
    "the first step": {"start": 0},
    "a clock": {"step": " + int(time.time() < 0)"},
    "the hash of a text": {"step": " + hash(self.name) * 0"},
    "another function": {"edited": "else 0 + getattr"},
}


@pytest.mark.parametrize("name", OTHER)
def test_a_change_between_two_steps_is_not_told_beside_what_may_make_the_difference(
    name: str, verified: Verified
) -> None:
    """Another recording would be made in vain."""
    assert BETWEEN not in verified(**OTHER[name])


def without_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where PYTHONHASHSEED is not set, which it is in these tests."""
    environment = {name: one for name, one in describe_environment().items() if name != "PYTHONHASHSEED"}
    for module in (text_hashes, tested_causes):
        monkeypatch.setattr(module, "describe_environment", lambda: environment)
    monkeypatch.setattr(recorder.environment, "describe_environment", lambda: environment)


HASHES, SETS = (
    "hashes of texts, which differ between processes",
    "the iteration order of sets of texts, which differs between processes",
)


@pytest.mark.parametrize(
    ("step", "label", "causes"),
    [
        (" + hash(self.name) * 0", "self.name", [HASHES]),
        (" + hash(self.name) * 0", "{self.name, 2}", [HASHES]),
        ("", "{self.name, 2}", [SETS]),
        ("\n        self.tags = {self.name, 'Bob'}", "self.name", [SETS]),
        (" + hash(self.name) * 0\n        self.tags = {self.name, 'Bob'}", "self.name", [HASHES, SETS]),
    ],
)
def test_hashes_of_texts_are_told_as_such(
    step: str, label: str, causes: list[str], verified: Verified, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sets of texts only beside one that is there, where the step itself takes the hash of a text."""
    without_a_seed(monkeypatch)
    told = verified(step, label=label)
    assert [cause for cause in told if cause in (HASHES, SETS)] == causes
    for one in causes:
        assert "not tested: PYTHONHASHSEED was not set, and the runs here hash texts alike; " in told[one]
    if HASHES in causes:
        assert (
            f"; the step takes the hash of a text (at {NAME}.py:10); replay certify --factor hash-seed" in told[HASHES]
        )
