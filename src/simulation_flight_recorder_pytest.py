"""The plugin for pytest: the fixtures flight_recorder and golden_tape, see docs/test-with-tapes.md.

pytest loads this module in every run where the package is installed. So it imports nothing of ours until a test asks for
one of the fixtures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from replayer.regression.failed_tapes import TestRecorder

FOLDER = "failed-tapes"
UPDATE = "--update-golden-tapes"
_RECORDER = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that records golden tapes, and the folder for the tapes of failed tests."""
    group = parser.getgroup("flight recorder")
    group.addoption(
        UPDATE,
        action="store_true",
        dest="update_golden_tapes",
        help="Record the golden tapes of the tests that run, in place of the old ones.",
    )
    parser.addini(
        "failed_tapes", f"The folder for the tapes of failed tests, in the root folder: {FOLDER}.", default=FOLDER
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """Keep the tapes of a test that failed, and say in its report how to open them."""
    outcome: Any = yield
    tapes = item.stash.get(_RECORDER, None)
    report = outcome.get_result()
    if tapes is None or not report.failed:
        return
    tapes.keep(call.excinfo.value if call.excinfo is not None else None)
    if tapes.kept:
        report.sections.append(("flight recorder", "\n".join(tapes.kept)))
        tapes.kept = []


@pytest.fixture
def flight_recorder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestRecorder]:
    """Record simulations: a call with one returns what to use in its place.

    If the test fails, its tape is kept in the folder failed-tapes, and the report has the command that opens it.
    """
    from replayer.regression.failed_tapes import TestRecorder  # noqa: PLC0415 - only for tests that use it

    folder = Path(request.config.rootpath) / str(request.config.getini("failed_tapes"))
    tapes = TestRecorder(tmp_path_factory.mktemp("flight"), folder, request.node.nodeid)
    request.node.stash[_RECORDER] = tapes
    yield tapes
    del request.node.stash[_RECORDER]
    tapes.discard()


@pytest.fixture
def golden_tape(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Compare a run with its golden tape, which is in the folder of the test.

    A call takes the name of the tape, what makes the simulation, and the inputs of each step, or a function that plays
    with what is recorded. field_map names a file next to the test that tells how the fields of the tape are called now.
    """

    def compare(
        name: str, make_simulation: Callable[[], Any], inputs: Any, *, field_map: str | None = None, **options: Any
    ) -> None:
        __tracebackhide__ = True
        from replayer.playback.field_map import FieldMapError  # noqa: PLC0415 - see above
        from replayer.regression.golden_tapes import compare_golden, record_golden  # noqa: PLC0415 - see above

        path = request.path.parent / name
        command = f"pytest {UPDATE} '{request.node.nodeid}'"
        if request.config.getoption("update_golden_tapes"):
            record_golden(path, make_simulation, inputs, **options)
            return
        if not path.exists():
            pytest.fail(f"there is no golden tape {path}: record it with {command}", pytrace=False)
        own_map = None if field_map is None else request.path.parent / field_map
        try:
            differs = compare_golden(path, make_simulation, inputs, field_map=own_map, **options)
        except (FieldMapError, FileNotFoundError) as error:
            pytest.fail(str(error), pytrace=False)
        if differs is not None:
            pytest.fail(f"{differs.text}\nif this is as it should be from now on: {command}", pytrace=False)

    return compare
