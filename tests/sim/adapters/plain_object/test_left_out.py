"""Names to leave out are names of attributes, and the line of a recording lists them."""

from __future__ import annotations

import decimal
import random
import threading
import types
import weakref
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from sim.adapters import NotCapturedError, adapt, fields
from sim.adapters.capture.captured_state import CapturedState


class Item:
    def __init__(self) -> None:
        self.price, self.picture = 1, "red"


class Bullet:
    """None exists at the start."""

    def __init__(self) -> None:
        self.sprite = ""


class Shop:
    def __init__(self) -> None:
        self.window, self.items, self.sold = "", [Item(), Item()], 0

    def advance(self) -> None:
        self.sold += 1
        self.door = self.sold


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Shop.windo", "did you mean Shop.window"),
        ("window", "did you mean Shop.window"),
        ("Item.pictures", "did you mean Item.picture"),
        ("Bullet.sprit", ""),
        ("qqq", "the names are Class.attribute"),
    ],
)
def test_a_name_that_matches_nothing_is_refused_with_the_nearest(name: str, hint: str, tmp_path: Path) -> None:
    expected = f"ignore: expected the name of an attribute, got '{name}', which matches nothing: {hint}"
    with pytest.raises(ValueError, match="ignore: expected") as refused:
        recorder.record(Shop(), tmp_path / "run.tape", step="advance", ignore=["Shop.sold", name], quiet=True)
    assert str(refused.value).startswith(expected)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["Shop.window", "Shop.door", "Item.picture", "Bullet.sprite"])
@pytest.mark.tried
def test_a_name_that_is_left_out_is_printed(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also that of an attribute, or of a class, that has no object yet."""
    with recorder.tape_of(recorder.record(Shop(), tmp_path / "run.tape", step="advance", ignore=[name])) as tape:
        tape.step(None)
    line = capsys.readouterr().err.splitlines()[1]
    # On a busy machine the line also names what was not tried.
    assert f"run.tape: Shop: exact in the steps tried: Shop captured; left out as asked: {name}" in line


class Depot:
    """Takes new items."""

    def __init__(self) -> None:
        self.items = [Item()]

    def take(self, item: Item) -> None:
        self.items.append(item)


@pytest.mark.parametrize("name", ["Item.picture", f"{__name__}.Item.picture"])
def test_what_is_left_out_is_left_out_of_arguments_too(name: str, tmp_path: Path) -> None:
    """Of a new object in a call the same attributes are written as in the state, however the class is named."""
    item = Item()
    item.price, item.picture = 7, threading.Lock()  # type: ignore[assignment]  # Cannot be saved.
    with recorder.record(Depot(), tmp_path / "run.tape", step="take", ignore=[name], quiet=True) as depot:
        depot.take(item)
    with replayer.open(tmp_path / "run.tape", world=Depot) as run:
        run.seek(1)
        taken = run.subject.items[1]
        assert (type(taken), vars(taken)) == (Item, {"price": 7})


class Auction:
    """Holds functions that have no name of their own, and a lock."""

    def __init__(self, *left_out: str) -> None:
        def lucky(event: int) -> int:
            return event

        values: dict[str, Any] = {"handlers": {"ban": lucky}, "listeners": [lambda event: event]}
        self.__dict__ |= {name: value for name, value in values.items() if name not in left_out}

    def step(self) -> None:
        pass


def test_the_advice_for_local_functions_is_what_helps() -> None:
    """Pickle does not save them either, so that trust=True is no advice."""
    for trust in (False, True):
        with pytest.raises(NotCapturedError) as refused:
            adapt(Auction(), trust=trust)
        assert "trust=" not in str(refused.value)
        assert (
            "(define it at the top level of its module, or use a method; functools.partial binds values to it)"
            in str(refused.value)
        )
    assert 'Or leave out what no step reads or changes, ignore=["Auction.handlers", "Auction.listeners"]' in str(
        refused.value
    )
    adapt(Auction(), ignore=["Auction.handlers", "Auction.listeners"]).step(None)


class Holder:
    def __init__(self, value: Any) -> None:
        self.values = [value]

    def step(self) -> None:
        pass


def test_pickle_is_advised_where_it_helps() -> None:
    """A type of C that is not known is saved by pickle, if it can be pickled at all."""
    with pytest.raises(NotCapturedError, match=r"Holder\.values\[0\] \(decimal\.Context\): .* \(pass trust=True"):
        adapt(Holder(decimal.Context()))
    adapt(Holder(decimal.Context()), trust=True)
    for trust in (False, True):
        with pytest.raises(
            NotCapturedError, match=r"Holder\.values\[0\] \(mappingproxy\): .* \(keep what you"
        ) as refused:
            adapt(Holder(types.MappingProxyType({})), trust=trust)
        assert "trust=" not in str(refused.value)


class Table:
    """An attribute that is left out holds what saved attributes hold, too."""

    def __init__(self, kind: str = "list") -> None:
        made: dict[str, Any] = {
            "list": [1],
            "dict": {"total": 1},
            "random": random.Random(1),
            "object": Item(),
            "method": self.sum,
        }
        self.also = made[kind]
        self.held = [made[kind]]
        self.total = 0

    def sum(self) -> int:
        return self.total

    def step(self) -> None:
        self.total += 1
        match self.held[0]:
            case list() as held:
                held.append(self.total)
            case dict() as held:
                held["total"] += 1
            case random.Random() as held:
                held.random()
            case Item() as held:
                held.price += 1
        self.also = self.held[0]

    def seen(self) -> str:
        held = self.held[0]
        if isinstance(held, random.Random):
            held = held.getstate()
        return repr(held() if callable(held) else getattr(held, "price", held))


@pytest.mark.parametrize("what", ["ignore", "fields"])
@pytest.mark.parametrize("kind", ["list", "dict", "random", "object", "method"])
def test_an_object_that_is_left_out_in_one_place_is_saved_in_another(kind: str, what: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"ignore": ["Table.also"]} if what == "ignore" else {"what": fields("held", "total")}
    subject = Table(kind)
    truth = [subject.seen()]
    with recorder.record(subject, tmp_path / "run.tape", quiet=True, **options) as table:
        for _ in range(12):
            table.step()
            truth.append(subject.seen())
    assert len(set(truth)) == 13
    with replayer.open(tmp_path / "run.tape", world=lambda: Table(kind)) as run:
        for tick in (12, 0, 7):
            run.seek(tick)
            assert run.subject.seen() == truth[tick]
        assert run.verify().ok


class Workshop:
    def __init__(self, held: Any) -> None:
        self.tool = held
        self.held = [held] if not isinstance(held, Item) else weakref.ref(held)

    def step(self) -> None:
        pass


@pytest.mark.parametrize(
    ("held", "reason"), [(threading.Lock(), "a lock cannot be saved"), (Item(), "a weak reference to it is saved")]
)
def test_what_cannot_be_saved_is_left_out_in_each_place_or_refused(held: Any, reason: str) -> None:
    """The recording would not hold it, and a replay would not have it."""
    with pytest.raises(NotCapturedError, match=reason) as refused:
        adapt(Workshop(held), ignore=["Workshop.tool"])
    assert "Workshop.held" in str(refused.value)
    adapt(Workshop(held), ignore=["Workshop.tool", "Workshop.held"]).step(None)


def test_what_an_adapter_leaves_alone_is_the_present_object_after_a_restore() -> None:
    def captured(subject: Any) -> CapturedState:
        return CapturedState([("Workshop", subject)], lambda _, name, __: "kept" if name == "tool" else None)

    state = captured(Workshop([1])).state.snapshot()
    other = Workshop([2])
    restored = captured(other)
    restored.state.restore(state)
    restored.unpack()
    assert other.held == [[2]]
    assert other.held[0] is other.tool
    del other.tool
    with pytest.raises(
        NotCapturedError, match=r"the state refers to Workshop\.tool, which was left out, and does not hold"
    ):
        restored.unpack()


class SlottedItem:
    __slots__ = ("picture", "price")

    def __init__(self) -> None:
        self.price, self.picture = 1, "red"


class Pile:
    """Objects inside of lists, of which something is left out, and one of another class."""

    def __init__(self, kind: type) -> None:
        self.items = [kind(), kind()]
        self.others = [Bullet()]

    def step(self) -> None:
        for item in self.items:
            item.price += 1
            item.picture = f"{item.price}"
        self.others[0].sprite += "x"


@pytest.mark.parametrize("kind", [Item, SlottedItem])
def test_what_is_left_out_of_objects_in_lists_is_not_missed_in_a_keyframe(kind: type, tmp_path: Path) -> None:
    with recorder.record(
        Pile(kind), tmp_path / "run.tape", ignore=[f"{kind.__name__}.picture"], keyframe_interval_ticks=4, quiet=True
    ) as pile:
        for _ in range(12):
            pile.step()
    with replayer.open(tmp_path / "run.tape", world=lambda: Pile(kind)) as run:
        report = run.verify()
        assert report.ok, report
        run.seek(6)
        assert [vars(one) for one in run.subject.others] == [{"sprite": "xxxxxx"}]
        digest = run.simulation.value_digest()
        run.subject.items[0].picture = "another"
        assert run.simulation.value_digest() == digest
        run.subject.items[0].price += 1
        assert run.simulation.value_digest() != digest
