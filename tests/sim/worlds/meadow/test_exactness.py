"""The same states everywhere: golden hashes, and processes with different SIMD features, hash seeds and thread counts."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import WORLD, Meadow

GOLDEN = {  # If one of these changes, tapes no longer verify and WORLD_VERSION must change.
    "quiet-meadow": {
        0: 0xB46D2A0E332B6C95,
        1: 0xFE1EF17E0D8B2F19,
        10: 0xF6E1747EF3D253F2,
        100: 0x20FF3BF21F06A947,
        300: 0x75ACE854F8931A3C,
        600: 0x73842F82C3251A37,
    },
    "boom-and-crash": {
        0: 0xD929EA8B40CDFCE1,
        1: 0x9AFADE4D86D0293E,
        10: 0x86215CB17472BF7C,
        100: 0x23E08245C4542AC0,
        300: 0x1665B7BB482D7566,
        600: 0x548826DEF0F2F014,
    },
    "arms-race": {
        0: 0x433511CDA8C1EA85,
        1: 0x9EA71F650993A2BB,
        10: 0x2648CFED99164AE8,
        100: 0xC0D5D918A30B0066,
        300: 0xB95686A346054C35,
        600: 0x4B0310C347B58224,
    },
}

RUN = """
import sys
from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import WORLD, Meadow

config = load_scenario(sys.argv[1]).config
meadow, inputs_at = Meadow(config), WORLD.inputs(config)
for tick in range(1, 101):
    meadow.step(inputs_at(tick))
print(f"{meadow.state.hash():016X}")
"""


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.parametrize("ticks", [300, pytest.param(600, marks=pytest.mark.long)])
def test_golden_hashes(name: str, ticks: int) -> None:
    """State hashes of the shipped scenarios at some ticks."""
    config = load_scenario(name).config
    meadow, inputs_at = Meadow(config), WORLD.inputs(config)
    found = {0: meadow.state.hash()}
    for tick in range(1, ticks + 1):
        meadow.step(inputs_at(tick))
        if tick in GOLDEN[name]:
            found[tick] = meadow.state.hash()

    assert {tick: f"{value:016x}" for tick, value in found.items()} == {
        tick: f"{value:016x}" for tick, value in GOLDEN[name].items() if tick <= ticks
    }
    assert WORLD.version == 4


@pytest.mark.parametrize("name", ["boom-and-crash", "arms-race"])
def test_other_environments_give_the_same_states(name: str) -> None:
    """Without NumPy's SIMD features, with different hash seeds, with one thread and with four, the states are equal."""
    features = np._core._multiarray_umath.__cpu_dispatch__  # type: ignore[attr-defined]
    enabled = [one for one in features if np._core._multiarray_umath.__cpu_features__[one]]  # type: ignore[attr-defined]
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    environments = [
        {"NPY_DISABLE_CPU_FEATURES": " ".join(enabled), "PYTHONHASHSEED": "1", **dict.fromkeys(threads, "1")},
        {"PYTHONHASHSEED": "4242", **dict.fromkeys(threads, "4")},
    ]
    runs = [
        subprocess.Popen([sys.executable, "-c", RUN, name], env=os.environ | changes, stdout=subprocess.PIPE, text=True)
        for changes in environments
    ]
    assert [run.communicate(timeout=120)[0].strip() for run in runs] == [f"{GOLDEN[name][100]:016X}"] * 2
