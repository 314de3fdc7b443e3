"""A protocol as a global type: what all roles do together, as it is written down; and the checks of its form.

Whether each role can follow it alone is projection.py's question.
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
NESTING_MAX = 64  # Steps in steps; also keeps Python's stack short.
TIMES_MAX = 10_000
WEIGHT_MAX = 1 << 16
NAME_CHARS_MAX = 64
KINDS = ("send", "choice", "loop", "continue", "end")
COMPARISONS = ("<", "<=", "==", ">=", ">")
# What may stand beside the key that says the kind of a step, apart from what a message carries.
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
    """The first branch is taken if a register of the chooser compares so, else the second.

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
            raise ConfigError("is", f"one of {', '.join(COMPARISONS)} was expected, found {self.is_!r}")
        try:
            read_decimal(self.than)
        except ValueError as error:
            raise ConfigError("than", str(error)) from None


@attrs.frozen(kw_only=True)
class Branch(Value):
    """One way on from a choice.

    Attributes:
        label: what the chooser tells the other role.
        steps: what follows.
        into: as in Step.
        weight: how likely it is drawn, against the others.
    """

    label: str
    steps: tuple[Step, ...] = ()
    into: Any = None
    weight: Annotated[int, Whole(1, WEIGHT_MAX)] = 1


@attrs.frozen(kw_only=True)
class Step(Value):
    """One step of a protocol: exactly one of the keys in KINDS, and what belongs to it.

    Attributes:
        send: a label; role ``from`` sends a message to role ``to``.
        choice: the role that chooses a branch and tells role ``to``.
        loop: a name; steps that are done ``times`` times, or again at each ``continue``.
        continue_: the name of a loop without ``times`` around this step, which begins anew.
        end: true; the session is over.
        into: the register of the receiver from which on the numbers of the payload are put; by default only the first
            of them is kept, in register 1.
        schedule: labels, taken in turn and then anew. Without this and ``when`` a branch is drawn by weight.
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
        given = [kind for kind in KINDS if getattr(self, _attribute(kind)) is not None]
        if len(given) != 1:
            found = ", ".join(given) or "none"
            raise ConfigError("", f"one of the keys {', '.join(KINDS)} was expected, found {found}")
        for key in ("from_", "to", "into", "branches", "schedule", "when", "steps", "times"):
            if getattr(self, key) is not None and key not in _KEYS[self.kind]:
                raise ConfigError(key.removesuffix("_"), f"not with {self.kind}")
        for key in ("from_", "to", "branches", "steps"):
            if getattr(self, key) is None and key in _KEYS[self.kind]:
                raise ConfigError(key.removesuffix("_"), "this key is missing")
        if self.kind != "send":
            for key in _CARRIED:
                if getattr(self, key) != getattr(_NOTHING, key):
                    where = "; a branch carries its own" if self.kind == "choice" else ""
                    raise ConfigError(key, f"not with {self.kind}{where}")
        if self.end is False:
            raise ConfigError("end", "true was expected, found False")

    @property
    def kind(self) -> str:
        """Which of KINDS it is."""
        return next(kind for kind in KINDS if getattr(self, _attribute(kind)) is not None)


_NOTHING = Value()


def _attribute(kind: str) -> str:
    return "continue_" if kind == "continue" else kind


@attrs.frozen
class Protocol:
    """Roles, and the steps that they do together.

    Raises ConfigError, naming the key, for a mistake of form.
    """

    roles: tuple[str, ...]
    steps: tuple[Step, ...]

    def __attrs_post_init__(self) -> None:
        if not 1 <= len(self.roles) <= ROLES_MAX:
            raise ConfigError("roles", f"1 to {ROLES_MAX} roles were expected, found {len(self.roles)}")
        for index, role in enumerate(self.roles):
            _check_name(role, f"roles[{index}]")
            if role in self.roles[:index]:
                raise ConfigError(f"roles[{index}]", f"two roles are called {role}")
        _Checker(self.roles).check(self.steps, "", {}, 0)
        taking_part = {role for _, step in walk(self.steps) for role in (step.from_, step.to, step.choice)}
        for index, role in enumerate(self.roles):
            if role not in taking_part:
                raise ConfigError(f"roles[{index}]", f"{role} takes part in no step")


def walk(steps: tuple[Step, ...], place: str = "") -> Iterator[tuple[str, Step]]:
    """Each step with its place, such as ``steps[1].branches[0].steps[2]``, in the order in which they are written."""
    for index, step in enumerate(steps):
        here = f"{place}steps[{index}]"
        yield here, step
        yield from walk(step.steps or (), f"{here}.")
        for number, branch in enumerate(step.branches or ()):
            yield from walk(branch.steps, f"{here}.branches[{number}].")


def _check_name(name: str, key: str) -> None:
    if len(name) > NAME_CHARS_MAX or not _NAME.fullmatch(name):
        raise ConfigError(key, f"a name of letters, digits, '_' and '-' was expected, found {name!r}")


@attrs.frozen
class _Checker:
    """Walks over the steps of a protocol once."""

    roles: tuple[str, ...]
    loops: set[str] = attrs.field(factory=set)

    def check(self, steps: tuple[Step, ...], place: str, around: Mapping[str, bool], depth: int) -> bool:
        """Whether what stands behind these steps can be reached. around: loops, and whether ``continue`` may name them."""
        if depth > NESTING_MAX:
            raise ConfigError(f"{place}steps", f"at most {NESTING_MAX} levels of steps were expected")
        open_end = True
        for index, step in enumerate(steps):
            with at(f"{place}steps[{index}]"):
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
                self._check_pair(step.choice, "choice", step.to, "tells itself")
                return self._check_branches(step, around, depth)
            case "loop":
                return self._check_loop(step, around, depth)
            case "continue":
                name = str(step.continue_)
                if name not in around:
                    known = ", ".join(loop for loop, may in around.items() if may) or "there is none"
                    raise ConfigError("continue", f"a loop around this step was expected ({known}), found {name!r}")
                if not around[name]:
                    raise ConfigError("continue", f"the loop {name} has times, and goes on by itself")
        return False

    def _check_pair(self, one: str | None, key: str, other: str | None, itself: str) -> None:
        for name, role in ((key, one), ("to", other)):
            if role not in self.roles:
                raise ConfigError(name, f"one of the roles {', '.join(self.roles)} was expected, found {role!r}")
        if one == other:
            raise ConfigError("to", f"{one} {itself}")

    def _check_branches(self, step: Step, around: Mapping[str, bool], depth: int) -> bool:
        branches = step.branches or ()
        labels = [branch.label for branch in branches]
        if not branches:
            raise ConfigError("branches", "at least one branch was expected")
        for index, label in enumerate(labels):
            _check_name(label, f"branches[{index}].label")
            if label in labels[:index]:
                raise ConfigError(f"branches[{index}].label", f"two branches have the label {label}")
        if step.schedule is not None and step.when is not None:
            raise ConfigError("when", "not together with schedule")
        if step.when is not None and len(branches) != 2:
            raise ConfigError("when", f"two branches were expected, found {len(branches)}")
        if step.schedule is not None and not step.schedule:
            raise ConfigError("schedule", "at least one label was expected")
        for index, label in enumerate(step.schedule or ()):
            if label not in labels:
                raise ConfigError(f"schedule[{index}]", f"one of {', '.join(labels)} was expected, found {label!r}")
        open_ends = [
            self.check(branch.steps, f"branches[{index}].", around, depth + 1) for index, branch in enumerate(branches)
        ]
        return any(open_ends)

    def _check_loop(self, step: Step, around: Mapping[str, bool], depth: int) -> bool:
        name = str(step.loop)
        _check_name(name, "loop")
        if name in self.loops:
            raise ConfigError("loop", f"two loops are called {name}")
        self.loops.add(name)
        if not step.steps:
            raise ConfigError("steps", "at least one step was expected")
        open_end = self.check(step.steps, "", {**around, name: step.times is None}, depth + 1)
        again = any(inner.continue_ == name for _, inner in walk(step.steps))
        if step.times is None and not again:
            raise ConfigError("", f"the loop {name} has neither times nor a step that continues it")
        if not any(inner.kind in ("send", "choice") for _, inner in walk(step.steps)):
            raise ConfigError("steps", f"nobody does anything in the loop {name}")
        return open_end
