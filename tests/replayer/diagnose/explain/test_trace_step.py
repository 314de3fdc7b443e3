"""The parts of replay explain: aligned traces, distances in ULPs, digests, and source lines."""

from __future__ import annotations

import importlib.util
import os
import random
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recorder.processes.fork_call import in_a_copy
from replayer.desync.ulps import compare_elements, ulp_distances
from replayer.diagnose.explain.align import Alignment
from replayer.diagnose.explain.answer.catching_lines import cause_of_depth
from replayer.diagnose.explain.find_cause import find_cause
from replayer.diagnose.explain.foreign.foreign_calls import is_compiled
from replayer.diagnose.explain.line_pairs.line_map import LineMap
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.step_trace import StepTrace
from replayer.diagnose.explain.trace_step import STACK_DEPTH, TracedStep, trace_step
from replayer.diagnose.explain.traced_array import OperationWatch
from replayer.diagnose.explain.value_hash import Digester

HEAD = """
import numpy as np
from sim import Field, Schema, State

class Sim:
    def __init__(self):
        self.state = State(Schema(Field("x", "f8", (40,)), Field("count", "i8")))
        self.state["x"][:] = np.arange(40)
"""


def load(folder: Path, name: str, body: str) -> Any:
    """A simulation from source; both versions of a test have one module name, as with --code."""
    path = folder / name / "planted_here.py"
    path.parent.mkdir()
    path.write_text(HEAD + textwrap.indent(textwrap.dedent(body), "    "))
    spec = importlib.util.spec_from_file_location("planted_here", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["planted_here"] = module
    spec.loader.exec_module(module)
    return module.Sim()


def cause_of(folder: Path, first: str, second: str) -> Any:
    """The cause found between two versions of a step, and the line marked # HERE in the first."""
    traces = []
    for name, body in (("first", first), ("second", second)):
        simulation = load(folder, name, body)
        plain = in_a_copy(lambda simulation=simulation: trace_step(simulation, None).to_plain())  # type: ignore[misc]
        assert plain["is_same"]
        traces.append(StepTrace.from_plain(plain["trace"]))
    marked = (folder / "first" / "planted_here.py").read_text().splitlines()
    cause = find_cause(Alignment(*traces))
    return cause, next(number for number, line in enumerate(marked, 1) if line.endswith("# HERE"))


GENERATOR = """
def step(self, inputs):
    for row, gain in self.gains():
        self.state["x"][row] += gain

def gains(self):
    for row in range(5):
        gain = row * 2  # HERE
        yield row, gain
"""
DEEP = """
def step(self, inputs):
    self.state["count"][()] += 1
    total = self.outer(3)
    self.state["x"][2] += total

def outer(self, depth):
    if depth == 0:
        return self.leaf()
    return self.outer(depth - 1) + depth

def leaf(self):
    return 0.25  # HERE
"""
COMPREHENSION = """
def step(self, inputs):
    weights = [
        self.weigh(row)
        for row in range(4)
    ]
    self.state["x"][:4] += weights

def weigh(self, row):
    return row + 1  # HERE
"""
IN_PLACE = """
def step(self, inputs):
    order = [3, 1, 2]
    self.arrange(order)
    self.state["x"][0] += order[0]

def arrange(self, order):
    order.sort()  # HERE
"""
LOOP = """
def step(self, inputs):
    x, row = self.state["x"], 0
    while row < 5:  # HERE
        x[row] += 1
        row += 1
    self.state["count"][()] = 7
"""
SWALLOWED = """
def step(self, inputs):
    try:
        value = self.risky(3)
    except ValueError:
        value = 0
    self.state["x"][0] += value

def risky(self, limit):
    if limit > 2:  # HERE
        raise ValueError(limit)
    return limit
"""


@pytest.mark.parametrize(
    ("body", "old", "new"),
    [
        (GENERATOR, "row * 2", "row * 3"),
        (DEEP, "return 0.25", "return 0.5"),
        (COMPREHENSION, "row + 1", "row + 2"),
        (IN_PLACE, "order.sort()", "order.reverse()"),
        (LOOP, "row < 5", "row < 6"),
        (SWALLOWED, "limit > 2", "limit > 3"),
    ],
    ids=["generator", "recursion", "comprehension", "in-place", "loop", "exception"],
)
def test_the_path_back_leads_through_calls(tmp_path: Path, body: str, old: str, new: str) -> None:
    """Through generators, recursion, comprehensions, changed arguments, loops and exceptions to the edited line."""
    cause, line = cause_of(tmp_path, body, body.replace(old, new))

    assert (cause.kind, cause.place.line) == ("edited", line)


def test_a_line_that_one_version_lacks_is_the_cause(tmp_path: Path) -> None:
    """An added statement is named, although the other version has no line for it."""
    body = """
    def step(self, inputs):
        x = self.state["x"]
        x[:] += 1
        x[3] = 0  # HERE
        x[:] *= 2
    """
    cause, line = cause_of(tmp_path, body, body.replace("        x[3] = 0  # HERE\n", ""))

    assert (cause.kind, cause.place.line, cause.other_place) == ("edited", line, None)


def test_equal_steps_have_no_cause(tmp_path: Path) -> None:
    """Two traces of the same step align without a difference."""
    cause, _ = cause_of(tmp_path, DEEP, DEEP)

    assert cause is None


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_ulps_are_steps_of_nextafter(dtype: str) -> None:
    """Counted one by one with nextafter, through zero and denormals; None for NaN."""
    starts = np.array([0.0, -0.0, 1.0, -1.0, 1000.0, np.finfo(dtype).tiny, -np.finfo(dtype).smallest_subnormal], dtype)
    moved = starts.copy()
    for steps in range(1, 30):
        moved = np.nextafter(moved, np.array(np.inf, dtype))
        assert ulp_distances(starts, moved) == [steps] * len(starts)
        assert ulp_distances(moved, starts) == [steps] * len(starts)
    assert ulp_distances(np.array([np.nan], dtype), np.array([1], dtype)) == [None]
    assert ulp_distances(np.array([np.nan + 1j]), np.array([1 + 1j])) == [None]
    assert ulp_distances(np.array([1, 2]), np.array([1, 3])) is None


def test_elements_are_compared_by_bytes() -> None:
    """Minus zero differs at a distance of 0, a NaN equals itself, shapes and dtypes must be equal."""
    first = np.array([[0.0, np.nan, 1.0], [2.0, 3.0, 4.0]])
    second = first.copy()
    second[0, 0], second[1, 2] = -0.0, np.nextafter(4.0, 5.0)
    elements = compare_elements(first, second)

    assert elements is not None
    assert (elements.count, elements.total, elements.ulp_max) == (2, 6, 1)
    assert [(index, ulp) for index, _, _, ulp in elements.shown] == [((0, 0), 0), ((1, 2), 1)]
    assert compare_elements(first, first[:1]) is None
    assert compare_elements(first, first.astype("f4")) is None


class Node:
    """An object that holds others."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.again = self


def test_digests_know_values_and_not_addresses() -> None:
    """Equal values are equal; the order of a list and a dict counts, that of a set does not; cycles end."""
    digest = Digester().digest
    same = [
        ({1, 2, 30000}, {30000, 2, 1}),
        (Node([1, 2.5]), Node([1, 2.5])),
        (np.arange(6)[::2], np.array([0, 2, 4])),
        (np.random.default_rng(3), np.random.default_rng(3)),
    ]
    other = [
        ([1, 2], [2, 1]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (0.0, -0.0),
        (1, True),
        (1, 1.0),
        (np.int64(1), np.int32(1)),
        (Node([1]), Node([2])),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        ("a", b"a"),
    ]

    assert [digest(one) == digest(two) for one, two in same] == [True] * len(same)
    assert [digest(one) == digest(two) for one, two in other] == [False] * len(other)


def test_statements_and_their_heads_list_the_names_that_they_read(tmp_path: Path) -> None:
    """A statement over several lines is one; of an if only its head counts; an augmented assignment reads its target."""
    path = tmp_path / "some.py"
    path.write_text("if (limit\n        > self.floor):\n    total += grow(\n        state['x'],\n    )\n")
    source = SourceFile(str(path))
    head, body = source.statement(2), source.statement(4)

    assert head is not None
    assert body is not None
    assert (head.first_line, head.last_line, sorted(head.reads)) == (1, 2, ["limit", "self", "self.floor"])
    assert (body.first_line, body.last_line, body.calls) == (3, 5, ("grow",))
    assert {"total", "state", "'x'"} <= body.reads
    assert source.statement_text(4) == "total += grow( state['x'], )"


def test_lines_of_two_versions_are_paired(tmp_path: Path) -> None:
    """Moved lines are paired, edited lines correspond, new lines have no counterpart."""
    (tmp_path / "a.py").write_text("one\ntwo\nthree\nfour\n")
    (tmp_path / "b.py").write_text("new\none\ntwo\nTHREE\nfour\n")
    lines = LineMap(SourceFile(str(tmp_path / "a.py")), SourceFile(str(tmp_path / "b.py")))

    assert [lines.to_first(line) for line in range(1, 6)] == [-1, 1, 2, 3, 4]
    assert lines.edited == {4}


def test_a_line_is_edited_if_one_of_its_statements_is(tmp_path: Path) -> None:
    """Of an ``if`` in one line both the condition and what follows count; other layout is no edit."""
    for number, (old, new, edited) in enumerate(
        [
            ("if a > 4: b = 1", "if a > 6: b = 1", {3}),
            ("if a > 4: b = 1", "if a > 4: b = 2", {3}),
            ("a = 1; b = 3", "a = 2; b = 3", {3}),
            ("a = 1; b = 3", "a = 1; b = 4", {3}),
            ("for a in range(3): b = a; c = 2", "for a in range(4): b = a; c = 2", {3}),
            ("if (a and\n        b > 4): c = 1", "if (a and\n        b > 6): c = 1", {4}),
            ("a = (1,\n    2); b = 3", "a = (1,\n    4); b = 3", {4}),
            ("if a > 4: b = 1", "if a > 4:  b  =  1", set[int]()),
            ("a = 1; b = 3", "a = 1;  b = 3", set[int]()),
        ]
    ):
        paths = tmp_path / f"a{number}.py", tmp_path / f"b{number}.py"
        for path, text in zip(paths, (old, new), strict=True):
            path.write_text(f"def step(a, b, c):\n    c = 0\n    {text}\n    return b\n")
        assert LineMap(*(SourceFile(str(path)) for path in paths)).edited == edited, new


def test_half_of_a_rename_is_no_rename(tmp_path: Path) -> None:
    """A line that still has the old name reads a global then."""
    old = "rate = 7\n\ndef grow(self):\n    rate = self.rate\n    return self.size * rate\n"
    (tmp_path / "a.py").write_text(old)
    for name, renamed, edited in (
        ("half.py", old.replace("rate = self", "ratio = self"), {4}),
        ("whole.py", old.replace("    rate = self", "    ratio = self").replace("* rate", "* ratio"), set[int]()),
    ):
        (tmp_path / name).write_text(renamed)
        lines = LineMap(SourceFile(str(tmp_path / "a.py")), SourceFile(str(tmp_path / name)))
        assert (lines.edited, bool(lines.renames("grow"))) == (edited, not edited)


def test_assignments_of_a_constant_and_of_something_else_are_of_two_variables(tmp_path: Path) -> None:
    """A sum that begins with a number, and the array that another version adds up in its place."""
    old = "def warm(bees):\n    {} = {}\n    return {} / 3\n"
    for number, (first, second, renames) in enumerate(
        [
            ("0.0", "1.0", {"heat": "total"}),
            ("0.0", "asarray(bees)", {}),
            ("sum(bees)", "fsum(bees)", {"heat": "total"}),
        ]
    ):
        paths = tmp_path / f"a{number}.py", tmp_path / f"b{number}.py"
        for path, name, value in zip(paths, ("total", "heat"), (first, second), strict=True):
            path.write_text(old.format(name, value, "7" if name == "heat" else name))
        assert LineMap(*(SourceFile(str(path)) for path in paths)).renames("warm") == renames, second


def test_a_global_whose_class_names_no_module_by_a_text_is_no_compiled_function() -> None:
    """Some packages have a property of this name, and functions may have no module at all."""

    class Odd:
        __module__ = property(lambda _: "odd")  # type: ignore[assignment]

        def __call__(self) -> None:
            """Be callable."""

    assert not is_compiled(Odd())
    assert is_compiled(len)


FALLS = """
def step(self, inputs):
    try:
        self.fall()  # HERE
    except RecursionError:
        pass

def fall(self):
    self.state["count"][()] += 1
    self.fall()
"""


@pytest.mark.seldom(0.18)
def test_a_step_that_fills_the_stack_is_not_called_non_deterministic(tmp_path: Path) -> None:
    """It gives the same state whenever it is called from the same depth; the line that catches the error is named."""
    simulation = load(tmp_path, "falls", FALLS)
    step = TracedStep.from_plain(in_a_copy(lambda: trace_step(simulation, None).to_plain()))

    assert step.note == STACK_DEPTH
    cause = cause_of_depth(step.trace)
    assert cause is not None
    assert (cause.kind, cause.place.text) == ("depth", "self.fall()  # HERE")


ODD_VALUES = """
def step(self, inputs):
    self.cup = random.SystemRandom()
    self.number = 10 ** 5000
    self.state["count"][()] += 1
"""


def test_values_that_python_does_not_turn_into_text_do_not_make_the_traced_step_raise(tmp_path: Path) -> None:
    """A generator without a state, and an integer with more digits than may be turned into text."""
    simulation = load(tmp_path, "odd", ODD_VALUES)
    vars(sys.modules["planted_here"])["random"] = random
    step = TracedStep.from_plain(in_a_copy(lambda: trace_step(simulation, None).to_plain()))

    assert (step.raised, step.note, step.trace.limited) == (None, None, None)


RETURNS = """
def step(self, inputs):
    self.state["count"][()] += 1
    return self.seen() + 1

def seen(self):
    return 0.25  # HERE
"""


def test_a_difference_in_what_the_step_returns_alone_is_followed_back(tmp_path: Path) -> None:
    """Such as that of an observation, which no object of the user's keeps."""
    cause, line = cause_of(tmp_path, RETURNS, RETURNS.replace("0.25", "0.75"))

    assert (cause.kind, cause.place.line) == ("edited", line)


WARMS = """
def step(self, inputs):
    for start in (0, 2):
        self.heat[start:start + 2] += 9
    self.calls += 1
    warm = self.heat // 16
    self.state["count"][()] += int(warm.sum())
"""


def test_a_line_that_changes_elements_of_what_differed_before_is_on_the_path(tmp_path: Path) -> None:
    """It reads them and writes them, once in each turn; the line that first makes another value of them is the cause."""
    traces = []
    for folder, kind in (("first", np.uint8), ("second", np.int64)):
        simulation = load(tmp_path, folder, WARMS)
        simulation.heat, simulation.calls = np.full(4, 250, kind), 0
        plain = in_a_copy(lambda simulation=simulation: trace_step(simulation, None).to_plain())  # type: ignore[misc]
        traces.append(StepTrace.from_plain(plain["trace"]))
    cause = find_cause(Alignment(*traces))
    assert cause is not None
    way = [(place.text, text) for place, text in cause.way]
    assert way[0] == ("self.heat[start:start + 2] += 9", "self.heat")
    assert way[1][0] == cause.place.text == "warm = self.heat // 16"


@pytest.mark.parametrize("name", ["BONUS", "self.bonus"])
def test_what_is_not_data_is_not_called_absent(tmp_path: Path, name: str) -> None:
    """A global or an attribute is a module in one of two processes, and None in the other one: both have it."""
    body = f"""
def step(self, inputs):
    self.state["x"][0] += 2 if {name} is not None else 1
"""
    traces = []
    for folder, value in (("first", None), ("second", random)):
        simulation = load(tmp_path, folder, body)
        sys.modules["planted_here"].BONUS = simulation.bonus = value  # type: ignore[attr-defined]
        plain = in_a_copy(lambda simulation=simulation: trace_step(simulation, None).to_plain())  # type: ignore[misc]
        traces.append(StepTrace.from_plain(plain["trace"]))
    cause = find_cause(Alignment(*traces))
    assert cause is not None
    assert [(one.first, one.second) for one in cause.outside] == [("None", "not kept")]


ZONED = """
def step(self, inputs):
    self.state["x"][0] = time.localtime(86_400 * 30).tm_hour
"""


def test_each_differing_part_of_a_result_with_names_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number of a time of the system says nothing without its name, and it is not the whole result."""
    traces = []
    simulation = load(tmp_path, "zoned", ZONED)
    sys.modules["planted_here"].time = time  # type: ignore[attr-defined]
    for zone in ("UTC", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        traces.append(StepTrace.from_plain(in_a_copy(lambda: trace_step(simulation, None).to_plain())["trace"]))
    monkeypatch.undo()
    time.tzset()
    cause = find_cause(Alignment(*traces))
    assert cause is not None
    assert cause.value is not None
    assert cause.value.elements is None
    named = [path.removeprefix("the result of time.localtime.") for path, *_ in cause.value.parts]
    assert named == ["tm_mday", "tm_hour", "tm_wday", "tm_yday"]


def test_a_part_of_a_plain_tuple_is_not_called_the_whole_result() -> None:
    noted = list[tuple[Any, ...]]()
    watch = OperationWatch(Digester().digest, lambda *told: noted.append(told))
    assert watch.run("np.divmod", lambda: (np.zeros(2), np.ones(2)), [], [np.ones(3)])
    assert watch.run("os.stat", lambda: os.stat("."), [])  # noqa: PTH116
    assert watch.run("len", lambda: 3, [])
    assert [(len(outputs), parts) for _, _, outputs, parts in noted] == [(3, ["[0]", "[1]"]), (1, []), (1, [])]


TIMED = """
def step(self, inputs):
    end = time.process_time() + 3  # HERE
    while time.process_time() < end:
        self.guess()
    self.place(5)
    self.state["count"][()] += 1

def guess(self):
    for row in range(SIZE):
        self.place(row % 5)

def place(self, row):
    self.state["x"][row] += 1
    return row
"""


@pytest.mark.parametrize("size", [3, 3000])
def test_two_steps_diverge_where_one_leaves_a_loop_earlier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """The function that both call afterwards, one of them from the loop, is not where: it is another call of it."""
    simulation = load(tmp_path, "timed", TIMED.replace("SIZE", str(size)))
    sys.modules["planted_here"].time = time  # type: ignore[attr-defined]
    traces = []
    for turns in (0, 2):
        told = iter([0.0, *range(turns), *[9.0] * 9])
        monkeypatch.setattr(time, "process_time", told.__next__)
        traces.append(StepTrace.from_plain(in_a_copy(lambda: trace_step(simulation, None).to_plain())["trace"]))
    alignment = Alignment(*traces)
    cause = find_cause(alignment)
    lines = (tmp_path / "timed" / "planted_here.py").read_text().splitlines()
    assert cause is not None
    loop, after = (number for number, line in enumerate(lines, 1) if line.endswith(("< end:", "place(5)")))
    assert cause.place.line == loop
    assert [place.line for place, _ in cause.way] == [loop]
    pairs = [(one.first, one.second) for one in alignment.items if one.first is not None and one.second is not None]
    (at,) = [
        pair for pair in pairs if traces[0].records[pair[0]].line == after and traces[0].records[pair[0]].kind == "line"
    ]
    assert traces[1].records[at[1]].line == after
