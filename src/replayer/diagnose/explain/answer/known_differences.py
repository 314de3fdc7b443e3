"""Add to an explanation whose variants all agree, but not with the tape, what is known of the recorded state."""

from __future__ import annotations

import attrs

from recorder.errors import RecordingError
from recorder.factory_spec import Factory
from replayer.desync.finding import Finding, find_desync
from replayer.desync.location import DesyncLocation, place_of
from replayer.desync.state_diff import FieldDifference
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.answer.writers import lines_that_write
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import make_simulation
from replayer.tape.tape import Tape


def with_known_differences(
    tape: Tape, factory: Factory | None, explanation: Explanation, finding: Finding | None
) -> Explanation:
    """All variants agree, but not with the tape: add the known differences, and the lines that write these fields."""
    assert explanation.tick is not None
    step = explanation.ran[0].step if explanation.ran else None
    fields: list[FieldDifference] = []
    known_tick, known_states, notes, place = None, None, list(explanation.notes), DesyncLocation()
    if step is None and finding is not None:
        place, fields = finding.place, finding.differences
        known_tick, known_states = finding.compared_tick, finding.compared_states
        notes += [finding.note] if finding.note is not None else []
    if step is not None and step.state is not None:
        place = place_of(tape.frame(explanation.tick), step.state, step.phases)
        try:
            state_hash = step.state.hash()
            if finding is None or finding.replayed.hash() != state_hash:  # The present variant gives yet another state.
                cursor = Cursor(tape, make_simulation(tape, factory))
                finding = find_desync(cursor, explanation.tick, state_hash)
            fields, known_tick, known_states = finding.differences, finding.compared_tick, finding.compared_states
            notes += [finding.note] if finding.note is not None else []
        except RecordingError as error:
            notes.append(f"the next keyframe cannot be compared: {error}")
    names = {f"s:{name}" for name in place.fields or [difference.field for difference in fields]}
    shown = lines_that_write(step.trace, names) if step is not None else []
    return attrs.evolve(
        explanation,
        known_fields=fields,
        known_tick=known_tick,
        known_states=known_states,
        writers=shown,
        notes=notes,
        place=place,
    )
