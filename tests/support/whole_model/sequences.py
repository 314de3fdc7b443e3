"""Random sequences of operations, run at full speed; one that fails is cut down to the operations that it needs."""

from __future__ import annotations

import random
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from whole_model.driver import WEIGHTS, Driver
from whole_model.fallible_disk import Interruption

SEQUENCE_STEPS = 250
SHRINK_RUNS = 400
SHARES = (0.02, 0.3, 1.0, 1.0, 5.0)  # Of the usual weight of an operation.
_NAMES = list(WEIGHTS)

Step = tuple[str, int]  # The name of an operation and the seed of its numbers.


@attrs.frozen
class Failure:
    """A sequence that failed.

    Attributes:
        seed: of the sequence. steps: those that were done. error: what was raised, with its traceback.
        line: the error in one line.
    """

    seed: str
    steps: Sequence[Step]
    error: str
    line: str


def run_steps(steps: Sequence[Step], interruption: Interruption) -> str | None:
    """Do these operations; return the traceback of what they raise."""
    folder = Path(tempfile.mkdtemp(dir=_memory_folder()))
    driver = Driver(folder, interruption)
    try:
        for name, number in steps:
            driver.do(name, number)
    except Exception:  # noqa: BLE001 - whatever it is, it is the finding
        return traceback.format_exc()
    finally:
        driver.end()
        shutil.rmtree(folder, ignore_errors=True)
    return None


def run_sequence(
    seed: str, interruption: Interruption, counts: Counter[str], count: int = SEQUENCE_STEPS
) -> Failure | None:
    """Do a random sequence of so many operations."""
    folder = Path(tempfile.mkdtemp(dir=_memory_folder()))
    driver, numbers, steps = Driver(folder, interruption), random.Random(seed), []
    # Each sequence has its own mixture: what needs much of one kind, and nothing of another, comes up sooner.
    weights = [weight * numbers.choice(SHARES) for weight in WEIGHTS.values()]
    try:
        while len(steps) < count:
            name, number = numbers.choices(_NAMES, weights)[0], numbers.getrandbits(32)
            steps.append((name, number))
            if not driver.do(name, number):
                steps.pop()
    except Exception as error:  # noqa: BLE001
        line = f"{type(error).__name__}: {error}".splitlines()[0]
        return Failure(seed, steps, traceback.format_exc(), line)
    finally:
        counts.update(driver.counts)
        driver.end()
        shutil.rmtree(folder, ignore_errors=True)
    return None


def shrink(failure: Failure, interruption: Interruption, is_same: Callable[[str], bool]) -> list[Step]:
    """Leave out operations as long as it fails in the same way."""
    steps, size, runs = list(failure.steps), len(failure.steps) // 2, 0
    while size and runs < SHRINK_RUNS:
        start = 0
        while start < len(steps) and runs < SHRINK_RUNS:
            fewer = [*steps[:start], *steps[start + size :]]
            runs += 1
            error = run_steps(fewer, interruption)
            if error is not None and is_same(error):
                steps = fewer
            else:
                start += size
        size //= 2
    return steps


def _memory_folder() -> str | None:
    """A folder in memory where there is one: a real disk adds only time."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
