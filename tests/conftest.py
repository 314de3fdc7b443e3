"""What all tests share."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is. Each run has others: less than half of the usual number is enough of them.
settings.register_profile("tests", deadline=None, max_examples=40)
settings.register_profile("long", deadline=None)


def pytest_configure(config: pytest.Config) -> None:
    """The long tests try as many examples as hypothesis does by itself."""
    settings.load_profile("long" if config.option.markexpr == "long" else "tests")


@pytest.hookimpl(tryfirst=True)  # Before the marks are looked at.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of tests marked sample(n), or share(part), leave n of their cases, or that part; others in each run.

    At least one case of each; all of them in a run of the long tests, and where a test is named. All workers of a run
    leave the same.
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
    run = getattr(config, "workerinput", {}).get("testrunuid") or str(random.random())
    left_out: set[pytest.Item] = set()
    for name, of_function in cases.items():
        some = random.Random(f"{run} {name}").sample(of_function, _wanted_of(of_function))
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
