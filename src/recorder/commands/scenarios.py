"""The command ``record scenarios``: list the bundled scenarios."""

from __future__ import annotations

import itertools

from recorder.visible_text import print_visible
from sim.scenario.scenario_file import shipped_scenarios


def scenarios() -> None:
    """List the bundled scenarios, each with its description.

    Example: record scenarios
    """
    for name, file in shipped_scenarios().items():
        comment = itertools.takewhile(lambda line: line.startswith("#"), file.read_text(encoding="utf-8").splitlines())
        print_visible(f"{name}: {' '.join(line.lstrip('# ') for line in comment)}")
