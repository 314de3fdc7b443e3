"""A command that is killed, or whose workers are, gives when it is given again what an undisturbed one gives.

``tools/campaigns/ray_kills.py`` does the same hundreds of times, also on Ray.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from killed_commands import LINES, LOCAL, KilledCommands


@pytest.mark.sample(1)
@pytest.mark.parametrize("victim", ["driver", "worker"])
@pytest.mark.parametrize("name", LINES)
def test_a_kill_leaves_nothing_half_written(name: str, victim: str, tmp_path: Path) -> None:
    """In local processes; the moment is drawn from the seed of the run of tests."""
    commands = KilledCommands(tmp_path / "commands", LOCAL, random.Random(random.getrandbits(32)))
    kill = {"driver": commands.kill_driver, "worker": commands.kill_worker}[victim](name)
    assert kill.words.endswith("the same")
