"""A call with arguments that the step does not take raises Python's own error, and is not a tick."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer


class Shop:
    """A step that would have changed the time before it failed."""

    def __init__(self) -> None:
        self.t, self.last = 0.0, ""

    def advance(self, dt: float, order: str | None = None) -> None:
        self.t += dt
        self.last = order or ""

    def only(self, dt: float, /, order: str = "", *, speed: float) -> None:
        self.advance(dt * speed, order)

    def open(self, dt: float = 1.0, *orders: str, **more: Any) -> None:
        self.advance(dt, " ".join([*orders, *more]))

    def inner(self, dt: float) -> Callable[[], float]:
        self.advance(dt)
        return lambda: dt  # The parameter is a cell.

    def nothing(self) -> None:
        self.t += 1


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def around(self: Any, *arguments: Any, times: int = 1, **keywords: Any) -> Any:
        for _ in range(times):
            function(self, *arguments, **keywords)

    return around


class Wrapped(Shop):
    advance = wrapped(Shop.advance)  # type: ignore[assignment]


Call = Callable[[Any], Any]


@pytest.mark.parametrize(
    ("step", "call"),
    [
        ("advance", lambda shop: shop.advance()),
        ("advance", lambda shop: shop.step()),
        ("advance", lambda shop: shop.advance(1, "x", 2)),
        ("advance", lambda shop: shop.advance(1, ordr="x")),
        ("advance", lambda shop: shop.advance(1, dt=2)),
        ("advance", Shop.advance),
        ("advance", lambda shop: shop.subject.advance()),
        ("only", lambda shop: shop.only(1)),
        ("only", lambda shop: shop.only(dt=1, speed=2)),
        ("only", lambda shop: shop.only(1, "x", 3)),
        ("open", lambda shop: shop.open(1, dt=2)),
        ("inner", lambda shop: shop.inner()),
        ("nothing", lambda shop: shop.nothing(1)),
    ],
)
def test_arguments_that_the_step_does_not_take_leave_everything_as_it_was(
    step: str, call: Call, tmp_path: Path
) -> None:
    with pytest.raises(TypeError) as plain:
        call(_Plain(step))
    shop = recorder.record(Shop(), tmp_path / "run.tape", step=step, quiet=True, trial_ms=0)
    getattr(shop, step)(*([] if step == "nothing" else [1]), **({"speed": 1} if step == "only" else {}))
    with pytest.raises(TypeError) as refused:
        call(shop)
    assert str(refused.value) == str(plain.value)
    assert (shop.t, shop.tape.tick) == (1.0, 1)
    shop.close()
    with replayer.open(tmp_path / "run.tape", world=Shop) as run:
        assert run.verify().ok
        assert run.last_tick == 1


class _Plain(Shop):
    """An unrecorded shop with the names of a recorded one."""

    def __init__(self, step: str) -> None:
        super().__init__()
        self._step = step

    @property
    def subject(self) -> Shop:
        return self

    @property
    def step(self) -> Any:
        return getattr(self, self._step)


def test_arguments_that_only_a_decorator_takes_are_recorded(tmp_path: Path) -> None:
    """The decorated function has the signature of the one inside, which does not take these arguments."""
    shop = recorder.record(Wrapped(), tmp_path / "run.tape", step="advance", quiet=True, trial_ms=0)
    shop.advance(1, times=3)
    shop.close()
    with replayer.open(tmp_path / "run.tape", world=Wrapped) as run:
        assert run.verify().ok
        assert run[1]["Wrapped.t"] == 3


def test_variadic_steps_take_everything(tmp_path: Path) -> None:
    shop = recorder.record(Shop(), tmp_path / "run.tape", step="open", quiet=True, trial_ms=0)
    shop.open()
    shop.open(2.0, "a", "b", c=1)
    shop.close()
    with replayer.open(tmp_path / "run.tape", world=Shop) as run:
        assert run.verify().ok
        run.seek(2)
        assert (run.subject.t, run.subject.last) == (3.0, "a b c")
