"""Options of the subcommands of record, with their help."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from recorder.console.argument_types import LocalPath, Positive

Quiet = Annotated[bool, Parameter(name=["--quiet", "-q"], negative="")]
KeyframeInterval = Annotated[
    Positive, Parameter(help="Ticks from one keyframe to the next: the most that a seek re-simulates.")
]
FullEvery = Annotated[Positive, Parameter(help="Every N-th keyframe is full, the others are deltas.")]
Players = Annotated[
    list[str] | None,
    Parameter(
        name="--player",
        negative="",
        help="PLAYER=POLICY: let a policy (idle, random, greedy) play one of the scenario's players; may be repeated.",
    ),
]
Realtime = Annotated[
    float | None,
    Parameter(validator=Number(gt=0), help="Ticks per second; by default as fast as possible."),
]
Live = Annotated[
    bool,
    Parameter(
        negative="",
        help="Open a page in the browser that follows the run, as replay view --live does. It stays open when the run "
        "has ended, until Ctrl-C. The recording never waits for it.",
    ),
]
Writes = Annotated[
    bool,
    Parameter(
        negative="",
        help="Note at each keyframe which rows were written since the last one: replay who skips intervals by it.",
    ),
]
Durability = Annotated[
    Literal["tick", "block", "none"],
    Parameter(
        help="What a killed process may lose: tick (nothing), block (up to a second) or none (all unwritten data)."
    ),
]
Sync = Annotated[
    str | None,
    Parameter(
        help="When to force data to the disk: an interval (1s, 200ms, 5m; up to a day), block (after each block), or "
        "never. Default: 1s."
    ),
]
Keep = Annotated[
    str | None,
    Parameter(
        help="Keep only the last part of the run, as a flight recorder does: a number of ticks, or a time such as "
        "500ms, 60s, 5m or 1h."
    ),
]
Split = Annotated[
    str | None,
    Parameter(
        help="Begin a new file at the first keyframe after this size, such as 500MB. TAPE, TAPE.1, TAPE.2 are read as "
        "one tape. Units: kB, MB, GB, TB (1000) and KiB, MiB, GiB, TiB (1024), in upper or lower case. Each file "
        "costs a full keyframe, so small files cost most."
    ),
]
Shards = Annotated[
    Positive | None,
    Parameter(
        help="Run the world in this many shards, each a process that owns a stripe of its rows. The tape is that of one "
        "process. For worlds that declare how they are divided, such as meadow; on one machine it is seldom faster. See --engine."
    ),
]
Deterministic = Annotated[
    bool,
    Parameter(
        negative="",
        help="Equal runs give equal bytes: the tape holds no time and no environment. The run waits for a slow disk. "
        "Frames are written only when their block (64 KiB) is full, or at a keyframe: a power cut loses more, and so "
        "does a kill with --durability block.",
    ),
]
SeekBudgetOption = Annotated[
    float | None,
    Parameter(
        help="Milliseconds that a seek may take. The measured cost of steps then decides when a keyframe is due, not "
        "--keyframe-interval."
    ),
]
Changes = Annotated[
    Literal["auto", "marks", "scan", "pages", "audit"],
    Parameter(
        help="How to find what changed: marks (set by the simulation), scan (compare all), pages (memory pages that "
        "the kernel saw written) or audit (marks and scan; fails if they disagree; captured objects again at each "
        "tick). auto: marks if the simulation sets them, else pages for large states, else scan."
    ),
]
BlameOption = Annotated[
    Literal["auto", "fields", "phases", "none"],
    Parameter(
        help="Extra hashes per frame that locate a desync: fields (16 bits of each field's hash), phases (also 16 bits "
        "of the state's hash after each phase) or none. auto: fields, for states up to 1 MiB."
    ),
]
OnErrorOption = Annotated[
    Literal["continue", "raise"],
    Parameter(
        help="When the disk fails: continue (record in memory, retry the disk, note what is lost) or raise an error."
    ),
]
RunMode = Annotated[
    Literal["events", "changes", "auto"],
    Parameter(
        help="What is recorded: events (inputs and hashes; a seek re-simulates from a keyframe) or changes (also what "
        "each tick changes; a seek runs no step). auto: run one second without recording, then choose, and print the "
        "choice."
    ),
]
HashesOption = Annotated[
    Literal["auto", "states", "changes"],
    Parameter(
        help="What each frame hashes: states (the complete state) or changes (only what changed: much faster, but "
        "needs --mode changes and a simulation that marks its writes). auto: changes from 1 MiB of state on."
    ),
]
Events = Annotated[
    bool | None,
    Parameter(
        name="--events",
        negative="--no-events",
        help="Record the events of each tick, such as births and deaths. Default: on if the scenario has a [scenario] "
        "table, off for the world meadow alone. replay export --events rebuilds them from any tape.",
    ),
]
Inputs = Annotated[
    LocalPath | None,
    Parameter(
        name="--inputs",
        help='A file of additional inputs, one line of JSON for each tick with inputs: {"tick": 5, "inputs": [...]}.',
    ),
]
Sim = Annotated[
    str | None,
    Parameter(
        name="--sim",
        help="module:factory of your simulation, if no registered world is named. It must run without inputs, or with "
        "those of --inputs. If your program feeds it, record it in that program instead.",
    ),
]
From = Annotated[
    LocalPath | None,
    Parameter(
        name="--from",
        help="Start from a checkpoint of this scenario, or from a save game (replay cut --tick). The tape begins there; "
        "the players are those of the run that wrote it.",
    ),
]
