"""The task of an extraction: everything that its workers share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs

from replayer.datasets.plan import OUTCOMES, TapeInput
from replayer.datasets.request import RECORDS, Request
from replayer.datasets.rows.columns import AGENT
from replayer.datasets.rows.states import RUN, Vocabulary
from replayer.datasets.transitions.transition import EnvironmentFacts
from replayer.datasets.transitions.transition_rows import ACTIONS, TRANSITIONS, TransitionColumns
from replayer.playback.make_simulation import Factory


@attrs.frozen
class Task:
    """Everything that the workers of an extraction share.

    Attributes:
        sources: the tapes. request: with its defaults filled in. tables: to make.
        agents: of each source. encodings: of actions in pairs.
        factory: of the user's simulation; None for registered worlds.
        environments: of each source, for the table of transitions; empty without it. columns: of this table.
        has_agent_actions: True if the table of actions is made by the methods of the user's simulation, see
            agent_methods: it then has the columns of the transitions.
        fps: frames per second, for LeRobot; None if the user gave none.
        format: of the files, see arrow_files.py. folder: of the files.
    """

    sources: Sequence[TapeInput]
    request: Request
    tables: tuple[str, ...]
    agents: Sequence[tuple[str, ...]]
    encodings: tuple[str, ...]
    factory: Factory | None
    format: str
    folder: Path
    environments: Sequence[EnvironmentFacts] = ()
    columns: TransitionColumns | None = None
    has_agent_actions: bool = False
    fps: float | None = None

    @property
    def record_tables(self) -> tuple[str, ...]:
        """The tables, of those requested, whose columns are known only when all rows are known."""
        typed = (ACTIONS,) if self.has_agent_actions else ()
        return tuple(table for table in RECORDS if table in self.tables and table not in typed)

    @property
    def settled_tables(self) -> tuple[str, ...]:
        """The tables, of those requested, whose columns are settled before the first row."""
        typed = (TRANSITIONS, ACTIONS) if self.has_agent_actions else (TRANSITIONS,)
        return tuple(table for table in typed if table in self.tables)

    def labels(self) -> Vocabulary:
        """Return all texts of the columns that hold texts."""
        reasons = dict.fromkeys(["", *(source.reason for source in self.sources)])
        agents = dict.fromkeys(agent for own in self.agents for agent in own)
        runs = dict.fromkeys(source.run for source in self.sources)
        return {RUN: tuple(runs), AGENT: tuple(agents), "reason": tuple(reasons), "outcome": OUTCOMES}
