"""The state of the Arcade Learning Environment, complete also with sticky actions.

The emulator saves its own state, with its random generators. Two things are not in it: the action that a sticky frame
repeats, and the picture, which only a frame draws. So this keeps the state from before the last step and the actions of
that step. A load restores the former, brings the emulator to hold the action that it held then, and plays the step
again. The result must equal the recorded state, memory and picture.

The held action cannot be read. It follows from the generator: each frame draws one number, and keeps the action before
if the number is below the probability of repeats. That the count of draws was right is checked at each step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ale_py
import numpy as np
import xxhash

from sim.adapters.ale.emulator_state import EmulatorState, StickyDraws, split_state
from sim.adapters.interface.adapter_registry import NotCapturedError

_NOOP = (0, 1.0)  # The action, and the strength of a paddle.
# After these the emulator is in a state that no action led to. The game begins with no action held.
_BEGINS_AGAIN = frozenset(("reset_game", "loadROM", "setMode", "setDifficulty"))
_SETS_STATE = frozenset(("restoreState", "restoreSystemState", "setRAM"))
_FORCED_FRAMES_MAX = 1000  # With a probability of 0.9, a thousand repeats in a row have one of 1e-46.
_ACTS_MAX = 64  # After so many frames in one step the state is taken again.


class ObservedEmulator:
    """Stands in for the emulator in the environment's attribute, and observes each call that changes its state."""

    native_package = "ale_py"

    def __init__(self, inner: Any) -> None:
        """Raises NotCapturedError for an emulator that makes sounds: how far they have been played is not saved."""
        if inner.getBool("sound_obs"):
            raise NotCapturedError(
                "sound_obs=True: the emulator does not save how far its sounds have been played: make the environment "
                "without sounds, or use level='inputs_only'"
            )
        self.inner = inner
        self.bridge = EmulatorBridge(self)

    def act(self, action: Any, strength: float = 1.0) -> Any:
        """Emulate one frame."""
        result = self.inner.act(action, strength)
        self.bridge.add((int(getattr(action, "value", action)), float(strength)))
        return result

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # A copy that is being made has none yet.
            raise AttributeError(name)
        method = getattr(self.inner, name)
        if name in _BEGINS_AGAIN:
            return self._observed(method, lambda: self.bridge.anchor(_NOOP))
        if name in _SETS_STATE:
            return self._observed(method, lambda: self.bridge.anchor(self.bridge.held))
        setattr(self, name, method)  # The next call finds it at once.
        return method

    def _observed(self, method: Callable[..., Any], after: Callable[[], None]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            result = method(*arguments, **named)
            after()
            return result

        return call


class EmulatorArrays:
    """The state as attributes: that before the last step, the step's actions, and what it must lead to."""

    machine: np.ndarray[Any, Any]
    places: np.ndarray[Any, Any]
    generators: np.ndarray[Any, Any]
    held: np.ndarray[Any, Any]
    acts: np.ndarray[Any, Any]
    strengths: np.ndarray[Any, Any]
    ram: np.ndarray[Any, Any]
    after: np.ndarray[Any, Any]


class EmulatorBridge:
    """Copies the state of an emulator to plain arrays and back; see Native.

    Attributes:
        arrays: the captured arrays.
        held: the action and strength that the next sticky frame repeats.
    """

    def __init__(self, emulator: ObservedEmulator) -> None:
        self._emulator = emulator
        self.arrays = EmulatorArrays()
        self.held: tuple[int, float] = _NOOP
        self.anchor(_NOOP)
        self.take()

    @property
    def _inner(self) -> Any:
        return self._emulator.inner

    def _serialized(self) -> bytes:
        try:
            return bytes(self._inner.cloneSystemState().serialize())
        except UnicodeDecodeError:  # ale-py 0.11 takes the bytes for text.
            raise NotCapturedError("this version of ale-py cannot serialize its state: use ale-py 0.12") from None

    def anchor(self, held: tuple[int, float]) -> None:
        """Take the present state as the one that the following actions lead on from."""
        state = split_state(self._serialized())
        self._draws = StickyDraws(state.generators[-1])
        self._probability = float(self._inner.getFloat("repeat_action_probability"))
        self._begin(state, held)

    def _begin(self, state: EmulatorState, held: tuple[int, float]) -> None:
        self._start, self._held_at_start = state, held
        self.held = held
        self._acts: list[tuple[int, float]] = []
        self._ends_here = False

    def add(self, act: tuple[int, float]) -> None:
        """Note a frame that was emulated."""
        if self._ends_here:  # The first frame of a step: the state that was taken last is the one before it.
            self._begin(self._present, self.held)
        self._acts.append(act)
        if self._draws.next() >= self._probability:
            self.held = act
        if len(self._acts) > _ACTS_MAX:
            self.anchor(self.held)

    def take(self) -> None:
        """Copy the present state. Raises NotCapturedError if the emulator drew more or fewer numbers than frames."""
        serialized = self._serialized()
        self._present = split_state(serialized)
        if self._acts and self._draws.words().tobytes() != self._present.generators[-1].tobytes():
            raise NotCapturedError(
                "expected the emulator to draw one number in each frame, got a different state of its generator: the "
                "action that it holds is not known; this version of ale-py is not supported, use level='inputs_only'"
            )
        arrays, start = self.arrays, self._start
        arrays.machine, arrays.places, arrays.generators = start.machine, start.places, start.generators
        arrays.held = np.array(self._held_at_start, np.float64)
        arrays.acts = np.zeros(_ACTS_MAX, np.int64)
        arrays.acts[: len(self._acts)] = [action + 1 for action, _ in self._acts]  # 0 for no action.
        arrays.strengths = np.zeros(_ACTS_MAX)
        arrays.strengths[: len(self._acts)] = [strength for _, strength in self._acts]
        arrays.ram = np.array(self._inner.getRAM())
        arrays.after = self._digests(serialized)
        self._ends_here = True

    def _digests(self, serialized: bytes) -> np.ndarray[Any, Any]:
        """Of the state after the step, and of the picture; 0 for a picture that no action has drawn."""
        picture = xxhash.xxh3_64_intdigest(self._inner.getScreen().tobytes()) if self._acts else 0
        return np.array([xxhash.xxh3_64_intdigest(serialized), picture], np.uint64)

    def put(self) -> None:
        """Restore the emulator. Raises NotCapturedError if the result differs from the recorded state."""
        arrays = self.arrays
        start = EmulatorState(arrays.machine.copy(), arrays.places.copy(), arrays.generators.copy())
        expected = split_state(self._serialized()).rom_hash()
        if start.rom_hash() != expected:
            raise NotCapturedError(
                f"expected the state of the game whose ROM has the hash {expected.decode()}, got one of "
                f"{start.rom_hash().decode()}: make the environment of the recorded game"
            )
        action, strength = arrays.held.tolist()
        self._restore(start, (int(action), strength))
        numbers, strengths = arrays.acts.tolist(), arrays.strengths.tolist()
        for number, one in zip(numbers, strengths, strict=True):
            if number:
                self._emulator.act(ale_py.Action(number - 1), one)
        after = self._serialized()
        differs = [
            what
            for what, is_equal in (
                ("memory", np.array_equal(self._inner.getRAM(), arrays.ram)),
                ("state or picture", np.array_equal(self._digests(after), arrays.after)),
            )
            if not is_equal
        ]
        if differs:
            raise NotCapturedError(
                f"the emulator, restored and stepped again, has a different {differs[0]} from the recorded one: use the "
                "version of ale-py that made the recording and the same settings (color_averaging is not supported), or "
                "level='inputs_only'"
            )
        self._present = split_state(after)
        self._ends_here = True

    def _restore(self, state: EmulatorState, held: tuple[int, float]) -> None:
        """Restore a state, and the held action: played until a frame takes it, before the state is set again."""
        saved, draws = ale_py.ALEState(state.serialized()), StickyDraws(state.generators[-1])
        self._inner.restoreSystemState(saved)
        probability = float(self._inner.getFloat("repeat_action_probability"))
        for _ in range(_FORCED_FRAMES_MAX):
            self._inner.act(ale_py.Action(held[0]), held[1])
            if draws.next() >= probability:
                break
        else:
            raise NotCapturedError(
                f"the emulator cannot be brought to hold an action with repeat_action_probability={probability}: use "
                "level='inputs_only'"
            )
        self._inner.restoreSystemState(saved)
        self._draws, self._probability = StickyDraws(state.generators[-1]), probability
        self._begin(state, held)


def bridges_in(attributes: dict[str, Any]) -> list[tuple[str, EmulatorBridge]]:
    """A bridge for the emulator among the attributes, which is replaced by one that observes it.

    Raises NotCapturedError for a vector of emulators.
    """
    bridges = []
    for name, value in list(attributes.items()):
        if isinstance(value, ale_py.ALEVectorInterface):
            raise NotCapturedError(
                f"{name}: AtariVectorEnv keeps its emulators in threads of C++ without a way to save them: record "
                'gymnasium.make_vec(..., vectorization_mode="sync"), or single environments'
            )
        if isinstance(value, ale_py.ALEInterface):
            attributes[name] = value = ObservedEmulator(value)  # noqa: PLW2901 - the same attribute
        if isinstance(value, ObservedEmulator):
            bridges.append((name, value.bridge))
    return bridges
