"""The outcome of a run that ends, for END: what the simulation reports, or an exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recorder.session.tape_meta import encode_small
from sim.kernel.hooks import CanEnd, hook
from sim.kernel.simulation import end_of, inner_of

EXCEPTION_TEXT_MAX = 4000  # Characters; some exceptions print whole arrays.


def exception_text(error: BaseException) -> str:
    """Describe the exception that ended a run, for END: always encodable text, of limited length."""
    try:
        message = str(error)
    except Exception as failed:  # noqa: BLE001 - the user's __str__ may raise anything, which must not hide the error
        message = f"its text cannot be had ({type(failed).__name__})"
    text = f"{type(error).__name__}: {message}"
    if len(text) > EXCEPTION_TEXT_MAX:
        text = f"{text[:EXCEPTION_TEXT_MAX]}… ({len(text):,} characters)"
    return text.encode("utf-8", "replace").decode("utf-8")


def end_outcome(simulation: Any, tick: int) -> dict[str, Any] | None:
    """Return the outcome of a run that the simulation itself reports as over at its present tick, else None.

    simulation: in either form, see inner_of. Raises TypeError if its ended() returns anything but two texts or None, and
    what ended() raises.
    """
    end = end_of(simulation if hook(simulation, CanEnd) is not None else inner_of(simulation))
    match end:
        case None:
            return None
        case (str(reason), str(text)):
            return {"reason": reason, "text": text, "ticks": tick}
    raise TypeError(f"ended(): expected a short name and a sentence, or None, got {end!r:.60}")


def known_outcome(
    simulation: Any, tick: int, otherwise: dict[str, Any], notify: Callable[[str], None]
) -> dict[str, Any]:
    """As end_outcome, or otherwise if the run is not over; and, after notify was called with the reason, if it raises."""
    try:
        end = end_outcome(simulation, tick)
        encode_small(end, "the end of the simulation")
    except Exception as error:  # noqa: BLE001 - the user's ended() may raise anything, which must not leave the tape unsealed
        notify(f"the simulation's end is unknown: {exception_text(error)}")
        return otherwise
    return otherwise if end is None else end
