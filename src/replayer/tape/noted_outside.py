"""What a recording noted of the outside world, of a tape, and of one tick of it."""

from __future__ import annotations

import attrs

from recorder.ambient.outside.outside_note import KEY, ChangedSetting, OutsideNote, decode_note
from replayer.tape.tape import Tape

_MADE_FROM = ("cut", "joined", "repaired", "shrunk")  # In META of tapes that are not as they were recorded.


def noted_outside(tape: Tape) -> OutsideNote:
    """What the recording noted of the outside world."""
    outcome = tape.outcome
    return decode_note(tape.meta.get(KEY), outcome.get(KEY) if isinstance(outcome, dict) else None)


@attrs.frozen
class NotedAtTick:
    """What a recording noted of the outside world, as of the step to one tick.

    Attributes:
        note: its process has the settings as they were last seen before the step, without those of unsure.
        changes: settings that were changed while the run was recorded, in their order.
        unsure: those of changes that may have come before the step, or after it.
        unknown: settings of a thread's own, where not known whose steps these are, each with the ticks between which that is so.
        seen: the tick at which a setting of note was seen to be as it is there, of those that were changed before the step.
        is_known: True if changes is known to be complete, up to the first look at the settings after the step.
    """

    note: OutsideNote
    changes: tuple[ChangedSetting, ...] = ()
    unsure: tuple[ChangedSetting, ...] = ()
    unknown: dict[str, tuple[int, int]] = attrs.field(factory=dict)
    seen: dict[str, int] = attrs.field(factory=dict)
    is_known: bool = False

    def processes(self) -> list[dict[str, str]]:
        """The settings as they were before what is unsure was changed, and after it; one if nothing is."""
        if self.note.process is None:
            return []
        before = {one.name: one.before for one in reversed(self.unsure)}
        after = {one.name: one.now for one in self.unsure}
        sides = [before, after] if self.unsure else [{}]
        return [
            {**self.note.process, **{name: text for name, text in side.items() if text is not None}} for side in sides
        ]


def noted_at(tape: Tape, tick: int) -> NotedAtTick:
    """What the recording noted of the outside world, as of the step to a tick."""
    note = noted_outside(tape)
    if not note.watches or note.process is None:
        return NotedAtTick(note)
    settings, process, seen = note.settings, dict[str, str | None](note.process), dict[str, int]()
    of_threads = {name: other.after for other in reversed(settings.threads) for name in other.settings}
    for one in reversed(settings.changes):
        if one.after <= of_threads.get(one.name, one.after):
            process[one.name] = one.before  # META of a run that was resumed tells of its last session.
    told = [(one.tick, {one.name: one.now}) for one in settings.changes]
    told += [(one.tick, dict(one.settings)) for one in settings.threads]
    for at, texts_then in sorted(told, key=lambda one: one[0]):
        if at < tick:
            process |= texts_then
            seen |= dict.fromkeys(texts_then, at)
    unsure = tuple(one for one in settings.changes if one.after < tick <= one.tick)
    between = [one for one in settings.threads if one.after < tick <= one.tick]
    unknown = {name: (one.after, one.tick) for one in between for name in one.settings}
    names = {one.name for one in unsure} | unknown.keys()
    texts = {name: text for name, text in process.items() if text is not None and name not in names}
    is_whole = isinstance(tape.outcome, dict) and not any(key in tape.meta for key in _MADE_FROM)
    is_watched = settings.first_tick < tick and (settings.last_tick is None or tick <= settings.last_tick)
    return NotedAtTick(
        attrs.evolve(note, process=texts), settings.changes, unsure, unknown, seen, is_known=is_whole and is_watched
    )
