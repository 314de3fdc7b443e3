"""Diagnosis tools, one for each kind of cause of a desync. Only the investigation and the parties import others."""

from typing import TYPE_CHECKING

from recorder._lazy import names_for_later

if TYPE_CHECKING:
    from replayer.desync.rng_draws import draws_between, finding_lines
    from replayer.diagnose.explain.explain import explain_tape
    from replayer.diagnose.write_contracts.write_guard import guarded
    from replayer.timeline.draw_ledger import ledger

__all__ = ["draws_between", "explain_tape", "finding_lines", "guarded", "ledger"]

_LATER = {
    "draws_between": "replayer.desync.rng_draws",
    "explain_tape": "replayer.diagnose.explain.explain",
    "finding_lines": "replayer.desync.rng_draws",
    "guarded": "replayer.diagnose.write_contracts.write_guard",
    "ledger": "replayer.timeline.draw_ledger",
}

__getattr__, __dir__ = names_for_later(__name__, _LATER, __all__)
