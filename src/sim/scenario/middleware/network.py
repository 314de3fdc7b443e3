"""The network of a scenario: what is split off, cut, lost, or late; and messages under way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from sim.kernel.messages import Event, Message
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.scenario.config.network import Network
from sim.scenario.middleware.adversary import message_facts
from sim.scenario.middleware.draws import ScenarioDraws, ScenarioPhase

_SPREAD_ONE = 1 << 31  # Chances.spread is from minus this to this.
_CHANCE_PLACES = 32


@attrs.frozen
class _Line:
    enabled: bool
    latency_ms: int
    variance: int
    loss: int


class NetworkStage:
    """The network of a run. Its whole state is ``plain``, plain data.

    plain: "links" holds what reconfigurations have changed, as [from, to, key, value]; "groups" the partition.
    """

    def __init__(self, network: Network, chances: ScenarioDraws) -> None:
        self._network = network
        self._chances = chances
        self.plain: dict[str, Any] = {"links": [], "groups": [list(group) for group in network.partition]}

    def set_link(self, sender: str, receiver: str, values: dict[str, Any]) -> None:
        """Change some of enabled, latency_ms, variance and loss from one role to another from now on."""
        for key, value in values.items():
            kept = [link for link in self.plain["links"] if link[:3] != [sender, receiver, key]]
            self.plain["links"] = [*kept, [sender, receiver, key, value]]

    def set_groups(self, groups: Sequence[Sequence[str]]) -> None:
        """Split the roles into these groups from now on."""
        self.plain["groups"] = [list(group) for group in groups]

    def pass_on(self, message: Message, tick: int, events: list[Event]) -> int | None:
        """By how many ticks a message is late; None if it is lost."""
        line = self._line(message.sender, message.receiver)
        if self._is_split(message.sender, message.receiver):
            events.append({"kind": "split_off", **message_facts(message)})
            return None
        if not line.enabled:
            events.append({"kind": "cut", **message_facts(message)})
            return None
        if self._chances.falls(line.loss, ScenarioPhase.NETWORK, tick, message.number):
            events.append({"kind": "lost", **message_facts(message)})
            return None
        ticks = self._late_ticks(line, message, tick)
        if ticks:
            events.append({"kind": "under_way", **message_facts(message), "ticks": ticks})
        return ticks

    def _late_ticks(self, line: _Line, message: Message, tick: int) -> int:
        """ceil(latency × (1 + variance × u) / length of a tick), at least 1 for any latency, in whole numbers."""
        if line.latency_ms <= 0:
            return 0
        latency, scale = line.latency_ms, 1
        if line.variance:
            spread = self._chances.spread(ScenarioPhase.NETWORK, tick, message.number, word=1)
            scale = _SPREAD_ONE << _CHANCE_PLACES
            latency *= scale + line.variance * spread
        return max(1, -(-latency // (self._network.tick_ms * scale)))

    def _line(self, sender: str, receiver: str) -> _Line:
        network = self._network
        line = _Line(enabled=True, latency_ms=network.latency_ms, variance=network.variance, loss=network.loss)
        changes: dict[str, Any] = {}
        for link in network.links:
            if (link.from_, link.to) == (sender, receiver):
                given = {key: getattr(link, key) for key in ("latency_ms", "variance", "loss")}
                changes = {"enabled": link.enabled} | {key: value for key, value in given.items() if value is not None}
        for one, other, key, value in self.plain["links"]:
            if (one, other) == (sender, receiver):
                changes[key] = value
        return attrs.evolve(line, **changes) if changes else line

    def _is_split(self, sender: str, receiver: str) -> bool:
        groups = self.plain["groups"]
        mine = next((n for n, group in enumerate(groups) if sender in group), None)
        other = next((n for n, group in enumerate(groups) if receiver in group), None)
        return mine is not None and other is not None and mine != other


class InFlightMessages:
    """Messages that come later. Its whole state is ``plain``, plain data."""

    def __init__(self) -> None:
        self.plain: list[list[Any]] = []

    def add(self, message: Message, due_tick: int) -> None:
        """Let message come at due_tick."""
        # What comes is what was sent, whatever the sender does with it later, and as one that was restored has it.
        payload = decode_plain(encode_plain(message.payload))
        self.plain.append([due_tick, message.number, message.sender, message.receiver, message.label, payload])

    def take_due(self, tick: int) -> list[Message]:
        """The messages that are due at tick or were before it, by that tick and then in the order they were sent in."""
        due = sorted((entry for entry in self.plain if entry[0] <= tick), key=lambda entry: (entry[0], entry[1]))
        if due:
            self.plain = [entry for entry in self.plain if entry[0] > tick]
        return [Message(*entry[1:]) for entry in due]

    def take_of(self, receiver: str) -> list[tuple[int, Message]]:
        """All messages to a role, with the ticks at which they are due."""
        found = [(entry[0], Message(*entry[1:])) for entry in self.plain if entry[3] == receiver]
        self.plain = [entry for entry in self.plain if entry[3] != receiver]
        return found

    def __len__(self) -> int:
        return len(self.plain)
