"""Jobs of the process of a variant that read the files of the user's program, and run parts of it before the step."""

from __future__ import annotations

from replayer.diagnose.explain.before_step.change_search import changed_before
from replayer.diagnose.explain.other_values.frozen_values import frozen_values
from replayer.diagnose.explain.other_values.seeded_generators import draws
from replayer.diagnose.explain.other_values.tried_values import other_values
from replayer.diagnose.explain.statements.shared_result import shared_result
from replayer.diagnose.explain.statements.values_then import values_then

OF_PROGRAM = {
    "change": changed_before,
    "values": values_then,
    "shared": shared_result,
    "other": other_values,
    "frozen": frozen_values,
    "draws": draws,
}
