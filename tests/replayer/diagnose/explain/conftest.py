"""For tests of replay explain: what counts as the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from replayer.diagnose.explain.before_step import program_code


@pytest.fixture(autouse=True)
def _other_tests_are_no_part_of_the_program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of tests has the modules of many: which ones, depends on the run."""
    is_users = program_code.is_users_file

    def is_own(path: str) -> bool:
        return is_users(path) and (path == str(request.path) or not Path(path).name.startswith("test_"))

    monkeypatch.setattr(program_code, "is_users_file", is_own)
