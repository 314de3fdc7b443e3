"""Rules about the tree itself that a machine can keep."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from project_paths import ROOT

SOURCES = sorted((ROOT / "src").rglob("*.py"))
LINES_MAX = 400
FUNCTION_LINES_MAX = 75  # Long docstrings of public functions included.
DUMPING_GROUNDS = {"utils", "util", "helpers", "helper", "common", "misc", "base", "core", "manager"}


def shown(path: Path) -> str:
    """A path as a test's name."""
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_a_file_has_one_job_and_says_it(path: Path) -> None:
    """A module has a docstring, at most 400 lines, a telling name, and no function of more than 75 lines."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)

    assert ast.get_docstring(tree)
    assert text.count("\n") <= LINES_MAX
    assert path.stem not in DUMPING_GROUNDS
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno <= FUNCTION_LINES_MAX, node.name


@pytest.mark.parametrize("path", [p for p in SOURCES if "sim/worlds" in str(p)], ids=shown)
def test_worlds_use_nothing_that_differs_between_machines(path: Path) -> None:
    """No set is iterated, no hash() or id() is used, no float dtype and no transcendental function appears."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            assert name not in {"hash", "id"}, ast.unparse(node)
            assert not re.search(r"\b(sin|cos|exp|log|sqrt|power|random\.(?!words))\w*$", name), ast.unparse(node)
        if isinstance(node, ast.For | ast.comprehension):
            assert not isinstance(node.iter, ast.Set | ast.SetComp), ast.unparse(node.iter)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert not re.fullmatch(r"[<|]?f[248]", node.value), node.value


IMPORTING = """
import signal, sys, threading, os
before = ({s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}, threading.active_count(), dict(os.environ))
import recorder, replayer, sim
after = ({s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}, threading.active_count(), dict(os.environ))
assert before == after
assert "pickle" not in {m.split(".")[0] for m in sys.modules if m.startswith(("sim", "recorder", "replayer"))}
assert not {"rich", "cyclopts", "cattrs", "gymnasium"} & set(sys.modules), "only the commands need these"
"""


def test_importing_has_no_side_effects() -> None:
    """Importing the packages starts no thread, sets no signal handler and loads nothing that only commands need."""
    subprocess.run([sys.executable, "-c", IMPORTING], check=True)


@pytest.mark.parametrize(
    ("file", "importing", "asker"),
    [
        ("sim.py", "recorder", "recorder"),
        ("sim.py", "replayer", "recorder"),
        ("recorder.py", "replayer", "replayer"),
        ("replayer.py", "recorder", "recorder"),
    ],
)
def test_a_file_of_the_users_that_hides_a_package_is_named(
    tmp_path: Path, file: str, importing: str, asker: str
) -> None:
    """A script beside its own sim.py gets one sentence that names that file."""
    (tmp_path / file).write_text("x = 1\n")
    (tmp_path / "script.py").write_text(f"import {importing}\n")
    finished = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)

    last = finished.stderr.splitlines()[-1]
    assert last == (
        f"ImportError: {tmp_path / file} hides the package {file[:-3]!r} that {asker} needs: "
        "give that file another name"
    )


def test_the_tests_that_the_pages_name_exist() -> None:
    """A promise points to what holds it."""
    named = {
        name
        for page in [*(ROOT / "docs").glob("*.md"), ROOT / "SPEC.md", ROOT / "README.md"]
        for name in re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8"))
    }
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^\s*def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }

    assert len(named) > 10
    assert named <= defined


def test_the_pythons_in_the_metadata_are_those_that_are_tested() -> None:
    """The classifiers name the versions that tools/test_pythons.sh runs, and no others."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    script = (ROOT / "tools" / "test_pythons.sh").read_text(encoding="utf-8")
    (versions,) = re.findall(r"^for version in (.+); do$", script, re.MULTILINE)
    named = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in project["classifiers"]]

    assert [found[1] for found in named if found] == versions.split()
    assert project["requires-python"] == f">={versions.split()[0]}"
