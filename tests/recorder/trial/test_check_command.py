"""The command that a warning names can be run as it stands, or says what has to be put in."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from recorder.trial.check_command import check_command
from sim import Field, Schema, State
from sim.adapters import adapt


class Lift:
    def __init__(self, floors: int = 3) -> None:
        self.floors = floors

    def step(self) -> None:
        self.floors += 1


class Tower(Lift):
    def __init__(self, floors: int) -> None:
        super().__init__(floors)


class Corridor(gymnasium.Env[Any, Any]):
    """An environment that is in no registry."""

    action_space, observation_space = spaces.Discrete(2), spaces.Box(0, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed, options=options)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        del action
        return np.zeros(1, np.float32), 0.0, False, False, {}


class Boats:
    """A simulation of the user's own."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("seen", "i8")))

    def step(self, inputs: Any) -> None:
        """Nothing."""


def made_inside() -> Any:
    class Inner(Lift):
        pass

    return Inner()


@pytest.mark.parametrize(
    ("simulation", "name"),
    [
        (lambda: adapt(Lift()), "Lift"),
        (lambda: adapt(Corridor()), "Corridor"),  # It was told as module:factory.
        (Boats, "Boats"),
        (lambda: adapt(Tower(3)), None),
        (lambda: adapt(made_inside()), None),
        (lambda: adapt(gymnasium.wrappers.TimeLimit(Corridor(), 5)), None),
    ],
)
def test_the_class_is_named_if_it_can_be_called(simulation: Any, name: str | None) -> None:
    """Else it is said what is to be put there."""
    made = simulation()
    text = check_command(made, "the run.tape")
    if name is not None:
        assert text == f"`replay check {__name__}:{name} --inputs 'the run.tape'` tries more"
    else:
        kind = type(made.subject).__name__
        assert text == (
            "`replay check MODULE:FUNCTION --inputs 'the run.tape'` tries more: put your module there, and the function "
            f"in it that makes this {kind}"
        )
