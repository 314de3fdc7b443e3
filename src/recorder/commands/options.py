"""Options that subcommands of record have, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

Quiet = Annotated[bool, Parameter(name=["--quiet", "-q"], negative="")]
Durability = Annotated[
    Literal["tick", "block", "none"],
    Parameter(
        help="What a killed process may cost: tick (nothing), block (up to a second), none (whatever was not written)."
    ),
]
Sync = Annotated[
    str | None,
    Parameter(
        help="When to force data to the disk: a time such as 1s, 200ms or 5m, up to a day; block, after each block; "
        "or never. 1s by default."
    ),
]
Keep = Annotated[
    str | None,
    Parameter(
        help="Keep only the last so many ticks, or a time such as 500ms, 60s, 5m or 1h: a flight recorder's loop."
    ),
]
Split = Annotated[
    str | None,
    Parameter(
        help="Begin a new file, at the next keyframe, after so many bytes, such as 500MB: TAPE, TAPE.1, TAPE.2, read "
        "as one. Units: kB, MB, GB, TB (1000) and KiB, MiB, GiB, TiB (1024), in upper or lower case. Each file costs a "
        "full keyframe, so that small ones cost most."
    ),
]
Deterministic = Annotated[
    bool,
    Parameter(
        negative="",
        help="Equal runs give equal bytes: no clock and no environment on the tape. It costs waiting for a slow disk; "
        "and as frames go to the file only when their block (64 KiB) is full, or at a keyframe, a power cut, and a kill "
        "with --durability block, lose more than they would else.",
    ),
]
SeekBudgetOption = Annotated[
    float | None,
    Parameter(
        help="Milliseconds that a seek may take: keyframes come as far apart as the measured cost of steps allows, and not "
        "every --keyframe-interval ticks."
    ),
]
Changes = Annotated[
    Literal["auto", "marks", "scan", "pages", "audit"],
    Parameter(
        help="How deltas know what changed: marks, scan, pages (of memory, that the kernel saw written), or audit (marks and a "
        "scan, failing where they disagree); auto is marks where there are, else pages for large states, else a scan."
    ),
]
BlameOption = Annotated[
    Literal["auto", "fields", "phases", "none"],
    Parameter(
        help="What frames say for the case that a replay parts from them: 16 bits of each field's hash, and of the state "
        "after each phase; auto is fields, up to 1 MiB of state."
    ),
]
OnErrorOption = Annotated[
    Literal["continue", "raise"],
    Parameter(help="When the disk refuses: continue (in memory, trying again, noting what is lost) or raise."),
]
RunMode = Annotated[
    Literal["events", "changes", "auto"],
    Parameter(
        help="events (inputs and hashes: a seek re-simulates from a keyframe), changes (also what each tick changes: a "
        "seek runs no step), or auto: a second is run beforehand, unrecorded, and what suits it is chosen and said."
    ),
]
HashesOption = Annotated[
    Literal["auto", "states", "changes"],
    Parameter(
        help="What each frame has: the hash of the state, or, with --mode changes and a simulation that marks what it "
        "writes, of what changed, which takes a fraction of the time; auto is the latter from 1 MiB of state on."
    ),
]
Events = Annotated[
    bool | None,
    Parameter(
        name="--events",
        negative="--no-events",
        help="Record what happens in each tick, such as births and deaths. By default for a scenario with a table "
        "[scenario], and not for the world meadow alone: replay export --events makes them again from any tape.",
    ),
]
Inputs = Annotated[
    Path | None,
    Parameter(
        name="--inputs",
        help='A file of further inputs, a line of JSON for each tick that has some: {"tick": 5, "inputs": [...]}.',
    ),
]
Sim = Annotated[
    str | None,
    Parameter(
        name="--sim",
        help="module:factory of the simulation, where no registered world is named. It must need no inputs but "
        "those of a file: one that is fed by a program of yours is recorded in that program.",
    ),
]
From = Annotated[
    Path | None,
    Parameter(
        name="--from",
        help="A checkpoint of this scenario to go on from: the tape begins there, and the players are those of the run "
        "that has left it.",
    ),
]
