"""What the tape tells of the tick that is explained, compared with what its step reads here."""

from __future__ import annotations

import attrs

from recorder.ambient.outside.outside_note import OutsideNote
from recorder.ambient.outside.outside_read import ARGUMENTS
from recorder.ambient.outside.read_functions import starts_thread
from replayer.desync.causes.seen_between import between_steps
from replayer.desync.outside_comparison import DIFFERS, ReadComparison, compare_reads, with_later_changes
from replayer.desync.tested_causes import change_text
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.given.left_out import left_out_notes
from replayer.diagnose.explain.outside.given_time import threads_tested
from replayer.diagnose.explain.trace_step import OTHER_THREADS
from replayer.diagnose.explain.variants import reads_of, traced_present
from replayer.tape.noted_outside import noted_at
from replayer.tape.tape import Tape


def with_noted(explanation: Explanation, tape: Tape, *, is_of_commits: bool) -> Explanation:
    """Add that to an explanation, with the notes and the kind of the cause that follow from it.

    is_of_commits: nothing is compared: the variants differ in their code alone, and the files that they read are of work
    trees.
    """
    reads, notes = reads_of(traced_present(explanation.variants)), list(explanation.notes)
    if any(map(starts_thread, reads)) and OTHER_THREADS not in notes:
        notes.append(OTHER_THREADS)
    cause = explanation.cause
    if cause is not None and cause.kind == "line" and OTHER_THREADS in notes:
        cause = attrs.evolve(cause, kind="unseen")  # Lines of a thread may have given the line what it reads.
    at = noted_at(tape, explanation.tick or tape.last_tick)
    compared = (
        [] if is_of_commits else [*compare_reads(at.note, reads, at), *_arguments_on_import(at.note, explanation)]
    )
    return attrs.evolve(
        explanation,
        between=explanation.between or (None if explanation.tick is None else between_steps(tape, explanation.tick)),
        outside=with_later_changes(compared, tape.meta.get("created")),
        changed_settings=list(map(change_text, at.changes)),
        knows_settings=at.is_known,
        notes=[*notes, *left_out_notes(tape.meta, explanation.given)],
        cause=cause,
        tested=[*explanation.tested, *threads_tested(explanation.variants, explanation.recorded_hash)],
    )


def _arguments_on_import(note: OutsideNote, explanation: Explanation) -> list[ReadComparison]:
    """The arguments of the program, if they are others than noted, and the user's modules alone read them, on import."""
    present = traced_present(explanation.variants)
    imported = [] if present is None else [read for read in present.imported if read.kind == ARGUMENTS]
    if not imported or any(read.kind == ARGUMENTS for read in reads_of(present)):
        return []
    compared = [one for one in compare_reads(note, imported[:1]) if one.kind == ARGUMENTS and one.result == DIFFERS]
    return [attrs.evolve(one, place=f"{one.place}, on import") for one in compared]
