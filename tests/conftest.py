"""Shared by all tests: the seed that draws cases and random numbers, hypothesis' profiles, a quick collection."""

from __future__ import annotations

import gc
import math
import os
import random
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import warm_python
from huge_pages import use_huge_pages
from hypothesis import settings

# The time of an example depends on the machine's load. Each run draws different ones, so fewer than usual are enough.
settings.register_profile("tests", deadline=None, max_examples=30, print_blob=True)
settings.register_profile("long", deadline=None, print_blob=True)

# The tests start many processes, and pytest rewrites the assertions of 200 modules, which takes longer than the rest
# of collecting. Bytecode is kept for the next run, whatever the environment sets.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

TRIED_SHARE = 0.05  # Of the tests: their recordings are tried first, as a user's are.

STARTED_SHARE = 0.05  # Of the tests: the processes of the product start as a user's do.

# One figure for how fast the machines are: of the part of the runs that seldom, share or FOLDER_PARTS gives, a test is done in
# this share. Chosen so that a run takes less than ten minutes on two cores.
TURNS = 0.18

# A test there starts processes, commands or a browser, or reads and writes other packages' formats: one without a mark of
# its own is done in this part of the runs.
FOLDER_PARTS = {
    "end_to_end": 0.3,
    "recorder/corpus": 0.4,
    "recorder/storage/remote": 0.4,
    "replayer/branches": 0.5,
    "replayer/datasets": 0.3,
    "replayer/desync": 1.0,
    "replayer/diagnose": 0.25,
    "replayer/follow": 0.5,
    "replayer/regression": 0.5,
    "replayer/search": 1.0,
    "replayer/timeline": 0.5,
    "replayer/view": 0.3,
    "sim/adapters": 0.4,
}

MARKS = ("sample", "share", "seldom", "long")
HERE = Path(__file__).parent

CASES_SEED = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that repeats a run's cases."""
    parser.addoption(
        "--cases-seed",
        type=int,
        metavar="N",
        help="Draw the cases of tests marked sample or share, and random numbers in tests, as a run did that printed N.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Load hypothesis' profile, the default one for long tests. All workers of a run get the seed of the run.

    A run that was started by nohup ignores SIGHUP, and one that a script left in the background SIGINT. Tests send both.
    """
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.load_profile("long" if config.option.markexpr == "long" else "tests")
    given = getattr(config, "workerinput", {}).get("cases_seed", config.option.cases_seed)
    config.stash[CASES_SEED] = random.SystemRandom().randrange(1 << 32) if given is None else given


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the seed to a worker of pytest-xdist."""
    node.workerinput["cases_seed"] = node.config.stash[CASES_SEED]


def pytest_report_header(config: pytest.Config) -> str:
    """Print the seed first, before a test can hang."""
    return f"cases and random numbers: --cases-seed {config.stash[CASES_SEED]}"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the seed again, after failures, and where -q leaves the header out."""
    if terminalreporter.stats.keys() & {"failed", "error"} or config.get_verbosity() < 0:
        terminalreporter.write_line(f"the same cases and random numbers again: --cases-seed {config.stash[CASES_SEED]}")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect tests without the garbage collector, which finds nothing and takes a quarter of the time.

    What was collected stays to the end: to look through it for garbage again and again takes a fifth of the tests' time.
    In a worker, which has many tests, it is put into large pages for the sake of the forks.
    """
    gc.disable()
    try:
        collected = yield
        if hasattr(session.config, "workerinput"):
            use_huge_pages()
        return collected
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # Before fixtures draw.
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed a test's random numbers, and so the seeds that it draws, with the run's seed and the test's name alone."""
    random.seed(f"{item.config.stash[CASES_SEED]} {item.nodeid}")


@pytest.hookimpl(tryfirst=True)  # Before the marks are read.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests marked seldom(part), but for TURNS of that part, and cases of tests marked sample(n) or share(part).

    Of the cases n are kept, or TURNS of that part; all choices are different ones in each run.

    At least one case of each is kept; all of them in a run of the long tests, and if a test is named. All workers of a
    run keep the same ones, and so does a run with the same --cases-seed.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if (part := _folder_part(item)) is not None and not any(map(item.get_closest_marker, MARKS)):
            item.add_marker(pytest.mark.seldom(part))
        is_marked = item.get_closest_marker("sample") or item.get_closest_marker("share")
        if is_marked and not item.get_closest_marker("long") and "[" in item.nodeid:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    seldom = [item for item in items if item.get_closest_marker("seldom")]
    if config.option.markexpr == "long":
        for item in [*seldom, *(item for of_function in cases.values() for item in of_function)]:
            item.add_marker("long")
    if config.option.markexpr != "not long" or any("::" in argument for argument in config.args):
        return
    deselected = {item for item in seldom if not _is_its_turn(item, config.stash[CASES_SEED])}
    for name, of_function in cases.items():
        kept = random.Random(f"{config.stash[CASES_SEED]} {name}").sample(of_function, _kept_count(of_function))
        deselected |= set(of_function) - set(kept)
    config.hook.pytest_deselected(items=list(deselected))
    items[:] = [item for item in items if item not in deselected]


def _folder_part(item: pytest.Item) -> float | None:
    """The part of the runs that does a test of its folder; None for one that all of them do."""
    folder = item.path.parent.relative_to(HERE) if item.path.is_relative_to(HERE) else None
    return next(
        (part for name, part in FOLDER_PARTS.items() if folder is not None and folder.is_relative_to(name)), None
    )


def _is_its_turn(item: pytest.Item, seed: int) -> bool:
    """Whether a run does a test that is marked seldom. Its cases have their turns each for itself."""
    mark = item.get_closest_marker("seldom")
    assert mark is not None
    return random.Random(f"{seed} {item.nodeid}").random() < TURNS * float(mark.args[0])


def _kept_count(cases: list[pytest.Item]) -> int:
    """Return the number of cases of one test that a run keeps."""
    sample, share = cases[0].get_closest_marker("sample"), cases[0].get_closest_marker("share")
    count = (
        sample.args[0]
        if sample is not None
        else math.ceil(TURNS * share.args[0] * len(cases))
        if share is not None
        else 1
    )
    return min(count, len(cases))


@pytest.fixture(autouse=True)
def path_of_modules() -> Iterator[None]:
    """Restore sys.path: --sim adds folders to it, and processes that a test starts inherit it."""
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.fixture(autouse=True)
def seldom_tried(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Try simulations before they are recorded in tests marked tried and in a share of the others.

    A trial forks the process of the tests several times, which takes longer than most tests. What a test records is the
    same with and without it.
    """
    if request.node.get_closest_marker("tried") or random.random() < TRIED_SHARE:
        return
    monkeypatch.setattr("replayer.desync.isolated_rerun.RERUNS_MAX", 2)  # Each is a copy of the process, too.
    monkeypatch.setattr("recorder.session.recorder.warn_of_hidden_state", lambda *_: None)
    for module in ("record", "first_trial"):
        monkeypatch.setattr(f"recorder.adapted.{module}.is_tried", lambda *_: False)


@pytest.fixture(autouse=True)
def seldom_started(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have most of the interpreters that the product starts be copies of one that has imported its modules.

    The imports take four fifths of such a process. In a share of the tests these processes start as ever.
    """
    if random.random() < STARTED_SHARE:
        return
    if any(word in request.node.nodeid for word in ("diagnose", "explain")):
        warm_python.want("modules", {"PYTHONHASHSEED": "0"} | dict(os.environ))
    warm_python.start_wanted()
    monkeypatch.setattr("recorder.processes.interpreter.subprocess", warm_python.STAND_IN)
