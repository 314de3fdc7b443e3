"""Training data of a choreography: the agents are the roles of all sessions, each with one observation.

There are no actions, rewards or outcomes: a role follows its program, and no role wins.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.registry import Config, Observe, Readable, Seen
from sim.worlds.choreography.cast import Cast
from sim.worlds.choreography.config import read_config
from sim.worlds.choreography.protocol.payload import number_count, to_numbers
from sim.worlds.choreography.protocol.projection import Choose, Program, Receive, Send
from sim.worlds.choreography.q32 import saturate
from sim.worlds.choreography.run.message_queues import read_buffers

NO_MESSAGE = -1


def agents(config: Config) -> tuple[str, ...]:
    """The roles of all sessions."""
    return read_config(config).endpoints


def observe_role(config: Config, agent: str) -> Observe:
    """Observation "role": the state of a role, and the messages that wait for it.

    All values are int64. Numbers: ``tick``, ``status`` (see layout.Status), ``place`` (in the role's program) and
    ``counted`` (the numbers sent by the rule counter). Arrays: ``registers``, Q32.32, and ``choices``, the times that each
    choice was made. One element for each queue to the role, in the protocol's order of senders:

    ``waiting``: the number of messages in the queue.
    ``next_label``: the label of the first message, as its index in the sorted labels of the protocol; -1 without a
        message, the number of labels for a label that is not in the protocol.
    ``next_payload``, (queues, numbers of the longest payload): the numbers in the payload of the first message, Q32.32,
        cut off or filled with zeros.
    """
    choreography = read_config(config)
    cast = Cast.of(choreography)
    number = cast.number_of(agent)
    queues = [place for (_, receiver), place in cast.channels.items() if receiver == number]
    labels, width = _find_messages(cast.part_programs[cast.parts[number]])

    def observe(state: Readable) -> Seen:
        waiting = [read_buffers(state)[place] for place in queues]
        next_label = np.full(len(queues), NO_MESSAGE, np.int64)
        next_payload = np.zeros((len(queues), width), np.int64)
        for row, messages in enumerate(waiting):
            if messages:
                _, label, payload = messages[0]
                next_label[row] = labels.get(label, len(labels))
                numbers = [saturate(number) for number in to_numbers(payload)][:width]  # A tape may hold any number.
                next_payload[row, : len(numbers)] = numbers
        return {
            "tick": np.int64(state["tick"]),
            **{name: np.int64(state[f"roles.{name}"][number]) for name in ("status", "place", "counted")},
            **{name: state[f"roles.{name}"][number].copy() for name in ("registers", "choices")},
            "waiting": np.array([len(messages) for messages in waiting], np.int64),
            "next_label": next_label,
            "next_payload": next_payload,
        }

    return observe


def _find_messages(programs: tuple[Program, ...]) -> tuple[dict[str, int], int]:
    """The index of each label of a protocol, and the count of numbers in its longest payload."""
    messages = []
    for program in programs:
        for node in program:
            match node:
                case Send():
                    messages.append((node.label, node.carried))
                case Choose():
                    messages += [(label, carried) for label, carried, _ in node.branches]
                case Receive():
                    messages += [(label, carried) for label, (carried, _) in node.branches.items()]
    labels = sorted({label for label, _ in messages})
    width = max((number_count(carried.kind) for _, carried in messages), default=0)
    return {label: number for number, label in enumerate(labels)}, width
