"""Training pairs: what an agent saw, what it did, what it saw then, what that was worth, and whether it was the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from replayer.datasets.functions import Arrays, Setting
from replayer.datasets.plan import TapeInput
from replayer.datasets.request import ExtractionError, Request
from replayer.datasets.rows.columns import Block, Rows
from replayer.datasets.rows.states import AGENT, RUN, TICK, Vocabulary, chosen_slots
from sim.kernel.registry import Readable, ReadActions, Reward
from sim.kernel.state import Snapshot, State

RAW = "inputs"  # The encoding that takes numbers as they were sent.

Encode = Callable[[Any, Readable], Arrays]


@attrs.frozen(eq=False)
class _Acting:
    """One agent, with all that is asked of it.

    Attributes:
        observe: by name. encode: by name. rewards: by name. own: its part of the inputs.
    """

    name: str
    observe: Mapping[str, Callable[[Readable], Arrays]]
    encode: Mapping[str, Encode]
    rewards: Mapping[str, Reward]
    own: ReadActions


@attrs.define(eq=False)
class _Begun:
    """A pair whose end is still to come."""

    seen: dict[str, Arrays]  # By agent.
    before: Snapshot | None
    done: dict[str, list[Arrays]] = attrs.field(factory=dict)
    acted: set[str] = attrs.field(factory=set)


class Pairs:
    """Makes the rows of the table of pairs while a tape is walked along."""

    def __init__(
        self,
        source: TapeInput,
        setting: Setting,
        request: Request,
        agents: tuple[str, ...],
        encodings: tuple[str, ...],
        labels: Vocabulary,
    ) -> None:
        """agents: whose pairs. encodings: of actions, RAW among them. Raises ExtractionError for unknown names."""
        self._source, self._request = source, request
        self._rows = Rows("pairs", labels)
        self._agents = [_acting(setting, request, agent, encodings) for agent in agents]
        self._needs_own = request.mode == "inputs" or RAW in encodings
        self._begun: tuple[int, _Begun] | None = None
        self._lists: set[str] = set()  # Columns whose lengths may differ.

    @property
    def needs_steps(self) -> bool:
        """Whether on_step must be called for each step."""
        return self._request.mode == "inputs" or any(agent.encode for agent in self._agents)

    @property
    def bytes(self) -> int:
        """Of what is collected."""
        return self._rows.bytes

    def on_step(self, inputs: Any, state: Readable) -> None:
        """A step within the pair that is under way: its inputs, and the state before it."""
        assert self._begun is not None
        begun = self._begun[1]
        for agent in self._agents:
            own = agent.own(inputs, state) if self._needs_own else None  # It may cost a look through the state.
            if own is not None and not (isinstance(own, list | tuple | dict | str) and not own):
                begun.acted.add(agent.name)
            if agent.encode:
                encoded: Arrays = {}
                for name, encode in agent.encode.items():
                    encoded |= _raw(own) if name == RAW else encode(inputs, state)
                begun.done.setdefault(agent.name, []).append(encoded)

    def add(self, tick: int, state: State, *, follows: bool, opens: bool) -> None:
        """A sample. follows: it ends the pair that is under way. opens: it begins one. Raises ExtractionError."""
        seen = {agent.name: self._seen(agent, state) for agent in self._agents}
        if follows and self._begun is not None:
            began, begun = self._begun
            for agent in self._agents:
                if self._request.mode != "inputs" or agent.name in begun.acted:
                    row = self._row(agent, began, tick, begun, seen[agent.name], state)
                    self._rows.add(tick, row, frozenset(self._lists))
        before = state.snapshot() if opens and any(agent.rewards for agent in self._agents) else None
        self._begun = (tick, _Begun(seen, before)) if opens else None

    def take(self) -> Iterator[tuple[str, Block]]:
        """What was collected, by table."""
        if len(self._rows):
            yield "pairs", self._rows.take()

    def _seen(self, agent: _Acting, state: State) -> Arrays:
        found: Arrays = {}
        for name, observe in agent.observe.items():
            arrays = observe(state)
            twice = next((key for key in arrays if key in found), None)
            if twice is not None:
                raise ExtractionError(f"the observation {name} gives {twice}, which another one gives, too")
            for key, array in arrays.items():
                if array.ndim == 1 and (":" not in name or key in self._request.lists):
                    self._lists |= {f"obs.{key}", f"next.{key}"}  # A world's own may be of any length, see World.
            found |= arrays
        for name in self._request.fields:
            [slot] = chosen_slots(state.layout, [name])
            found[name] = state[name].copy()
            if slot.owner is not None:
                self._lists |= {f"obs.{name}", f"next.{name}"}
        return found

    def _row(self, agent: _Acting, began: int, tick: int, begun: _Begun, seen: Arrays, state: State) -> dict[str, Any]:
        source = self._source
        is_last = tick == source.last_tick
        row: dict[str, Any] = {RUN: source.run, TICK: began, "ticks": tick - began, AGENT: agent.name}
        row |= {f"obs.{name}": array for name, array in begun.seen[agent.name].items()}
        row |= {f"action.{name}": array for name, array in self._actions(begun.done.get(agent.name, [])).items()}
        for name, reward in agent.rewards.items():
            assert begun.before is not None
            row[f"reward.{name.rpartition(':')[2]}"] = reward(begun.before, state)
        row |= {"terminated": is_last and source.is_end, "truncated": is_last and not source.is_end}
        row |= {"reason": source.reason if is_last else "", "outcome": source.outcome(agent.name)}
        row |= {f"next.{name}": array for name, array in seen.items()}
        return row

    def _actions(self, done: list[Arrays]) -> Arrays:
        """Of all ticks of a pair, (stride, *shape), the last pair of a tape filled up with zeros; of one tick, (*shape)."""
        if not done:
            return {}
        if self._request.stride == 1:
            return done[0]
        filled: Arrays = {}
        for name, first in done[0].items():
            whole: npt.NDArray[Any] = np.zeros((self._request.stride, *first.shape), first.dtype)
            for place, arrays in enumerate(done):
                if arrays[name].shape != first.shape:
                    raise ExtractionError(f"the action {name} has shape {arrays[name].shape} after {first.shape}")
                whole[place] = arrays[name]
            filled[name] = whole
        return filled


def _acting(setting: Setting, request: Request, agent: str, encodings: tuple[str, ...]) -> _Acting:
    return _Acting(
        agent,
        {name: setting.observation(name, agent) for name in request.observations},
        {name: _unused if name == RAW else setting.encoding(name, agent) for name in encodings},
        {name: setting.reward(name, agent) for name in request.rewards},
        setting.own_inputs(agent),
    )


def _unused(*_: Any) -> Arrays:
    raise AssertionError("raw inputs are taken as they are")


def is_raw(inputs: Any) -> bool:
    """Whether inputs can be a column as they are: a number, or numbers of one shape."""
    try:
        array = np.asarray(inputs)
    except ValueError:
        return False
    return array.dtype.kind in "biuf" and array.size > 0


def _raw(inputs: Any) -> Arrays:
    if not is_raw(inputs):
        raise ExtractionError(
            f"inputs {inputs!r:.60} are no number, nor numbers of one shape: give an encoding, or leave actions out"
        )
    return {RAW: np.array(inputs)}
