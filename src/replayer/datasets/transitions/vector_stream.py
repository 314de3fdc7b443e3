"""Make transitions of a vector of environments: each environment in it has its own stream of episodes.

Environments of a vector reset themselves, which leaves no mark in the inputs. So the number of an episode is known only
to a stream that has followed the vector from a reset of all its environments.

    NextStep   after the end of an episode the next step resets that environment: it is no transition
    SameStep   the step that ends an episode returns the next one's observation; the final one is in the info
    Disabled   only a reset begins an episode, of those environments that its option reset_mask names
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from replayer.datasets.request import ExtractionError
from replayer.datasets.transitions.flat_values import Flat, Space, flatten, info_of, json_text, unbatch
from replayer.datasets.transitions.transition import EnvironmentFacts, Transition
from replayer.tape.environment_calls import EnvironmentCall

NEXT_STEP, SAME_STEP = "NextStep", "SameStep"
_FINAL = ("final_obs", "final_observation", "final_info")  # Gymnasium before 1.0 has the second name.


@attrs.define(eq=False)
class _SubEnvironment:
    """One environment of the vector, and its present episode."""

    episode: int = -1
    step: int = 0
    seed: int | None = None
    options: str | None = None
    seen: Flat = attrs.field(factory=dict)
    is_over: bool = False

    def begin(self, seen: Flat, seed: int | None = None, options: str | None = None) -> None:
        """Begin an episode."""
        self.episode, self.step, self.is_over = self.episode + 1, 0, False
        self.seen, self.seed, self.options = seen, seed, options


def final_observation(info: Mapping[str, Any] | None, space: Space | None, index: int, tick: int) -> Any:
    """The last observation of an episode after which the environment was reset in the same step, which led to a tick.

    Raises ExtractionError.
    """
    for name in _FINAL[:2]:
        final = (info or {}).get(name)
        if final is not None:
            # Gymnasium's vectors have an array of observations; for Dict spaces some have a Dict of arrays.
            return unbatch(final, space, index)
    raise ExtractionError(
        f"tick {tick:,}: the vector resets its environments in the step that ends an episode, and its info has no "
        "final_obs: expected the last observation there; use the table states"
    )


class VectorStream:
    """Transitions of a vector of environments."""

    def __init__(self, facts: EnvironmentFacts, simulation: Any, *, with_info: bool) -> None:
        """simulation: of the adapter. with_info: keep the infos."""
        self._facts, self._simulation, self._with_info = facts, simulation, with_info
        self._mode = facts.spaces["autoreset"]
        self._count = int(facts.spaces["envs"])
        self._envs: list[_SubEnvironment] | None = None

    @property
    def is_known(self) -> bool:
        """See Stream."""
        return self._envs is not None and all(env.episode >= 0 for env in self._envs)

    def begin(self, tick: int) -> None:
        """See Stream. Only before the first tick there were no episodes."""
        self._envs = None if tick else [_SubEnvironment() for _ in range(self._count)]

    def advance(self, call: EnvironmentCall) -> Iterator[Transition]:
        """See Stream."""
        if call.raised is not None or self._envs is None:
            return
        if call.begins:
            self._reset(call, self._envs)
            return
        for index, env in enumerate(self._envs):
            seen = self._observation(self._simulation.last.observation, index)
            if env.episode < 0:
                continue  # It was never reset on the tape.
            if env.is_over and self._mode == NEXT_STEP:
                env.begin(seen)
                continue
            yield from self._stepped(call, index, env, seen)

    def _stepped(self, call: EnvironmentCall, index: int, env: _SubEnvironment, seen: Flat) -> Iterator[Transition]:
        last = self._simulation.last
        terminated, truncated = bool(last.terminated[index]), bool(last.truncated[index])
        env.is_over = terminated or truncated
        resets = env.is_over and self._mode == SAME_STEP
        yield Transition(
            env.episode,
            env.step,
            call.tick - 1,
            call.tick,
            "",
            index,
            env.seed,
            env.options,
            env.seen,
            flatten(unbatch(call.action, self._facts.space("action"), index), self._facts.space("action")),
            flatten(last.reward[index]),
            self._final(call.tick, index) if resets else seen,
            terminated,
            truncated,
            self._info(index, resets=resets) if self._with_info else {},
        )
        env.step, env.seen = env.step + 1, seen
        if resets:
            env.begin(seen)

    def _reset(self, call: EnvironmentCall, envs: list[_SubEnvironment]) -> None:
        options = call.options
        mask = options.get("reset_mask") if isinstance(options, dict) else None
        text = None if options is None else json_text(options)
        for index, env in enumerate(envs):
            if mask is None or bool(np.asarray(mask)[index]):
                seed = (
                    call.seed[index]
                    if isinstance(call.seed, list)
                    else None
                    if call.seed is None
                    else call.seed + index
                )
                env.begin(self._observation(self._simulation.last.observation, index), seed, text)

    def _observation(self, observations: Any, index: int) -> Flat:
        space = self._facts.space("observation")
        return flatten(unbatch(observations, space, index), space)

    def _final(self, tick: int, index: int) -> Flat:
        space = self._facts.space("observation")
        return flatten(final_observation(self._simulation.info, space, index, tick), space)

    def _info(self, index: int, *, resets: bool) -> Flat:
        info = self._simulation.info or {}
        own = info_of(info.get("final_info") or {}, index) if resets else info_of(info, index, _FINAL)
        return flatten({key: value for key, value in own.items() if key not in {f"_{name}" for name in _FINAL}})
