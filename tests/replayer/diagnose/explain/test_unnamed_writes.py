"""A large array that lines change without its name: what differs meanwhile is not said to have changed it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

import replayer.commands.explain as explain_command
from recorder import Recorder
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.answer.not_passed import is_not_passed
from replayer.diagnose.explain.cause import Cause, DifferingValue, SourceLocation
from replayer.diagnose.explain.explain import explain_tape
from replayer.diagnose.explain.given.given_cause import with_given
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.step_trace import LINE, Record
from replayer.diagnose.explain.values.given_values import GivenValue, GivenValues
from replayer.diagnose.explain.variants import Variant, VariantOutcome

MODULE = '''
import time

import numpy as np


def log(second):
    return second > 0


class Basin:
    """Its taps are not saved, and fill the basin through a view of its bytes, while a clock is read for a log."""

    def __init__(self):
        self.basin, self.taps = np.zeros(20_000), 0
        self.bytes = memoryview(self.basin).cast("B")

    def step(self, inputs):
        second = time.perf_counter()
        log(second)
        self.fill()
        log(second)

    def fill(self):
        self.taps += 1  # Taps
        self.bytes[0] = self.taps

    def save(self):
        return {"basin": self.basin.copy()}

    def load(self, saved):
        self.basin = np.array(saved["basin"])
        self.bytes = memoryview(self.basin).cast("B")


class Rain(Basin):
    """A clock, in a loop whose line names the array more often than that is read, or under another name."""

    way = "loop"

    def step(self, inputs):
        second = time.perf_counter()  # Rain
        if self.way == "loop":
            for place in range(40):
                self.basin[place] += second * (place == 33)
        else:
            self.pour(self.basin, second)

    def pour(self, whole, second):
        whole[3] += second


class Poured(Rain):
    way = "helper"
'''


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "basins.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "basins", raising=False)
    importlib.invalidate_caches()


def explained(name: str) -> tuple[Explanation, Cause]:
    """Record a run, and explain its first bad tick."""
    make: Any = getattr(importlib.import_module("basins"), name)
    with Recorder("run.tape", make(), keyframe_interval_ticks=4, trial_ms=0) as tape:
        for _ in range(6):
            tape.step(None)
    explanation = explain_tape("run.tape", sim=f"basins:{name}", factory=make)
    assert explanation.cause is not None
    return explanation, explanation.cause


def line_of(name: str) -> int:
    return MODULE[: MODULE.index(f"  # {name}")].count("\n") + 1


def test_what_differs_while_an_array_changes_is_not_its_cause() -> None:
    """The clock differs first; the taps, which are proved to make the difference, have the line that reads them."""
    explanation, cause = explained("Basin")
    assert (cause.kind, cause.place.line) == ("outside", line_of("Taps"))
    assert explanation.given is not None
    assert [one.name for one in explanation.given.proved] == ["Basin.taps"]


@pytest.mark.parametrize("name", ["Rain", "Poured"])
def test_what_a_line_puts_into_an_array_under_its_name_is_the_cause(name: str) -> None:
    """In a loop, or as the argument of a method: then the line that read the clock is named."""
    _, cause = explained(name)
    assert (cause.kind, cause.place.line, cause.operation) == ("operation", line_of("Rain"), "time.perf_counter")


PLACE = SourceLocation("herds.py", 3, "Herd.grow", "self.size += rate")


def of_two_instances(cause: Cause) -> Explanation:
    """An explanation by a fresh instance and one that ran on."""
    first, second = (VariantOutcome(Variant("one", start=start), None) for start in (-1, None))
    return Explanation(5, 7, [first, second], (first, second), [], cause, [], None, [], [])


def test_the_word_of_a_variable_is_its_name_and_not_that_of_its_function() -> None:
    """What shall be put into B is found by the words of what the line reads."""
    words = list[str]()

    def test(_: Variant, __: int, ___: Any, ____: Any, given: Any) -> GivenValues:
        words.extend(given)
        return GivenValues()

    value = DifferingValue("rate in Herd.grow", "3", "4", None)
    cause = Cause("outside", PLACE, None, None, (), None, [value], [])
    with_given(of_two_instances(cause), None, test)  # type: ignore[arg-type]
    assert words == ["rate"]


UNKNOWN, SEEN = DifferingValue("self.herd", "a list", "a list", None), DifferingValue("rate", "3", "4", None)


@pytest.mark.parametrize(
    ("values", "given", "kind"),
    [
        ([UNKNOWN], GivenValues(why_not="it cannot be put into B"), "unseen"),
        ([UNKNOWN], GivenValues(), "unseen"),
        ([UNKNOWN, SEEN], GivenValues(), "outside"),
    ],
)
def test_a_value_of_two_digests_is_not_called_hidden_state(
    values: list[DifferingValue], given: GivenValues, kind: str
) -> None:
    """Which part of it differs is not known, nor if that is in the state."""
    cause = Cause("outside", PLACE, None, None, (), None, values, [])
    found = with_given(of_two_instances(cause), None, lambda *_: given)  # type: ignore[arg-type]
    assert found.cause is not None
    assert (found.cause.kind, found.cause.outside) == (kind, values if kind == "outside" else [])


@pytest.mark.parametrize(
    ("kind", "why_not", "begins"),
    [
        ("outside", "made in one process, both give the same state", "first difference: this line reads hidden state"),
        ("outside", None, "cause: this line reads hidden state"),
        ("version", "A and B are of two versions", "cause: this line reads a value"),
    ],
)
def test_hidden_state_that_could_not_be_put_over_is_not_called_the_cause(
    kind: str, why_not: str | None, begins: str
) -> None:
    """That it differs is seen; that it has an effect is not."""
    proved = () if why_not is not None else (GivenValue("rate", "attribute", "3 and 4"),)
    cause = Cause(kind, PLACE, None, None, (), None, [SEEN], [])
    told = attrs.evolve(of_two_instances(cause), given=GivenValues(proved=proved, why_not=why_not))
    assert any(line.startswith(begins) for line in explain_command.explanation_lines(Path("run.tape"), told))


@pytest.mark.parametrize("function", ["<listcomp>", ""])
def test_a_comprehension_reads_the_variables_of_the_function_around_it(tmp_path: Path, function: str) -> None:
    """A Python that gives comprehensions frames of their own: the variable is one of a function further out."""
    path = tmp_path / "rules.py"
    path.write_text("def make(rate):\n    def rule(x):\n        return [rate * x]\n    return rule\n")
    name = "make.<locals>.rule"
    outer = Record(LINE, "rules", str(path), 3, name, 2, -1, -1)
    inner = Record(LINE, "rules", str(path), 3, f"{name}.<locals>.{function}", 3, 0, -1) if function else outer
    source = SourceFile(str(path))
    call = "rule(3)"
    assert is_not_passed(source, [outer], inner, "f2:rate", call)
    assert not is_not_passed(source, [outer], inner, "f2:x", call)
