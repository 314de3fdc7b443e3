"""Training pairs: observation, action, reward, next observation, and the end of the run, for each agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from replayer.datasets.functions import Arrays, Setting
from replayer.datasets.plan import TapeInput
from replayer.datasets.request import ExtractionError, Request
from replayer.datasets.rows.columns import AGENT, Block, Rows
from replayer.datasets.rows.states import RUN, TICK, Vocabulary, chosen_slots
from sim.kernel.registry import Readable, ReadActions, Reward
from sim.kernel.state import Snapshot, State

RAW = "inputs"  # The encoding that takes numbers as they were sent.

Encode = Callable[[Any, Readable], Arrays]


@attrs.frozen(eq=False)
class _Acting:
    """One agent, with the functions that make its columns.

    Attributes:
        observe, encode, rewards: by name. own: picks its part of the inputs.
    """

    name: str
    observe: Mapping[str, Callable[[Readable], Arrays]]
    encode: Mapping[str, Encode]
    rewards: Mapping[str, Reward]
    own: ReadActions


@attrs.define(eq=False)
class _OpenPair:
    """A pair that has begun and not ended."""

    seen: dict[str, Arrays]  # By agent.
    before: Snapshot | None
    done: dict[str, list[Arrays]] = attrs.field(factory=dict)
    acted: set[str] = attrs.field(factory=set)


class Pairs:
    """Makes the rows of the table of pairs while a tape is replayed."""

    def __init__(
        self,
        source: TapeInput,
        setting: Setting,
        request: Request,
        agents: tuple[str, ...],
        encodings: tuple[str, ...],
        labels: Vocabulary,
    ) -> None:
        """agents: the agents that get pairs. encodings: of actions, possibly RAW. Raises ExtractionError for unknown names."""
        self._source, self._request = source, request
        self._rows = Rows("pairs", labels)
        self._agents = [_acting(setting, request, agent, encodings) for agent in agents]
        self._needs_own = request.mode == "inputs" or RAW in encodings
        self._open: tuple[int, _OpenPair] | None = None
        self._lists: set[str] = set()  # Columns whose lengths may differ.
        self._by_agent: set[str] | None = (
            None  # Arrays whose lengths differ between agents; known from the first state.
        )
        self._all_agents = [
            {name: setting.observation(name, agent) for name in request.observations if ":" not in name}
            for agent in (setting.agents() if request.agents is None else request.agents)
        ]

    @property
    def needs_steps(self) -> bool:
        """True if on_step must be called for each step."""
        return self._request.mode == "inputs" or any(agent.encode for agent in self._agents)

    @property
    def bytes(self) -> int:
        """The size of the collected rows."""
        return self._rows.bytes

    def on_step(self, inputs: Any, state: Readable) -> None:
        """Add a step to the open pair: its inputs, and the state before it."""
        assert self._open is not None
        pair = self._open[1]
        for agent in self._agents:
            own = agent.own(inputs, state) if self._needs_own else None  # It may have to search the state.
            if own is not None and not (isinstance(own, list | tuple | dict | str) and not own):
                pair.acted.add(agent.name)
            if agent.encode:
                encoded: Arrays = {}
                for name, encode in agent.encode.items():
                    encoded |= _raw(own) if name == RAW else encode(inputs, state)
                pair.done.setdefault(agent.name, []).append(encoded)

    def add(self, tick: int, state: State, *, follows: bool, opens: bool) -> None:
        """Add a sample. follows: it ends the open pair. opens: it begins a pair. Raises ExtractionError."""
        if self._by_agent is None:
            self._by_agent = _differing_lengths(self._all_agents, state)
        seen = {agent.name: self._seen(agent, state) for agent in self._agents}
        if follows and self._open is not None:
            first_tick, pair = self._open
            for agent in self._agents:
                if self._request.mode != "inputs" or agent.name in pair.acted:
                    row = self._row(agent, first_tick, tick, pair, seen[agent.name], state)
                    self._rows.add(tick, row, frozenset(self._lists))
        before = state.snapshot() if opens and any(agent.rewards for agent in self._agents) else None
        self._open = (tick, _OpenPair(seen, before)) if opens else None

    def take(self) -> Iterator[tuple[str, Block]]:
        """Yield the collected rows and forget them."""
        if len(self._rows):
            yield "pairs", self._rows.take()

    def _seen(self, agent: _Acting, state: State) -> Arrays:
        observed: Arrays = {}
        by_agent = self._by_agent or ()
        for name, observe in agent.observe.items():
            arrays = observe(state)
            clash = next((key for key in arrays if key in observed), None)
            if clash is not None:
                raise ExtractionError(f"the observation {name} returns {clash}, and so does another observation")
            for key, array in arrays.items():
                is_list = key in self._request.lists if ":" in name else array.ndim == 1 or key in by_agent
                if array.ndim and is_list:
                    self._lists |= {f"obs.{key}", f"next.{key}"}  # Those of a world may have any length, see World.
            observed |= arrays
        for name in self._request.fields:
            [slot] = chosen_slots(state.layout, [name])
            observed[name] = state[name].copy()
            if slot.owner is not None:
                self._lists |= {f"obs.{name}", f"next.{name}"}
        return observed

    def _row(
        self, agent: _Acting, first_tick: int, tick: int, pair: _OpenPair, seen: Arrays, state: State
    ) -> dict[str, Any]:
        source = self._source
        is_last = tick == source.last_tick
        row: dict[str, Any] = {RUN: source.run, TICK: first_tick, "ticks": tick - first_tick, AGENT: agent.name}
        row |= {f"obs.{name}": array for name, array in pair.seen[agent.name].items()}
        row |= {f"action.{name}": array for name, array in self._actions(pair.done.get(agent.name, [])).items()}
        for name, reward in agent.rewards.items():
            assert pair.before is not None
            row[f"reward.{name.rpartition(':')[2]}"] = reward(pair.before, state)
        row |= {"terminated": is_last and source.is_end, "truncated": is_last and not source.is_end}
        row |= {"reason": source.reason if is_last else "", "outcome": source.outcome(agent.name)}
        row |= {f"next.{name}": array for name, array in seen.items()}
        return row

    def _actions(self, done: list[Arrays]) -> Arrays:
        """Join the actions of a pair's ticks, (stride, *shape), padded with zeros at the end of a tape; (*shape) for stride 1."""
        if not done:
            return {}
        if self._request.stride == 1:
            return done[0]
        joined: Arrays = {}
        for name, first in done[0].items():
            padded: npt.NDArray[Any] = np.zeros((self._request.stride, *first.shape), first.dtype)
            for index, arrays in enumerate(done):
                if arrays[name].shape != first.shape:
                    raise ExtractionError(f"the action {name} has shape {arrays[name].shape} after {first.shape}")
                padded[index] = arrays[name]
            joined[name] = padded
        return joined


def _differing_lengths(agents: Sequence[Mapping[str, Callable[[Readable], Arrays]]], state: Readable) -> set[str]:
    """Return the names of a world's arrays whose first axis has a different length for another of these agents.

    All agents count, not only those that were chosen: so the columns of all runs are of the same kind.
    """
    if len(agents) < 2:
        return set()
    lengths: dict[str, set[int]] = {}
    for agent in agents:
        for observe in agent.values():
            for key, array in observe(state).items():
                lengths.setdefault(key, set()).add(len(array) if array.ndim else 0)
    return {key for key, found in lengths.items() if len(found) > 1}


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
    """Return True if inputs can be a column as they are: a number, or numbers of one shape."""
    try:
        array = np.asarray(inputs)
    except ValueError:
        return False
    return array.dtype.kind in "biuf" and array.size > 0


def _raw(inputs: Any) -> Arrays:
    if not is_raw(inputs):
        raise ExtractionError(
            f"expected inputs that are a number or numbers of one shape, got {inputs!r:.60}: give an encoding, or leave actions out"
        )
    return {RAW: np.array(inputs)}
