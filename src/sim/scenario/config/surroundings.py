"""The surroundings of a scenario's roles: their positions, their reach, the limits of the medium."""

from __future__ import annotations

from typing import Annotated

import attrs

from sim.kernel.registry import ConfigError
from sim.scenario.config.structure import Decimal, Whole

DISTANCE_MAX = 1 << 20

_Place = Annotated[int, Decimal(-DISTANCE_MAX, DISTANCE_MAX)]
_Count = Annotated[int, Whole(1, 1 << 31)]
_Ticks = Annotated[int, Whole(1, 1 << 31)]


@attrs.frozen
class Body:
    """The position of a role at tick 0, and its movement in a round.

    Attributes:
        asleep_every, asleep_ticks: of every asleep_every rounds, the role neither sends nor receives in the first
            asleep_ticks.
    """

    role: str
    x: _Place = 0
    y: _Place = 0
    dx: _Place = 0
    dy: _Place = 0
    asleep_every: _Ticks | None = None
    asleep_ticks: _Ticks | None = None

    def __attrs_post_init__(self) -> None:
        if (self.asleep_every is None) != (self.asleep_ticks is None):
            raise ConfigError("asleep_every", "expected both or neither of asleep_every and asleep_ticks")
        if self.asleep_every is not None and (self.asleep_ticks or 0) > self.asleep_every:
            raise ConfigError(
                "asleep_ticks", f"expected at most asleep_every, {self.asleep_every}, got {self.asleep_ticks}"
            )


@attrs.frozen
class Environment:
    """The checks of the surroundings on messages, in this order: capability, reachability, admission, medium.

    Attributes:
        bodies: the positions of roles; a role without a body is within reach of all and always awake.
        width, height: of the field, a torus: a body that leaves it enters again on the opposite edge.
        reach: the largest distance that a message travels.
        admitted: the most messages of a role in a round; further ones are refused.
        contention: the most messages to one receiver in a round; further ones wait contention_ticks.
        collision: messages to one receiver in a round are lost from this number on.
    """

    bodies: tuple[Body, ...] = ()
    width: Annotated[int, Decimal(1, DISTANCE_MAX)] = 1000 << 16
    height: Annotated[int, Decimal(1, DISTANCE_MAX)] = 1000 << 16
    reach: Annotated[int, Decimal(0, DISTANCE_MAX)] | None = None
    admitted: _Count | None = None
    contention: _Count | None = None
    contention_ticks: _Ticks = 1
    collision: _Count | None = None

    def __attrs_post_init__(self) -> None:
        names = [body.role for body in self.bodies]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise ConfigError(f"bodies[{index}].role", f"{name} has two bodies: remove one")
        if self.contention is not None and self.collision is not None and self.collision <= self.contention:
            raise ConfigError("collision", f"expected more than contention, {self.contention}, got {self.collision}")
