"""Record any supported simulation in one line: find its adapter and print what is captured."""

from __future__ import annotations

import os
import sys
from typing import Any, Unpack

from recorder.adapted.first_trial import try_first
from recorder.recording_options import OptionArguments, takes_options
from recorder.session.recorder import Recorder
from sim.adapters.find_adapter import adapt, adapter_of
from sim.adapters.plain_object.adapter import Fields
from sim.kernel.exactness import Level
from sim.kernel.hooks import CanRehearse, hook

# For programs that record their own simulation, often by hand: little cost per step, and little lost to a kill.
DEFAULTS: OptionArguments = {"durability": "block", "blame": "none", "trial_ms": 200.0}


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
    """Record your simulation from now on. Use the returned object in its place; close it to seal the tape.

    subject: a Gymnasium environment or another object that an installed adapter supports. With fields(...) as what: any
    object with a step. quiet: do not print the line on stderr that lists what is captured and what is not.
    level: "exact", "canonical" or "inputs_only", where the adapter offers a choice; by default the best available.
    trust: pickle what cannot be saved in another way. ignore: attributes that are known not to affect any step.
    The other options are those of Recorder. With durability "block" a kill loses up to a second of steps. "tick" loses
    none and costs a microsecond or two a step. blame "fields" names the fields of a desync without re-simulating; it
    costs a few microseconds more.

    Raises NoAdapterError if no adapter supports it, NotCapturedError if it holds something that cannot be saved
    (nothing is written then), and what Recorder raises.
    """
    simulation = adapt(subject, what, level=level, trust=trust, ignore=ignore)
    rehearsing = hook(simulation, CanRehearse)
    if rehearsing is not None:
        rehearsing.rehearse()  # Reports problems that appear only after some steps before anything is written.
    arguments: OptionArguments = {**DEFAULTS, **options}
    try_first(simulation, adapter_of(subject, what), arguments, quiet=quiet)
    arguments["trial_ms"] = 0.0  # Tried already.
    tape = Recorder(path, simulation, **arguments)
    if not quiet:
        print(f"recording {os.fspath(path)}: {simulation.report().line()}", file=sys.stderr)
    return adapter_of(subject, what).door(simulation, tape)
