"""TapeDataset without PyTorch says in one line how to install it."""

from __future__ import annotations

import sys

import pytest

import replayer.datasets
from sim.extras import missing_package


def test_the_message_has_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for other extras."""
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "replayer.datasets.stream.torch", raising=False)
    with pytest.raises(ModuleNotFoundError) as raised:
        _ = replayer.datasets.TapeDataset
    assert str(raised.value) == missing_package("TapeDataset", "PyTorch", "torch")
    assert "torch>=" in str(raised.value)
