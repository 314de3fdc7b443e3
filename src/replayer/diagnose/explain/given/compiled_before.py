"""What compiled functions of two instances in one process took as constants, before the step that is explained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from recorder.ambient.caches.compiled_constants import UNKNOWN, CompiledFunctions, Key
from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.values.given_values import GivenValue
from sim.kernel.simulation import Simulation

KIND = "taken as a constant when numba compiled it"


@attrs.frozen(eq=False)
class Constant:
    """A value that a compiled function took as a constant in A, and another one in B.

    Attributes:
        in_a: the value; UNKNOWN if A had not compiled the function before the step.
        in_b: the value in B, as text.
    """

    functions: CompiledFunctions
    key: Key
    in_a: Any
    in_b: str

    def put(self) -> None:
        """Put a function in place that is compiled with the value of A."""
        self.functions.with_constant(self.key, self.in_a)

    def told(self) -> GivenValue:
        """For people."""
        label, name = self.key
        of_a = "not compiled before this step in A" if self.in_a is UNKNOWN else f"{self.in_a!r} in A"
        return GivenValue(f"{name} in {label}", KIND, f"{of_a}, {self.in_b} in B")


class CompiledBefore:
    """The constants of A, and the test of them in B."""

    def __init__(self, functions: CompiledFunctions, first: Simulation, inputs: Any) -> None:
        """Made in A, before the step."""
        self._functions = functions
        self._own = functions.constants()
        self._changed = functions.changed()
        if self._own:
            after = self._after_step(first, inputs, lambda: list(map(list, functions.changed())))
            self._changed |= {(label, name) for label, name in after}

    def renew(self) -> None:
        """Let B compile what took values that change: a new process begins without what A has compiled."""
        self._functions.renew(self._changed | self._functions.changed())

    def differing(self, second: Simulation, inputs: Any) -> list[Constant]:
        """Those that B took as other values, before the step or in it."""
        before = self._functions.constants()
        if not before and not self._own:
            return []
        taken = self._after_step(
            second, inputs, lambda: [[*key, repr(value)] for key, value in self._functions.constants().items()]
        )
        found = []
        for label, name, text in taken:
            key = label, name
            in_a = self._own.get(key, UNKNOWN)
            # What neither had compiled before the step is compiled in it, with the values that both have then.
            if (in_a is not UNKNOWN or key in before) and (in_a is UNKNOWN or repr(in_a) != text):
                found.append(Constant(self._functions, key, in_a, text))
        return found

    @staticmethod
    def _after_step(simulation: Simulation, inputs: Any, asked: Callable[[], list[list[str]]]) -> list[list[str]]:
        """What is so after the step, in a copy of this process; empty if the step raises, or no copy can run it."""

        def stepped() -> dict[str, Any]:
            simulation.step(inputs)
            return {"asked": asked()}

        try:
            return list(in_a_copy(stepped)["asked"])
        except RuntimeError:
            return []
