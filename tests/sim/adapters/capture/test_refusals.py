"""What cannot be saved at all is refused in one line, with the reason and the way out."""

from __future__ import annotations

import re
import sys
import threading
import types
import weakref
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from sim.adapters import NotCapturedError, adapt, fields


class Plain:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def step(self, inputs: Any) -> None:
        pass


def of_package(module: str, name: str) -> Any:
    """An instance of a class of a package that need not be installed."""
    return type(name, (), {"__module__": module, "step": Plain.step})()


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        (
            of_package("envpool.python.gymnasium_envpool", "CartPole"),
            r"CartPole cannot be .*: EnvPool steps .*: record g",
        ),
        (
            of_package("simpy.core", "Environment"),
            r"Environment cannot be .*: SimPy's processes are .*: record the val",
        ),
        (
            (number for number in range(3)),
            r"generator cannot be recorded: a generator's frame cannot be saved: keep the",
        ),
    ],
)
def test_a_simulation_of_such_a_package_is_refused_at_once(subject: Any, message: str) -> None:
    """With fields() and without."""
    for what in ((), (fields(),)):
        with pytest.raises(NotCapturedError, match=message) as caught:
            adapt(subject, *what)
        assert "\n" not in str(caught.value)


def test_a_class_that_is_derived_from_one_of_them_is_refused_too() -> None:
    """SimPy's environments are often subclassed."""
    base = type(of_package("simpy.core", "Environment"))
    shop = type("Shop", (base,), {"__module__": "shop"})()
    with pytest.raises(NotCapturedError, match=r"^Shop cannot be recorded: SimPy's processes are running generators"):
        adapt(shop, fields())


def test_each_value_is_named_by_its_path_with_the_reason() -> None:
    """Also inside a container."""
    with pytest.raises(NotCapturedError) as caught:
        adapt(
            Plain(a=iter(()), g=(x for x in ()), c=[(x for x in ())], s=of_package("simpy.core", "Environment")),
            fields(),
        )
    message = str(caught.value)
    assert "Plain.c[0] (generator): it cannot be saved (a generator's frame cannot be saved: keep the" in message
    assert "Plain.g (generator): it cannot be saved (a generator's frame cannot be saved: keep the" in message
    assert "Plain.s (simpy.core.Environment): it cannot be saved (SimPy's processes are running generators" in message
    assert "\n" not in message


def test_the_real_simpy_is_refused() -> None:
    """The module of its class has this name."""
    simpy = pytest.importorskip("simpy")
    with pytest.raises(NotCapturedError, match="SimPy's processes are running generators"):
        adapt(Plain(env=simpy.Environment()), fields())


def test_nothing_of_these_packages_is_imported() -> None:
    """The names of modules decide."""
    assert isinstance(sys, types.ModuleType)
    with pytest.raises(NotCapturedError):
        adapt(of_package("envpool.x", "Y"))
    assert "envpool.x" not in sys.modules


class Bus:
    """A part that all others refer to, with three values that cannot be saved."""

    def __init__(self) -> None:
        self.lock, self.source = threading.Lock(), (number for number in range(3))
        self.listeners = [lambda: 1]


class Machine:
    """A part with an object of Python's library, in which there is a lock."""

    def __init__(self, bus: Bus) -> None:
        self.bus, self.ready = bus, threading.Event()


class Plant:
    """Four attributes lead to one bus; more machines are in a list."""

    def __init__(self) -> None:
        bus = Bus()
        self.first, self.second, self.third, self.bus = Machine(bus), Machine(bus), Machine(bus), bus
        self.others = [[Machine(bus)] for _ in range(3)]
        self.spare = [threading.Lock()]

    def step(self, _: Any = None) -> None:
        pass


def test_all_refused_attributes_are_named_once_by_the_names_that_leave_them_out() -> None:
    """By the class of the innermost object of the user's, so that the message's names are all that is needed."""
    with pytest.raises(NotCapturedError) as caught:
        adapt(Plant())
    message = str(caught.value)
    for path in ("Plant.bus.lock", "Plant.bus.source", "Plant.spare[0]", ".listeners[0]"):
        assert message.count(f"{path} (") == 1, message
    assert message.count(".ready") == 1
    names = ["Bus.listeners", "Bus.lock", "Bus.source", "Machine.ready", "Plant.spare"]
    assert 'ignore=["Bus.listeners", "Bus.lock", "Bus.source", ...]' in message

    adapt(Plant(), ignore=names)
    for missing in names:
        with pytest.raises(NotCapturedError, match=re.escape(f'ignore=["{missing}"]')):
            adapt(Plant(), ignore=[name for name in names if name != missing])


class NoClass:
    """An object that raises when it is asked for its class, as isinstance does."""

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no class")


class NoDict:
    """An object that raises when it is asked whether it has attributes."""

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise KeyError("no dict")


def dead_proxy() -> Any:
    return weakref.proxy(Plain())


RAISING = [
    (NoClass, "NoClass", "RuntimeError: no class"),
    (NoDict, "NoDict", "KeyError: 'no dict'"),
    (dead_proxy, "weakref.ProxyType", "ReferenceError: weakly-referenced object no longer exists"),
]


@pytest.mark.parametrize(("make", "cls", "raised"), RAISING)
@pytest.mark.parametrize(("put", "path"), [(lambda one: one, ""), (lambda one: [0, {"x": one}], "[1]['x']")])
def test_an_object_that_raises_when_it_is_looked_at(make: Any, cls: str, raised: str, put: Any, path: str) -> None:
    with pytest.raises(NotCapturedError) as caught:
        adapt(Plain(part=put(make())))
    assert f"Plain.part{path} (" in str(caught.value)
    assert f"{cls}): to look at it raises {raised} (let it answer isinstance" in str(caught.value)


class Late(Plain):
    def step(self, _: Any = None) -> None:
        self.turn += 1
        if self.turn == 3:
            self.part = self.later


@pytest.mark.parametrize(("make", "cls", "raised"), RAISING)
def test_one_that_appears_in_a_step_ends_the_recording_at_the_step_before(
    make: Any, cls: str, raised: str, tmp_path: Path
) -> None:
    subject = Late(turn=0, part=None, kind=(NoClass, NoDict))
    game = recorder.record(subject, tmp_path / "late.tape", ignore=["Late.later"], quiet=True, trial_ms=0)
    subject.later = make()
    game.step()
    game.step()
    with pytest.raises(NotCapturedError) as caught:
        game.step()
    assert f"{cls}): to look at it raises {raised} (" in str(caught.value)
    game.close()
    with replayer.open(
        tmp_path / "late.tape", world=lambda: adapt(Late(turn=0, part=None), ignore=["Late.later"])
    ) as run:
        run.seek(2)
        assert (run.subject.turn, run.tape.last_tick) == (2, 2)
