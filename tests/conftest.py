"""What all tests share."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("tests", deadline=None)  # How long an example takes says how busy the machine is.
settings.load_profile("tests")


@pytest.hookimpl(tryfirst=True)  # Before the marks are looked at.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of tests marked sample(n), of which each run does some of the cases, leave n, others in each run.

    All of them in a run of the long tests, and where a test is named. All workers of a run leave the same.
    """
    sampled = [item for item in items if item.get_closest_marker("sample") and not item.get_closest_marker("long")]
    if config.option.markexpr == "long":
        for item in sampled:
            item.add_marker("long")
    if config.option.markexpr != "not long" or any("::" in argument for argument in config.args):
        return
    by_function: dict[str, list[pytest.Item]] = {}
    for item in sampled:
        by_function.setdefault(item.nodeid.partition("[")[0], []).append(item)
    run = getattr(config, "workerinput", {}).get("testrunuid") or str(random.random())
    left_out: set[pytest.Item] = set()
    for name, cases in by_function.items():
        mark = cases[0].get_closest_marker("sample")
        assert mark is not None
        some = random.Random(f"{run} {name}").sample(cases, min(mark.args[0], len(cases)))
        left_out |= set(cases) - set(some)
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True)
def path_of_modules() -> Iterator[None]:
    """Folders in which --sim looks for modules are one test's own: processes that it starts inherit the path."""
    before = list(sys.path)
    yield
    sys.path[:] = before
