"""Payloads of messages: their types, the rules that make them, and the receiver's check.

Plain forms: unit None, number a 64-bit int, boolean a bool, text a str, fixed {"fixed": n} and vector {"vector":
[n, …]} with Q32.32 numbers as ints, pair {"pair": [a, b]}.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from sim.kernel.registry import ConfigError
from sim.worlds.choreography.key_path import at
from sim.worlds.choreography.q32 import HIGHEST, LOWEST, ONE, PLACES, read_decimal, saturate

TYPES = ("unit", "number", "boolean", "fixed", "text", "vector", "pair")
TEXT_CHARS_MAX = 1000
NESTING_MAX = 8  # Pairs in pairs; far more than any protocol needs.
STATE_REGISTER = 2  # The first register of a role's state; 0 is free, 1 holds the number received last.

Kind = tuple[Any, ...]  # ("number",), ("vector", 3), ("pair", kind, kind): hashable, compared in merges.
Rule = tuple[Any, ...]  # ("nothing",), ("constant", v), ("counter",), ("register", r), ("vector", r…), ("pair", a, b)


@attrs.frozen(kw_only=True)
class Value:
    """The payload of a message and its origin.

    Attributes:
        payload: one of TYPES.
        constant: a constant payload; the decimals of fixed and vector are text.
        counter: for a number: the count of counted numbers that the role has sent before.
        register: for fixed: this register (2 by default); for a number: its integer part; for a boolean: true if it is
            above 0.
        registers: for a vector: these registers; by default all from 2 on.
        first, second: the halves of a pair.
    """

    payload: str = "unit"
    constant: Any = None
    counter: bool = False
    register: Any = None
    registers: Any = None
    first: Value | None = None
    second: Value | None = None

    def check_value(self) -> None:
        """Raise ConfigError for keys that contradict each other."""
        if self.payload not in TYPES:
            raise ConfigError("payload", f"expected one of {', '.join(TYPES)}, got {self.payload!r}")
        for key, types in (
            ("constant", ("number", "boolean", "fixed", "text", "vector")),
            ("counter", ("number",)),
            ("register", ("number", "boolean", "fixed")),
            ("registers", ("vector",)),
            ("first", ("pair",)),
            ("second", ("pair",)),
        ):
            if self._has(key) and self.payload not in types:
                raise ConfigError(key, f"only with payload = {' or '.join(map(repr, types))}")
        origins = [key for key in ("constant", "counter", "register", "registers") if self._has(key)]
        if len(origins) > 1:
            raise ConfigError(origins[1], f"not with {origins[0]}")
        if not origins and self.payload in ("boolean", "text"):
            raise ConfigError("constant", f"this key is missing: a {self.payload} needs it")

    def _has(self, key: str) -> bool:
        value = getattr(self, key)
        return value is True if key == "counter" else value is not None  # A constant may be false.

    def compile(self, register_count: int, depth: int = 0) -> tuple[Kind, Rule]:
        """The type and the rule. Raises ConfigError for an unknown register or a constant of a different type."""
        self.check_value()
        if depth > NESTING_MAX:
            raise ConfigError("", f"expected at most {NESTING_MAX} levels of pairs, got {depth}")
        if self.payload == "pair":
            halves = []
            for key in ("first", "second"):
                half = getattr(self, key)
                if half is None:
                    raise ConfigError(key, "this key is missing")
                with at(key):
                    halves.append(half.compile(register_count, depth + 1))
            return ("pair", halves[0][0], halves[1][0]), ("pair", halves[0][1], halves[1][1])
        if self.payload == "unit":
            return ("unit",), ("nothing",)
        if self.constant is not None:
            constant = self._constant()
            kind = ("vector", len(constant["vector"])) if self.payload == "vector" else (self.payload,)
            return kind, ("constant", _freeze(constant))
        if self.payload == "vector":
            taken = self._registers(register_count)
            return ("vector", len(taken)), ("vector", *taken)
        if self.payload == "number" and self.register is None:
            return ("number",), ("counter",)
        register = STATE_REGISTER if self.register is None else self.register
        check_register(register, register_count, "register")
        return (self.payload,), ("register", self.payload, register)

    def _registers(self, register_count: int) -> tuple[int, ...]:
        if self.registers is None:
            return tuple(range(STATE_REGISTER, register_count))
        if not isinstance(self.registers, list | tuple) or not self.registers:
            raise ConfigError("registers", f"expected a list of registers, got {self.registers!r}")
        for index, register in enumerate(self.registers):
            check_register(register, register_count, f"registers[{index}]")
        return tuple(self.registers)

    def _constant(self) -> Any:
        constant = self.constant
        try:
            if self.payload == "fixed":
                return {"fixed": read_decimal(constant)}
            if self.payload == "vector":
                if not isinstance(constant, list | tuple) or not constant:
                    raise ValueError(f"expected a list of decimals, got {constant!r}")
                return {"vector": [read_decimal(decimal) for decimal in constant]}
        except ValueError as error:
            raise ConfigError("constant", str(error)) from None
        kind = (self.payload,)
        if find_mismatch(kind, constant) is not None:
            raise ConfigError("constant", f"expected {show_kind(kind)}, got {str(constant)[:60]!r}")
        return constant


def check_register(register: Any, register_count: int, key: str) -> None:
    """Raise ConfigError if register is not the number of a register."""
    if isinstance(register, bool) or not isinstance(register, int) or not 0 <= register < register_count:
        raise ConfigError(key, f"expected a register from 0 to {register_count - 1}, got {register!r}")


def _freeze(constant: Any) -> Any:
    match constant:
        case {"vector": numbers}:
            return ("vector", *numbers)
        case {"fixed": number}:
            return ("fixed", number)
    return constant


def make_payload(rule: Rule, registers: Sequence[int], counter: int) -> Any:
    """Make the payload of a rule from a role's registers and its counter."""
    match rule:
        case ("nothing",):
            return None
        case ("constant", ("vector", *numbers)):
            return {"vector": numbers}
        case ("constant", ("fixed", number)):
            return {"fixed": number}
        case ("constant", value):
            return value
        case ("counter",):
            return counter
        case ("register", "fixed", register):
            return {"fixed": registers[register]}
        case ("register", "number", register):
            return registers[register] >> PLACES
        case ("register", "boolean", register):
            return registers[register] > 0
        case ("vector", *taken):
            return {"vector": [registers[register] for register in taken]}
        case ("pair", first, second):
            return {"pair": [make_payload(first, registers, counter), make_payload(second, registers, counter)]}
    raise AssertionError(rule)


def counts(rule: Rule) -> bool:
    """Return True if a rule uses the counter, which then increases by one."""
    return rule[0] == "counter" or (rule[0] == "pair" and any(counts(half) for half in rule[1:]))


def find_mismatch(kind: Kind, payload: Any) -> str | None:
    """The reason why a payload is not of this kind; None if it is. Recorded in events: this text must not change."""
    match kind, payload:
        case ("unit",), None:
            return None
        case ("number",), int() if _fits(payload):
            return None
        case ("boolean",), bool():
            return None
        case ("text",), str() if len(payload) <= TEXT_CHARS_MAX:
            return None
        case ("fixed",), {"fixed": number, **rest} if not rest and _fits(number):
            return None
        case ("vector", count), {"vector": list(numbers), **rest} if not rest and all(map(_fits, numbers)):
            if len(numbers) == count:
                return None
        case ("pair", first, second), {"pair": [one, two], **rest} if not rest:
            return find_mismatch(first, one) or find_mismatch(second, two)
    return f"{show_kind(kind)} was expected, found {str(payload)[:60]!r}"


def _fits(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and LOWEST <= number <= HIGHEST


def show_kind(kind: Kind) -> str:
    """The name of a kind, for messages. Recorded in events: this text must not change."""
    match kind:
        case ("vector", count):
            return f"a vector of {count}"
        case ("pair", first, second):
            return f"a pair of {show_kind(first)} and {show_kind(second)}"
        case ("unit",):
            return "no payload"
        case ("fixed",):
            return "a fixed-point number"
    return f"a {kind[0]}"


def to_numbers(payload: Any) -> list[int]:
    """The numbers in a payload, in order, as Q32.32; unit and text have none."""
    match payload:
        case bool():
            return [ONE if payload else 0]
        case int():
            return [saturate(payload << PLACES)]
        case {"fixed": number}:
            return [number]
        case {"vector": numbers}:
            return list(numbers)
        case {"pair": [first, second]}:
            return to_numbers(first) + to_numbers(second)
    return []


def number_count(kind: Kind) -> int:
    """The count of numbers that to_numbers returns for a payload of this kind."""
    match kind:
        case ("vector", count):
            return int(count)
        case ("pair", first, second):
            return number_count(first) + number_count(second)
    return 0 if kind[0] in ("unit", "text") else 1
