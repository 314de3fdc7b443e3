"""Of a function with several edits, explain names those that make the difference, and not the first one."""

from __future__ import annotations

import ast
import importlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main
from replayer.diagnose.explain.cause import Cause, SourceLocation
from replayer.diagnose.explain.line_pairs.line_map import LineMap
from replayer.diagnose.explain.line_pairs.source_functions import functions_of
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.versions.changed_part import ChangedPart
from replayer.diagnose.explain.versions.edits import needed_edits as module
from replayer.diagnose.explain.versions.edits.mixed_function import FunctionEdits
from replayer.diagnose.explain.versions.edits.needed_edits import NeededEdits, NotRunError, needed_edits

from oracle.command_lines import run

OLD = """
def toll(cars):
    '''What cars pay.'''
    rate = 2 * 3
    paid, free = [], []
    for number, car in enumerate(cars):
        if car > 4:
            paid.append(car * rate)
        else:
            free.append(number)
    return paid, sum(free)
"""


def needed(
    folder: Path,
    new: str,
    name: str = "toll",
    old: str = OLD,
    end_s: float = 60.0,
    runs_max: int = 100,
    endless: tuple[str, ...] = ("no such text",),
) -> NeededEdits | None:
    """The needed edits of a function, by what it returns. endless: a mix that has all of these texts does not end."""
    for side, text in enumerate((old, new)):
        (folder / str(side)).mkdir()
        (folder / str(side) / "tolls.py").write_text(text)
    files = str(folder / "0" / "tolls.py"), str(folder / "1" / "tolls.py")

    def returned(path: str) -> Any:
        names: dict[str, Any] = {}
        exec(Path(path).read_text(), names)
        try:
            return names[name]([3, 5, 2, 9])
        except NameError as error:
            return error

    ran = list[ChangedPart]()

    def is_right(path: str) -> bool | None:
        text = Path(path).read_text()
        return None if all(one in text for one in endless) else bool(returned(path) == returned(files[0]))

    def are_right(parts: Sequence[ChangedPart]) -> list[bool | None]:
        ran.extend(parts)
        if len(ran) > runs_max:
            raise NotRunError
        return [is_right(part.files[0]) for part in parts]

    return needed_edits(ChangedPart("tolls", name, files, (2, 2)), are_right, 2, time.monotonic() + end_s)


@pytest.mark.parametrize(
    ("edits", "count", "lines"),
    [
        ([("2 * 3", "3 * 2"), ("car > 4", "car > 6")], 2, ["tolls.py:7 (A)"]),
        ([("[], []", "[], [7]"), ("append(number)", "append(number + 1)"), ("2 * 3", "6")], 3, ["5 (A)", "10 (A)"]),
        ([("rate = 2 * 3", "price = 3 * 2"), ("car * rate", "price * car * 2")], 2, ["8 (A)"]),
        ([("2 * 3", "6"), ("    for number", "    cars = cars[1:]\n    for number")], 2, ["6 (B)"]),
        (
            [
                ("2 * 3", "6"),
                ("What", "All that"),
                ("            free", "            free.insert(0, 1) or free"),
            ],
            2,
            ["10 (A)"],
        ),
        ([("toll(cars)", "toll(cars, least=8)"), ("2 * 3", "6"), ("car > 4", "car > least")], 3, ["7 (A)"]),
        (
            [("def toll(cars)", "@staticmethod\ndef toll(cars: list[int]) -> object"), ("car > 4", "car > 6")],
            2,
            ["7 (A)"],
        ),
        (
            [("(cars):\n    '''", "(cars=()):\n    '''"), ("car > 4", "car > 6"), ("car * rate", "car + rate")],
            3,
            ["7 (A)", "8 (A)"],
        ),
    ],
    ids=["one", "two", "renamed", "one added", "in a branch", "a default", "a decorator", "a default and two"],
)
def test_the_fewest_edits_are_found(tmp_path: Path, edits: list[tuple[str, str]], count: int, lines: list[str]) -> None:
    text = OLD
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    found = needed(tmp_path, text)
    assert found is not None
    assert found.tested.count == count
    assert [name.rpartition(":")[2] for name in found.tested.needed] == [line.rpartition(":")[2] for line in lines]
    first = found.edits[0]
    assert found.part.lines == first.lines
    place = SourceLocation(found.part.files[0], found.edits[0].lines[0], "toll", "")
    assert found.has(Cause("edited", place, None, None, (), None, [], [])) == bool(first.own)
    other = SourceLocation(found.part.files[0], 11, "toll", "")
    assert not found.has(Cause("edited", other, None, None, (), None, [], []))


def test_a_function_with_one_edit_is_not_searched(tmp_path: Path) -> None:
    found = needed(tmp_path, OLD.replace("car > 4", "car > 6"), runs_max=0)
    assert found is not None
    assert (found.tested, [one.lines for one in found.edits]) == (None, [(7, 7)])
    assert found.cause_of_place([]) is None


def test_what_could_not_be_found_out_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many edits, no time to leave some out, or a mix that could not be run."""
    new = OLD.replace("[], []", "[], [7]").replace("append(number)", "append(number + 1)").replace("2 * 3", "6")
    (tmp_path / "late").mkdir()
    late = needed(tmp_path / "late", new, end_s=-1.0)
    assert late is not None
    assert (late.tested.count, late.tested.needed, late.part.lines) == (3, (), (2, 2))
    place = SourceLocation(late.part.files[0], 4, "toll", "")
    assert late.has(Cause("edited", place, None, None, (), None, [], []))
    (tmp_path / "stopped").mkdir()
    stopped = needed(tmp_path / "stopped", new, runs_max=4)
    assert stopped is not None
    assert stopped.tested == late.tested
    monkeypatch.setattr(module, "EDITS_MAX", 2)
    many = needed(tmp_path, new)
    assert many is not None
    assert many.tested.needed == ()
    assert SourceFile(many.part.files[0]).lines == SourceFile(late.part.files[0]).lines


def test_an_edit_is_not_called_needed_where_the_mix_without_it_does_not_end(tmp_path: Path) -> None:
    """Two edits that do it together: that one alone does not is not known of a step that hangs. One that does it is told."""
    new = OLD.replace("[], []", "[], [7]").replace("append(number)", "append(number + 1)")
    folders = [tmp_path / name for name in ("ends", "hangs", "enough")]
    for folder in folders:
        folder.mkdir()
    ends = needed(folders[0], new)
    hangs = needed(folders[1], new, endless=("[], []", "number + 1"))
    enough = needed(folders[2], OLD.replace("2 * 3", "6").replace("car > 4", "car > 6"), endless=("2 * 3", "car > 6"))
    assert ends is not None
    assert hangs is not None
    assert enough is not None
    assert [len(one.tested.needed) for one in (ends, hangs, enough)] == [2, 0, 1]


def test_a_function_that_is_async_in_one_version_has_no_mixes(tmp_path: Path) -> None:
    """A mix with the head of one and the body of the other is neither of the two versions."""
    new = OLD.replace("def toll", "async def toll").replace("car > 4", "car > 6").replace("2 * 3", "6")
    assert needed(tmp_path, new) is None


PARK = """
class Park:
    def __init__(self):
        self.day, self.heat, self.cars = 0, 0.0, [3, 1, 2]

    def step(self, inputs):
        self.heat += {}
        {}
        {}
"""


def explained(
    capsys: pytest.CaptureFixture[str], name: str, old: str, new: str, tick: int = 1, kind: str = "Park"
) -> str:
    """Record four steps of the old code as a plain object, and explain the difference to the new one."""
    Path("old").mkdir()
    for path in (Path("old", f"{name}.py"), Path(f"{name}.py")):
        path.write_text(old)
    park = recorder.record(getattr(importlib.import_module(name), kind)(), "run.tape", step="step", trial_ms=0)
    for _ in range(4):
        park.step(None)
    park.close()
    del sys.modules[name]
    Path(f"{name}.py").write_text(f"{new}# A line more.\n")
    importlib.invalidate_caches()
    assert run(replayer.commands.main.main, f"explain run.tape --sim {name}:{kind} --code old --tick {tick}") == 1
    return capsys.readouterr().out


def test_the_first_edit_is_not_named_where_a_later_one_makes_the_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A list that is equal and another object: no value differs, so that no line is found by one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    old = PARK.format("0.5 * self.day", "self.cars.sort()", "self.day += 1")
    new = PARK.format("self.day * 0.5", "self.cars = sorted(self.cars)", "self.day = 1 + self.day")
    printed = explained(capsys, "edited_park", old, new)
    assert "  old/edited_park.py:8 in Park.step (A)\n      self.cars.sort()\n" in printed
    assert "  edited_park.py:8 in Park.step (B)\n      self.cars = sorted(self.cars)\n" in printed
    assert "  tested: with Park.step of A alone, B gives the state of A\n" in printed
    assert "  tested: of the 3 edits in it, that at edited_park.py:8 (A) alone is enough\n" in printed
    assert "0.5 * self.day" not in printed


@pytest.mark.parametrize("letter", ["A", "B"])
def test_a_line_of_one_version_alone_is_told_with_the_version(
    letter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After replay bisect, both versions have the line under one path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    texts = [PARK.format("0.5", more, "self.day += 1") for more in ("", "self.heat -= 0.25")]
    printed = explained(capsys, f"one_sided_{letter}", *(texts[::-1] if letter == "A" else texts))
    assert f"cause: only one version of the code, {letter}, has this line at this place\n" in printed
    assert f"one_sided_{letter}.py:8 in Park.step ({letter})\n      self.heat -= 0.25\n" in printed


def test_lines_in_another_order_are_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of the two lines has its like in the other version: none of them is an edited one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    old = PARK.format("0.5", "self.heat *= 3", "self.heat -= 1")
    printed = explained(capsys, "reordered_park", old, PARK.format("0.5", "self.heat -= 1", "self.heat *= 3"))
    assert "cause: the two versions of the code have these lines in another order\n" in printed
    first, second = "self.heat *= 3", "self.heat -= 1"
    for folder, letter, texts in (("old/", "A", (first, second)), ("", "B", (second, first))):
        assert "".join(
            f"  {folder}reordered_park.py:{line} in Park.step ({letter})\n      {text}\n"
            for line, text in zip((8, 9), texts, strict=True)
        ) in printed  # fmt: skip
    assert "  tested: with Park.step of A alone, B gives the state of A\n" in printed
    assert "edits in it" not in printed


STREET = """
class Lamp:
    def __init__(self, level):
        self.level = level

    def is_on(self):
        return self.level > 0

class Street:
    def __init__(self):
        self.lamps = [Lamp(0), Lamp(3)]

    def brighten(self):
        for lamp in self.lamps:
            if lamp.is_on():
                lamp.level = min(lamp.level + 2, 4)

    def dim(self):
        for lamp in self.lamps:
            if lamp.is_on():
                lamp.level -= 1

    def step(self, inputs):
        self.{}()
        self.{}()
"""


def test_of_lines_in_another_order_the_last_writers_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both versions run the same lines: which of them wrote the value last is what differs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    old, new = STREET.format("brighten", "dim"), STREET.format("dim", "brighten")
    printed = explained(capsys, "reordered_street", old, new, kind="Street")
    path = printed.partition("  path into the state:\n")[2].splitlines()
    assert [" ".join(line.split()) for line in path[:3]] == [
        "old/reordered_street.py:24 self.brighten()",
        "old/reordered_street.py:21 lamps[1].level in A lamp.level -= 1",
        "reordered_street.py:16 lamps[1].level in B lamp.level = min(lamp.level + 2, 4)",
    ]


HALL = """
import numpy as np

class Hall:
    def __init__(self):
        self.scent = np.array([4.0, 1.0])

    def mix(self):
        self.scent += np.roll(self.scent, 1)

    def air(self):
        self.scent[0] *= 0.5

    def step(self, inputs):
        self.{}()
        self.{}()
"""


def test_elements_that_a_line_writes_count_for_the_last_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that assigns the attribute itself may have run before it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    old, new = HALL.format("mix", "air"), HALL.format("air", "mix")
    printed = explained(capsys, "reordered_hall", old, new, kind="Hall")
    path = printed.partition("  path into the state:\n")[2].splitlines()
    assert [" ".join(line.split())[:46] for line in path[1:3]] == [
        "old/reordered_hall.py:12 scent in A self.scent[0] *= 0.5"[:46],
        "reordered_hall.py:9 scent in B self.scent += np.roll"[:46],
    ]


@pytest.mark.parametrize(
    ("old", "new", "lines", "two"),
    [
        ("abc", "cba", ((3, 3),), ("ac", "ca")),
        ("abcd", "bcda", ((3, 3),), ("ab", "ba")),
        ("abcde", "xbdce", ((3, 3), (5, 5)), None),
        ("abab", "abba", ((5, 5),), ("ab", "ba")),
        ("abc", "abcd", ((2, 6),), None),
        ("abc", "bcd", ((3, 2), (2, 5)), None),
    ],
    ids=["three", "far", "with another edit", "twice", "a new one", "one gone, one new"],
)
def test_statements_in_another_order_are_one_edit(
    tmp_path: Path, old: str, new: str, lines: tuple[tuple[int, int], ...], two: tuple[str, str] | None
) -> None:
    files = []
    for side, text in enumerate((old, new)):
        (tmp_path / f"{side}.py").write_text("\ndef run():\n" + "".join(f" {one}()\n" for one in text))
        files.append(SourceFile(str(tmp_path / f"{side}.py")))
    found = FunctionEdits("run", *files, LineMap(*files))
    assert tuple(edit.lines for edit in found.edits) == lines
    if two is not None:
        assert ["".join(ast.unparse(node)[0] for node in side) for side in found.edits[0].reordered] == list(two)
    assert not any(edit.reordered for edit in found.edits[0 if two is None else 1 :] if edit.lines != (5, 5))
    wanted = [ast.unparse(functions_of(file.tree)["run"]) for file in files]
    assert [
        ast.unparse(functions_of(ast.parse(found.text(chosen)))["run"]) for chosen in ({*range(9)}, set[int]())
    ] == wanted


FERRY = """
class Ferry:
    def __init__(self):
        self.room, self.cars, self.left = 9, [2, 4, 9, 3, 9], []

    def fits(self, length):
        {}

    def step(self, inputs):
        car = self.cars.pop(0)
        if not self.fits(car):
            self.left.append(car)
"""


def test_the_first_result_that_differs_is_told_with_what_returned_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines that do not correspond: a removed one says less than what the two versions return."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    old = FERRY.format("if length < 9:\n            return True\n        return self.room == length")
    new = FERRY.format("room = self.room - length\n        return not room < 0 and length <= 3")
    printed = explained(capsys, "ferry_fits", old, new, tick=2, kind="Ferry")
    assert "  old/ferry_fits.py:8 in Ferry.fits (A)\n      return True\n" in printed
    assert "  ferry_fits.py:8 in Ferry.fits (B)\n      return not room < 0 and length <= 3\n" in printed
    result = "the result of Ferry.fits(length=4), the first call that gives another result for the same arguments"
    assert f"  {result}:\n      A True  B False\n" in printed
    assert "  tested: with Ferry.fits of A alone, B gives the state of A\n" in printed


def test_functions_are_not_said_to_do_nothing_alone_where_one_alone_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the step gives with that one alone is not known."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    mill = """
import os


def is_open():
    return {}


def ground():
    return {}


class Mill:
    def __init__(self):
        self.flour = 0

    def step(self, inputs):
        self.flour += ground()
"""
    old, new = mill.format(1, "2 if is_open() else os._exit(3)"), mill.format(0, "4 + is_open()")
    out = explained(capsys, "mill_of_two", old, new, kind="Mill")
    assert "none of them alone" not in out
    assert "  tested: with is_open and ground of A together, B gives the state of A\n" in out
