"""A protocol as a global type, the joint steps of all roles, and the checks of its form.

projection.py checks that each role can follow its part alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import attrs

from sim.kernel.registry import ConfigError
from sim.scenario.config.structure import Whole
from sim.worlds.choreography.key_path import at
from sim.worlds.choreography.protocol.payload import Value
from sim.worlds.choreography.q32 import read_decimal

ROLES_MAX = 64
NESTING_MAX = 64  # Levels of steps in steps; it also bounds the depth of Python's stack.
TIMES_MAX = 10_000
WEIGHT_MAX = 1 << 16
NAME_CHARS_MAX = 64
KINDS = ("send", "choice", "loop", "continue", "end")
COMPARISONS = ("<", "<=", "==", ">=", ">")
# The keys that a kind of step allows in addition to its own key; the keys of Value are separate.
_KEYS = {
    "send": ("from_", "to", "into"),
    "choice": ("to", "branches", "schedule", "when"),
    "loop": ("steps", "times"),
    "continue": (),
    "end": (),
}
_CARRIED = ("payload", "constant", "counter", "register", "registers", "first", "second")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@attrs.frozen
class When:
    """A comparison of a register of the chooser: if it is true, the first branch is taken, else the second.

    Attributes:
        register: of the role that chooses.
        is_: one of COMPARISONS; in a scenario the key is ``is``.
        than: a decimal.
    """

    register: Annotated[int, Whole(0, 1 << 16)]
    is_: str
    than: Any

    def __attrs_post_init__(self) -> None:
        if self.is_ not in COMPARISONS:
            raise ConfigError("is", f"expected one of {', '.join(COMPARISONS)}, got {self.is_!r}")
        try:
            read_decimal(self.than)
        except ValueError as error:
            raise ConfigError("than", str(error)) from None


@attrs.frozen(kw_only=True)
class Branch(Value):
    """A branch of a choice.

    Attributes:
        label: of the message from the chooser to the other role.
        steps: those after the choice.
        into: as in Step.
        weight: the relative chance of the branch in a random choice.
    """

    label: str
    steps: tuple[Step, ...] = ()
    into: Any = None
    weight: Annotated[int, Whole(1, WEIGHT_MAX)] = 1


@attrs.frozen(kw_only=True)
class Step(Value):
    """One step of a protocol: exactly one of the keys in KINDS, and the keys of that kind.

    Attributes:
        send: a label; role ``from`` sends a message to role ``to``.
        choice: the role that chooses a branch and sends its label to role ``to``.
        loop: a name; the steps are repeated ``times`` times, or at each ``continue``.
        continue_: the name of a loop without ``times`` around this step; the loop restarts.
        end: true; the session ends.
        into: the receiver's first register for the numbers of the payload; by default only the first number is stored,
            in register 1.
        schedule: labels, chosen in turn, in a cycle. Without ``schedule`` and ``when``, the choice is random by weight.
        when: see When.
    """

    send: str | None = None
    choice: str | None = None
    loop: str | None = None
    continue_: str | None = None
    end: bool | None = None
    from_: str | None = None
    to: str | None = None
    into: Any = None
    branches: tuple[Branch, ...] | None = None
    schedule: tuple[str, ...] | None = None
    when: When | None = None
    steps: tuple[Step, ...] | None = None
    times: Annotated[int, Whole(1, TIMES_MAX)] | None = None

    def __attrs_post_init__(self) -> None:
        kinds = [kind for kind in KINDS if getattr(self, _attribute(kind)) is not None]
        if len(kinds) != 1:
            raise ConfigError("", f"expected one of the keys {', '.join(KINDS)}, got {', '.join(kinds) or 'none'}")
        for key in ("from_", "to", "into", "branches", "schedule", "when", "steps", "times"):
            if getattr(self, key) is not None and key not in _KEYS[self.kind]:
                raise ConfigError(key.removesuffix("_"), f"not with {self.kind}")
        for key in ("from_", "to", "branches", "steps"):
            if getattr(self, key) is None and key in _KEYS[self.kind]:
                raise ConfigError(key.removesuffix("_"), "this key is missing")
        if self.kind != "send":
            for key in _CARRIED:
                if getattr(self, key) != getattr(_NOTHING, key):
                    hint = "; put it into a branch" if self.kind == "choice" else ""
                    raise ConfigError(key, f"not with {self.kind}{hint}")
        if self.end is False:
            raise ConfigError("end", "expected true, got False")

    @property
    def kind(self) -> str:
        """The kind of the step, one of KINDS."""
        return next(kind for kind in KINDS if getattr(self, _attribute(kind)) is not None)


_NOTHING = Value()


def _attribute(kind: str) -> str:
    return "continue_" if kind == "continue" else kind


@attrs.frozen
class Protocol:
    """Roles and their joint steps.

    Raises ConfigError, which names the key, for a mistake of form.
    """

    roles: tuple[str, ...]
    steps: tuple[Step, ...]

    def __attrs_post_init__(self) -> None:
        if not 1 <= len(self.roles) <= ROLES_MAX:
            raise ConfigError("roles", f"expected 1 to {ROLES_MAX} roles, got {len(self.roles)}")
        for index, role in enumerate(self.roles):
            _check_name(role, f"roles[{index}]")
            if role in self.roles[:index]:
                raise ConfigError(f"roles[{index}]", f"{role} is used twice")
        _Checker(self.roles).check(self.steps, "", {}, 0)
        active_roles = {role for _, step in walk(self.steps) for role in (step.from_, step.to, step.choice)}
        for index, role in enumerate(self.roles):
            if role not in active_roles:
                raise ConfigError(f"roles[{index}]", f"{role} takes part in no step")


def walk(steps: tuple[Step, ...], parent: str = "") -> Iterator[tuple[str, Step]]:
    """Yield each step with its path, such as ``steps[1].branches[0].steps[2]``, in the order of the file."""
    for index, step in enumerate(steps):
        path = f"{parent}steps[{index}]"
        yield path, step
        yield from walk(step.steps or (), f"{path}.")
        for number, branch in enumerate(step.branches or ()):
            yield from walk(branch.steps, f"{path}.branches[{number}].")


def _check_name(name: str, key: str) -> None:
    if len(name) > NAME_CHARS_MAX or not _NAME.fullmatch(name):
        raise ConfigError(key, f"expected a name of letters, digits, '_' and '-', got {name!r}")


@attrs.frozen
class _Checker:
    """Checks the steps of a protocol in one pass."""

    roles: tuple[str, ...]
    loops: set[str] = attrs.field(factory=set)

    def check(self, steps: tuple[Step, ...], parent: str, around: Mapping[str, bool], depth: int) -> bool:
        """Check steps; return True if the step after them can be reached.

        around: the loops around the steps, with True for those that ``continue`` may name.
        """
        if depth > NESTING_MAX:
            raise ConfigError(f"{parent}steps", f"expected at most {NESTING_MAX} levels of steps, got {depth}")
        open_end = True
        for index, step in enumerate(steps):
            with at(f"{parent}steps[{index}]"):
                if not open_end:
                    raise ConfigError("", "this step is never reached")
                open_end = self._check_step(step, around, depth)
        return open_end

    def _check_step(self, step: Step, around: Mapping[str, bool], depth: int) -> bool:
        match step.kind:
            case "send":
                _check_name(str(step.send), "send")
                self._check_pair(step.from_, "from", step.to, "sends to itself")
                return True
            case "choice":
                self._check_pair(step.choice, "choice", step.to, "sends the choice to itself")
                return self._check_branches(step, around, depth)
            case "loop":
                return self._check_loop(step, around, depth)
            case "continue":
                name = str(step.continue_)
                if name not in around:
                    loops = ", ".join(loop for loop, may in around.items() if may) or "none"
                    raise ConfigError("continue", f"expected a loop around this step ({loops}), got {name!r}")
                if not around[name]:
                    raise ConfigError("continue", f"the loop {name} has times and repeats automatically")
        return False

    def _check_pair(self, sender: str | None, sender_key: str, receiver: str | None, problem: str) -> None:
        for key, role in ((sender_key, sender), ("to", receiver)):
            if role not in self.roles:
                raise ConfigError(key, f"expected one of the roles {', '.join(self.roles)}, got {role!r}")
        if sender == receiver:
            raise ConfigError("to", f"{sender} {problem}")

    def _check_branches(self, step: Step, around: Mapping[str, bool], depth: int) -> bool:
        branches = step.branches or ()
        labels = [branch.label for branch in branches]
        if not branches:
            raise ConfigError("branches", "expected at least one branch")
        for index, label in enumerate(labels):
            _check_name(label, f"branches[{index}].label")
            if label in labels[:index]:
                raise ConfigError(f"branches[{index}].label", f"the label {label} is used twice")
        if step.schedule is not None and step.when is not None:
            raise ConfigError("when", "not with schedule")
        if step.when is not None and len(branches) != 2:
            raise ConfigError("when", f"expected two branches, got {len(branches)}")
        if step.schedule is not None and not step.schedule:
            raise ConfigError("schedule", "expected at least one label")
        for index, label in enumerate(step.schedule or ()):
            if label not in labels:
                raise ConfigError(f"schedule[{index}]", f"expected one of {', '.join(labels)}, got {label!r}")
        open_ends = [
            self.check(branch.steps, f"branches[{index}].", around, depth + 1) for index, branch in enumerate(branches)
        ]
        return any(open_ends)

    def _check_loop(self, step: Step, around: Mapping[str, bool], depth: int) -> bool:
        name = str(step.loop)
        _check_name(name, "loop")
        if name in self.loops:
            raise ConfigError("loop", f"a second loop {name}: rename one")
        self.loops.add(name)
        if not step.steps:
            raise ConfigError("steps", "expected at least one step")
        open_end = self.check(step.steps, "", {**around, name: step.times is None}, depth + 1)
        again = any(inner.continue_ == name for _, inner in walk(step.steps))
        if step.times is None and not again:
            raise ConfigError("", f"expected times, or a step continue = {name!r} inside the loop")
        if not any(inner.kind in ("send", "choice") for _, inner in walk(step.steps)):
            raise ConfigError("steps", f"expected a send or a choice in the loop {name}")
        return open_end
