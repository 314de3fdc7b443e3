"""Record what was not written for us in one line: the adapter for it is found, and says first what it captures."""

from __future__ import annotations

import os
import sys
from typing import Any, Unpack

from recorder.recording_options import OptionArguments, takes_options
from recorder.session.recorder import Recorder
from sim.adapters.find_adapter import adapt, adapter_of
from sim.adapters.plain_object.adapter import Fields
from sim.kernel.exactness import Level
from sim.kernel.hooks import CanRehearse, hook

# A program records its own simulation here, often by hand: it is to cost the steps little, and to survive a kill mostly.
DEFAULTS: OptionArguments = {"durability": "block", "blame": "none"}


@takes_options(DEFAULTS)
def record(
    subject: Any,
    path: str | os.PathLike[str],
    what: Fields | None = None,
    *,
    level: Level | str | None = None,
    trust: bool = False,
    ignore: tuple[str, ...] | list[str] = (),
    quiet: bool = False,
    **options: Unpack[OptionArguments],
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
    rehearsing = hook(simulation, CanRehearse)
    if rehearsing is not None:
        rehearsing.rehearse()  # What comes up only after some steps is told before anything is written.
    arguments: OptionArguments = {**DEFAULTS, **options}
    tape = Recorder(path, simulation, **arguments)
    if not quiet:
        print(f"recording {os.fspath(path)}: {simulation.report().line()}", file=sys.stderr)
    return adapter_of(subject, what).door(simulation, tape)
