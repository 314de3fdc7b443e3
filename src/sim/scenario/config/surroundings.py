"""The surroundings of a scenario's roles: where they are, how far they reach, how much the medium carries."""

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
    """Where a role is at tick 0, and how far it moves in a round.

    Attributes:
        asleep_every, asleep_ticks: it can neither send nor receive in the first asleep_ticks of so many rounds.
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
            raise ConfigError("asleep_every", "asleep_every and asleep_ticks go together")
        if self.asleep_every is not None and (self.asleep_ticks or 0) > self.asleep_every:
            raise ConfigError("asleep_ticks", "at most asleep_every was expected")


@attrs.frozen
class Environment:
    """What the surroundings do to messages, in this order: capability, reachability, admission, medium.

    Attributes:
        bodies: where roles are; one without a body is everywhere and always awake.
        width, height: of the field, which is a torus; bodies that leave it come in again on the other side.
        reach: farther than this no message goes.
        admitted: messages that a role may send in a round; further ones are refused.
        contention: messages to one receiver in a round that the medium carries; further ones wait contention_ticks.
        collision: from so many messages to one receiver in a round on, they are lost.
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
                raise ConfigError(f"bodies[{index}].role", f"{name} has a body already")
        if self.contention is not None and self.collision is not None and self.collision <= self.contention:
            raise ConfigError("collision", "more than contention was expected")
