"""The first paragraph of the help of each command, so that the help of the program imports none of them."""

from __future__ import annotations

SUMMARIES = {
    "run": "Run a scenario and record it.",
    "resume": "Continue a recording after a crash, a kill or a power cut, or beyond its last tick.",
    "batch": "Run each scenario with each seed, in parallel. Each run gets a tape and a line in the manifest.",
    "sweep": "Run a scenario with every combination of the given parameter values.",
    "generate": "Record a corpus of tapes, one run for each scenario, seed and combination of policies.",
    "upload": "Upload a tape to a URL; if it is being recorded, each file as soon as it is finished.",
    "scenarios": "List the bundled scenarios, each with its description.",
    "checkpoints": "List the checkpoints of runs, the last written first.",
    "completion": "Print a script with which the tab key completes the commands and options of record.",
}
