"""What several copies of a process have to say at once is said once."""

from __future__ import annotations

import multiprocessing
from typing import Any

import pytest

from sim.user_warning import _is_said, said_once

COPIES, MESSAGES = 8, 100


def tell(start: Any, found: Any) -> None:
    start.wait()
    found.put([not _is_said(f"message {number}") for number in range(MESSAGES)])


@pytest.mark.parametrize("copies", [1, COPIES])
def test_of_several_copies_one_says_it(copies: int) -> None:
    """They begin at the same moment."""
    forks = multiprocessing.get_context("fork")
    start, found = forks.Barrier(copies), forks.Queue()
    with said_once():
        workers = [forks.Process(target=tell, args=(start, found)) for _ in range(copies)]
        for worker in workers:
            worker.start()
        told = [found.get(timeout=60) for _ in workers]
        for worker in workers:
            worker.join()
        assert _is_said("message 0")
    assert [sum(said) for said in zip(*told, strict=True)] == [1] * MESSAGES
    assert not _is_said("message 0")
