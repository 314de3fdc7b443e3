"""Record PettingZoo environments: parallel ones, and those in which one agent acts after the other (AEC).

A tick is one call of ``step`` or of ``reset``; the actions of all agents, or the action of the selected one, or the seed
and the options, are its inputs. The state is the attributes of all wrappers and of the environment, random generators
wherever they lie, and what the last call gave to whom.
"""

from __future__ import annotations

import copy
import importlib.metadata
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pettingzoo
from pettingzoo.utils.wrappers import BaseParallelWrapper, BaseWrapper

from sim.adapters.capture.captured_state import CapturedState
from sim.adapters.capture.inputs_since_reset import InputsSinceReset
from sim.adapters.capture.pickle_protocol import Pickler
from sim.adapters.capture.rng_state import is_generator
from sim.adapters.gymnasium.inputs import decode_call, encode_action, encode_reset
from sim.adapters.interface.adapter_registry import Adapter, NotCapturedError
from sim.adapters.interface.capture_report import Part, Report
from sim.adapters.pettingzoo.layers import (
    KINDS,
    OUTPUT_ONLY,
    classify,
    classify_coarsely,
    layers_of,
    name_of,
    rebuild,
    subject_of,
)
from sim.kernel.exactness import Level, level_from
from sim.kernel.state import State

NAME = "pettingzoo"
RESULT = "result"  # What the fields of LastCall are named after.


class LastParallelCall:
    """What the last call gave; a part of the state, so that a seek gives it again.

    Of a parallel environment the dicts that it returned; else the selected agent, and what ``last`` says of it.
    """

    def __init__(self) -> None:
        self.agent: Any = None
        self.observations: Any = None
        self.rewards: Any = None
        self.terminations: Any = None
        self.truncations: Any = None
        self.infos: Any = None


class PettingZooSimulation:
    """An environment of several agents as a simulation: one tick is one call of step or reset.

    Attributes:
        env: the environment with its wrappers.
        is_parallel: whether all agents act at once.
        last: what the last call gave.
        level: how exactly it can be loaded.
    """

    def __init__(
        self,
        env: Any,
        *,
        level: Level | str | None = None,
        pickler: Pickler | None = None,
        ignore: Iterable[str] = (),
    ) -> None:
        """Look at the environment and its wrappers.

        level: None for EXACT. pickler: for what cannot be saved otherwise. ignore: full names of attributes that are
        known not to matter.

        Raises NotCapturedError for an environment that cannot be captured at this level; ValueError for no level.
        """
        self.env = env
        self.is_parallel = isinstance(env, pettingzoo.ParallelEnv)
        self._ignored = tuple(ignore)
        self._pickler = pickler
        self._was_reset = False
        self.last = LastParallelCall()
        self.level = level_from(level)
        layers = [(name, layer) for name, layer in layers_of(env) if type(layer).__name__ not in OUTPUT_ONLY]
        exact = self.level is not Level.INPUTS_ONLY
        self._captured = CapturedState(
            [(RESULT, self.last), *layers] if exact else layers,
            classify if exact else classify_coarsely,
            ignored=self._ignored,
            pickler=pickler,
            detached=[RESULT],
            opens_objects=exact,
        )
        self._repeated = None if exact else InputsSinceReset(self._captured)
        if exact:
            self._captured.ensure_all_known(name_of(env))
        self._parts, self._is_known = self._captured.parts(), True
        self.state: State = (self._repeated or self._captured).state

    @property
    def draws_first_seed(self) -> bool:
        """Whether nobody can know yet what a reset without a seed will draw with: no generator is there."""
        values = [value for _, layer in layers_of(self.env) for value in vars(layer).values()]
        return not any(map(is_generator, values))

    def rehearse(self) -> None:
        """Reset and step another environment of the kind, to see what comes up then; nothing if none can be made.

        Raises NotCapturedError if something comes up that cannot be captured.
        """
        if self._repeated is not None:
            return
        twin = rebuild(subject_of(self.env) or {})
        if twin is None:
            self._is_known = False
            return
        try:
            other = PettingZooSimulation(twin, level=self.level, ignore=self._ignored, pickler=self._pickler)
            play = player(other, 0)
            for _ in range(2):
                other.step(play())
            self._parts = other._captured.parts()
        finally:
            twin.close()

    def step(self, inputs: Any) -> Any:
        """Call step or reset, as the inputs say, and return what that returned."""
        if self._repeated is None:
            result = self._call(inputs)
            self._captured.pack()
            self.state = self._captured.state
            return result
        if type(inputs) is dict and "reset" in inputs:
            self._repeated.begin()
        result = self._call(inputs)
        self._repeated.add(inputs, self._last_result())
        return result

    def _call(self, inputs: Any) -> Any:
        is_reset, given = False, inputs
        if type(inputs) is dict:
            kind, given = decode_call(inputs)
            is_reset = kind == "reset"
        result = self.env.reset(**given) if is_reset else self.env.step(given)
        self._was_reset = self._was_reset or is_reset
        last = self.last
        if not self.is_parallel:
            self._look_at_selected()
        elif is_reset:
            last.observations, last.infos = result if isinstance(result, tuple) else (result, None)
            last.rewards = last.terminations = last.truncations = None
        else:
            last.observations, last.rewards, last.terminations, last.truncations, *infos = result
            last.infos = infos[0] if infos else None
        return result

    def _look_at_selected(self) -> None:
        """Ask once what the selected agent is told: asking may draw, or be remembered by a wrapper."""
        last = self.last
        last.agent = self.env.agent_selection if self.env.agents else None
        said = self.env.last() if last.agent is not None else (None,) * 5
        last.observations, last.rewards, last.terminations, last.truncations, last.infos = said

    def _last_result(self) -> list[Any]:
        last = self.last
        return [last.agent, last.observations, last.rewards, last.terminations, last.truncations]

    def _repeat(self, inputs: Any) -> list[Any]:
        self._call(inputs)
        return self._last_result()

    def after_restore(self) -> None:
        """Put the environment into the state that the arena holds. Raises NotCapturedError or ValueError."""
        if self._repeated is not None:
            self._repeated.state = self.state
            self._repeated.load(self._repeat)
            return
        if not self._was_reset:
            self.env.reset(seed=0)  # Many make at a reset the objects that are loaded into.
            self._was_reset = True
        self._captured.state = self.state
        self._captured.unpack()

    def report(self) -> Report:
        """What is captured, layer by layer."""
        by_name = {part.name: part for part in self._parts}
        chain = [by_name.get(name, Part(name)) for name, _ in layers_of(self.env)]
        inner = [part for part in self._parts if part not in chain]
        notes = () if self._is_known else ("what comes up at the first reset is not known yet",)
        return Report(NAME, name_of(self.env), self.level, (*chain, *inner), notes)

    @property
    def adapter(self) -> dict[str, Any]:
        """What the tape says about how it was made."""
        kind = type(self.env.unwrapped)
        return {
            "name": NAME,
            "package": NAME,
            "version": importlib.metadata.version(NAME),
            "class": f"{kind.__module__}.{kind.__qualname__}",
            "report": self.report().to_plain(),
            "subject": subject_of(self.env),
            "ignored": list(self._ignored),
        }


class _Episode:
    """What the episode under way has come to."""

    def __init__(self, simulation: PettingZooSimulation) -> None:
        self.simulation = simulation
        self.steps = 0
        self.total = 0.0

    def add(self) -> None:
        """After a step: the rewards of all agents."""
        simulation = self.simulation
        rewards = simulation.last.rewards if simulation.is_parallel else simulation.env.rewards
        self.steps += 1
        self.total += float(sum(rewards.values()))

    def ended(self) -> dict[str, Any] | None:
        """Its end; None if there was none."""
        if not self.steps:
            return None
        return {"steps": self.steps, "return": self.total, "over": not self.simulation.env.agents}

    def next_reset(self, seed: int | None, options: dict[str, Any] | None) -> dict[str, Any]:
        """The inputs of a reset, a seed drawn if none was ever given; the next episode begins."""
        if seed is None and self.simulation.draws_first_seed:
            seed = int(np.random.SeedSequence().entropy) & 0x7FFF_FFFF  # type: ignore[arg-type]
        call = encode_reset(seed, options, self.ended())
        self.steps, self.total = 0, 0.0
        return call

    def outcome(self) -> dict[str, Any] | None:
        """What the tape says at its end."""
        ended = self.ended()
        return {"reason": "closed", "episode": ended} if ended else None


class RecordedParallel(BaseParallelWrapper[Any, Any, Any]):  # type: ignore[misc]  # PettingZoo has no types.
    """A parallel environment whose calls of step and reset are recorded; closing it closes the tape."""

    def __init__(self, simulation: PettingZooSimulation, tape: Any) -> None:
        """tape: what it is recorded by, with step(inputs) and close(outcome)."""
        super().__init__(simulation.env)
        self.tape = tape
        self._episode = _Episode(simulation)

    def step(self, actions: dict[Any, Any]) -> Any:
        """As the environment's, recorded. Raises TypeError for actions that cannot be recorded; nothing is done."""
        result = self.tape.step(encode_action(actions))
        self._episode.add()
        return result

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """As the environment's, recorded; a seed that is drawn because none was ever given is recorded, too."""
        return self.tape.step(self._episode.next_reset(seed, options))

    def close(self) -> None:
        """Close the tape, then the environment."""
        self.tape.close(self._episode.outcome())
        super().close()


class RecordedAEC(BaseWrapper[Any, Any, Any]):  # type: ignore[misc]
    """An environment of one agent after the other whose calls of step and reset are recorded."""

    def __init__(self, simulation: PettingZooSimulation, tape: Any) -> None:
        """tape: what it is recorded by, with step(inputs) and close(outcome)."""
        super().__init__(simulation.env)
        self.tape = tape
        self._episode = _Episode(simulation)

    def step(self, action: Any) -> None:
        """As the environment's, recorded. Raises TypeError for an action that cannot be recorded; nothing is done."""
        self.tape.step(encode_action(action))
        self._episode.add()

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """As the environment's, recorded; a seed that is drawn because none was ever given is recorded, too."""
        self.tape.step(self._episode.next_reset(seed, options))

    def last(self, observe: bool = True) -> Any:  # noqa: FBT001, FBT002 - as PettingZoo has it
        """What the selected agent is told, as it was asked for, once, after the step: asking again might draw again."""
        last = self._episode.simulation.last
        if last.agent is None:
            return super().last(observe)
        return (
            last.observations if observe else None, last.rewards, last.terminations, last.truncations, last.infos,
        )  # fmt: skip

    def close(self) -> None:
        """Close the tape, then the environment."""
        self.tape.close(self._episode.outcome())
        super().close()


def _adapt(env: Any, **options: Any) -> PettingZooSimulation:
    if not isinstance(env, tuple(KINDS.values())):
        raise NotCapturedError(f"{type(env).__name__} is neither a PettingZoo AECEnv nor a ParallelEnv")
    return PettingZooSimulation(env, **options)


def _door(simulation: PettingZooSimulation, tape: Any) -> Any:
    return (RecordedParallel if simulation.is_parallel else RecordedAEC)(simulation, tape)


def player(simulation: Any, seed: int) -> Callable[[], Any]:
    """Random actions from a seed, allowed ones where a mask says which, and a reset where nobody is left."""
    env, last, begun = simulation.env, simulation.last, False
    own: dict[Any, Any] = {}  # Spaces of its own: those of the environment are left as they are.

    def sample(agent: Any, observation: Any, info: Any) -> Any:
        if agent not in own:
            own[agent] = copy.deepcopy(env.action_space(agent))
            own[agent].seed(seed + len(own))
        found = [one["action_mask"] for one in (observation, info) if isinstance(one, dict) and "action_mask" in one]
        return own[agent].sample(np.asarray(found[0], np.int8)) if found else own[agent].sample()

    def play() -> Any:
        nonlocal begun
        if not begun or not env.agents:
            call = encode_reset(None if begun else seed, None, None)
            begun = True
            return call
        if simulation.is_parallel:
            seen, infos = last.observations, last.infos or {}
            return encode_action({one: sample(one, seen.get(one), infos.get(one)) for one in env.agents})
        over = last.terminations or last.truncations
        return encode_action(None if over else sample(last.agent, last.observations, last.infos))

    return play


ADAPTER = Adapter(NAME, _adapt, _door, rebuild, player)
