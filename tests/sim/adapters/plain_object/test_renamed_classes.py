"""A replay with code in which a class has another name says which one it misses, and what to do."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from recorder.errors import SimulationFailedError

SOURCE = """
class Item:
    def __init__(self):
        self.price = 10

class Shop:
    def __init__(self):
        self.items = [Item(), Item()]

    def advance(self):
        self.items[0].price += 1
"""


def module_of(source: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module with this source, under one name."""
    module = types.ModuleType("renamed_shop")
    monkeypatch.setitem(sys.modules, "renamed_shop", module)
    exec(source, module.__dict__)
    return module


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "Item",
            "Good",
            r"expected the class renamed_shop\.Item, but there is no such name now: it was renamed, moved ",
        ),
        (
            "Shop",
            "Store",
            r"expected an object with the part Shop, got Store: .*a class that was renamed needs its old",
        ),
    ],
)
def test_a_renamed_class_is_named(
    old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = recorder.record(module_of(SOURCE, monkeypatch).Shop(), tmp_path / "run.tape", step="advance", quiet=True)
    shop.advance()
    shop.close()
    module = module_of(SOURCE.replace(old, new), monkeypatch)
    with (
        replayer.open(tmp_path / "run.tape", world=module.Store if old == "Shop" else module.Shop) as run,
        pytest.raises(SimulationFailedError, match=message),
    ):
        run.seek(1)
