"""What the recorder saw of changes of the state between two steps, which no replay makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recorder.session.between_steps import FIRST_STEPS_MAX
from replayer.desync.finding import TestedCause
from replayer.value_text import plain_text

if TYPE_CHECKING:
    from replayer.tape.tape import Tape

BETWEEN = "a change between two steps"


def changed_between(tape: Tape, tick: int) -> list[str]:
    """What the recorder saw to be changed before the step to a tick, by names; empty if nothing, or if it has no name."""
    match tape.outcome:
        case {"between_steps": {"changes": list(changes)} as told}:
            later = _later(told)
            own = [entry for entry in changes if isinstance(entry, list) and len(entry) == 2]
            named = [plain_text(str(entry[1])) for entry in own if entry[0] == tick]
            place = later.get(tick, -1)  # Of a listed one, whose value this was as well.
            like = changes[place] if not named and 0 <= place < len(changes) else None
            return named or ([plain_text(str(like[1]))] if isinstance(like, list) and len(like) == 2 else [])
    return []


def between_steps(tape: Tape, tick: int) -> TestedCause | None:
    """What the recorder saw before the step to a tick, by comparing or otherwise; None if nothing is known of it."""
    match tape.outcome:
        case {"between_steps": {"count": int(count), "changes": list(changes), **ticks}}:
            pass
        case _:
            return None
    cause = BETWEEN
    where = f"between tick {tick - 1:,} and {tick:,}, outside of the step"
    later = _later(tape.outcome["between_steps"])
    named = changed_between(tape, tick) or (["a value that the tape does not name"] if tick in later else [])
    if named:
        return TestedCause(cause, f"changed {where}: {', '.join(named)}, as the recorder saw live", suspicious=True)
    first, last = ticks.get("first_tick"), ticks.get("last_tick")
    if not isinstance(first, int):
        return None  # Nothing was compared.
    if isinstance(last, int) and tick > last and changes:
        return _seen_earlier(cause, changes, range(first, last + 1), tick)
    if tick < first or (isinstance(last, int) and tick > last):
        return None
    if count != len(changes) + len(later):
        return TestedCause(
            cause,
            f"not known {where}: of {count:,} changes that the recorder saw, the tape lists the first",
            suspicious=None,
        )
    found = (
        f"no value changed {where}: the recorder compared the values before the step with those that the last step left; "
        "not compared: the tables of sets, the flags of arrays, equal objects in place of others"
    )
    return TestedCause(cause, found, suspicious=False)


def _later(noted: dict[str, Any]) -> dict[int, int]:
    """The changes after the listed ones: the tick, and the place of a listed one of the same value, or -1."""
    found: dict[int, int] = {}
    for entry in later if isinstance(later := noted.get("later"), list) else []:
        match entry:
            case [int(tick), int(place)]:
                found[tick] = place
    return found


def _is_of_recorder(tape: Tape) -> bool:
    """Return True for a tape of this library's recorder, which has the option between_steps."""
    environment = tape.meta.get("environment")
    return isinstance(environment, dict) and "python" in environment


def not_compared(tape: Tape, tick: int) -> list[TestedCause]:
    """That nothing is known of a change before the step to a tick; nothing for the first step, and of a tape of other software.

    Before the first step of a run there is none whose state could have been changed.
    """
    if tick <= 1 or not _is_of_recorder(tape):
        return []
    is_early = tick - tape.first_tick <= FIRST_STEPS_MAX
    told = f" (of the first {FIRST_STEPS_MAX} steps it tells only if a change was seen)" if is_early else ""
    found = (
        f"the tape tells of no comparison before the step to tick {tick:,}: other code may have changed a value outside of the "
        f"step{told}; record the run with between_steps=True, which names each such change"
    )
    return [TestedCause(BETWEEN, found, suspicious=None)]


def _seen_earlier(cause: str, changes: list[Any], compared: range, tick: int) -> TestedCause | None:
    """A change that the recorder saw before another step; before the step to this tick it did not compare."""
    match changes[0]:
        case [int(at), str(what)]:
            found = (
                f"not compared before the step to tick {tick:,}: the recorder compared before those to ticks {compared[0]:,} to "
                f"{compared[-1]:,} alone, and saw live that {plain_text(what)} was changed between tick {at - 1:,} and {at:,}, outside of the "
                "step; recording with between_steps=True tells of each change"
            )
            return TestedCause(cause, found, suspicious=None)
    return None
