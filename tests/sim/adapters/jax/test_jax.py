"""Arrays of JAX: each check in tests/support/jax_checks.py, in a process of its own."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from project_paths import SUPPORT

pytest.importorskip("gymnasium")
pytest.importorskip("jax")  # The import alone starts no threads: this process can be forked as before.

SCRIPT = SUPPORT / "jax_checks.py"
CHECKS = [
    one.name
    for one in ast.parse(SCRIPT.read_text(encoding="utf-8")).body
    if isinstance(one, ast.FunctionDef) and one.name.startswith("check_")
]
SLOW = ("check_blackjack", "check_vector")  # JAX compiles each of their functions in each new environment.
NEED_FLAX = ("check_cartpole", "check_blackjack", "check_vector")


@pytest.mark.parametrize("check", [pytest.param(one, marks=pytest.mark.long if one in SLOW else ()) for one in CHECKS])
def test_arrays_of_jax(check: str, tmp_path: Path) -> None:
    """The check ends without an error; a hang, as after a fork, is ended."""
    if check in NEED_FLAX:
        pytest.importorskip("flax")
    command = [sys.executable, str(SCRIPT), check, str(tmp_path)]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert result.returncode == 0, result.stderr[-3000:]
