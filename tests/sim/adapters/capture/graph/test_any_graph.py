"""Any graph of objects: restored at any tick, in any object and process, it is the graph that was live."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from object_graphs.in_a_tape import MOVABLE, digests_of_a_replay, record_graph
from object_graphs.machine import GraphMachine
from object_graphs.makers import FEATURES
from object_graphs.stand_in import AFTER_A_STEP, AFTER_RESTORING, nothing, repeated

QUIET = settings(
    deadline=None,
    database=None,
    stateful_step_count=15,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)


@pytest.mark.seldom(0.15)
def test_any_graph_comes_back_as_it_was() -> None:
    """In used and in fresh objects; and a restored run continues with the bytes of the live one."""
    run_state_machine_as_test(GraphMachine, settings=settings(QUIET, max_examples=settings.default.max_examples // 3))


@pytest.mark.long
@pytest.mark.parametrize("feature", sorted(FEATURES))
def test_any_graph_with_one_feature_comes_back_as_it_was(feature: str) -> None:
    """Ordinary objects and one feature: what fails here is easier to read."""

    class OneFeature(GraphMachine):
        features = frozenset({feature})

    run_state_machine_as_test(OneFeature, settings=settings(QUIET, max_examples=60))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_any_graph_comes_back_in_another_process(tmp_path: Path, seed: int) -> None:
    """With other hashes of texts and other addresses; each tick's walk, and each tick's bytes as recorded."""
    seed = 1000 * random.randrange(1 << 20) + seed
    print("seed", seed)
    path = tmp_path / "run.tape"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        live = record_graph(path, seed, ticks=60)
    assert len(set(live)) > 50, "a run in which nothing happens proves nothing"
    ticks = random.Random(seed).sample(range(61), 8)
    for hash_seed in ("0", "77"):
        code = "import sys; from object_graphs.in_a_tape import digests_of_a_replay as run; "
        code += "print(*run(sys.argv[1], [int(one) for one in sys.argv[2:]]))"
        finished = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code, str(path), *map(str, ticks)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert finished.returncode == 0, finished.stderr
        assert finished.stdout.split() == [
            live[later] for tick in ticks for later in range(tick, min(60, tick + 9) + 1)
        ]
    assert digests_of_a_replay(path, [ticks[0]])[0] == live[ticks[0]]
    assert "text_sets" not in MOVABLE


# --- the machine itself


def test_an_exact_capture_passes() -> None:
    """The machine reports no difference where there is none."""

    class Exact(GraphMachine):
        adapted = staticmethod(repeated)

    run_state_machine_as_test(Exact, settings=settings(QUIET, max_examples=8))


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", [*AFTER_RESTORING, *AFTER_A_STEP])
def test_the_machine_finds(name: str) -> None:
    """A fault that is planted into the restored graph, or into what a capture does at each step."""
    after_restoring, feature = AFTER_RESTORING.get(name) or (nothing, AFTER_A_STEP[name][1])
    after_a_step = AFTER_A_STEP[name][0] if name in AFTER_A_STEP else nothing

    class Faulty(GraphMachine):
        adapted = staticmethod(lambda: repeated(after_restoring, after_a_step))
        features = frozenset({feature})
        always = features

    with pytest.raises(AssertionError, match="of the walk"):
        run_state_machine_as_test(Faulty, settings=settings(QUIET, max_examples=400, phases=[Phase.generate]))
