"""The random generators of a process, in its copies: seeded by an import, by chance, and exactly as in the parent."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import recorder.processes.seeds.process_generators as generators
from recorder.factory_spec import load_factory
from recorder.processes.fork_call import in_a_copy
from replayer import verify_tape
from replayer.tape.tape import Tape
from replayer.timeline.intervals import make_for_copies

SEEDED = """
import random

import numpy as np

random.seed(31)
np.random.seed(32)


class Drops:
    def __init__(self):
        self.slots = [0] * 9
        self.far = 0.0

    def step(self, inputs):
        self.slots[sum(random.random() < 0.5 for _ in range(8))] += 1
        self.far += np.random.random()
"""
COMPILED = """
import numba
import numpy as np


@numba.njit
def seed(number):
    np.random.seed(number)


@numba.njit
def draw():
    return np.random.random()


class Walk:
    def __init__(self):
        seed(7)
        self.far = 0.0

    def step(self, inputs):
        self.far += draw()
"""


@pytest.fixture(autouse=True)
def _own_generators(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing that a test imports or draws is left to other tests."""
    monkeypatch.setattr(generators, "_imported", {})
    states = generators.generator_states()
    yield
    generators.set_generator_states(states)


@pytest.mark.parametrize(
    ("change", "is_seeded"),
    [
        (lambda: None, False),
        (lambda: [random.random() for _ in range(5)], False),
        (lambda: [random.random() for _ in range(5000)], False),
        (lambda: random.seed(4), True),
        (lambda: random.seed(4) or random.random(), True),
    ],
)
def test_a_seed_is_told_from_draws(*, change: Callable[[], Any], is_seeded: bool) -> None:
    """However many numbers were drawn; both of random and of numpy.random."""
    before = generators.generator_states()["random"]
    change()
    assert generators.is_seeded_between(before, generators.generator_states()["random"]) is is_seeded


@pytest.mark.parametrize(("seed", "is_seeded"), [(None, False), (5, True)])
def test_a_seed_of_numpy_is_told_from_draws(*, seed: int | None, is_seeded: bool) -> None:
    """Normal numbers take several words each."""
    before = generators.generator_states()["np.random"]
    np.random.normal(size=3000)  # noqa: NPY002 - the generator in question
    if seed is not None:
        np.random.seed(seed)  # noqa: NPY002
    assert generators.is_seeded_between(before, generators.generator_states()["np.random"]) is is_seeded


def play(path: Path, factory: Callable[[], Any]) -> None:
    """Record 30 ticks, as the process is."""
    with recorder.record(factory(), path, step="step", keyframe_interval_ticks=10, trial_ms=0, quiet=True) as run:
        for _ in range(30):
            run.step(None)


def test_a_generator_that_an_import_seeds_is_as_in_a_new_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From tick 0 it draws as recorded; after a keyframe, which does not hold it, it differs, and each time alike."""
    (tmp_path / "seeded_drops.py").write_text(SEEDED)
    monkeypatch.syspath_prepend(tmp_path)
    factory = load_factory("seeded_drops:Drops")
    play(tmp_path / "run.tape", factory)

    report = verify_tape(tmp_path / "run.tape", factory)

    assert report.first_bad == 11
    found = {test.cause: test for test in report.findings[0].tested}
    assert found["hidden state, which keyframes do not hold"].suspicious
    assert report.findings[0].rerun_count > 1
    assert "gave different hashes" not in str(report.findings[0].note)


@pytest.mark.seldom(0.15)
def test_numbas_generators_go_on_in_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork reseeds them: a copy gets them back, and a simulation that seeds them is made in each process."""
    pytest.importorskip("numba")
    (tmp_path / "compiled_walk.py").write_text(COMPILED)
    monkeypatch.syspath_prepend(tmp_path)
    factory = load_factory("compiled_walk:Walk")
    play(tmp_path / "run.tape", factory)
    walk = factory()
    walk.step(None)
    far = in_a_copy(lambda: walk.step(None) or {"far": walk.far})["far"]
    walk.step(None)

    assert far == walk.far
    assert verify_tape(tmp_path / "run.tape", factory).first_bad == 11
    with Tape(tmp_path / "run.tape") as tape:
        assert make_for_copies(tape, factory).simulation is None


def test_a_copy_goes_on_with_numpys_generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where this process has drawn from the one that an import has seeded, a copy does not begin it again."""
    (tmp_path / "seeded_rain.py").write_text(SEEDED)
    monkeypatch.syspath_prepend(tmp_path)
    load_factory("seeded_rain:Drops")
    np.random.random(3)  # noqa: NPY002 - the generator in question

    drawn = in_a_copy(lambda: {"number": np.random.random()})["number"]  # noqa: NPY002

    assert drawn == np.random.random()  # noqa: NPY002


def test_another_generator_in_numpys_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module may put one there when it is imported; copies have it, and it goes on there."""
    numpys: Any = np.random
    (tmp_path / "own_bits.py").write_text(
        "import numpy as np\nnp.random.set_bit_generator(np.random.PCG64(8))\n" + SEEDED
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        load_factory("own_bits:Drops")
        np.random.random()  # noqa: NPY002
        drawn = in_a_copy(lambda: {"number": np.random.random()})["number"]  # noqa: NPY002
        states = generators.generator_states()
        assert drawn == np.random.random()  # noqa: NPY002
        assert not generators.is_seeded_between(states["np.random"], generators.generator_states()["np.random"])
        generators.set_generator_states(states)
        assert drawn == np.random.random()  # noqa: NPY002
    finally:
        numpys.set_bit_generator(np.random.MT19937(3))
