"""What each role has to do on its own: a global type, projected to one role and numbered as a program.

A local type is a tree of nodes, each kept once (equal nodes have equal numbers), built from the last step to the
first. Where a role is not told of a choice, what it does in all branches is merged: it must be the same, but for what
it receives from one sender under labels that differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from sim.kernel.registry import ConfigError
from sim.worlds.choreography.key_path import at
from sim.worlds.choreography.protocol.global_type import Branch, Protocol, Step, walk
from sim.worlds.choreography.protocol.payload import Kind, Rule, Value, check_register, number_count, show_kind

NODES_MAX = 1 << 16  # Of one role, bounded loops written out.
MERGE_DEPTH_MAX = 200  # Steps that a role can go on without having learnt of a choice; keeps Python's stack short.
HEARD_REGISTER = 1


@attrs.frozen
class Carried:
    """What goes with a label: the payload's kind, the rule that makes it, and where it is put (None: register 1)."""

    kind: Kind
    rule: Rule
    into: int | None


@attrs.frozen
class Send:
    """Send a message and go on at next. ``to`` and all roles here are numbers."""

    to: int
    label: str
    carried: Carried
    next: int


@attrs.frozen
class Receive:
    """Take the next message from a sender and go on where its label says.

    Attributes:
        branches: by label, what is carried and the place to go on.
        offered: whether the sender had a choice.
    """

    sender: int
    branches: Mapping[str, tuple[Carried, int]]
    offered: bool


@attrs.frozen
class Choose:
    """Choose a branch, tell it to a role, and go on there.

    Attributes:
        choice: the number of this choice in the protocol.
        step: with the rule by which it is made.
        branches: label, what is carried, place to go on.
    """

    to: int
    choice: int
    step: Step
    branches: tuple[tuple[str, Carried, int], ...]


@attrs.frozen
class End:
    """The role halts."""


Node = Send | Receive | Choose | End
Program = tuple[Node, ...]  # Begins at 0.


class _UnmergeableError(Exception):
    """Two branches ask for different things of a role; args: the two nodes' numbers."""


def project(protocol: Protocol, register_count: int) -> tuple[Program, ...]:
    """The program of each role. Raises ConfigError, naming the step, if a role could not follow it."""
    choices = {place: number for number, (place, step) in enumerate(find_choices(protocol))}
    carried = _read_carried(protocol, register_count)
    programs = []
    for role in range(len(protocol.roles)):
        projector = _Projector(protocol.roles, role, choices, carried)
        programs.append(projector.number(projector.project(protocol.steps, "", projector.keep(("end",)), {})))
    return tuple(programs)


def find_choices(protocol: Protocol) -> list[tuple[str, Step]]:
    """The choices of a protocol with their places, in the order in which they are written."""
    return [(place, step) for place, step in walk(protocol.steps) if step.kind == "choice"]


def _read_carried(protocol: Protocol, register_count: int) -> dict[str, Carried]:
    """What each message carries, by the place of its step or branch."""
    found: dict[str, Carried] = {}
    for place, step in walk(protocol.steps):
        parts: list[tuple[str, Value]] = [(place, step)] if step.kind == "send" else []
        parts += [(f"{place}.branches[{index}]", branch) for index, branch in enumerate(step.branches or ())]
        if step.when is not None:
            check_register(step.when.register, register_count, f"{place}.when.register")
        for here, value in parts:
            with at(here):
                kind, rule = value.compile(register_count)
                into = value.into if isinstance(value, Step | Branch) else None
                if into is not None:
                    check_register(into, register_count, "into")
                    if into + number_count(kind) > register_count:
                        raise ConfigError("into", f"{show_kind(kind)} does not fit behind register {into}")
                found[here] = Carried(kind, rule, into)
    return found


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
        self._bodies: dict[str, int] = {}  # Of loops, by the name that each time they are met gives them.

    def keep(self, node: tuple[Any, ...]) -> int:
        """The number of a node, the same for an equal one. Raises ConfigError if there are too many."""
        key = tuple(part if not isinstance(part, Step) else None for part in node)  # A choice's number stands for it.
        if key not in self._numbers:
            if len(self._nodes) >= NODES_MAX:
                raise ConfigError("", f"{self._roles[self._role]} has more than {NODES_MAX} steps, loops written out")
            self._numbers[key] = len(self._nodes)
            self._nodes.append(node)
        return self._numbers[key]

    def project(self, steps: tuple[Step, ...], place: str, after: int, loops: Mapping[str, str]) -> int:
        """The local type of steps, with after behind them. loops: names of the loops around."""
        for index in reversed(range(len(steps))):
            after = self._project_step(steps[index], f"{place}steps[{index}]", after, loops)
        return after

    def _project_step(self, step: Step, place: str, after: int, loops: Mapping[str, str]) -> int:
        match step.kind:
            case "send":
                return self._message(place, str(step.from_), str(step.to), str(step.send), after)
            case "choice":
                return self._choice(step, place, after, loops)
            case "loop" if step.times is not None:
                for _ in range(step.times):
                    before = self.project(step.steps or (), f"{place}.", after, loops)
                    if before == after:  # The role has no part in it.
                        break
                    after = before
                return after
            case "loop":
                return self._loop(step, place, after, loops)
            case "continue":
                return self.keep(("again", loops[str(step.continue_)]))
        return self.keep(("end",))

    def _message(self, place: str, sender: str, receiver: str, label: str, after: int) -> int:
        mine = self._roles[self._role]
        if mine == sender:
            return self.keep(("send", self._roles.index(receiver), label, self._carried[place], after))
        if mine == receiver:
            return self.keep(("receive", self._roles.index(sender), False, ((label, self._carried[place], after),)))
        return after

    def _choice(self, step: Step, place: str, after: int, loops: Mapping[str, str]) -> int:
        branches = []
        for index, branch in enumerate(step.branches or ()):
            here = f"{place}.branches[{index}]"
            branches.append((branch.label, self._carried[here], self.project(branch.steps, f"{here}.", after, loops)))
        mine = self._roles[self._role]
        if mine == step.choice:
            return self.keep(("choose", self._roles.index(str(step.to)), self._choices[place], step, tuple(branches)))
        if mine == step.to:
            return self.keep(
                ("receive", self._roles.index(str(step.choice)), True, tuple(sorted(branches, key=_label)))
            )
        merged = branches[0][2]
        for label, _, other in branches[1:]:
            try:
                merged = self._merge(merged, other, 0)
            except _UnmergeableError as error:
                one, two = (self._describe(number) for number in error.args)
                raise ConfigError(
                    f"{place}.branches",
                    f"{mine} cannot learn which branch {step.choice} chose: it {one} after {branches[0][0]!r} "
                    f"and {two} after {label!r}",
                ) from None
        return merged

    def _loop(self, step: Step, place: str, after: int, loops: Mapping[str, str]) -> int:
        if not self._takes_part(step.steps or ()):
            return self._passed_by(step, place, after, loops)
        name = f"{step.loop}#{len(self._bodies)}"
        self._bodies[name] = -1  # Known before its body, which may hold further loops.
        self._bodies[name] = self.project(step.steps or (), f"{place}.", after, {**loops, str(step.loop): name})
        return self.keep(("loop", name))

    def _takes_part(self, steps: tuple[Step, ...]) -> bool:
        mine = self._roles[self._role]
        return any(mine in (step.from_, step.to, step.choice) for _, step in walk(steps))

    def _passed_by(self, step: Step, place: str, after: int, loops: Mapping[str, str]) -> int:
        """What a role does that has no part in a loop: what follows each of the ways out of it, which must agree."""
        ways = {self.keep(("again", loops[str(inner.continue_)])) for _, inner in walk(step.steps or ())
                if inner.continue_ in loops}  # fmt: skip
        if any(inner.end for _, inner in walk(step.steps or ())):
            ways.add(self.keep(("end",)))
        if _falls_through(step.steps or ()):
            ways.add(after)
        first, *others = sorted(ways) or [self.keep(("end",))]
        for other in others:
            try:
                first = self._merge(first, other, 0)
            except _UnmergeableError as error:
                one, two = (self._describe(number) for number in error.args)
                raise ConfigError(
                    place, f"{self._roles[self._role]} cannot learn how the loop {step.loop} is left: it {one} or {two}"
                ) from None
        return first

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
                return f"chooses and tells {self._roles[to]}"
            case ("again", name):
                return f"begins the loop {name.partition('#')[0]} anew"
        return "ends"

    def _resolve(self, number: int) -> int:
        """The node that does something behind the names of loops."""
        for _ in range(len(self._bodies) + 1):
            node = self._nodes[number]
            if node[0] not in ("loop", "again") or self._bodies[node[1]] < 0:
                break
            number = self._bodies[node[1]]
        return number

    def number(self, start: int) -> Program:
        """The program: nodes that are reached from start, in the order of a search, start first."""
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
                found = {label: (carried, places[self._resolve(after)]) for label, carried, after in branches}
                return Receive(sender, found, offered)
            case ("choose", to, choice, step, branches):
                ways = tuple((label, carried, places[self._resolve(after)]) for label, carried, after in branches)
                return Choose(to, choice, step, ways)
        assert node[0] == "end"  # A loop in which the role has no part was passed by.
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
    """Whether what stands behind these steps can be reached."""
    for step in steps:
        if step.kind in ("continue", "end"):
            return False
        if step.kind == "choice" and not any(_falls_through(branch.steps) for branch in step.branches or ()):
            return False
        if step.kind == "loop" and not _falls_through(step.steps or ()):
            return False
    return True
