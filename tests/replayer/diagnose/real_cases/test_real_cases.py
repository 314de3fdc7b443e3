"""Defects of public packages: replay verify, check and explain say what is so, and name the value and the line.

The packages are old ones, which need environments of their own: `make test-real`. Programs with the same defects,
written after their code, are tested in each run.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import re
from pathlib import Path
from typing import Any

import attrs
import pytest

import recorder
import replayer.commands.main
from sim.adapters import fields

from oracle.command_lines import run

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # Of the packages.
    pytest.mark.seldom(1 / 4),
]


@attrs.frozen
class Case:
    """One program.

    Attributes:
        package, version: it is skipped without them; None for a program of our own.
        suspect: a pattern of what check names.
        file, line: where explain finds the cause; patterns.
        path: of a value that differs.
    """

    suspect: str
    file: str
    line: str
    path: str
    package: str | None = None
    version: str = ""


ADDRESSES = r".*hash by their memory addresses"
ENTROPY = r"a seed from the system \(entropy\): read .* at seeding\.py:\d+"
CASES = {
    "crafter_world": Case(
        rf"Env\._world\._chunks\[\(\d+, \d+, \d+, \d+\)\] \(order of the set\){ADDRESSES}",
        r"crafter/env\.py", r"creatures = \[obj for obj in objs if isinstance\(obj, cls\)\]", r"_world\._obj",
        "crafter", "1.8.3",
    ),
    "mesa_wealth": Case(
        rf"MoneyModel\.grid\.grid\[\d\]\[\d\] \(order of the set\){ADDRESSES}",
        r"mesa_wealth\.py", r"cellmates = self\.model\.grid\.get_cell_list_contents\(\[self\.pos\]\)",
        r"schedule\._agents\[\d+\]\.wealth", "mesa", "0.8.6",
    ),
    "highway_drive": Case(
        ENTROPY, r"highway_env/envs/common/abstract\.py",
        r"info = self\._info\(obs, action=self\.action_space\.sample\(\)\)", r"action_space\._np_random", "highway-env", "1.7",
    ),
    "crafter_like": Case(
        rf"Game\.world\.chunks\[\(\d, 0\)\] \(order of the set\){ADDRESSES}",
        r"crafter_like\.py", r"creatures = \[obj for obj in objects if isinstance\(obj, cls\)\]",
        r"world\..*place",
    ),
    "highway_like": Case(
        r"a seed from the system \(entropy\): read .* at highway_like\.py:\d+",
        r"highway_like\.py", r"self\.generator = .*", r"space\.generator",
    ),
}  # fmt: skip


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Case]:
    """The name of a program and what is known of it. Its run is recorded in the present folder, as ``run.tape``."""
    name = request.param
    wanted = CASES[name]
    if wanted.package is not None:
        try:
            installed = importlib.metadata.version(wanted.package)
        except importlib.metadata.PackageNotFoundError:
            installed = "none"
        if installed != wanted.version:
            pytest.skip(f"needs {wanted.package} {wanted.version}, found {installed}: make test-real installs it")
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(f"real_programs.{name}")
    what = {} if module.STEP is None else {"what": fields(step=module.STEP)}
    subject = recorder.record(module.make(), "run.tape", **what, trial_ms=0, quiet=True, keyframe_interval_ticks=10)
    module.play(subject)
    subject.close()
    return f"real_programs.{name}:make", wanted


@pytest.mark.seldom(0.18)
def test_the_value_and_the_line_are_named(case: tuple[str, Case], capsys: Any) -> None:
    """The recording verifies nowhere, since no state can hold what a step reads; the commands say which."""
    sim, wanted = case
    assert run(replayer.commands.main.main, f"verify run.tape --sim {sim}") == 1
    verified = capsys.readouterr().out
    assert "the same interval, run again, gave different hashes" in verified
    assert "hidden state takes part" not in verified

    assert run(replayer.commands.main.main, f"check {sim} --inputs run.tape") == 1
    checked = capsys.readouterr().out
    assert re.search(rf"^ *{wanted.suspect}.*; proved$", checked, re.MULTILINE), checked

    assert run(replayer.commands.main.main, f"explain run.tape --sim {sim}") == 1
    explained = capsys.readouterr().out
    assert re.search(rf"^  {wanted.path}", explained, re.MULTILINE), explained
    assert re.search(rf"^cause: .*\n  .*{wanted.file}:\d+ in .*\n      {wanted.line}$", explained, re.MULTILINE), (
        explained
    )
    for lines in (verified, checked, explained):
        assert "WatchedArray" not in lines
        assert "RecursionError" not in lines
