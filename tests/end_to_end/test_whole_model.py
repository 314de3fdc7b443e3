"""Random operations on tapes and readers in any order, compared with a plain account; tools/campaigns has the long form."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from whole_model.driver import model_settings
from whole_model.machine import WholeMachine
from whole_model.sequences import run_sequence

SEQUENCES = 6
MIXED = settings(max_examples=12, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck))


def test_random_sequences_keep_all_promises() -> None:
    """No undocumented error, no wrong state, and every acknowledged tick that no damage has taken is there."""
    counts: Counter[str] = Counter()
    with model_settings() as interruption:
        for _ in range(SEQUENCES):
            seed = str(random.randrange(1 << 30))
            failure = run_sequence(seed, interruption, counts)

            assert failure is None, f"seed {seed!r}: {failure.error}\n{failure.steps}"
    assert counts.total() > 50 * SEQUENCES


def test_sequences_that_hypothesis_chooses_keep_all_promises() -> None:
    """The same operations; hypothesis shrinks what fails."""
    with model_settings() as interruption:

        class Mixed(WholeMachine):
            """The machine in these settings."""

        Mixed.interruption = interruption
        run_state_machine_as_test(Mixed, settings=MIXED)
