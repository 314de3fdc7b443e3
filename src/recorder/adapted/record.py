"""Record what was not written for us in one line: the adapter for it is found, and says first what it captures."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from recorder.session.recorder import KEYFRAME_INTERVAL_TICKS, Recorder
from recorder.settings import Blame, Durability
from sim.adapters.find_adapter import adapt, adapter_of
from sim.adapters.plain_object.adapter import Fields
from sim.kernel.exactness import Level


def record(
    subject: Any,
    path: str | os.PathLike[str],
    what: Fields | None = None,
    *,
    level: Level | str | None = None,
    trust: bool = False,
    ignore: tuple[str, ...] | list[str] = (),
    quiet: bool = False,
    keyframe_interval_ticks: int = KEYFRAME_INTERVAL_TICKS,
    durability: Durability = "block",
    keep: int | str | None = None,
    split: int | str | None = None,
    blame: Blame = "none",
    notes: Mapping[str, Any] | None = None,
) -> Any:
    """Record a foreign simulation from now on; go on with what is returned, and close it to seal the tape.

    subject: a Gymnasium environment or what another installed adapter is for; with fields(...) as what, any object with
    a step. What is captured and what is not is the first line that is printed, to stderr; quiet prints none.
    level: "exact", "canonical" or "inputs_only", where the adapter gives a choice; by default the best that it can give.
    trust: save by pickle what cannot be saved otherwise. ignore: attributes that are known not to matter to any step.
    The rest is as for Recorder; durability "block": a kill costs up to a second of steps, "tick" none, at a microsecond
    or two a step. blame "fields" tells of a desync in which fields it is without re-simulating, at a few more.

    Raises NoAdapterError if no adapter is for it, NotCapturedError if it holds what cannot be saved (nothing is written
    then), and what Recorder raises.
    """
    simulation = adapt(subject, what, level=level, trust=trust, ignore=ignore)
    rehearse = getattr(simulation, "rehearse", None)
    if rehearse is not None:
        rehearse()  # What comes up only after some steps is told before anything is written.
    tape = Recorder(
        path,
        simulation,
        keyframe_interval_ticks=keyframe_interval_ticks,
        durability=durability,
        keep=keep,
        split=split,
        blame=blame,
        notes=notes,
    )
    if not quiet:
        print(f"recording {os.fspath(path)}: {simulation.report().line()}", file=sys.stderr)
    return adapter_of(subject, what).door(simulation, tape)
