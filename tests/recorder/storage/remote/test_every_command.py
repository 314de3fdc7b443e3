"""Each command that takes a tape or a folder takes a URL, or says in one line that it does not. None is left out.

The store is a folder under another scheme than ``file``, which also the processes that commands start can read.
"""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import pytest

import recorder.commands.main
import replayer.commands.main

from oracle.command_lines import run
from small_worlds import Walkers, record

PROGRAMS = {"record": recorder.commands.main, "replay": replayer.commands.main}
FACTORY = "--sim small_worlds:Walkers"
# {0} and {1} are two tapes, {2} is their folder. The exit code and the errors are those of the same line with paths.
TAKES = {
    "info": "info {0}",
    "seek": f"seek {{0}} --tick 12 {FACTORY}",
    "verify": f"verify {{0}} {FACTORY}",
    "tail": "tail {0}",
    "follow": f"follow {{0}} {FACTORY}",
    "repair": "repair {0} -o repaired-{3}.tape",
    "contracts": f"contracts {{0}} {FACTORY}",
    "drift": f"drift {{0}} {FACTORY}",
    "explain": f"explain {{0}} --tick 12 {FACTORY}",
    "cut": "cut {0} --ticks 0..20 -o cut-{3}.tape",
    "rekey": f"rekey {{0}} --every 5 -o rekeyed-{{3}}.tape {FACTORY}",
    "join": "join {0} {1} -o joined-{3}.tape",
    "pack": "pack {0} -o packed-{3}.tape",
    "branch": f"branch {{0}} --at 8 -o branch-{{3}}.tape {FACTORY}",
    "tree": "tree {2}",
    "find": f"find 'x[2]>1000' {{0}} {FACTORY}",
    "who": f"who {{0}} --field x --row 2 --at 15 {FACTORY}",
    "shrink": f"shrink {{0}} --until 'x[2]>-1000' -o shrunk-{{3}}.tape {FACTORY}",
    "influence": f"influence {{0}} --field x --row 2 --at 15 {FACTORY}",
    "export": f"export {{0}} --events -o events-{{3}}.csv {FACTORY}",
    "extract": f"extract {{0}} -o data-{{3}} --table states {FACTORY}",
    "plot": f"plot {{0}} --tick 5 -o plot-{{3}}.png {FACTORY}",
    "diff": "diff {0} {1}",
    "results": "results {0}",
    "compare": "compare {0} {1}",
    "ls": "ls {2}",
    "render": f"render {{0}} -o picture-{{3}}.png --ticks 3 {FACTORY}",
}
NEEDS_THIS_MACHINE = {  # They write beside the tape, start it in other environments, or record into it.
    ("replay", "index"): "index {0}",
    ("replay", "bisect"): "bisect {0} --good HEAD --sim a:b",
    ("replay", "certify"): "certify {0}",
    ("record", "resume"): "resume {0}",
    ("record", "upload"): "upload {0} {1}",
}
NOTHING_TO_SHOW = (
    "shrink",
    "contracts",
    "export",
    "plot",
    "results",
    "compare",
    "render",
)  # In these tapes, as the commands say.
SERVES = {"view": "view {0} --no-browser"}  # Ends only where there is no tape.


def converters(hint: Any) -> set[str]:
    """The names of the functions that convert an argument of this type."""
    found = set()
    for part in typing.get_args(hint):
        if getattr(part, "converter", None) is not None:
            found.add(part.converter.__name__)
        found |= converters(part)
    return found


def commands_with_a_tape() -> set[tuple[str, str]]:
    """All commands that have an argument, not an option, which is a tape or a folder."""
    found = set()
    for program, cli in PROGRAMS.items():
        app = cli.load([])
        for name in cli.COMMANDS:
            hints = typing.get_type_hints(app[name].default_command, include_extras=True)
            options = {"output", "dump_folder", "field_map", "upload", "url"}
            given = set().union(*(converters(hint) for key, hint in hints.items() if key not in options))
            if given & {"to_location", "to_local_tape", "to_place", "local_path"}:
                found.add((program, name))
    return found


def test_each_command_with_a_tape_is_asked_here() -> None:
    asked = {("replay", name) for name in (*TAKES, *SERVES)} | set(NEEDS_THIS_MACHINE)
    assert commands_with_a_tape() == asked


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two runs that differ from tick 11 on, here and in a store; the URL of the store."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    inputs: list[Any] = [[(2, 5)] if tick % 7 == 0 else None for tick in range(20)]
    for name, changed in (("run.tape", None), ("other.tape", [(4, 9)])):
        inputs[10] = changed
        record(name, Walkers(0), inputs, keyframe_interval_ticks=8, trial_ms=0)
        (tmp_path / "runs" / name).write_bytes(Path(name).read_bytes())
    return f"local://{tmp_path}/runs"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.seldom(0.1)] * (name == "explain")) for name in TAKES]
)
def test_a_command_takes_a_url(name: str, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the exit code and the errors that it has for a path; paths and URLs have their own hints of what to do next."""
    told = []
    for place, prefix in (("here", ""), ("there", f"{store}/")):
        line = TAKES[name].format(f"{prefix}run.tape", f"{prefix}other.tape", prefix.rstrip("/") or ".", place)
        code = run(replayer.commands.main.main, line)
        out = capsys.readouterr()
        assert "Traceback" not in out.err
        told.append((code, out.err.replace(prefix or "?", "").replace("there", "here")))
    assert told[0] == told[1]
    assert "No such file" not in told[0][1]
    assert told[0][0] in ((2,) if name in NOTHING_TO_SHOW else (0, 1))


@pytest.mark.parametrize(("program", "name"), NEEDS_THIS_MACHINE)
def test_a_command_that_needs_a_path_says_so(
    program: str, name: str, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(Path().rglob("*"))
    line = NEEDS_THIS_MACHINE[program, name].format(f"{store}/run.tape", f"{store}/copy.tape")
    assert run(PROGRAMS[program].main, line) == 2
    error = capsys.readouterr().err
    assert f"{store}/run.tape: expected a path of this machine, not a URL" in error
    assert len(error.splitlines()) == 1
    assert sorted(Path().rglob("*")) == before


def test_the_page_of_a_tape_opens_a_url(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(replayer.commands.main.main, SERVES["view"].format(f"{store}/none.tape")) == 2
    assert capsys.readouterr().err == f"error: {store}/none.tape: No such file or directory\n"
