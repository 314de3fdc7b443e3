"""The example that records a batch of MuJoCo simulations in JAX; run only where mujoco-mjx is installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

from project_paths import ROOT

pytest.importorskip("jax")


@pytest.mark.skipif(
    importlib.util.find_spec("mujoco") is None or importlib.util.find_spec("mujoco.mjx") is None,
    reason="mujoco-mjx is not installed",
)
def test_the_example_records_seeks_and_verifies_a_batch() -> None:
    """In a process of its own, since JAX has threads."""
    command = [sys.executable, str(ROOT / "examples" / "record_mjx.py")]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, env=environment)
    assert "the same after a seek: True" in result.stdout
    assert "angles on the tape: (4, 1)" in result.stdout
    assert "verified: True" in result.stdout
