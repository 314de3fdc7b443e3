"""What a choreography gives to training data: agents, which are the roles of all sessions, and what each one knows.

There are no actions, rewards and outcome: a role follows its program, and none wins.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.registry import Config, ConfigError, Observe, Readable, Seen
from sim.worlds.choreography.config import read_config
from sim.worlds.choreography.protocol.payload import number_count, to_numbers
from sim.worlds.choreography.protocol.projection import Choose, Program, Receive, Send
from sim.worlds.choreography.q32 import saturate
from sim.worlds.choreography.run.message_queues import find_channels, read_buffers

NO_MESSAGE = -1


def agents(config: Config) -> tuple[str, ...]:
    """The roles of all sessions."""
    return read_config(config).endpoints


def observe_role(config: Config, agent: str) -> Observe:
    """Observation "role": what a role knows of itself, and of what has arrived for it.

    ``tick``, ``status`` (see layout.Status), ``place`` (in its program) and ``counted`` (numbers sent by the rule counter)
    are int64 numbers. ``registers`` are int64, Q32.32; ``choices``, int64, is how often it has made each choice. For each
    queue to it, in the order of the senders in the protocol: ``waiting``, int64, is how many messages are in it;
    ``next_label``, int64, the label of the first by its number among the labels of the protocol in alphabetical order,
    -1 if there is no message, their count for a label that the protocol does not have; ``next_payload``, int64 (queues,
    numbers of the longest payload), the numbers in its payload, Q32.32, as far as they fit, then zeros.
    """
    known = read_config(config)
    if agent not in known.endpoints:
        raise ConfigError("", f"one of the roles {', '.join(known.endpoints)} was expected, found {agent!r}")
    number, programs = known.endpoints.index(agent), known.make_programs()
    channels = find_channels(programs, known.sessions)
    queues = [place for (_, receiver), place in channels.items() if receiver == number]
    labels, width = _find_messages(programs)

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
    """The labels of a protocol with their numbers, and how many numbers its longest payload has."""
    found = []
    for program in programs:
        for node in program:
            match node:
                case Send():
                    found.append((node.label, node.carried))
                case Choose():
                    found += [(label, carried) for label, carried, _ in node.branches]
                case Receive():
                    found += [(label, carried) for label, (carried, _) in node.branches.items()]
    labels = sorted({label for label, _ in found})
    width = max((number_count(carried.kind) for _, carried in found), default=0)
    return {label: number for number, label in enumerate(labels)}, width
