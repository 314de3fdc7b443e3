"""What compiled functions of two instances in one process took as constants, before the step that is explained or in it."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from recorder.ambient.caches.compiled_constants import CompiledFunctions, Key
from recorder.ambient.outside.code_parts.frozen_constants import UNKNOWN
from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.cause import SourceLocation
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.values.given_values import FrozenValue, GivenValue
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.simulation import Simulation

KIND = "taken as a constant when numba compiled it"


@attrs.frozen(eq=False)
class Constant:
    """A value that compiled functions took as a constant in A, and another one in B.

    Attributes:
        keys: of one name.
        in_a: the value; UNKNOWN if A had not compiled the function before the step.
        in_b: the value in B.
    """

    functions: CompiledFunctions
    keys: tuple[Key, ...]
    in_a: Any
    in_b: Any

    @property
    def name(self) -> str:
        """The name that the functions take the value of."""
        return self.keys[0][1]

    def put(self) -> None:
        """Put functions in place that are compiled with the value of A."""
        self.functions.with_constants(dict.fromkeys(self.keys, self.in_a))

    def put_own(self) -> None:
        """Put functions in place that are compiled with the value of B: what that alone changes is no effect of the value."""
        self.functions.with_constants(dict.fromkeys(self.keys, self.in_b))

    def told(self) -> GivenValue:
        """For people, with what was tested before the step."""
        of_a = "not compiled before this step in A" if self.in_a is UNKNOWN else f"{self.in_a!r} in A"
        return GivenValue(f"{self.name} in {self._labels()}", KIND, f"{of_a}, {self.in_b!r} in B")

    def frozen(self) -> FrozenValue:
        """For people, with the lines that read it."""
        labels = tuple(label for label, _ in self.keys)
        places = [place for key in self.keys for place in self._places(key)]
        return FrozenValue(self.name, labels, repr(self.in_a), repr(self.in_b), tuple(dict.fromkeys(places)))

    def _labels(self) -> str:
        return " and ".join(label for label, _ in self.keys)

    def _places(self, key: Key) -> list[SourceLocation]:
        path, numbers = self.functions.lines(key)
        source, function = SourceFile(path), key[0].rpartition(".")[2]
        statements = {number: source.statement(number) for number in numbers}
        return [
            SourceLocation(path, one.first_line, function, source.statement_text(number))
            for number, one in statements.items()
            if one is not None
        ]


class CompiledBefore:
    """The constants of A, and the test of them in B."""

    def __init__(self, functions: CompiledFunctions, first: Simulation, inputs: Any) -> None:
        """Made in A, before the step."""
        self._functions = functions
        self._own = functions.constants()
        self._changed = functions.changed()
        self._after = self._after_step(first, inputs, functions.constants) if functions.now() else {}
        if self._own:
            self._changed |= self._after_step(first, inputs, lambda: dict.fromkeys(functions.changed(), 0)).keys()

    def renew(self) -> None:
        """Let B compile what took values that change: a new process begins without what A has compiled."""
        self._functions.renew(self._changed | self._functions.changed())

    def differing(self, second: Simulation, inputs: Any) -> list[Constant]:
        """Those that B took as other values, before the step or in it."""
        before = self._functions.constants()
        if not before and not self._own:
            return []
        found = []
        for key, in_b in self._after_step(second, inputs, self._functions.constants).items():
            in_a = self._own.get(key, UNKNOWN)
            # What neither had compiled before the step is compiled in it, with the values that both have then.
            if (in_a is not UNKNOWN or key in before) and (in_a is UNKNOWN or repr(in_a) != repr(in_b)):
                found.append(Constant(self._functions, (key,), in_a, in_b))
        return found

    def taken_in_step(self, second: Simulation, inputs: Any) -> list[Constant]:
        """Those that differ at the end of the step; of one name, the functions that take the same two values together."""
        taken = self._after_step(second, inputs, self._functions.constants) if self._after else {}
        groups = defaultdict[tuple[str, str, str], list[Key]](list)
        for key, in_b in taken.items():
            if key in self._after and repr(self._after[key]) != repr(in_b):
                groups[key[1], repr(self._after[key]), repr(in_b)].append(key)
        return [
            Constant(self._functions, tuple(keys), self._after[keys[0]], taken[keys[0]]) for keys in groups.values()
        ]

    @staticmethod
    def _after_step(simulation: Simulation, inputs: Any, asked: Callable[[], dict[Key, Any]]) -> dict[Key, Any]:
        """What is so after the step, in a copy of this process; empty if the step raises, or no copy can run it."""

        def stepped() -> dict[str, Any]:
            simulation.step(inputs)
            return {"asked": [[*key, _packed(value)] for key, value in asked().items()]}

        try:
            asked_for = in_a_copy(stepped)["asked"]
        except RuntimeError:
            return {}
        found = {(label, name): _unpacked(packed) for label, name, packed in asked_for}
        return {key: value for key, value in found.items() if value is not UNKNOWN}


def _packed(value: Any) -> str | bytes:
    """A constant as plain data. A NaN has no literal, and nor has a number of NumPy."""
    try:
        return encode_plain(value) if isinstance(value, np.generic | float) else repr(value)
    except TypeError:
        return ""


def _unpacked(packed: str | bytes) -> Any:
    """The constant; UNKNOWN for one that could not be packed."""
    if isinstance(packed, bytes):
        return decode_plain(packed)
    try:
        return ast.literal_eval(packed)
    except (ValueError, SyntaxError):
        return UNKNOWN
