"""replay explain gives threads that were started before the step time, as a game does between two frames."""

from __future__ import annotations

import importlib
import queue
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recorder import Recorder
from recorder.ambient.outside.outside_read import THREADS
from recorder.processes.fork_call import in_a_copy
from replayer.desync.ordered_threads import going_on, wait_until_ready
from replayer.desync.stand_ins import GIVEN_TIME, use_stand_ins
from replayer.diagnose.explain.explain import explain_tape
from replayer.diagnose.explain.outside.given_time import GOING_ON, threads_tested, with_time_for_threads
from replayer.diagnose.explain.variants import Variant, VariantOutcome
from replayer.report.outside_lines import outside_cause_line

POST = """
import queue
import threading
from sim import Field, Schema, State


class Sim:
    def __init__(self):
        self.state = State(Schema(Field("x", "i8", (3,))))
        self.letters, self.answers = queue.Queue(), []
        threading.Thread(target=self.answer, daemon=True).start()

    def answer(self):
        while True:
            number = self.letters.get()
            self.answers.append(number + sum(range(200_000)) % 7)

    def step(self, inputs):
        self.state["x"][0] += 1
        if self.state["x"][0] == 4:
            self.letters.put(1)
        while self.answers:
            self.state["x"][1] += self.answers.pop(0) * int(self.state["x"][0])
"""
RECORDED = 9


@pytest.fixture
def post(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of a post office, whose letters are answered by a thread."""
    (tmp_path / "post_given.py").write_text(POST)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("post_given")
    sys.modules.pop("post_given", None)


@pytest.mark.seldom(0.2)
def test_a_thread_that_a_frame_gave_time_is_named_and_proved(post: Any) -> None:
    """It was started with the object, so that the step itself starts none."""
    with Recorder("run.tape", post.Sim(), trial_ms=0) as tape:
        for _ in range(6):
            tape.step()
            wait_until_ready()  # As a frame does, in which the thread answers.
    found = explain_tape("run.tape", sim="post_given:Sim", factory=post.Sim, tick=5)
    assert outside_cause_line(found) == (
        f"cause: {GOING_ON}, answer (post_given.py:13): where they get time before the step, until they wait or end, the step "
        "gives the recorded state (in 4 of 4 processes), and as it is now another one"
    )


def test_threads_are_named_by_the_function_of_the_users_that_each_began_with() -> None:
    """One whose code is not the user's has its name. Where it is given time, it has done its work."""
    asked, made = queue.Queue[int](), list[int]()

    def work() -> None:
        while True:
            made.append(sum(range(asked.get() * 1000)))

    def run() -> dict[str, Any]:
        threading.Thread(target=work, daemon=True).start()
        threading.Thread(target=threading.Event().wait, name="bell", daemon=True).start()
        asked.put(2000)
        use_stand_ins((THREADS,), lambda _: False, GIVEN_TIME)
        return {"made": len(made), "own": going_on(__file__.__eq__), "others": going_on(lambda _: False)}

    found = in_a_copy(run)
    assert found["made"] == 1
    assert found["own"] == ["bell", f"work (test_given_time.py:{work.__code__.co_firstlineno})"]
    assert "bell" in found["others"]
    assert not any("test_given_time" in one for one in found["others"])


def ran(variant: Variant, end: int, threads: Sequence[str] = ("scan (radar.py:7)",)) -> VariantOutcome:
    step: Any = SimpleNamespace(result=(end, None), going_on=list(threads))
    return VariantOutcome(variant, step)


@pytest.mark.parametrize(
    ("with_time", "without", "proved", "suspicious"),
    [
        ([RECORDED] * 4, [5] * 4, True, None),
        # By chance, in one of both.
        ([RECORDED, RECORDED, 5, RECORDED], [5] * 4, False, None),
        ([RECORDED] * 4, [5, 5, 5, RECORDED], False, None),
        # The time has no effect, or another one.
        ([5], [], False, None),
        ([6], [], False, True),
    ],
)
def test_only_what_repeats_itself_is_the_cause(
    with_time: list[int], without: list[int], *, proved: bool, suspicious: bool | None
) -> None:
    now, left = Variant("now"), {True: list(with_time), False: list(without)}
    earlier = [ran(now, 5), ran(Variant("used", start=-1), 5)]

    def run(variants: Sequence[Variant], starts: Sequence[int | None]) -> list[VariantOutcome]:
        assert list(starts) == [-1]
        return [
            ran(Variant(one.label, replaced=one.replaced, start=-1), left[one.replaced is not None].pop(0))
            for one in variants
        ]

    found = with_time_for_threads(now, earlier, RECORDED, run)
    ends = [RECORDED] if proved else with_time if len(with_time) == 1 else []
    assert [one.result for one in found] == [(end, None) for end in ends]
    tested = threads_tested([*earlier, *found], RECORDED)
    assert [one.suspicious for one in tested] == ([] if len(with_time) > 1 else [suspicious])


def test_without_such_threads_nothing_is_run() -> None:
    """Nor where the instance that went on gives the recorded state as it is."""

    def run(*_: object) -> list[VariantOutcome]:
        raise AssertionError

    for earlier in (
        [ran(Variant("used", start=-1), 5, ())],
        [ran(Variant("used", start=-1), RECORDED)],
        [ran(Variant("now"), 5)],
    ):
        assert with_time_for_threads(Variant("now"), earlier, RECORDED, run) == []
        assert threads_tested(earlier, RECORDED) == []
