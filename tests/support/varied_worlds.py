"""A world of fields of all kinds, whose values are random, special and sometimes missing, and conditions over them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from sim import Blob, Field, Schema, State, Table

FLOATS = [0.0, -0.0, 1.5, -2.25, 1e300, -1e300, float("inf"), float("-inf"), float("nan"), 0.1]
EDGES = {"i8": [2**63 - 1, -(2**63)], "u8": [2**64 - 1, 0], "i1": [127, -128], "u2": [65535, 0], "i4": [2**31 - 1, 7]}


class Varied:
    """Each step writes few values, so that intervals differ; a table grows and shrinks, now and then to nothing."""

    def __init__(self, seed: int = 0) -> None:
        self.state = State(
            Schema(
                Field("seed", "i8"),
                Field("steps", "i8"),
                *(Field(f"n.{kind}", kind, (3,)) for kind in EDGES),
                Field("real", "f8", (2, 3)),
                Field("small", "f4", (4,)),
                Field("flags", "?", (5,)),
                Field("alone", "f8"),
                Field("ready", "?"),
                Field("wave", "c16", (2,)),
                Field("nothing", "i4", (0,)),
                Table("bugs", Field("id", "i8"), Field("size", "i2"), Field("at", "f4", (2,)), capacity=2),
                Blob("script", 16),
            )
        )
        self.state["seed"][...] = seed

    def step(self, inputs: Any) -> None:  # noqa: ARG002 - the signature of a step
        """Change a few values."""
        state = self.state
        state["steps"][...] += 1
        tick = int(state["steps"])
        chance = random.Random(int(state["seed"]) * 1_000_003 + tick)
        special = tick // 16 % 2 == 1  # Half of the intervals have values at the edges.
        for kind, edges in EDGES.items():
            if chance.random() < 0.3:
                value = chance.choice(edges) if special and chance.random() < 0.3 else chance.randrange(9)
                state[f"n.{kind}"][chance.randrange(3)] = value
        if chance.random() < 0.3:
            state["real"][chance.randrange(2), chance.randrange(3)] = self._float(chance, special=special)
        if chance.random() < 0.3:
            with np.errstate(all="ignore"):
                state["small"][chance.randrange(4)] = self._float(chance, special=special)
        if chance.random() < 0.2:
            state["flags"][chance.randrange(5)] = chance.random() < 0.5
        if chance.random() < 0.2:
            state["alone"][...] = self._float(chance, special=special)
            state["ready"][...] = chance.random() < 0.5
        if chance.random() < 0.1:
            state["wave"][0] = chance.random()
            state.set_blob("script", b"x" * chance.randrange(40))
        self._bugs(chance, tick)

    def _bugs(self, chance: random.Random, tick: int) -> None:
        state = self.state
        if chance.random() < 0.25:
            row = state.add_rows("bugs", 1)
            state["bugs.id"][row], state["bugs.size"][row] = tick, chance.randrange(-3, 9)
        count = state.count("bugs")
        if count and chance.random() < 0.25:
            state["bugs.size"][chance.randrange(count)] = chance.randrange(-3, 9)
            state["bugs.at"][chance.randrange(count), 1] = chance.random()
        if count and chance.random() < 0.2:
            state.truncate_rows("bugs", chance.randrange(count))

    def _float(self, chance: random.Random, *, special: bool) -> float:
        return chance.choice(FLOATS) if special else chance.choice([0.0, 0.5, 1.5, 3.25])


class Rare:
    """One row is written rarely, another in each step; entities move from row to row."""

    def __init__(self, seed: int = 0) -> None:
        self.state = State(
            Schema(
                Field("seed", "i8"),
                Field("steps", "i8"),
                Field("cells", "i8", (4, 5)),
                Table("units", Field("id", "i8"), Field("hp", "i8"), capacity=4),
            )
        )
        self.state["seed"][...] = seed

    def step(self, inputs: Any) -> None:  # noqa: ARG002 - the signature of a step
        """Write few values."""
        state = self.state
        state["steps"][...] += 1
        chance = random.Random(int(state["seed"]) * 7919 + int(state["steps"]))
        state["cells"][0, 0] += 1
        if chance.random() < 0.03:
            state["cells"][chance.randrange(4), chance.randrange(5)] = chance.randrange(3)
        if chance.random() < 0.02:
            row = state.add_rows("units", 1)
            state["units.id"][row], state["units.hp"][row] = int(state["steps"]), 5
        count = state.count("units")
        if count and chance.random() < 0.03:
            state["units.hp"][chance.randrange(count)] += chance.choice([-1, 0, 1])
        if count and chance.random() < 0.02:
            gone = chance.randrange(count)
            for name in ("units.id", "units.hp"):
                state[name][gone] = state[name][count - 1]
            state.truncate_rows("units", count - 1)


ARRAYS = [
    *(f"n.{kind}" for kind in EDGES),
    "real",
    "small",
    "flags",
    "bugs.size",
    "bugs.id",
    "bugs.at",
    "nothing",
    "wave",
]
PARTS = ["real[1]", "real[0, 2]", "small[1:3]", "bugs.size[0]", "n.i1[-1]", "n.u8[7]", "small[small > 1]", "real[:]"]
PARTS += ["bugs.size[bugs.id > 9]", "bugs.at[0]", "bugs.size[-1]", "n.i8[n.i1 == 3]"]
REDUCED = ["sum", "min", "max", "mean", "any", "all", "count"]


def random_condition(chance: random.Random, depth: int = 3) -> str:
    """A text that is mostly a condition: some are none, and some have no value at some ticks."""
    kind = chance.randrange(9) if depth else 9
    inner = lambda: random_condition(chance, depth - 1)  # noqa: E731 - short, and used below only
    if kind < 2:
        return f"({inner()}) {chance.choice(['and', 'or'])} ({inner()})"
    if kind == 2:
        return f"not ({inner()})"
    if kind == 3:
        return (
            f"({random_array(chance)} {random_test(chance)} {random_number(chance, depth)}).{chance.choice(REDUCED)}()"
        )
    if kind == 4:
        return f"{random_number(chance, depth)} < {random_number(chance, depth)} <= {random_number(chance, depth)}"
    return f"{random_number(chance, depth)} {random_test(chance)} {random_number(chance, depth)}"


def random_test(chance: random.Random) -> str:
    """A comparison."""
    return chance.choice(["<", "<=", ">", ">=", "==", "!="])


def random_array(chance: random.Random) -> str:
    """A text that is mostly an array."""
    kind = chance.randrange(8)
    if kind < 4:
        return chance.choice(ARRAYS)
    if kind == 4:
        return chance.choice(PARTS)
    if kind == 5:
        return f"({random_array(chance)} {random_test(chance)} {chance.randrange(5)})"
    operation = chance.choice(["+", "-", "*", "/", "//", "%", "&", "|"])
    return f"({random_array(chance)} {operation} {chance.choice([random_array(chance), str(chance.randrange(1, 4)), '0.5'])})"


def random_number(chance: random.Random, depth: int) -> str:
    """A text that is mostly a number."""
    kind = chance.randrange(10)
    if kind < 3:
        return chance.choice(["0", "1", "3", "5", "8", "20", "0.5", "-2", "True", "100", "9223372036854775807", "-0.0"])
    if kind == 3:
        return chance.choice(["tick", "alone", "ready", "steps", "nowhere", "len(bugs.id)", "len(nothing)", "~ready"])
    if kind == 4 and depth:
        operation = chance.choice(["+", "-", "*", "/", "//", "%", "&"])
        return f"({random_number(chance, depth - 1)} {operation} {random_number(chance, depth - 1)})"
    if kind == 5 and depth:
        return f"abs({random_number(chance, depth - 1)})"
    return f"{random_array(chance)}.{chance.choice(REDUCED)}()"
