"""Group the rows of transitions by episode, for formats whose episodes are written as a whole.

Invariant: an episode has all of its steps between the first and the last one, or ExtractionError names what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from replayer.datasets.plan import TapeInput
from replayer.datasets.request import ExtractionError
from replayer.datasets.rows.columns import AGENT, Array
from replayer.datasets.rows.states import RUN, TICK
from replayer.datasets.table import DatasetTable, values_of
from replayer.datasets.transitions.transition_rows import ENDS, ENV, ENVIRONMENT, EPISODE, OPTIONS, SEED, STEP

Columns = dict[str, Array]


@attrs.define(eq=False)
class EpisodeRows:
    """The rows of one episode, in pieces.

    Attributes:
        library: the reader of the format, for messages.
        run, env, agent, episode: of all its rows; env is -1 without a vector. pieces: of the columns.
    """

    library: str
    run: str
    env: int
    agent: str
    episode: int
    pieces: list[Columns] = attrs.field(factory=list)

    def __len__(self) -> int:
        return sum(len(piece[TICK]) for piece in self.pieces)

    def column(self, name: str) -> Array:
        """A column of all rows. Raises ExtractionError if a value of it is missing."""
        values: Any = np.ma.concatenate([piece[name] for piece in self.pieces])  # type: ignore[no-untyped-call]
        if np.ma.getmaskarray(values).any():
            raise ExtractionError(
                f"{self.name}: {name} is missing in some steps, and an episode of {self.library} must not have gaps: "
                "leave it out (--field with the names of others), or use parquet"
            )
        return np.asarray(values.data)

    def texts(self, name: str) -> list[str]:
        """A column of texts of all rows."""
        return [text for piece in self.pieces for text in piece[name].tolist()]

    def ensure_complete(self) -> None:
        """Raise ExtractionError if a step is missing."""
        steps = self.column(STEP)
        jumps = np.flatnonzero(np.diff(steps) != 1)
        if len(jumps):
            raise ExtractionError(
                f"{self.name}: the steps after {int(steps[jumps[0]])} are missing, and an episode of {self.library} must "
                "not have gaps: give --ticks without them, or use parquet"
            )

    @property
    def seed(self) -> int | None:
        """The seed of the reset that began the episode; None without a seed."""
        first = self.pieces[0][SEED][0]
        return None if np.ma.is_masked(first) else int(first)

    @property
    def has_first_step(self) -> bool:
        """True if the first row is the first step after the reset."""
        return not self.pieces[0][STEP][0]

    @property
    def options(self) -> str | None:
        """The options of the reset as JSON text; None without options."""
        texts = self.pieces[0].get(OPTIONS)
        return None if texts is None or texts[0] is None else str(texts[0])

    @property
    def told(self) -> dict[str, str]:
        """The environment, where a data set has several."""
        labels = self.pieces[0].get(ENVIRONMENT)
        return {} if labels is None else {ENVIRONMENT: str(labels[0])}

    @property
    def end(self) -> str:
        """How the last row ends: terminated, truncated, or cut, which is neither."""
        flags = [bool(self.column(name)[-1]) for name in ENDS]
        return "terminated" if flags[0] else "truncated" if flags[1] else "cut"

    @property
    def name(self) -> str:
        """The name of the episode in messages."""
        return f"episode {self.episode}{f' of {self.agent}' if self.agent else ''}"


def episodes_of(table: DatasetTable, library: str) -> Iterator[EpisodeRows]:
    """Yield the episodes in the order in which they end. Only those that have not ended are in memory."""
    running: dict[tuple[str, int, str], EpisodeRows] = {}
    for batch in table:
        columns = {name: values_of(batch, name, shape) for name, shape in table.shapes.items()}
        own: Columns = {name: values for name, values in columns.items() if isinstance(values, np.ndarray)}
        runs, agents, numbers = own[RUN].tolist(), own[AGENT].tolist(), own[EPISODE].tolist()
        envs = np.ma.filled(own[ENV], -1).tolist() if ENV in own else [-1] * len(runs)
        rows: dict[tuple[str, int, str, int], list[int]] = {}
        for row, key in enumerate(zip(runs, envs, agents, numbers, strict=True)):
            rows.setdefault(key, []).append(row)
        for (run, env, agent, number), indices in rows.items():
            for ended in [key for key in running if key[0] != run]:  # The rows of a run are all together.
                yield running.pop(ended)
            before = running.get((run, env, agent))
            if before is not None and before.episode != number:
                yield running.pop((run, env, agent))
            episode = running.setdefault((run, env, agent), EpisodeRows(library, run, env, agent, number))
            episode.pieces.append({name: values[indices] for name, values in own.items()})
    yield from running.values()


def about_origin(episode: EpisodeRows, sources: Mapping[str, TapeInput]) -> dict[str, Any]:
    """Where an episode comes from, and how it ended: run, tape, agent, episode, end, env in a vector, and environment."""
    own = {
        "run": episode.run,
        "tape": sources[episode.run].path.name,
        "agent": episode.agent,
        "episode": episode.episode,
        "end": episode.end,
    }
    return own | ({} if episode.env < 0 else {"env": episode.env}) | episode.told
