"""Each command that takes a tape or a folder takes a URL, or says in one line that it does not. None is left out.

The store is a folder under another scheme than ``file``, which also the processes that commands start can read.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from counted_store import empty

import recorder.commands.main
import replayer
import replayer.commands.main

from oracle.command_lines import run
from project_paths import SUPPORT
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
    "certify": f"certify {{0}} --quick --factor hash-seed {FACTORY}",
}
SLOW = ("explain", "certify")  # They start other processes.
# Other uses of a tape. {4} is a folder for new tapes and data sets, here or at a URL.
OUTPUTS = (
    "repair {0} -o {4}/repaired.tape",
    "cut {0} --ticks 0..20 -o {4}/cut.tape",
    f"extract {{0}} -o {{4}}/data --table states {FACTORY}",
    f"extract {{0}} {{1}} -o {{4}}/data --append --table states {FACTORY}",
    "ls {4}",
)
PAIRS = (
    f"explain {{0}} {{1}} {FACTORY}",
    f"certify {{0}} --quick --factor hash-seed {FACTORY}",
    "certify {0} --check",
)
NEEDS_THIS_MACHINE = {  # They write beside the tape, start it in other environments, or record into it.
    ("replay", "index"): "index {0}",
    ("replay", "bisect"): "bisect {0} --good HEAD --sim a:b",
    ("record", "resume"): "resume {0}",
    ("record", "upload"): "upload {0} {1}",
    ("record", "checkpoints"): "checkpoints {0}",
}
FILES = ("inputs", "start", "code", "test", "override", "repo", "plot", "add")  # Options that are no tapes.
NOTHING_TO_SHOW = (
    "shrink",
    "contracts",
    "export",
    "plot",
    "results",
    "compare",
    "render",
)  # In these tapes, as the commands say.
# Files of this machine that are no tapes, or tapes that commands write to while they work.
OPTIONS_OF_THIS_MACHINE = {
    ("replay", "seek"): ("seek {0} --tick 1 -o {1}", "seek {0} --tick 1 --dump-folder {1}"),
    ("replay", "verify"): ("verify {0} --dump-folder {1}",),
    ("replay", "follow"): ("follow {0} --dump-folder {1}",),
    ("replay", "check"): ("check small_worlds:Walkers --inputs {1}",),
    ("replay", "explain"): ("explain {0} --code {1}",),
    ("replay", "cut"): ("cut {0} --tick 1 -o a.tape --pytest {1}",),
    ("replay", "branch"): (
        "branch {0} --at 1 -o {1}",
        "branch {0} --at 1 -o a --inputs {1}",
        "branch {0} --at 1 -o a --override {1}",
    ),
    ("replay", "shrink"): ("shrink {0} --desync -o {1}", "shrink {0} --desync -o a.tape --pytest {1}"),
    ("replay", "bisect"): ("bisect run.tape --good HEAD --sim a:b --repo {1}",),
    ("replay", "export"): ("export {0} --events -o {1}",),
    ("replay", "certify"): ("certify {0} -o {1}",),
    ("replay", "plot"): ("plot {0} -o {1}",),
    ("replay", "diff"): ("diff {0} {0} -o {1}",),
    ("replay", "ls"): ("ls {2} --plot {1}", "ls . --add {1}"),
    ("replay", "render"): ("render {0} --ticks 3 -o {1}",),
    ("record", "run"): ("run quiet-meadow --inputs {1}", "run quiet-meadow --from {1}", "run quiet-meadow -o {1}"),
    ("record", "resume"): ("resume run.tape --inputs {1}",),
    ("record", "batch"): ("batch quiet-meadow -o {1}",),
    ("record", "sweep"): ("sweep quiet-meadow --axis seed=1 -o {1}",),
    ("record", "generate"): ("generate quiet-meadow -o {1}",),
}
SERVES = {"view": "view {0} --no-browser"}  # Ends only where there is no tape.


def converters(hint: Any) -> set[str]:
    """The names of the functions that convert an argument of this type."""
    found = set()
    for part in typing.get_args(hint):
        if getattr(part, "converter", None) is not None:
            found.add(part.converter.__name__)
        found |= converters(part)
    return found


def is_plain_path(hint: Any) -> bool:
    """Return True if an argument of this type becomes a path without a converter: a URL would lose a slash."""
    return hint is Path or (
        not any(getattr(part, "converter", None) is not None for part in typing.get_args(hint))
        and any(is_plain_path(part) for part in typing.get_args(hint))
    )


def test_no_argument_takes_a_url_for_a_path() -> None:
    """Of all commands, with the options that several of them share."""
    plain = []
    for program, cli in PROGRAMS.items():
        app = cli.load([])
        for name in cli.COMMANDS:
            hints = typing.get_type_hints(app[name].default_command, include_extras=True)
            for hint in [*hints.values()]:
                for shared in (
                    *typing.get_args(hint),
                    *(one for part in typing.get_args(hint) for one in typing.get_args(part)),
                ):
                    if isinstance(shared, type) and shared.__module__.startswith(
                        ("recorder.commands", "replayer.commands")
                    ):
                        hints |= typing.get_type_hints(shared, include_extras=True)
            plain += [f"{program} {name}: {key}" for key, hint in hints.items() if is_plain_path(hint)]
    assert plain == []


def commands_with_a_tape() -> set[tuple[str, str]]:
    """All commands that have an argument, not an option, which is a tape or a folder."""
    found = set()
    for program, cli in PROGRAMS.items():
        app = cli.load([])
        for name in cli.COMMANDS:
            hints = typing.get_type_hints(app[name].default_command, include_extras=True)
            options = {"output", "dump_folder", "field_map", "upload", "url", *FILES}
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
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))  # For the processes of certify.
    (tmp_path / "runs").mkdir()
    inputs: list[Any] = [[(2, 5)] if tick % 7 == 0 else None for tick in range(20)]
    for name, changed in (("run.tape", None), ("other.tape", [(4, 9)])):
        inputs[10] = changed
        record(name, Walkers(0), inputs, keyframe_interval_ticks=8, trial_ms=0)
        (tmp_path / "runs" / name).write_bytes(Path(name).read_bytes())
    return f"local://{tmp_path}/runs"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.seldom(0.1)] * (name in SLOW)) for name in TAKES]
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


def codes_of(lines: Sequence[str], store: str, capsys: pytest.CaptureFixture[str]) -> dict[str, list[int]]:
    """The exit codes of commands with paths, and with URLs; new tapes and data sets are in "new", or in a store of this process."""
    codes = {}
    Path("new").mkdir()
    empty()
    for place, prefix, new in (("here", "", "new"), ("there", f"{store}/", "counted://new")):
        words = [line.format(f"{prefix}run.tape", f"{prefix}other.tape", "", place, new) for line in lines]
        codes[place] = [run(replayer.commands.main.main, one) for one in words]
        assert "Traceback" not in capsys.readouterr().err
    return codes


@pytest.mark.seldom(0.05)
def test_two_tapes_and_a_certificate(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    codes = codes_of(PAIRS, store, capsys)
    assert codes["here"] == codes["there"] == [1, 0, 0]


def test_new_tapes_and_data_sets_are_at_urls_as_well(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The data sets have the same rows, and the new tapes the same hashes."""
    codes = codes_of(OUTPUTS, store, capsys)
    assert codes["here"] == codes["there"] == [0, 0, 0, 0, 0]
    for name in ("repaired.tape", "cut.tape"):
        with replayer.Tape(f"new/{name}") as one, replayer.Tape(f"counted://new/{name}") as other:
            assert [one.state_hash(tick) for tick in range(21)] == [other.state_hash(tick) for tick in range(21)]
    sets = [replayer.Dataset(f"{folder}/data") for folder in ("new", "counted://new")]
    assert sets[0].rows == sets[1].rows == {"states": 42}


@pytest.mark.parametrize(
    ("program", "line"), [(key[0], line) for key, lines in OPTIONS_OF_THIS_MACHINE.items() for line in lines]
)
def test_an_option_that_needs_a_path_says_so(
    program: str, line: str, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(Path().rglob("*"))
    assert run(PROGRAMS[program].main, line.format(f"{store}/run.tape", "s3://bucket/new", store)) == 2
    error = capsys.readouterr().err
    assert "s3://bucket/new: expected a path of this machine, not a URL" in error
    assert len(error.splitlines()) == 1
    assert sorted(Path().rglob("*")) == before


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
