"""The network of a run: it splits off, cuts, loses or delays messages; and the messages in flight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from sim.kernel.messages import Event, Message
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.scenario.config.network import Network
from sim.scenario.middleware.adversary import message_facts
from sim.scenario.middleware.draws import ScenarioDraws, ScenarioPhase

_SPREAD_ONE = 1 << 31  # ScenarioDraws.spread returns numbers from minus this to this.
_CHANCE_PLACES = 32


@attrs.frozen
class _Connection:
    enabled: bool
    latency_ms: int
    variance: int
    loss: int


class NetworkStage:
    """The network of a run. The entire state is ``plain``, plain data.

    plain: "links" holds the changes by reconfigurations as [from, to, key, value]; "groups" holds the partition.
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
        """The delay of a message in ticks; None if it is lost."""
        connection = self._connection(message.sender, message.receiver)
        if self._is_split(message.sender, message.receiver):
            events.append({"kind": "split_off", **message_facts(message)})
            return None
        if not connection.enabled:
            events.append({"kind": "cut", **message_facts(message)})
            return None
        if self._chances.happens(connection.loss, ScenarioPhase.NETWORK, tick, message.number):
            events.append({"kind": "lost", **message_facts(message)})
            return None
        ticks = self._delay_ticks(connection, message, tick)
        if ticks:
            events.append({"kind": "under_way", **message_facts(message), "ticks": ticks})
        return ticks

    def _delay_ticks(self, connection: _Connection, message: Message, tick: int) -> int:
        """ceil(latency × (1 + variance × u) / length of a tick), at least 1 for any latency, in integer arithmetic."""
        if connection.latency_ms <= 0:
            return 0
        latency, scale = connection.latency_ms, 1
        if connection.variance:
            spread = self._chances.spread(ScenarioPhase.NETWORK, tick, message.number, word=1)
            scale = _SPREAD_ONE << _CHANCE_PLACES
            latency *= scale + connection.variance * spread
        return max(1, -(-latency // (self._network.tick_ms * scale)))

    def _connection(self, sender: str, receiver: str) -> _Connection:
        network = self._network
        default = _Connection(enabled=True, latency_ms=network.latency_ms, variance=network.variance, loss=network.loss)
        changes: dict[str, Any] = {}
        for link in network.links:
            if (link.from_, link.to) == (sender, receiver):
                values = {key: getattr(link, key) for key in ("latency_ms", "variance", "loss")}
                changes = {"enabled": link.enabled} | {key: value for key, value in values.items() if value is not None}
        for from_, to, key, value in self.plain["links"]:
            if (from_, to) == (sender, receiver):
                changes[key] = value
        return attrs.evolve(default, **changes) if changes else default

    def _is_split(self, sender: str, receiver: str) -> bool:
        groups = self.plain["groups"]
        senders_group = next((n for n, group in enumerate(groups) if sender in group), None)
        receivers_group = next((n for n, group in enumerate(groups) if receiver in group), None)
        return senders_group is not None and receivers_group is not None and senders_group != receivers_group


class InFlightMessages:
    """Messages that arrive at a later tick. The entire state is ``plain``, plain data."""

    def __init__(self) -> None:
        self.plain: list[list[Any]] = []

    def add(self, message: Message, due_tick: int) -> None:
        """Let message arrive at due_tick."""
        # A copy: the sender may change its object later. Encoding makes the payload equal to a restored one.
        payload = decode_plain(encode_plain(message.payload))
        self.plain.append([due_tick, message.number, message.sender, message.receiver, message.label, payload])

    def take_due(self, tick: int) -> list[Message]:
        """Remove and return the messages due at tick or before, by due tick, then in the order of sending."""
        due = sorted((entry for entry in self.plain if entry[0] <= tick), key=lambda entry: (entry[0], entry[1]))
        if due:
            self.plain = [entry for entry in self.plain if entry[0] > tick]
        return [Message(*entry[1:]) for entry in due]

    def take_of(self, receiver: str) -> list[tuple[int, Message]]:
        """Remove and return all messages to a role, each with the tick at which it is due."""
        taken = [(entry[0], Message(*entry[1:])) for entry in self.plain if entry[3] == receiver]
        self.plain = [entry for entry in self.plain if entry[3] != receiver]
        return taken

    def __len__(self) -> int:
        return len(self.plain)
