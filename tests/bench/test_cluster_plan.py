"""The plan for many machines: its times are those that can be worked out by hand, and no better than its limits."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import attrs
import pytest

from recorder.processes.engines.bundles import BUNDLE_MAX

from project_paths import ROOT


@pytest.fixture(scope="module")
def planned() -> ModuleType:
    """The program."""
    spec = importlib.util.spec_from_file_location("cluster_plan", ROOT / "tools/cluster_plan.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["cluster_plan"] = module
    spec.loader.exec_module(module)
    return module


def test_one_slot_takes_the_sum_of_all(planned: ModuleType) -> None:
    """Four items of 10 ticks: a start, then for each its bytes, two requests, a fork and its steps."""
    plan = planned.Plan(
        cores=1, step_s=0.5, item_s=0.25, start_s=2.0, latency_s=0.125, hand_out_s=0.0, hand_out_item_s=0.0
    )
    plan = attrs.evolve(plan, machine_bytes_per_s=1000.0, store_bytes_per_s=4000.0, scan_bytes_per_s=500.0)
    load = planned.Load("four", 4, 10, 1000.0, 1000.0, 2, 1000.0)
    first_s, start_s, item_s = 3 * 0.125 + 2.0, 2.0 + 3 * 0.125, 2.0 + 2 * 0.125 + 0.25 + 5.0
    assert planned.duration(plan, load, 1) == pytest.approx(first_s + start_s + 4 * item_s)


@pytest.mark.parametrize("machines", [1, 10, 1000])
def test_no_time_is_better_than_its_limits(planned: ModuleType, machines: int) -> None:
    """The steps on all slots, the bytes through the store, the items handed out by one process, one reading."""
    plan = planned.Plan()
    for load in planned.loads(plan):
        seconds = planned.duration(plan, load, machines)
        slots = machines * plan.cores
        assert seconds >= load.items * load.ticks * plan.step_s / slots
        assert seconds >= load.items * (load.read_bytes + load.written_bytes) / plan.store_bytes_per_s
        assert seconds >= load.items * (plan.hand_out_item_s + plan.hand_out_s / BUNDLE_MAX)
        assert seconds >= load.read_first_bytes / plan.scan_bytes_per_s
        assert seconds <= planned.duration(plan, load, 1)


def test_the_limit_is_the_one_that_was_made(planned: ModuleType) -> None:
    """Whatever else is cheap."""
    cheap = planned.Plan(step_s=0.0, item_s=0.0, start_s=0.0, latency_s=0.0, hand_out_s=0.0, hand_out_item_s=0.0)
    load = planned.Load("some", 100, 10, 1e6, 0.0, 2)
    dear = {
        "step_s": 1.0,
        "hand_out_s": 1.0,
        "hand_out_item_s": 1.0,
        "latency_s": 10.0,
        "start_s": 1000.0,
        "store_bytes_per_s": 1000.0,
    }
    for name, value in dear.items():
        assert planned.reason(attrs.evolve(cheap, **{name: value}), load, 4) == planned.REASONS[name]


def test_the_page_has_the_table_of_the_program(planned: ModuleType) -> None:
    page = Path(ROOT / "docs/cluster.md").read_text(encoding="utf-8")
    lines = planned.table(planned.Plan(), planned.MACHINES)
    assert "\n".join(lines) in page
