"""Record PettingZoo environments: parallel ones, and those in which the agents act in turn (AEC).

A tick is one call of ``step`` or of ``reset``. Its inputs are the actions of all agents, the action of the selected
agent, or the seed and the options. The state consists of the attributes of all wrappers and of the environment, all
random generators, and the results of the last call for each agent.
"""

from __future__ import annotations

import copy
import importlib.metadata
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pettingzoo
from pettingzoo.utils.wrappers import BaseParallelWrapper, BaseWrapper

from sim.adapters.capture.captured_state import CapturedWarning
from sim.adapters.capture.pickle_protocol import Pickler
from sim.adapters.capture.recapture import ProvedSimulation, ProvedState
from sim.adapters.capture.repeated.inputs_since_reset import InputsSinceReset
from sim.adapters.capture.rng_state import is_generator
from sim.adapters.capture.unpack import parts_of
from sim.adapters.gymnasium.described_spaces import describe_agents
from sim.adapters.gymnasium.inputs import decode_call, encode_action, encode_reset, passed_on
from sim.adapters.interface.adapter_registry import Adapter, NotCapturedError
from sim.adapters.interface.attempts import KeepsItsAttempts, attempt_of, repeat_attempt
from sim.adapters.interface.capture_report import Part, Report
from sim.adapters.interface.running_episode import CountsEpisodes, RunningEpisode
from sim.adapters.pettingzoo.episode_totals import EpisodeTotals
from sim.adapters.pettingzoo.layers import (
    KINDS,
    OUTPUT_ONLY,
    classify,
    layers_of,
    name_of,
    rebuild,
    subject_of,
)
from sim.kernel.exactness import Level, level_from
from sim.user_warning import warn_user

NAME = "pettingzoo"
RESULT = "result"  # The prefix of the fields of LastParallelCall.


class LastParallelCall:
    """The results of the last call. They are part of the state, so that a seek restores them.

    For a parallel environment the dicts that it returned; otherwise the selected agent and the values of ``last``.
    """

    def __init__(self) -> None:
        self.agent: Any = None
        self.observations: Any = None
        self.rewards: Any = None
        self.terminations: Any = None
        self.truncations: Any = None
        self.infos: Any = None


class PettingZooSimulation(KeepsItsAttempts, ProvedSimulation, CountsEpisodes):
    """An environment of several agents as a simulation: one tick is one call of step or reset.

    Attributes:
        env: the environment with its wrappers.
        is_parallel: true if all agents act at once.
        last: the results of the last call.
        level: the exactness of a load.
    """

    def __init__(
        self,
        env: Any,
        *,
        level: Level | str | None = None,
        pickler: Pickler | None = None,
        ignore: Iterable[str] = (),
    ) -> None:
        """Survey the environment and its wrappers.

        level: None for EXACT. pickler: for values that cannot be saved otherwise. ignore: full names of attributes that
        no step reads.

        Raises NotCapturedError for an environment that cannot be captured at this level; ValueError for an unknown
        level.
        """
        self.env = env
        self.is_parallel = isinstance(env, pettingzoo.ParallelEnv)
        self._ignored = tuple(ignore)
        self._pickler = pickler
        self._was_reset = self._was_seeded = False
        self.last = LastParallelCall()
        self.level = level_from(level)
        layers = [(name, layer) for name, layer in layers_of(env) if type(layer).__name__ not in OUTPUT_ONLY]
        home = type(env.unwrapped).__module__
        if self.level is Level.INPUTS_ONLY:
            repeated = InputsSinceReset(layers, classify, ignored=self._ignored, pickler=pickler, home=home)
            self._repeated, self.state, structure = repeated, repeated.state, repeated.structure
        else:
            self._captured = ProvedState(
                [(RESULT, self.last), *layers],
                classify,
                ignored=self._ignored,
                pickler=pickler,
                detached=[RESULT],
                home=home,
            )
            self._captured.ensure_all_known(name_of(env))
            self.state, structure = self._captured.state, self._captured.structure
        self._parts, self._is_known = parts_of(structure), True

    @property
    def draws_first_seed(self) -> bool:
        """True if a reset without a seed would draw one: none was passed yet, and there is no generator yet."""
        if self._was_seeded or (self._repeated is None and self._captured.has_generator()):
            return False
        values = [value for _, layer in layers_of(self.env) for value in vars(layer).values()]
        return not any(map(is_generator, values))

    def rehearse(self) -> None:
        """Reset and step a second environment of the kind, to find attributes that appear then, if one can be made.

        Raises NotCapturedError if one of them cannot be captured.
        """
        if self._repeated is not None:
            return
        twin = rebuild(subject_of(self.env) or {})
        if twin is None:
            self._is_known = False
            return
        try:
            rehearsal = PettingZooSimulation(twin, level=self.level, ignore=self._ignored, pickler=self._pickler)
            play = player(rehearsal, 0)
            for _ in range(2):
                rehearsal.step(play())
            self._parts = parts_of(rehearsal._captured.structure)
        finally:
            twin.close()

    def add_rewards(self, episode: RunningEpisode) -> None:
        """See CountsEpisodes. Notes the agents that ended, too."""
        holder: Any = self.last if self.is_parallel else self.env
        episode.total += float(sum(holder.rewards.values()))
        for agent, terminated in holder.terminations.items():
            truncated = holder.truncations.get(agent, False)
            if terminated or truncated:
                episode.terminated[agent], episode.truncated[agent] = bool(terminated), bool(truncated)

    def _prepare(self, inputs: Any) -> None:
        if self._repeated is not None and type(inputs) is dict and "reset" in inputs:
            self._repeated.begin()

    def _capture(self, inputs: Any) -> None:
        if self._repeated is not None:
            self._repeated.add(inputs, self._last_result())
            return
        self._captured.pack()
        self.state = self._captured.state

    def _call(self, inputs: Any) -> Any:
        is_reset, arguments = False, inputs
        if type(inputs) is dict:
            kind, arguments = decode_call(inputs)
            is_reset = kind == "reset"
        result = self.env.reset(**passed_on(arguments)) if is_reset else self.env.step(arguments)
        self._was_reset = self._was_reset or is_reset
        self._was_seeded = self._was_seeded or (is_reset and arguments.get("seed") is not None)
        last = self.last
        if not self.is_parallel:
            self._read_selected_agent()
        elif is_reset:
            last.observations, last.infos = result if isinstance(result, tuple) else (result, None)
            last.rewards = last.terminations = last.truncations = None
        else:
            last.observations, last.rewards, last.terminations, last.truncations, *infos = result
            last.infos = infos[0] if infos else None
        return result

    def _read_selected_agent(self) -> None:
        """Call ``last`` once for the selected agent: the call may draw random numbers, or change a wrapper."""
        last = self.last
        last.agent = self.env.agent_selection if self.env.agents else None
        results = self.env.last() if last.agent is not None else (None,) * 5
        last.observations, last.rewards, last.terminations, last.truncations, last.infos = results

    def _last_result(self) -> list[Any]:
        last = self.last
        return [last.agent, last.observations, last.rewards, last.terminations, last.truncations]

    def _repeat(self, inputs: Any) -> list[Any]:
        attempt = attempt_of(inputs)
        if attempt is None:
            self._call(inputs)
        else:
            repeat_attempt(attempt, self._call)
        return self._last_result()

    def after_restore(self) -> None:
        """Restore the environment from the arena. Raises NotCapturedError or ValueError."""
        if self._repeated is not None:
            self._repeated.state = self.state
            self._repeated.load(self._repeat)
            return
        if not self._was_reset:
            self.env.reset(seed=0)  # Many environments create in a reset the objects that a load fills.
            self._was_reset = True
        self._captured.state = self.state
        self._captured.unpack()
        if self.last.agent is not None:
            # As in the recorded run, whose next step may need what this kept outside the objects: the chess of
            # PettingZoo looks its actions up in a dict of a module, which an observation fills.
            try:
                self.env.last()
            except Exception as error:  # noqa: BLE001 - the state itself is loaded, and needs no observation
                warn_user(
                    f"{name_of(self.env)} was loaded, but what an observation keeps outside the environment was not: "
                    f"last() of agent {self.last.agent} raised {type(error).__name__}: {error}",
                    CapturedWarning,
                )
            self._captured.unpack()  # What it drew or changed is in the state already.

    @property
    def subject(self) -> Any:
        """The environment with its wrappers."""
        return self.env

    def report(self) -> Report:
        """The captured attributes, layer by layer."""
        by_name = {part.name: part for part in self._parts}
        chain = [by_name.get(name, Part(name)) for name, _ in layers_of(self.env)]
        inner = [part for part in self._parts if part not in chain]
        notes = () if self._is_known else ("what comes up at the first reset is not known yet",)
        return Report(NAME, name_of(self.env), self.level, (*chain, *inner), notes, self._ignored)

    @property
    def adapter(self) -> dict[str, Any]:
        """The description of the simulation for the tape."""
        kind = type(self.env.unwrapped)
        return {
            "name": NAME,
            "package": NAME,
            "version": importlib.metadata.version(NAME),
            "class": f"{kind.__module__}.{kind.__qualname__}",
            "report": self.report().to_plain(),
            "subject": subject_of(self.env),
            "ignored": list(self._ignored),
            **describe_agents(self.env),
        }


class RecordedParallel(BaseParallelWrapper[Any, Any, Any]):  # type: ignore[misc]  # PettingZoo has no types.
    """A parallel environment whose calls of step and reset are recorded; closing it closes the tape."""

    def __init__(self, simulation: PettingZooSimulation, tape: Any) -> None:
        """tape: its recorder, with step(inputs) and close(outcome)."""
        super().__init__(simulation.env)
        self.tape = tape
        self._episode = EpisodeTotals(simulation, tape)

    def step(self, actions: dict[Any, Any]) -> Any:
        """Call the environment's step, recorded. Raises TypeError, before the call, if actions cannot be recorded."""
        result = self.tape.step(encode_action(actions))
        self._episode.add()
        return result

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Call the environment's reset, recorded. If no seed was ever passed, one is drawn and recorded."""
        return self.tape.step(self._episode.next_reset(seed, options))

    @property
    def subject(self) -> Any:
        """The environment itself, with its wrappers."""
        return self.env

    def close(self) -> None:
        """Close the tape, then the environment."""
        self.tape.close(self._episode.outcome())
        super().close()


class RecordedAEC(BaseWrapper[Any, Any, Any]):  # type: ignore[misc]
    """An environment whose agents act in turn, with recorded calls of step and reset."""

    def __init__(self, simulation: PettingZooSimulation, tape: Any) -> None:
        """tape: its recorder, with step(inputs) and close(outcome)."""
        super().__init__(simulation.env)
        self.tape = tape
        self._episode = EpisodeTotals(simulation, tape)

    def step(self, action: Any) -> None:
        """Call the environment's step, recorded. Raises TypeError, before the call, if action cannot be recorded."""
        self.tape.step(encode_action(action))
        self._episode.add()

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Call the environment's reset, recorded. If no seed was ever passed, one is drawn and recorded."""
        self.tape.step(self._episode.next_reset(seed, options))

    def last(self, observe: bool = True) -> Any:  # noqa: FBT001, FBT002 - as PettingZoo has it
        """The results for the selected agent, read once after the step: a second call might draw random numbers."""
        last = self._episode.simulation.last
        if last.agent is None:
            return super().last(observe)
        return (
            last.observations if observe else None, last.rewards, last.terminations, last.truncations, last.infos,
        )  # fmt: skip

    @property
    def subject(self) -> Any:
        """The environment itself, with its wrappers."""
        return self.env

    def close(self) -> None:
        """Close the tape, then the environment."""
        self.tape.close(self._episode.outcome())
        super().close()


def _adapt(env: Any, **options: Any) -> PettingZooSimulation:
    if not isinstance(env, tuple(KINDS.values())):
        raise NotCapturedError(f"expected a PettingZoo AECEnv or ParallelEnv, got {type(env).__name__}")
    return PettingZooSimulation(env, **options)


def _recorded_env(simulation: PettingZooSimulation, tape: Any) -> Any:
    return (RecordedParallel if simulation.is_parallel else RecordedAEC)(simulation, tape)


def player(simulation: Any, seed: int) -> Callable[[], Any]:
    """Random actions from a seed, restricted by an action mask if there is one; a reset when no agent is left."""
    env, last, begun = simulation.env, simulation.last, False
    spaces: dict[Any, Any] = {}  # Copies: the generators of the environment's spaces must not change.

    def sample(agent: Any, observation: Any, info: Any) -> Any:
        if agent not in spaces:
            spaces[agent] = copy.deepcopy(env.action_space(agent))
            spaces[agent].seed(seed + len(spaces))
        holders = [item for item in (observation, info) if isinstance(item, dict) and "action_mask" in item]
        mask = np.asarray(holders[0]["action_mask"], np.int8) if holders else None
        return spaces[agent].sample() if mask is None else spaces[agent].sample(mask)

    def play() -> Any:
        nonlocal begun
        if not begun or not env.agents:
            call = encode_reset(None if begun else seed, None, None)
            begun = True
            return call
        if simulation.is_parallel:
            observations, infos = last.observations, last.infos or {}
            return encode_action(
                {agent: sample(agent, observations.get(agent), infos.get(agent)) for agent in env.agents}
            )
        over = last.terminations or last.truncations
        return encode_action(None if over else sample(last.agent, last.observations, last.infos))

    return play


ADAPTER = Adapter(NAME, _adapt, _recorded_env, rebuild, player, has_short_steps=True)
