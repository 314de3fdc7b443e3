"""The driver's operations as rules, so that hypothesis chooses their order and shrinks what fails."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from whole_model.driver import WEIGHTS, Driver
from whole_model.fallible_disk import Interruption

NUMBERS = st.integers(0, (1 << 32) - 1)
COMMON = [name for name, weight in WEIGHTS.items() if weight >= 8]
RARE = [name for name, weight in WEIGHTS.items() if 1 <= weight < 8]  # The others start processes.


class WholeMachine(RuleBasedStateMachine):
    """One driver.

    Attributes:
        interruption: of the model_settings that this runs in.
    """

    interruption: ClassVar[Interruption]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.driver = Driver(self.folder, self.interruption)

    @rule(name=st.sampled_from(COMMON), number=NUMBERS)
    def common(self, name: str, number: int) -> None:
        """An operation that is done often."""
        self.driver.do(name, number)

    @rule(name=st.sampled_from(RARE), number=NUMBERS)
    def rare(self, name: str, number: int) -> None:
        """One that is done now and then."""
        self.driver.do(name, number)

    def teardown(self) -> None:
        """Close all."""
        self.driver.end()
        shutil.rmtree(self.folder)
