"""Project a global type to a local type for each role, and number the local type as a program.

A local type is a tree of nodes, built from the last step to the first; each node is stored once (equal nodes have equal
numbers). If a role does not learn of a choice, its steps in all branches are merged. They must be equal, except that
the role may receive different labels from one sender.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from sim.kernel.registry import ConfigError
from sim.worlds.choreography.key_path import at
from sim.worlds.choreography.protocol.global_type import Branch, Protocol, Step, walk
from sim.worlds.choreography.protocol.payload import Kind, Rule, Value, check_register, number_count, show_kind

NODES_MAX = 1 << 16  # Of one role, with bounded loops unrolled.
MERGE_DEPTH_MAX = 200  # Steps of a role that does not know the choice yet; it bounds the depth of Python's stack.
HEARD_REGISTER = 1


@attrs.frozen
class Carried:
    """The payload of a label: its kind, the rule that makes it, and its first register (None: register 1)."""

    kind: Kind
    rule: Rule
    into: int | None


@attrs.frozen
class Send:
    """Send a message and continue at next. ``to`` and all roles in this module are numbers."""

    to: int
    label: str
    carried: Carried
    next: int


@attrs.frozen
class Receive:
    """Receive the next message from a sender and continue at the branch of its label.

    Attributes:
        branches: by label, the payload and the next place.
        offered: True if the sender had a choice.
    """

    sender: int
    branches: Mapping[str, tuple[Carried, int]]
    offered: bool


@attrs.frozen
class Choose:
    """Choose a branch, send its label to a role, and continue at the branch.

    Attributes:
        choice: the number of this choice in the protocol.
        step: holds the rule of the choice.
        branches: label, payload, next place.
    """

    to: int
    choice: int
    step: Step
    branches: tuple[tuple[str, Carried, int], ...]


@attrs.frozen
class End:
    """The role halts."""


Node = Send | Receive | Choose | End
Program = tuple[Node, ...]  # It begins at place 0.


class _UnmergeableError(Exception):
    """Two branches require different steps of a role; args: the numbers of the two nodes."""


def project(protocol: Protocol, register_count: int) -> tuple[Program, ...]:
    """The program of each role. Raises ConfigError, which names the step, if a role cannot follow the protocol."""
    choices = {path: number for number, (path, step) in enumerate(find_choices(protocol))}
    carried = _read_carried(protocol, register_count)
    programs = []
    for role in range(len(protocol.roles)):
        projector = _Projector(protocol.roles, role, choices, carried)
        programs.append(projector.number(projector.project(protocol.steps, "", projector.keep(("end",)), {})))
    return tuple(programs)


def find_choices(protocol: Protocol) -> list[tuple[str, Step]]:
    """The choices of a protocol with their paths, in the order of the file."""
    return [(path, step) for path, step in walk(protocol.steps) if step.kind == "choice"]


def _read_carried(protocol: Protocol, register_count: int) -> dict[str, Carried]:
    """The payload of each message, by the path of its step or branch."""
    payloads: dict[str, Carried] = {}
    for path, step in walk(protocol.steps):
        messages: list[tuple[str, Value]] = [(path, step)] if step.kind == "send" else []
        messages += [(f"{path}.branches[{index}]", branch) for index, branch in enumerate(step.branches or ())]
        if step.when is not None:
            check_register(step.when.register, register_count, f"{path}.when.register")
        for message_path, value in messages:
            with at(message_path):
                kind, rule = value.compile(register_count)
                into = value.into if isinstance(value, Step | Branch) else None
                if into is not None:
                    check_register(into, register_count, "into")
                    if into + number_count(kind) > register_count:
                        raise ConfigError("into", f"{show_kind(kind)} does not fit into the registers from {into} on")
                payloads[message_path] = Carried(kind, rule, into)
    return payloads


class _Projector:
    """Builds the local type of one role.

    Nodes are tuples: ("end",), ("send", to, label, carried, next), ("receive", sender, offered, ((label, carried,
    next), …)), ("choose", to, choice, step, ((label, carried, next), …)), ("loop", name), ("again", name); next is a
    node's number.
    """

    def __init__(
        self, roles: Sequence[str], role: int, choices: Mapping[str, int], carried: Mapping[str, Carried]
    ) -> None:
        self._roles, self._role = roles, role
        self._choices, self._carried = choices, carried
        self._nodes: list[tuple[Any, ...]] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._bodies: dict[str, int] = {}  # Of loops, by a name that is unique to each visit of the loop.

    def keep(self, node: tuple[Any, ...]) -> int:
        """The number of a node; equal nodes have equal numbers. Raises ConfigError for too many nodes."""
        key = tuple(
            part if not isinstance(part, Step) else None for part in node
        )  # The number of a choice identifies its step.
        if key not in self._numbers:
            if len(self._nodes) >= NODES_MAX:
                raise ConfigError(
                    "", f"{self._roles[self._role]} has more than {NODES_MAX} steps with its loops unrolled"
                )
            self._numbers[key] = len(self._nodes)
            self._nodes.append(node)
        return self._numbers[key]

    def project(self, steps: tuple[Step, ...], parent: str, after: int, loops: Mapping[str, str]) -> int:
        """The local type of steps, followed by the node after. loops: the names of the loops around."""
        for index in reversed(range(len(steps))):
            after = self._project_step(steps[index], f"{parent}steps[{index}]", after, loops)
        return after

    def _project_step(self, step: Step, path: str, after: int, loops: Mapping[str, str]) -> int:
        match step.kind:
            case "send":
                return self._message(path, str(step.from_), str(step.to), str(step.send), after)
            case "choice":
                return self._choice(step, path, after, loops)
            case "loop" if step.times is not None:
                for _ in range(step.times):
                    before = self.project(step.steps or (), f"{path}.", after, loops)
                    if before == after:  # The role takes no part in the loop.
                        break
                    after = before
                return after
            case "loop":
                return self._loop(step, path, after, loops)
            case "continue":
                return self.keep(("again", loops[str(step.continue_)]))
        return self.keep(("end",))

    def _message(self, path: str, sender: str, receiver: str, label: str, after: int) -> int:
        role = self._roles[self._role]
        if role == sender:
            return self.keep(("send", self._roles.index(receiver), label, self._carried[path], after))
        if role == receiver:
            return self.keep(("receive", self._roles.index(sender), False, ((label, self._carried[path], after),)))
        return after

    def _choice(self, step: Step, path: str, after: int, loops: Mapping[str, str]) -> int:
        branches = []
        for index, branch in enumerate(step.branches or ()):
            branch_path = f"{path}.branches[{index}]"
            start = self.project(branch.steps, f"{branch_path}.", after, loops)
            branches.append((branch.label, self._carried[branch_path], start))
        role = self._roles[self._role]
        if role == step.choice:
            return self.keep(("choose", self._roles.index(str(step.to)), self._choices[path], step, tuple(branches)))
        if role == step.to:
            return self.keep(
                ("receive", self._roles.index(str(step.choice)), True, tuple(sorted(branches, key=_label)))
            )
        merged = branches[0][2]
        for label, _, start in branches[1:]:
            try:
                merged = self._merge(merged, start, 0)
            except _UnmergeableError as error:
                first, second = (self._describe(number) for number in error.args)
                raise ConfigError(
                    f"{path}.branches",
                    f"{role} cannot learn which branch {step.choice} chose: it {first} after {branches[0][0]!r} "
                    f"and {second} after {label!r}",
                ) from None
        return merged

    def _loop(self, step: Step, path: str, after: int, loops: Mapping[str, str]) -> int:
        if not self._takes_part(step.steps or ()):
            return self._skip_loop(step, path, after, loops)
        name = f"{step.loop}#{len(self._bodies)}"
        self._bodies[name] = -1  # Entered before its body: loops inside get other names, and may refer to it.
        self._bodies[name] = self.project(step.steps or (), f"{path}.", after, {**loops, str(step.loop): name})
        return self.keep(("loop", name))

    def _takes_part(self, steps: tuple[Step, ...]) -> bool:
        role = self._roles[self._role]
        return any(role in (step.from_, step.to, step.choice) for _, step in walk(steps))

    def _skip_loop(self, step: Step, path: str, after: int, loops: Mapping[str, str]) -> int:
        """The local type of a role that takes no part in a loop: the merge of the steps after each exit."""
        exits = {self.keep(("again", loops[str(inner.continue_)])) for _, inner in walk(step.steps or ())
                if inner.continue_ in loops}  # fmt: skip
        if any(inner.end for _, inner in walk(step.steps or ())):
            exits.add(self.keep(("end",)))
        if _falls_through(step.steps or ()):
            exits.add(after)
        merged, *others = sorted(exits) or [self.keep(("end",))]
        for other in others:
            try:
                merged = self._merge(merged, other, 0)
            except _UnmergeableError as error:
                first, second = (self._describe(number) for number in error.args)
                role = self._roles[self._role]
                problem = f"{role} cannot learn how the loop {step.loop} ends: it {first} or {second}"
                raise ConfigError(path, problem) from None
        return merged

    def _merge(self, one: int, two: int, depth: int) -> int:
        if one == two:
            return one
        if depth > MERGE_DEPTH_MAX:
            raise _UnmergeableError(one, two)
        match self._nodes[one], self._nodes[two]:
            case ("send", to, label, carried, next_one), ("send", to_two, label_two, carried_two, next_two) if (
                to,
                label,
                carried,
            ) == (to_two, label_two, carried_two):
                return self.keep(("send", to, label, carried, self._merge(next_one, next_two, depth + 1)))
            case ("receive", sender, offered, mine), ("receive", sender_two, offered_two, theirs) if (
                sender == sender_two
            ):
                branches = {label: (carried, after) for label, carried, after in mine}
                for label, carried, after in theirs:
                    if label in branches:
                        kept, before = branches[label]
                        if (kept.kind, kept.into) != (carried.kind, carried.into):
                            raise _UnmergeableError(one, two)
                        branches[label] = (kept, self._merge(before, after, depth + 1))
                    else:
                        branches[label] = (carried, after)
                merged = tuple(sorted(((label, *rest) for label, rest in branches.items()), key=_label))
                return self.keep(("receive", sender, offered or offered_two or len(merged) > 1, merged))
        raise _UnmergeableError(one, two)

    def _describe(self, number: int) -> str:
        match self._nodes[self._resolve(number)]:
            case ("send", to, label, carried, _):
                return f"sends {_show(label, carried)} to {self._roles[to]}"
            case ("receive", sender, _, branches):
                labels = " or ".join(_show(label, carried) for label, carried, _ in branches)
                return f"receives {labels} from {self._roles[sender]}"
            case ("choose", to, *_):
                return f"chooses and sends the label to {self._roles[to]}"
            case ("again", name):
                return f"restarts the loop {name.partition('#')[0]}"
        return "ends"

    def _resolve(self, number: int) -> int:
        """The first node that acts, after following the names of loops."""
        for _ in range(len(self._bodies) + 1):
            node = self._nodes[number]
            if node[0] not in ("loop", "again") or self._bodies[node[1]] < 0:
                break
            number = self._bodies[node[1]]
        return number

    def number(self, start: int) -> Program:
        """The program: all nodes reachable from start, numbered in breadth-first order, start first."""
        order = [self._resolve(start)]
        places = {order[0]: 0}
        for node_number in order:
            for after in _nexts(self._nodes[node_number]):
                resolved = self._resolve(after)
                if resolved not in places:
                    places[resolved] = len(order)
                    order.append(resolved)
        return tuple(self._finish(self._nodes[number], places) for number in order)

    def _finish(self, node: tuple[Any, ...], places: Mapping[int, int]) -> Node:
        match node:
            case ("send", to, label, carried, after):
                return Send(to, label, carried, places[self._resolve(after)])
            case ("receive", sender, offered, branches):
                by_label = {label: (carried, places[self._resolve(after)]) for label, carried, after in branches}
                return Receive(sender, by_label, offered)
            case ("choose", to, choice, step, branches):
                in_order = tuple((label, carried, places[self._resolve(after)]) for label, carried, after in branches)
                return Choose(to, choice, step, in_order)
        assert node[0] == "end"  # _skip_loop leaves no loop in which the role takes no part.
        return End()


def _show(label: str, carried: Carried) -> str:
    return repr(label) + ("" if carried.kind == ("unit",) else f" with {show_kind(carried.kind)}")


def _label(branch: tuple[str, Carried, int]) -> str:
    return branch[0]


def _nexts(node: tuple[Any, ...]) -> list[int]:
    match node:
        case ("send", _, _, _, after):
            return [after]
        case ("receive" | "choose", *_, branches):
            return [after for _, _, after in branches]
    return []


def next_places(node: Node) -> list[int]:
    """The places in the program that a node can lead to."""
    match node:
        case Send():
            return [node.next]
        case Receive():
            return [after for _, after in node.branches.values()]
        case Choose():
            return [after for _, _, after in node.branches]
    return []


def _falls_through(steps: tuple[Step, ...]) -> bool:
    """Return True if the step after these steps can be reached."""
    for step in steps:
        if step.kind in ("continue", "end"):
            return False
        if step.kind == "choice" and not any(_falls_through(branch.steps) for branch in step.branches or ()):
            return False
        if step.kind == "loop" and not _falls_through(step.steps or ()):
            return False
    return True
