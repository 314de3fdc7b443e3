"""The commands as users type them, in this process, and a small scenario for them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

TINY = """
world = "meadow"
seed = 3
ticks = 90
diet = [[true]]
[grid]
width = 12
height = 8
[[flora]]
name = "moss"
base_energy = 4
max_energy = 9
growth_percent = 5
survival_threshold = 1
reproduction_interval = 9
seed_cost = 2
[[herbivores]]
name = "snail"
consumption_rate = 0.2
upkeep = 0.05
energy_min = 1
[[plants]]
species = "moss"
count = 20
[[swarms]]
species = "snail"
x = 2
y = 3
population = 4
"""


def run(main: Any, line: str) -> int:
    """Run a command line and return its exit code."""
    with pytest.raises(SystemExit) as caught:
        main(shlex.split(line))
    code = caught.value.code
    assert isinstance(code, int)
    return code


def files(folder: Path) -> dict[str, bytes]:
    """All files and folders below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_one_line(captured: Any, text: str) -> None:
    """A mistake is answered with one line on stderr, and nothing else."""
    assert text in captured.err
    assert captured.err.startswith("error: ")
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""
