"""One transition of an environment, and the facts about the environment that made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from replayer.datasets.transitions.flat_values import Flat, Space
from replayer.tape.episodes import Episode

StreamKind = Literal["single", "vector", "parallel", "turns", "agents"]


@attrs.frozen(eq=False)
class EnvironmentFacts:
    """An environment of a tape.

    Attributes:
        kind: "single", "vector" (many environments stepped together), "parallel" (many agents that act at once), or
            "turns" (many agents that act one after the other), or "agents" (a user's simulation with the methods of
            agent_methods, which is no environment).
        spaces: as sim.adapters.gymnasium.described_spaces describes them. env_spec: JSON text; None without one.
        name: of the environment's class. title: its registered id, or the name in its metadata, or its class.
        each_spec: of one environment, JSON text: env_spec, or in a vector that of the environments in it; None without one.
        label: its name with its arguments, see environment_label; "" for a user's simulation.
        render_fps: frames per second as its metadata states them; None if it does not.
        episodes: on the tape. raised: the ticks of calls that raised, or were no step. lost: ranges of ticks without a readable frame.
    """

    kind: StreamKind
    spaces: Mapping[str, Any]
    env_spec: str | None
    name: str = ""
    episodes: Sequence[Episode] = ()
    raised: Sequence[int] = ()
    lost: Sequence[tuple[int, int]] = ()
    title: str = ""
    label: str = ""
    each_spec: str | None = None
    render_fps: float | None = None

    def space(self, name: Literal["observation", "action"], agent: str = "") -> Space | None:
        """The space of observations or actions, of an agent if there are several; None if it is unknown."""
        spaces = self.spaces.get("agents", {}).get(agent, {}) if agent else self.spaces
        space = spaces.get(name)
        return space if isinstance(space, Mapping) else None

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents whose spaces are known; ("",) for an environment without agents."""
        return tuple(self.spaces.get("agents", {})) if self.kind in ("parallel", "turns") else ("",)


@attrs.frozen(eq=False)
class Transition:
    """One step of an environment, for one agent.

    Attributes:
        episode: its index. step: its index in the episode.
        tick: of the observation; end_tick: of the next one.
        agent: "" if there are none. env: the number of the environment in a vector.
        seed: of the reset that began the episode. options: of this reset, as JSON text; None without options.
        observation, action, next: by path. next: None if nothing was returned for this agent.
        reward: by path, usually "". terminated, truncated: None if nothing was returned for this agent.
        info: by path; empty unless it is requested.
    """

    episode: int
    step: int
    tick: int
    end_tick: int
    agent: str
    env: int | None
    seed: int | None
    options: str | None
    observation: Flat
    action: Flat
    reward: Flat
    next: Flat
    terminated: bool | None
    truncated: bool | None
    info: Flat
