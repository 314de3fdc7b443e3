"""Files that the making of a simulation reads: noted, given to another party, and named where they decide."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

import replayer.commands.main
from recorder.ambient.outside.own_code import is_users_file
from recorder.ambient.outside.read_watch import ReadWatch
from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.parties.differences.factors import find_factors
from replayer.diagnose.parties.differences.read_files import file_factors, untested_files
from replayer.diagnose.parties.given_files import GivenFiles, read_files
from replayer.diagnose.parties.party import Made, Party

from oracle.command_lines import run

MARKET = """
import csv
import pathlib

import numpy as np

TABLE = pathlib.Path(__file__).with_name("prices.csv")


class Market:
    def __init__(self):
        with open(TABLE, newline="") as file:
            self.prices = {row["name"]: int(row["price"]) for row in csv.DictReader(file)}
        self.coins = 9

    def step(self, inputs):
        self.coins += self.prices["corn"]

    def save(self):
        return {"coins": np.int64(self.coins), "corn": np.int64(self.prices["corn"])}

    def load(self, saved):
        self.coins, self.prices["corn"] = int(saved["coins"]), int(saved["corn"])
"""
RECORD = """
import recorder, given_market
with recorder.Recorder("run.tape", given_market.Market(), trial_ms=0) as tape:
    for _ in range(5):
        tape.step()
"""


@pytest.fixture
def peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two folders with one program and two tables."""
    monkeypatch.chdir(tmp_path)
    for place, price in ((tmp_path, 3), (tmp_path / "other", 4)):
        place.mkdir(exist_ok=True)
        (place / "given_market.py").write_text(MARKET)
        (place / "prices.csv").write_text(f"name,price\ncorn,{price}\n")
    return tmp_path


def made(*files: Path) -> Made:
    """A simulation whose making has read files."""
    return Made("a:A", {}, {}, {}, [], "3", {str(path): f"a.py:{number}" for number, path in enumerate(files, 1)})


def test_another_file_is_opened_in_place_of_one_and_what_is_read_is_noted_with_its_line(peers: Path) -> None:
    """However it is opened; the watch sees the path that was given, and its line."""
    own, other = str(peers / "prices.csv"), str(peers / "other" / "prices.csv")

    def opened() -> dict[str, Any]:
        files, watch = GivenFiles({own: other, str(peers / "unread"): other}), ReadWatch(lambda path: path == __file__)
        files.use()
        with watch.watching(functions=False):
            with open("prices.csv") as file:  # noqa: PTH123 - each way of asking
                texts = [file.read()]
            texts.append(Path(own).read_text())
            number = os.open(own, os.O_RDONLY)
            texts.append(os.read(number, 99).decode())
        return {"texts": texts, "unopened": files.unopened(), "read": list(read_files(watch.reads).values())}

    found = in_a_copy(opened)
    assert set(found["texts"]) == {"name,price\ncorn,4\n"}
    assert found["unopened"] == [str(peers / "unread")]
    assert all(place.startswith("test_given_files.py:") for place in found["read"])


def test_files_of_one_name_and_other_content_are_a_difference_that_can_be_given(peers: Path) -> None:
    """Not those with the same content, nor those of a name that one party has twice."""
    own, other = peers / "prices.csv", peers / "other" / "prices.csv"
    same = [peers / "same.txt", peers / "other" / "same.txt"]
    for path in same:
        path.write_text("same")
    tape: Any = SimpleNamespace(meta={})
    parties = Party("A", peers / "a.tape", peers / "a.tape"), Party("B", peers / "b.tape", peers / "b.tape")

    def factors(first: Made, second: Made) -> Any:
        return find_factors(parties, (tape, tape), (first, second), range(0))

    (factor,) = factors(made(own, same[0]), made(other, same[1]))
    assert (factor.kind, factor.name) == ("file", "prices.csv")
    assert factor.texts == ("prices.csv (read at a.py:1)", "other/prices.csv (read at a.py:1)")
    assert [dict(factor.give(parties[to], 1 - to).files) for to in (0, 1)] == [
        {str(own): str(other)},
        {str(other): str(own)},
    ]
    assert factors(made(own, other), made(other)) == []


def test_files_of_two_names_that_one_line_opens_are_a_difference(peers: Path) -> None:
    """Not if the line opens several files, nor those that both parties open."""
    winter, summer = peers / "winter.csv", peers / "summer.csv"
    for path in (winter, summer):
        path.write_text(path.name)
    tape: Any = SimpleNamespace(meta={})
    parties = Party("A", peers / "a.tape", peers / "a.tape"), Party("B", peers / "b.tape", peers / "b.tape")

    def factors(first: Made, second: Made) -> Any:
        return find_factors(parties, (tape, tape), (first, second), range(0))

    (factor,) = factors(made(winter), made(summer))
    assert (factor.kind, factor.name) == ("file", "that a.py:1 opens")
    assert dict(factor.give(parties[0], 1).files) == {str(winter): str(summer)}
    elsewhere = attrs.evolve(made(summer), files={str(summer): "a.py:2"})
    assert factors(made(winter), elsewhere) == []
    several = attrs.evolve(made(winter, summer), files={str(winter): "a.py:1", str(peers / "prices.csv"): "a.py:1"})
    assert factors(several, made(summer)) == []
    assert factors(made(winter, summer), made(summer, winter)) == []


def test_files_of_one_name_are_told_apart_by_the_ends_of_their_paths(peers: Path) -> None:
    """What has no counterpart is named as not tested."""
    ends = ["north/herd.json", "south/herd.json"]
    for root in ("here", "there"):
        for number, end in enumerate(ends):
            (peers / root / end).parent.mkdir(parents=True)
            (peers / root / end).write_text(f"{root if number else 'same'}")
    sides = [[peers / root / end for end in ends] for root in ("here", "there")]
    (factor,) = file_factors(made(*sides[0]), made(*sides[1]))
    assert (factor.name, factor.files) == ("south/herd.json", ((str(sides[0][1]), str(sides[1][1])),))
    more = made(*sides[1], peers / "extra" / "cattle.json")
    more = attrs.evolve(more, files={**more.files, str(peers / "extra" / "cattle.json"): "a.py:7"})
    assert file_factors(made(*sides[0]), more)[0].name == "south/herd.json"
    assert untested_files((made(*sides[0]), more)) == ["the file extra/cattle.json, which only B opens (a.py:7)"]
    assert untested_files((more, made(*sides[0])))[0].endswith("which only A opens (a.py:7)")
    assert untested_files((made(*sides[0]), made(*sides[1]))) == []


def test_the_users_files_are_those_of_no_package() -> None:
    """Nor of Python, nor ours."""
    assert is_users_file("/home/someone/game.py")
    assert not any(map(is_users_file, [os.__file__, pytest.__file__, replayer.commands.main.__file__, "<string>", ""]))


@pytest.mark.long
@pytest.mark.usefixtures("peers")
def test_a_file_that_a_constructor_reads_is_named_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Each party with the file of the other one gives what that gives; a remark in the code, which reads it, is no cause."""
    Path("other/given_market.py").write_text(f"{MARKET}# A remark.\n")
    for place in (".", "other"):
        subprocess.run([sys.executable, "-c", RECORD], check=True, cwd=place)
    sims = "--sim given_market:Market --other-sim given_market:Market --other-path other"
    assert run(replayer.commands.main.main, f"explain run.tape other/run.tape {sims}") == 1
    printed = capsys.readouterr().out
    assert "cause: the content of the file prices.csv, which is read while the simulation is made" in printed
    assert "(read at given_market.py:12)" in printed
    assert "A with what B has there gives what B gives" in printed
    assert "alone as well" not in printed
    assert "other/given_market.py in B: exchanged, it changes nothing" in printed


@pytest.mark.seldom(1 / 4)
@pytest.mark.usefixtures("peers")
def test_a_file_of_which_one_party_is_not_here_is_named_without_saying_that_the_step_reads_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The constructor reads it; both tapes are explained with one table."""
    for place in (".", "other"):
        subprocess.run([sys.executable, "-c", RECORD], check=True, cwd=place)
    sims = "--sim given_market:Market --other-sim given_market:Market"
    assert run(replayer.commands.main.main, f"explain run.tape other/run.tape {sims}") == 1
    printed = capsys.readouterr().out
    assert "up to its end the simulation reads prices.csv (read at given_market.py:12), of which each" in printed


STEP_READS = """
import json, pathlib

class Market:
    def __init__(self):
        self.coins = 9

    def step(self, inputs):
        self.coins += json.loads(pathlib.Path(__file__).with_name("prices.json").read_text())
"""
IMPORT_READS = """
import json, pathlib

PRICE = json.loads(pathlib.Path(__file__).with_name("prices.json").read_text())

class Market:
    def __init__(self):
        self.coins = 9

    def step(self, inputs):
        self.coins += PRICE
"""


def test_a_file_is_of_the_first_stage_that_reads_it() -> None:
    """A step that reads again what the constructor read changes nothing."""
    first = made().with_files({"/a": "a.py:1"}, "construction")
    later = first.with_files({"/a": "a.py:9", "/b": "a.py:10"}, "step")
    assert later.files == {"/a": "a.py:1", "/b": "a.py:10"}
    assert later.stages == {"/a": "construction", "/b": "step"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "stage"),
    [(STEP_READS, "read by a step"), (IMPORT_READS, "read while modules are imported")],
    ids=["step", "import"],
)
def test_a_file_that_the_step_or_an_import_reads_is_named(
    code: str, stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is given to the other party, as a file is that a constructor reads."""
    monkeypatch.chdir(tmp_path)
    for place, price in (tmp_path, 3), (tmp_path / "other", 4):
        place.mkdir(exist_ok=True)
        (place / "given_market.py").write_text(code)
        (place / "prices.json").write_text(str(price))
        record = (
            'import recorder, given_market\nwith recorder.record(given_market.Market(), "run.tape", trial_ms=0) as t:\n'
        )
        subprocess.run([sys.executable, "-c", f"{record}    t.step(None)\n"], check=True, cwd=place)
    sims = "--sim given_market:Market --other-sim given_market:Market --other-path other"
    assert run(replayer.commands.main.main, f"explain run.tape other/run.tape {sims}") == 1
    printed = capsys.readouterr().out
    assert f"cause: the content of the file prices.json, which is {stage}: " in printed
    assert "A with what B has there gives what B gives" in printed
    assert "no difference" not in printed
