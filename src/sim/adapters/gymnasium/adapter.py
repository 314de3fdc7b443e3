"""Record Gymnasium environments: a recording wrapper, with the state of every layer below it.

A tick is one call of ``step`` or of ``reset``. Its inputs are the action, or the seed and the options. The state
consists of the attributes of all wrappers and of the environment, its random generator, and the results of the last
call.
"""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Callable, Iterable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, VectorEnv

from sim.adapters.capture.captured_state import CapturedWarning
from sim.adapters.capture.native_objects import find_natives
from sim.adapters.capture.pickle_protocol import Pickler
from sim.adapters.capture.recapture import ProvedSimulation, ProvedState
from sim.adapters.capture.repeated.inputs_since_reset import InputsSinceReset
from sim.adapters.capture.unpack import parts_of
from sim.adapters.gymnasium.attribute_kinds import classifier_of
from sim.adapters.gymnasium.described_spaces import describe_env
from sim.adapters.gymnasium.inputs import decode_call, encode_action, encode_own_reset, encode_reset, passed_on
from sim.adapters.gymnasium.last_env_call import OBSERVATION, LastEnvCall
from sim.adapters.gymnasium.layers import (
    OUTPUT_ONLY,
    being_recorded,
    captured_layers,
    end_checks_without_data,
    layers_of,
    name_of,
    rebuild,
    subject_of,
)
from sim.adapters.gymnasium.random_player import random_player
from sim.adapters.gymnasium.spaces_watch import SpacesWatch
from sim.adapters.gymnasium.unsaved_sources import unsaved_sources
from sim.adapters.gymnasium.unseeded_start import keeps_generator, settle_unseeded_start
from sim.adapters.gymnasium.vector import RecordedVectorEnv, has_seed
from sim.adapters.interface.adapter_registry import Adapter, NotCapturedError
from sim.adapters.interface.attempts import KeepsItsAttempts, attempt_of, repeat_attempt
from sim.adapters.interface.capture_report import Part, Report
from sim.adapters.interface.running_episode import CountsEpisodes
from sim.kernel.exactness import Level, level_from
from sim.user_warning import warn_user

NAME = "gymnasium"
RESULT = "result"  # The prefix of the fields of LastEnvCall.


class GymnasiumSimulation(KeepsItsAttempts, ProvedSimulation, CountsEpisodes):
    """An environment as a simulation: one tick is one call of step or reset.

    Attributes:
        env: the environment with its wrappers.
        last: the results of the last call.
        info: what the last call returned as its info, which is not saved: None after a load.
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

        env: an environment, or a vector of them. level: None for EXACT. pickler: for values that cannot be saved otherwise. ignore: full names of attributes that
        no step reads.

        Raises NotCapturedError for an environment that cannot be captured at this level; ValueError for an unknown
        level.
        """
        self.env = env
        self._ignored, self._pickler = tuple(ignore), pickler
        self.last = LastEnvCall()
        self._held = vars(self.last)
        self.info: dict[str, Any] | None = None
        self.level = level_from(level)
        settle_unseeded_start(layers_of(env))
        layers: list[tuple[str, Any]] = [(RESULT, self.last), *captured_layers(env)]
        home, classify = type(env.unwrapped).__module__, classifier_of(env)
        self._natives: list[tuple[str, Any]] = []
        if self.level is Level.INPUTS_ONLY:
            repeated = InputsSinceReset(layers[1:], classify, ignored=self._ignored, pickler=pickler, home=home)
            self._repeated, self.state, structure = repeated, repeated.state, repeated.structure
        else:
            self._natives = find_natives(layers[1:])
            layers += [(name, native.arrays) for name, native in self._natives]
            self._captured = ProvedState(
                layers,
                classify,
                ignored=self._ignored,
                pickler=pickler,
                detached=[RESULT, f"{RESULT}.{OBSERVATION}"],
                home=home,
            )
            self._captured.ensure_all_known(name_of(env))
            self.state, structure = self._captured.state, self._captured.structure
        self._parts, self._is_known = parts_of(structure), True
        self._spaces = SpacesWatch(env)
        self._is_direct = self._repeated is None and not self._natives  # See act.

    def rehearse(self) -> None:
        """Reset and step a second environment of the kind, to find attributes that appear then, if one can be made.

        Raises NotCapturedError if one of them cannot be captured, or if the environment is being recorded already.
        """
        if id(self.env.unwrapped) in being_recorded:
            raise NotCapturedError(
                f"{name_of(self.env)} is being recorded already: two recordings would step it in turns"
            )
        if self._repeated is not None or has_seed(self.env):
            return  # This environment was reset already: all its attributes are known.
        twin = rebuild(subject_of(self.env) or {})
        if twin is None:
            self._is_known = False
            return
        try:
            rehearsal = GymnasiumSimulation(twin, level=self.level, ignore=self._ignored, pickler=self._pickler)
            twin.action_space.seed(0)
            rehearsal.step({"reset": 0})
            rehearsal.step(encode_action(twin.action_space.sample()))
            self._parts = parts_of(rehearsal._captured.structure)
        except NotCapturedError:
            raise
        except Exception:  # noqa: BLE001 - the environment's own: it may need options, or refuse what its space samples
            self._is_known = False
        finally:
            twin.close()

    def step(self, inputs: Any) -> Any:
        """See KeepsItsAttempts. An action that is a number is passed on at once, since that is all in most steps."""
        if type(inputs) is not int or not self._is_direct:
            return super().step(inputs)
        try:  # As _act_and_capture, without its call.
            result = self._act(inputs)
        except Exception as error:
            self._error = error
            raise
        captured = self._captured
        captured.pack()
        self.state = captured.state
        return result

    @property
    def act(self) -> Callable[[Any], Any] | None:
        """What ``step`` does with the inputs of an action, for the action itself; None where the inputs are kept."""
        return self._act_and_capture if self._is_direct else None

    def count_steps(self, count: int) -> None:
        """Count steps that a replay had the environment make itself, whose states nothing asks for. One more step follows."""
        self._captured.count_steps(count)

    def _act_and_capture(self, action: Any) -> Any:
        try:
            result = self._act(action)
        except Exception as error:
            self._error = error
            raise
        captured = self._captured
        captured.pack()
        self.state = captured.state
        return result

    def _prepare(self, inputs: Any) -> None:
        if self._repeated is not None and type(inputs) is dict and "reset" in inputs:
            self._repeated.begin()

    def _capture(self, inputs: Any) -> None:
        if self._repeated is not None:
            self._repeated.add(inputs, self._last_result())
            return
        captured = self._captured
        self._retake()
        captured.pack()
        self.state = captured.state

    def _is_all_python(self) -> bool:
        return not self._natives

    def _returned(self) -> None:
        self.info = None

    def _retake(self) -> None:
        for _, native in self._natives:
            native.take()

    def _call(self, inputs: Any) -> Any:
        last = self.last
        if type(inputs) is dict:
            kind, arguments = decode_call(inputs)
            if kind == "reset":
                result: Any = self.env.reset(**passed_on(arguments))
                observation, self.info = result
                last.take(observation)
                last.clear()
                return result
            inputs = arguments
        return self._act(inputs)

    def _act(self, action: Any) -> Any:
        spaces = self._spaces
        spaces.left = left = spaces.left - 1
        if left > 0:
            result = self.env.step(action)
        else:
            space_states = spaces.before()
            result = self.env.step(action)
            spaces.after(space_states)
        held = self._held
        observation, held["reward"], held["terminated"], held["truncated"], self.info = result
        if type(observation) is dict:
            self.last.take(observation)
        else:
            held[OBSERVATION] = observation
        return result

    def _last_result(self) -> list[Any]:
        last = self.last
        return [last.observation, last.reward, last.terminated, last.truncated]

    def _repeat(self, inputs: Any) -> list[Any]:
        attempt = attempt_of(inputs)
        if attempt is None:
            self._call(inputs)
        else:
            repeat_attempt(attempt, self._call)
        return self._last_result()

    def after_restore(self) -> None:
        """Restore the environment from the arena. Raises NotCapturedError or ValueError."""
        self.info = None
        if self._repeated is not None:
            self._repeated.state = self.state
            self._repeated.load(self._repeat)
            return
        self._captured.state = self.state
        self._captured.unpack()
        end_checks_without_data(self.env)
        for _, native in self._natives:
            native.put()

    @property
    def subject(self) -> Any:
        """The environment with its wrappers."""
        return self.env

    def report(self) -> Report:
        """The captured attributes, layer by layer."""
        parts = self._parts
        by_name = {part.name: part for part in parts}
        outputs = {name: Part(name) for name, layer in layers_of(self.env) if type(layer).__name__ in OUTPUT_ONLY}
        chain = [(by_name | outputs)[name] for name, _ in layers_of(self.env)]
        inner = [part for part in parts if part not in chain]
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
            **describe_env(self.env),
        }


class RecordedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose calls of step and reset are recorded; closing it closes the tape."""

    def __init__(self, simulation: GymnasiumSimulation, tape: Any) -> None:
        """tape: its recorder, with step(inputs) and close(outcome)."""
        super().__init__(simulation.env)
        being_recorded[id(self.env.unwrapped)] = self
        self._lacks_reset = getattr(self.env.unwrapped, "_np_random", self) is None
        self._lacks_seed = self._lacks_reset and not keeps_generator(self.env.unwrapped)
        self.tape = tape
        self._call = tape.step
        running = simulation.running_at(tape.tick)
        # The tick of the last reset. None in an episode whose rewards are not known: branched, or resumed after too many.
        self._begun_at: int | None = None if running is None else running.begun_at
        self._repeated = simulation._repeated  # noqa: SLF001 - of the same module
        self._has_warned = False
        self._return = 0.0 if running is None else running.total
        last = simulation.last
        self._terminated, self._truncated = bool(tape.tick and last.terminated), bool(tape.tick and last.truncated)
        self._over = self._terminated or self._truncated
        self._resets_itself = any(isinstance(one, gymnasium.wrappers.Autoreset) for _, one in layers_of(self.env))

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Call the environment's step, recorded. Raises TypeError, before the call, if action cannot be recorded.

        Raises ResetNeeded before the first reset.
        """
        if self._lacks_reset:
            raise gymnasium.error.ResetNeeded(
                "expected reset() before the first step(): a replay needs its seed; call reset() first"
            )
        if self._over and self._resets_itself:
            result = self._call(encode_own_reset(action, self._ended()))
            self._begun_at, self._return = self.tape.tick, 0.0
        else:
            result = self._call(action if type(action) is int else encode_action(action))
        _, reward, self._terminated, self._truncated, _ = result
        try:
            self._return += reward
        except TypeError:  # The environment's own matter: without a number there is no return.
            self._return = math.nan
        self._over = self._terminated or self._truncated
        return result  # type: ignore[no-any-return]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Call the environment's reset, recorded. Where the first one would draw a seed, it is drawn and recorded."""
        if seed is None and self._lacks_seed:
            seed = int(np.random.SeedSequence().entropy) & 0x7FFF_FFFF  # type: ignore[arg-type]
        elif seed is None and not self._has_warned:
            self._warn_of_unsaved_sources()
        result = self._call(encode_reset(seed, options, self._ended()))
        self._begun_at, self._return, self._lacks_reset, self._lacks_seed = self.tape.tick, 0.0, False, False
        self._over = self._terminated = self._truncated = False
        return result  # type: ignore[no-any-return]

    def _warn_of_unsaved_sources(self) -> None:
        """Warn, at the level inputs_only, if the next episode may depend on what no seek restores."""
        sources = unsaved_sources(self._repeated.left_alone()) if self._repeated is not None else []
        if sources:
            self._has_warned = True
            warn_user(
                f"reset() without a seed, at the level inputs_only: {', '.join(sources[:3])} may decide the episode and "
                "cannot be restored, so a seek into it may fail; pass a seed at each reset",
                CapturedWarning,
            )

    def _ended(self) -> dict[str, Any] | None:
        """The totals of the episode that ends here; None if unknown, or without a step. A step that raised counts."""
        steps = self.tape.tick - self._begun_at if self._begun_at is not None else 0
        if not steps:
            return None
        whole = self._return  # A reward may be a vector, one number for each objective.
        total = whole if type(whole) is float else float(np.sum(whole))
        flags = {"terminated": bool(self._terminated), "truncated": bool(self._truncated)}
        return {"steps": steps, "return": total, "over": bool(self._over), **flags}

    def close(self) -> None:
        """Close the tape, then the environment."""
        ended = self._ended()
        being_recorded.pop(id(self.env.unwrapped), None)
        self.tape.close({"reason": "closed", "episode": ended} if ended else None)
        super().close()

    @property
    def subject(self) -> gymnasium.Env[Any, Any]:
        """The environment itself, with its wrappers."""
        return self.env

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]  # Gymnasium's own wrappers have it as a property, too.
        """The spec of the environment: the recording wrapper is not part of it."""
        return self.env.spec


def _adapt(env: Any, **options: Any) -> GymnasiumSimulation:
    if not isinstance(env, gymnasium.Env | VectorEnv):
        raise NotCapturedError(f"expected a gymnasium.Env or a VectorEnv, got {type(env).__name__}")
    if isinstance(env.unwrapped, AsyncVectorEnv):
        raise NotCapturedError(
            "AsyncVectorEnv keeps its environments in other processes, where their state cannot be read: record "
            "gymnasium.vector.SyncVectorEnv, or in each process the environment that it makes"
        )
    if any(isinstance(layer, RecordedEnv | RecordedVectorEnv) for _, layer in layers_of(env)):
        raise NotCapturedError(f"{name_of(env)} is recorded already, inside this wrapper: record it once")
    return GymnasiumSimulation(env, **options)


def _door(simulation: GymnasiumSimulation, tape: Any) -> Any:
    return (RecordedVectorEnv if isinstance(simulation.env, VectorEnv) else RecordedEnv)(simulation, tape)


ADAPTER = Adapter(NAME, _adapt, _door, rebuild, random_player, has_short_steps=True)
