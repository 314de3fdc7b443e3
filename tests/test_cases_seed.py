"""A run of the tests prints its seeds; --cases-seed draws the same cases again, and --pages-seed the same pages."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DRAWING = """
import random
import pytest

@pytest.mark.sample(3)
@pytest.mark.parametrize("case", range(99))
def test_sampled(case):
    print("drawn", case, random.random())

@pytest.mark.share(0.02)
@pytest.mark.parametrize("case", range(100))
def test_shared(case):
    print("drawn", case, random.random())

@pytest.mark.seldom(0.5)
@pytest.mark.parametrize("case", range(40))
def test_seldom(case):
    print("drawn", case, random.random())

@pytest.fixture
def number():
    return random.random()

def test_random(number):
    print("drawn", number)
"""
FAILING = """
from hypothesis import given, strategies

@given(strategies.integers())
def test_failing(number):
    assert number < 1000
"""
SETTINGS = """
[pytest]
addopts = -p no:cacheprovider -p no:zarr -p no:anyio -p no:platformdirs -m "not long"
markers =
    sample: one
    share: other
    seldom: another
    long: third
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with its own tests, and a copy of this conftest.py with the modules that it imports."""
    for copied in ("conftest.py", "support/huge_pages.py", "support/warm_python.py"):
        shutil.copy(Path(__file__).parent / copied, tmp_path)
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    (tmp_path / "test_drawing.py").write_text(DRAWING)
    return tmp_path


def run_tests(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run pytest in a folder; return the exit code and the output."""
    command = [sys.executable, "-m", "pytest", *arguments]
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert finished.stderr == ""
    return finished.returncode, finished.stdout


def drawn(output: str) -> list[str]:
    """Return the cases that ran and their random numbers, in an order that does not depend on workers."""
    return sorted(re.findall(r"drawn .*", output))


def seeds(output: str) -> set[str]:
    """Return all seeds printed."""
    return set(re.findall(r"--cases-seed (\d+)", output))


@pytest.mark.seldom(0.18)
def test_the_seed_in_the_header_draws_the_same_again(folder: Path) -> None:
    """The same cases and random numbers, for any number of workers; a test named alone has those of the run."""
    code, first = run_tests(folder, "-rP", "-n", "2")
    (seed,) = seeds(first)
    _, again = run_tests(folder, "-rP", "--cases-seed", seed)
    _, alone = run_tests(folder, "-rP", "--cases-seed", seed, "test_drawing.py::test_random")

    assert code == 0
    assert 3 + 2 + 1 < len(drawn(first)) < 3 + 2 + 1 + 40, "those of each mark, and not all that are seldom"
    assert drawn(again) == drawn(first)
    assert len(drawn(alone)) == 1
    assert set(drawn(alone)) < set(drawn(first))


@pytest.mark.seldom(0.18)
def test_a_failure_says_how_to_have_it_again(folder: Path) -> None:
    """The seed follows the failures, also with -q; hypothesis prints how to reproduce its example."""
    (folder / "test_failing.py").write_text(FAILING)
    (code, output), (_, other) = (run_tests(folder, "-q", "-rP") for _ in range(2))

    assert code == 1
    assert len(seeds(output)) == 1
    assert output.index("@reproduce_failure(") < output.index("--cases-seed")
    assert not set(drawn(output)) & set(drawn(other)), "each run draws others"


@pytest.mark.seldom(0.18)
def test_tests_of_slow_folders_have_their_turns(folder: Path) -> None:
    """Those with a mark of their own keep it."""
    slow = folder / "end_to_end"
    slow.mkdir()
    unmarked = "import pytest\n@pytest.mark.parametrize('case', range(100))\ndef test_unmarked(case):\n    print('drawn', case)\n"
    marked = unmarked.replace("def test_unmarked", "@pytest.mark.sample(7)\ndef test_marked")
    (slow / "test_slow.py").write_text(unmarked + marked)
    _, output = run_tests(folder, "-rP", "--cases-seed", "5", "end_to_end")
    assert 7 < len(drawn(output)) < 7 + 60
    _, output = run_tests(folder, "-rP", "-m", "", "end_to_end")
    assert len(drawn(output)) == 200


@pytest.mark.seldom(0.18)
def test_each_page_has_its_turn_and_named_pages_have_it_always() -> None:
    """A fifth of the pages, the same for the same seed; two runs together have more than one; README is named."""
    root = Path(__file__).parents[1]
    every = {str(page.relative_to(root)) for page in root.glob("docs/**/*.md")} | {"README.md"}

    def pages(*arguments: str) -> set[str]:
        code, output = run_tests(root, "--collect-only", "-q", "README.md", "docs", *arguments)
        assert code == 0
        return set(re.findall(r"^(\S+\.md)::", output, re.MULTILINE))

    whole, first, again, other = pages("-m", ""), pages("--pages-seed", "1"), pages("--pages-seed", "1"), pages()

    assert whole <= every
    assert first == again < whole
    assert first < first | other
    assert "README.md" in first & other
    assert len(whole) // 5 <= len(first) <= len(whole) // 5 + 2
