"""Random protocols that every role can follow, as plain data, for Hypothesis."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import strategies as st

from sim.worlds.choreography.protocol.builder import again, branch, choice, end, loop, protocol, send

ROLES = ("Ann", "Bob", "Cid", "Dan")
REGISTERS = 6


@st.composite
def values(draw: st.DrawFn, *, depth: int = 0) -> dict[str, Any]:
    """The payload of a message, without ``into``."""
    register = st.integers(0, REGISTERS - 1)
    forms = [
        st.just({}),
        st.just({"payload": "number"}),
        st.fixed_dictionaries({"payload": st.just("number"), "register": register}),
        st.fixed_dictionaries({"payload": st.just("number"), "constant": st.integers(-(1 << 63), (1 << 63) - 1)}),
        st.fixed_dictionaries({"payload": st.just("boolean"), "constant": st.booleans()}),
        st.fixed_dictionaries({"payload": st.just("boolean"), "register": register}),
        st.fixed_dictionaries({"payload": st.just("fixed"), "register": register}),
        st.fixed_dictionaries({"payload": st.just("fixed"), "constant": st.integers(-100, 100)}),
        st.fixed_dictionaries({"payload": st.just("text"), "constant": st.text(max_size=5)}),
        st.just({"payload": "vector"}),
        st.fixed_dictionaries({"payload": st.just("vector"), "registers": st.lists(register, min_size=1, max_size=4)}),
    ]
    if depth < 2:
        half = values(depth=depth + 1)
        forms.append(st.fixed_dictionaries({"payload": st.just("pair"), "first": half, "second": half}))
    return draw(st.one_of(forms))


@st.composite
def protocols(
    draw: st.DrawFn, *, endless: bool = True, scheduled: bool = True, size: int = 3, roles: int = 4
) -> dict[str, Any]:
    """A protocol in which each role takes part. endless: it may have loops without an end."""
    names = ROLES[: draw(st.integers(2, roles))]
    maker = _Maker(draw, names, endless=endless, scheduled=scheduled, size=size)
    first = [send(one, other, maker.label()) for one, other in itertools.pairwise(names)]
    return protocol(names, *draw(st.permutations(first)), *maker.steps(names, 0))


class _Maker:
    def __init__(self, draw: st.DrawFn, names: tuple[str, ...], *, endless: bool, scheduled: bool, size: int) -> None:
        self.draw, self.names, self.endless, self.scheduled, self.size = draw, names, endless, scheduled, size
        self.count = 0

    def label(self) -> str:
        """A new name."""
        self.count += 1
        return f"m{self.count}"

    def carried(self) -> dict[str, Any]:
        """The payload of a message; with ``into`` only where a number is sure to fit."""
        made = self.draw(values())
        if made.get("payload") in ("number", "boolean", "fixed") and self.draw(st.booleans()):
            made = {**made, "into": self.draw(st.integers(0, REGISTERS - 1))}
        return made

    def steps(self, who: tuple[str, ...], depth: int) -> list[dict[str, Any]]:
        """Steps between some of the roles."""
        made: list[dict[str, Any]] = []
        kinds = ["send", "send", "choice", "times", *(["endless"] if self.endless and depth == 0 else [])]
        for _ in range(self.draw(st.integers(0 if depth else 1, self.size))):
            kind = self.draw(st.sampled_from(kinds)) if depth < 2 else "send"
            if kind == "send":
                one, other = self.draw(st.permutations(who))[:2]
                made.append(send(one, other, self.label(), **self.carried()))
            elif kind == "times":
                body = self.steps(who, depth + 1)
                one, other = self.draw(st.permutations(who))[:2]
                body.append(send(one, other, self.label(), **self.carried()))
                made.append(loop(self.label(), *body, times=self.draw(st.integers(1, 3))))
            elif kind == "choice":
                made.append(self.choice(who, depth, None))
            else:
                name = self.label()
                made.append(loop(name, *self.steps(who, depth + 1), self.choice(who, depth, name)))
        return made

    def choice(self, who: tuple[str, ...], depth: int, name: str | None) -> dict[str, Any]:
        """A choice sent to all roles, or after which all but two do nothing; the first branch continues name."""
        chooser, told, *others = self.draw(st.permutations(who))
        tell_all = name is not None or self.draw(st.booleans())
        inside = who if tell_all else (chooser, told)
        branches = []
        count = self.draw(st.integers(2, 3))
        for number in range(count):
            telling = [send(chooser, other, self.label()) for other in others] if tell_all else []
            steps = telling + self.steps(tuple(inside), depth + 1)
            if name is not None and number == 0:
                steps.append(again(name))
            elif name is not None and number < count - 1 and self.draw(st.booleans()):
                steps.append(end())
            branches.append(branch(self.label(), *steps, **self.carried()))
        labels = [one["label"] for one in branches]
        rule = (
            {"schedule": self.draw(st.lists(st.sampled_from(labels), min_size=1, max_size=4))} if self.scheduled else {}
        )
        return choice(chooser, told, *branches, **rule)


@st.composite
def configs(draw: st.DrawFn, **options: Any) -> dict[str, Any]:
    """A complete choreography of one session."""
    made = draw(protocols(**options))
    small = st.integers(-(1 << 31), (1 << 31) - 1)
    return {
        "protocol": made,
        "seed": draw(st.integers(0, 1 << 60)),
        "buffer_capacity": draw(st.integers(1, 3)),
        "registers": REGISTERS,
        "initial": [{"role": role, "values": draw(st.lists(small, max_size=REGISTERS - 2))} for role in made["roles"]],
    }
