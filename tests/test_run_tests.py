"""A run of all tests in parts: each module is in one part, each page too, and what fails in a part fails the run."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from project_paths import ROOT

RUN_TESTS = ROOT / "tools/run_tests.py"
GOOD, BAD, NONE = "def test_it():\n    pass\n", "def test_it():\n    assert 1 == 2\n", "# No test has its turn.\n"


@pytest.fixture(scope="module")
def run_tests() -> ModuleType:
    """The program."""
    spec = importlib.util.spec_from_file_location("run_tests", RUN_TESTS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["run_tests"] = module
    spec.loader.exec_module(module)
    return module


def test_each_module_is_in_one_part(run_tests: ModuleType) -> None:
    """So nothing is left out, and nothing done twice."""
    held: list[Path] = []
    for part in run_tests.test_parts(ROOT / "tests"):
        of_part = [file for path in part.paths for file in (path.rglob("test_*.py") if path.is_dir() else [path])]
        assert len(of_part) <= run_tests.MODULES_MAX
        held += of_part
    assert sorted(held) == sorted((ROOT / "tests").rglob("test_*.py"))


def test_each_page_is_in_one_part(run_tests: ModuleType) -> None:
    """The pages that have their turn are drawn alike in all parts, and divided."""
    program = (
        "import sys; sys.path.insert(0, 'tests/support'); import conftest; pages = [f'docs/{number}.md' for number in range(23)]\n"
        "print(*(page for part in sys.argv[1:] for page in sorted(conftest.pages_of_part(pages, part))))"
    )
    parts = [part.options[part.options.index("--pages-part") + 1] for part in run_tests.page_parts()]
    held = _printed(ROOT, program, *parts)[1].split()
    assert sorted(held) == sorted(f"docs/{number}.md" for number in range(23))
    assert all(part.paths[-1] == ROOT / "docs" for part in run_tests.page_parts())


def _printed(folder: Path, program: str, *arguments: str) -> tuple[int, str]:
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_a_failed_part_fails_the_run(tmp_path: Path) -> None:
    """All parts run. A part without a test that has its turn is good."""
    program = (
        f"import sys; from pathlib import Path; sys.path.insert(0, {str(RUN_TESTS.parent)!r}); import run_tests\n"
        "run_tests.ROOT = Path.cwd(); run_tests.MODULES_MAX = 1; run_tests.page_parts = list\n"
        "run_tests.MODULES = ('pytest',)\n"
        "sys.argv[1:] = ['--cases-seed', '7', '-p', 'no:cacheprovider']; sys.exit(run_tests.main())"
    )
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "conftest.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--cases-seed')\n")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    printed = {}
    for name, bodies in (("good", (GOOD, GOOD, NONE)), ("bad", (GOOD, BAD, GOOD))):
        for number, body in enumerate(bodies):
            (tests / f"test_{number}.py").write_text(body)
        exit_code, printed[name] = _printed(tmp_path, program)
        assert exit_code == (name == "bad"), printed[name]
    assert "tests/test_2.py: none has its turn" in printed["good"]
    assert printed["good"].splitlines()[-1].startswith("2 passed in ")
    assert "assert 1 == 2" in printed["bad"]
    assert "failed: tests/test_1.py" in printed["bad"]
    assert "2 passed" in printed["bad"].splitlines()[-1]
    assert "1 failed" in printed["bad"].splitlines()[-1]
