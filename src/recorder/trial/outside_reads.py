"""Note what the first steps read of the outside world: files, variables, clocks and the like, in a copy."""

from __future__ import annotations

import time
from functools import partial

from recorder.ambient.outside.outside_note import NotedReads
from recorder.ambient.outside.own_code import OwnCode
from recorder.ambient.outside.read_watch import ReadWatch
from recorder.processes.isolated_fork import Send, run_isolated
from recorder.trial.trajectory import Trajectory
from sim.kernel.plain_data import decode_plain
from sim.kernel.simulation import Simulation

STEPS = 3
TIME_SHARE = 0.1  # Of the time left that watching may take, by what the steps took unwatched.


def note_reads(simulation: Simulation, run: Trajectory, left_s: float) -> NotedReads | None:
    """Repeat the first steps of a run from the present state and note what they read; None if none could be made.

    A step that raises ends it: what was read until then is noted.
    """
    affordable = int(TIME_SHARE * left_s * run.ticks / run.seconds) if run.seconds else STEPS
    steps = min(STEPS, run.ticks, affordable)
    if not steps:
        return None

    def work(send: Send, *, functions: bool) -> None:
        watch = ReadWatch(OwnCode(simulation))
        done = 0
        try:
            with watch.watching(functions=functions):
                for inputs in run.inputs[:steps]:
                    simulation.step(decode_plain(inputs))
                    done += 1
        finally:
            send(NotedReads(done, tuple(watch.reads)))

    end_s = time.monotonic() + left_s
    messages = run_isolated(partial(work, functions=True), left_s).messages
    if messages and messages[0].steps < steps and time.monotonic() < end_s:
        # A step raised. Replaced functions may stop code from being compiled: without them it may not.
        again = run_isolated(partial(work, functions=False), end_s - time.monotonic()).messages
        messages = max(messages, again, key=lambda sent: sent[0].steps if sent else -1)
    return messages[0] if messages and messages[0].steps else None
