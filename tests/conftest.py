"""What all tests share: the seed that draws cases and random numbers, hypothesis' profiles, a collection that is quick."""

from __future__ import annotations

import gc
import math
import os
import random
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is. Each run has others: less than half of the usual number is enough.
settings.register_profile("tests", deadline=None, max_examples=40, print_blob=True)
settings.register_profile("long", deadline=None, print_blob=True)

# The tests start many processes, and pytest rewrites the assertions of 200 modules, which takes longer than all the rest of
# collecting: both are kept for the next run, whatever is set outside.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

CASES_SEED = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """One option, to have a run again."""
    parser.addoption(
        "--cases-seed",
        type=int,
        metavar="N",
        help="Draw the cases of tests marked sample or share, and random numbers in tests, as a run did that printed N.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The long tests try as many examples as hypothesis does by itself. All workers of a run have the seed of the run."""
    settings.load_profile("long" if config.option.markexpr == "long" else "tests")
    given = getattr(config, "workerinput", {}).get("cases_seed", config.option.cases_seed)
    config.stash[CASES_SEED] = random.SystemRandom().randrange(1 << 32) if given is None else given


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist the seed."""
    node.workerinput["cases_seed"] = node.config.stash[CASES_SEED]


def pytest_report_header(config: pytest.Config) -> str:
    """The seed, before anything can hang."""
    return f"cases and random numbers: --cases-seed {config.stash[CASES_SEED]}"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The seed once more, after failures, and where -q leaves the header out."""
    if terminalreporter.stats.keys() & {"failed", "error"} or config.get_verbosity() < 0:
        terminalreporter.write_line(f"the same cases and random numbers again: --cases-seed {config.stash[CASES_SEED]}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests, but no garbage: there is none, and looking for it takes a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # Before fixtures draw.
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Random numbers of a test, and so the seeds that it draws, depend on the run's seed and the test's name alone."""
    random.seed(f"{item.config.stash[CASES_SEED]} {item.nodeid}")


@pytest.hookimpl(tryfirst=True)  # Before the marks are looked at.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of tests marked sample(n), or share(part), leave n of their cases, or that part; others in each run.

    At least one case of each; all of them in a run of the long tests, and where a test is named. All workers of a run
    leave the same, and so does a run with the same --cases-seed.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        is_marked = item.get_closest_marker("sample") or item.get_closest_marker("share")
        if is_marked and not item.get_closest_marker("long") and "[" in item.nodeid:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    if config.option.markexpr == "long":
        for item in [one for of_function in cases.values() for one in of_function]:
            item.add_marker("long")
    if config.option.markexpr != "not long" or any("::" in argument for argument in config.args):
        return
    left_out: set[pytest.Item] = set()
    for name, of_function in cases.items():
        some = random.Random(f"{config.stash[CASES_SEED]} {name}").sample(of_function, _wanted_of(of_function))
        left_out |= set(of_function) - set(some)
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def _wanted_of(cases: list[pytest.Item]) -> int:
    """How many of the cases of one test a run does."""
    sample, share = cases[0].get_closest_marker("sample"), cases[0].get_closest_marker("share")
    wanted = sample.args[0] if sample is not None else math.ceil(share.args[0] * len(cases)) if share is not None else 1
    return min(wanted, len(cases))


@pytest.fixture(autouse=True)
def path_of_modules() -> Iterator[None]:
    """Folders in which --sim looks for modules are one test's own: processes that it starts inherit the path."""
    before = list(sys.path)
    yield
    sys.path[:] = before
