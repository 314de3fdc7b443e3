"""The calls of an environment that a tape recorded, decoded from the inputs of their ticks.

Nothing is called or imported for it but the decoder of plain values: the environment's package is not needed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import attrs

from recorder.errors import CorruptError
from replayer.tape.tape import Tape
from sim.adapters.interface.attempts import attempt_of
from sim.kernel.plain_data import encode_plain

ENVIRONMENTS = ("gymnasium", "pettingzoo")  # Adapters of environments: their ticks are calls of step and reset.


@attrs.frozen
class EnvironmentCall:
    """The call of an environment's ``reset`` or ``step`` that led to a tick.

    Attributes:
        tick: the tick after the call.
        kind: "reset" or "step".
        action: of a step: the action, or the actions of all agents, with the types that were passed. None for a reset.
        seed: of a reset; of a vector possibly a list of seeds. None without a seed, and for a step.
        options: of a reset. None without options, and for a step.
        begins: True if an episode begins here: at a reset, and at a step at which the environment reset itself, which
            then ignored the action.
        raised: the class of the exception that the call raised; None if it returned.
    """

    tick: int
    kind: Literal["reset", "step"]
    action: Any = None
    seed: Any = None
    options: Any = None
    begins: bool = False
    raised: str | None = None


def adapter_name(tape: Tape) -> str | None:
    """The name of the adapter that recorded a tape; None without one."""
    match tape.meta.get("adapter"):
        case {"name": str(name)}:
            return name
    return None


def described_environment(tape: Tape) -> bytes:
    """The description of the environment on the tape, with its spaces and the level; equal for equal environments."""
    return encode_plain([tape.meta.get("adapter"), tape.meta.get("level")])


def call_at(tape: Tape, tick: int) -> EnvironmentCall:
    """Decode the call that led to a tick of an environment's tape.

    Raises ValueError for a tape of another kind of simulation, MissingTickError if the tick has no frame, CorruptError
    if it is damaged.
    """
    name = adapter_name(tape)
    if name not in ENVIRONMENTS:
        raise ValueError(
            f"expected the tape of an environment (adapters {', '.join(ENVIRONMENTS)}), got one of "
            f"{name or 'your own simulation or a world'}: tape.frame(tick).inputs has its inputs"
        )
    return call_of(tick, tape.frame(tick).inputs)


def call_of(tick: int, inputs: Any) -> EnvironmentCall:
    """Decode the call of the inputs of a tick. Raises CorruptError."""
    if type(inputs) is not dict:
        return EnvironmentCall(tick, "step", inputs)
    attempt = attempt_of(inputs)
    if attempt is not None:
        return attrs.evolve(call_of(tick, attempt.inputs), raised=attempt.kind, begins=False)
    try:
        kind, arguments = _decoder()(inputs)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptError(0, f"tick {tick}: the inputs are not the call of an environment: {error}") from None
    if kind == "reset":
        return EnvironmentCall(tick, "reset", seed=arguments["seed"], options=arguments["options"], begins=True)
    return EnvironmentCall(tick, "step", arguments, begins=inputs.get("begins") is True)


@functools.cache
def _decoder() -> Callable[[Any], tuple[str, Any]]:
    from sim.adapters.gymnasium.inputs import decode_call  # noqa: PLC0415 - most tapes are of no environment

    return decode_call


def plain_options(tick: int, encoded: Any) -> Any:
    """Decode the options of the reset at a tick; None for none. Raises CorruptError."""
    if encoded is None:
        return None
    try:
        from sim.adapters.capture.values import decode_value  # noqa: PLC0415 - most tapes are of no environment

        return decode_value(encoded)
    except (TypeError, ValueError) as error:
        raise CorruptError(0, f"tick {tick}: the options of the reset are damaged: {error}") from None
