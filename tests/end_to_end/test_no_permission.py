"""Commands of a user without rights, refused by the system itself: one line, exit code 2, and nothing written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import recorder
import recorder.commands.main

from oracle.command_lines import TINY, run
from project_paths import SOURCES

# Root may read everything by these two rights alone; without them its files obey their modes, as those of any user do.
RIGHTS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
RUNNER = """
import contextlib, io, json, shlex, sys
import recorder.commands.main, replayer.commands.main
mains = {"record": recorder.commands.main.main, "replay": replayer.commands.main.main}
results = []
for line in json.load(sys.stdin):
    program, *arguments = shlex.split(line)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            mains[program](arguments)
            code = None
        except SystemExit as end:
            code = end.code
    results.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(results))
"""
LINES = {
    "replay info secret.tape": "secret.tape: Permission denied",
    "replay info shut/a.tape": "shut/a.tape: Permission denied",
    "replay seek secret.tape --tick 5": "secret.tape: Permission denied",
    "replay verify shut/a.tape": "shut/a.tape: Permission denied",
    "replay diff a.tape secret.tape": "secret.tape: Permission denied",
    "replay find tick>3 secret.tape": "secret.tape: Permission denied",
    "replay ls shut": "shut: Permission denied",
    "replay tree shut": "shut: Permission denied",
    "replay extract a.tape shut -o data": "shut: Permission denied",
    "replay extract a.tape -o closed/data": "closed/data",
    "replay seek a.tape --tick 5 -o closed/x.npz": "closed/x.npz: Permission denied",
    "replay export a.tape --telemetry -o closed/x.csv": "closed/x.csv: Permission denied",
    "replay plot a.tape -o closed/x.png": "closed/x.png: Permission denied",
    "replay branch a.tape --at 5 -o closed/b.tape": "closed/b.tape: Permission denied",
    "replay cut a.tape --ticks 2..5 -o closed/c.tape": "closed/c.tape",
    "replay repair closed/a.tape": "closed/a-repaired.tape",
    "replay index closed/a.tape": "closed/a.tape.lookup: Permission denied",
    "replay verify a.tape --sim hidden:World": "hidden.py: Permission denied",
    "record run tiny.toml -o closed/x.tape": "closed/x.tape: Permission denied",
    "record run shut/tiny.toml": "shut/tiny.toml: Permission denied",
    "record run tiny.toml -o x.tape --inputs secret.tape": "secret.tape: Permission denied",
    "record resume secret.tape --ticks 99": "secret.tape: Permission denied",
    "record resume readable.tape --ticks 99": "readable.tape: Permission denied",
    "record batch tiny.toml -o closed/batch": "closed/batch: Permission denied",
    "record generate tiny.toml --seeds 2 -o closed/runs": "closed/runs: Permission denied",
    "record checkpoints shut": "shut: Permission denied",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A tape and a folder that may not be read, a folder that may not be written, and a tape that may only be read."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    assert run(recorder.commands.main.main, "run tiny.toml --ticks 12 -q -o a.tape") == 0
    for name in ("shut", "closed"):
        (tmp_path / name).mkdir()
        shutil.copy("a.tape", name)
    shutil.copy("a.tape", "secret.tape")
    shutil.copy("a.tape", "readable.tape")
    Path("hidden.py").write_text("World = None\n")
    modes = {"secret.tape": 0, "hidden.py": 0, "shut": 0, "closed": 0o555, "readable.tape": 0o444}
    for name, mode in modes.items():
        Path(name).chmod(mode)
    yield tmp_path
    for name in modes:
        Path(name).chmod(0o700)


def without_rights() -> list[str]:
    """The beginning of a command line whose program obeys the modes of files; skips where there is none."""
    if os.geteuid() != 0:
        return []
    if shutil.which(RIGHTS[0]) is None:
        pytest.skip("root without setpriv may read everything")
    refused = subprocess.run([*RIGHTS, "cat", "secret.tape"], capture_output=True, check=False)
    if refused.returncode == 0 or b"Permission denied" not in refused.stderr:
        pytest.skip("root keeps its rights here")
    return RIGHTS


def test_what_the_system_refuses_is_one_line_and_exit_code_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All commands in one process, one after the other."""
    capsys.readouterr()
    before = {path.name for path in folder.iterdir()}
    finished = subprocess.run(
        [*without_rights(), sys.executable, "-c", RUNNER],
        input=json.dumps(list(LINES)),
        env={**os.environ, "PYTHONPATH": str(SOURCES), "COLUMNS": "300"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    results = dict(zip(LINES, json.loads(finished.stdout), strict=True))

    wrong = {
        line: result
        for line, result in results.items()
        if (result[0], result[1], result[2].count("\n")) != (2, "", 1)
        or not result[2].startswith("error: ")
        or LINES[line] not in result[2]
    }
    assert wrong == {}
    assert {path.name for path in folder.iterdir()} - before <= {"__pycache__"}
