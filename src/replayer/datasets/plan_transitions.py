"""Plan the table of transitions: examine the environments, cut the tapes where episodes allow it, settle the columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import attrs

from recorder.processes.pool import Pool
from replayer.datasets.plan import DatasetPart, TapeInput, make_parts
from replayer.datasets.request import ExtractionError, ExtractionWarning, Request
from replayer.datasets.task import Task
from replayer.datasets.transitions.agent_methods import OF_TRANSITIONS
from replayer.datasets.transitions.column_forms import forms_from_plain, forms_to_plain
from replayer.datasets.transitions.settle_columns import (
    Examined,
    Seen,
    columns_of_all_steps,
    examine_tapes,
    needs_all_steps,
    settle,
)
from replayer.datasets.transitions.transition import EnvironmentFacts
from replayer.datasets.transitions.transition_rows import ENVIRONMENT, TRANSITIONS, TransitionColumns
from replayer.tape.tape import Tape
from replayer.value_text import to_json
from sim.user_warning import warn_user

LABELS_SHOWN = 3
_TOLD_BY = {"lerobot": "the task of an episode", "minari": f"the attribute {ENVIRONMENT} of an episode"}
SEEDS_LISTED = 10  # In the manifest. The column seed has all of them.


def ensure_transitions(sources: Sequence[TapeInput], request: Request, methods: AbstractSet[str] = frozenset()) -> None:
    """Raise ExtractionError if the request cannot be met with transitions of these tapes.

    methods: the names of those of the user's simulation, see agent_methods.
    """
    other = next((source for source in sources if not source.environment), None)
    lacking = [name for name in OF_TRANSITIONS if name not in methods]
    if other is not None and methods and lacking:
        raise ExtractionError(
            f"{other.name}: transitions of your own simulation need its methods {', '.join(OF_TRANSITIONS)}, and it has no "
            f"{' and no '.join(lacking)}: add it, give it as a function, or choose other tables with --table (states, "
            "pairs, actions, events)"
        )
    if other is not None and not methods:
        raise ExtractionError(
            f"{other.name} is not the tape of a Gymnasium or PettingZoo environment, so it has no transitions: choose "
            "its tables with --table (states, pairs, actions, events)"
            + ("" if other.world else f"; your own simulation has them with methods {', '.join(OF_TRANSITIONS)}")
        )
    if request.stride != 1:
        raise ExtractionError(
            f"stride: a transition is one step, got {request.stride}: leave --stride out, or use the table states"
        )


def different_environments(task: Task) -> str | None:
    """A sentence that names the environments of the tapes, if there are several; else None."""
    labels = list(dict.fromkeys(facts.label for facts in task.environments))
    if len(labels) < 2:
        return None
    shown = ", ".join(labels[:LABELS_SHOWN]) + (", ..." if len(labels) > LABELS_SHOWN else "")
    return f"the tapes are of {len(labels)} different environments ({shown})"


@attrs.frozen(eq=False)
class TransitionPlan:
    """The parts of an extraction of transitions, and its task with the columns settled.

    Attributes:
        task: with environments and columns. parts: of the tapes. examined: the tapes.
        has_environment: True if the rows, with those that they are added to, are of several environments.
        of_all_steps: True if the columns are known from all steps.
    """

    task: Task
    parts: Sequence[DatasetPart]
    examined: Sequence[Examined]
    has_environment: bool = False
    of_all_steps: bool = False

    def with_all_steps(self, pool: Pool) -> TransitionPlan:
        """Replay all steps once to settle the columns. Raises ExtractionError."""
        task = self.task
        scans = columns_of_all_steps(task.sources, self.parts, task.request, self.examined, task.factory, pool)
        return attrs.evolve(self._settled(scans), of_all_steps=True)

    def _settled(self, scans: Iterable[Seen] = ()) -> TransitionPlan:
        """Settle the columns. scans: of all steps; may be empty. Raises ExtractionError."""
        task = self.task
        columns = settle(task.sources, self.examined, scans, task.request)
        columns = attrs.evolve(columns, has_environment=self.has_environment)
        return attrs.evolve(self, task=attrs.evolve(task, columns=columns))

    def with_columns(self, plain: Mapping[str, Any]) -> TransitionPlan:
        """Return the plan with the columns that an extraction of the same tapes has begun with."""
        task = attrs.evolve(self.task, columns=columns_from_plain(plain["columns"]))
        return attrs.evolve(self, task=task, of_all_steps=plain["of_all_steps"])

    def environments(self) -> list[dict[str, Any]]:
        """The environments for the manifest."""
        return [
            {
                "tape": source.name,
                "name": facts.name,
                ENVIRONMENT: facts.label,
                "kind": facts.kind,
                **_episodes_of(facts),
                "spaces": _strict(to_json(facts.spaces)),
                "env_spec": facts.env_spec,
            }
            for source, facts in zip(self.task.sources, self.task.environments, strict=True)
        ]

    def noted(self, file_format: str = "") -> list[str]:
        """Warn if the rows are of several environments; return it as notes. file_format: of the data set."""
        text = different_environments(self.task)
        if text is None:
            return []
        place = _TOLD_BY.get(file_format, f"the column {ENVIRONMENT}")
        warning = f"{text}: {place} tells them apart"
        warn_user(warning, ExtractionWarning)
        return [f"warning: {warning}"]

    def plain(self) -> dict[str, Any]:
        """The columns as JSON objects."""
        assert self.task.columns is not None
        return {"columns": columns_to_plain(self.task.columns), "of_all_steps": self.of_all_steps}


def plan_transitions(
    task: Task,
    pool: Pool,
    stored: Mapping[str, Any] | None,
    part_ticks: int | None = None,
    onto: Mapping[str, Any] | None = None,
) -> TransitionPlan:
    """Plan a task that has the table of transitions.

    stored: the columns of an extraction that was begun, see TransitionPlan.plain. onto: the manifest of a data set that the
    rows will be added to. Raises ExtractionError, and as making
    the environments does.
    """
    examined = examine_tapes(task.sources, task.request, task.factory, pool)
    _ensure_agents(examined, task.request)
    environments = [one.facts for one in examined]
    task = attrs.evolve(task, environments=environments)
    parts = make_parts(task.sources, task.request, part_ticks, lambda number, tape: _starts(environments[number], tape))
    plan = TransitionPlan(task, parts, examined, _has_environment(environments, onto or {}))
    if stored is not None:
        return plan.with_columns(stored)
    if needs_all_steps(examined, task.request):
        return plan.with_all_steps(pool)
    return plan._settled()  # noqa: SLF001 - of the same module


def _has_environment(environments: Sequence[EnvironmentFacts], onto: Mapping[str, Any]) -> bool:
    """Return True if the rows need the name of their environment. onto: the manifest of the data set that they join."""
    if ENVIRONMENT in onto.get("tables", {}).get(TRANSITIONS, {}).get("columns", {}):
        return True
    labels = {facts.label for facts in environments}
    return len(labels | labels_of(onto)) > 1


def labels_of(manifest: Mapping[str, Any]) -> set[str]:
    """The labels of the environments in a manifest. Those of older versions have none."""
    return {one[ENVIRONMENT] for one in manifest.get("environments", ()) if ENVIRONMENT in one}


def _episodes_of(facts: EnvironmentFacts) -> dict[str, Any]:
    """The number of episodes on the tape, and of the seeds given to their resets, with the first few of these."""
    seeds = list(dict.fromkeys(episode.seed for episode in facts.episodes if episode.seed is not None))
    return {"episodes": len(facts.episodes), "seeds": {"count": len(seeds), "first": seeds[:SEEDS_LISTED]}}


def _strict(value: Any) -> Any:
    """A JSON value with the limits of unbounded spaces as texts, since JSON has no such numbers."""
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(_strict, value))
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _starts(facts: EnvironmentFacts, tape: Tape) -> list[int]:
    """The ticks at which a part may begin without replaying much of what comes before."""
    if facts.kind == "vector":
        return []
    if facts.kind == "turns":
        return [episode.first_tick for episode in facts.episodes]
    return [keyframe.tick for keyframe in tape.keyframes]


def _ensure_agents(examined: Sequence[Examined], request: Request) -> None:
    if any(one.facts.kind == "agents" for one in examined) and (request.info or request.mode != "all"):
        option = "info" if request.info else "mode"
        raise ExtractionError(
            f"{option}: your own simulation has no infos, and who won is not known of it: leave --{option} out, or choose "
            "the table pairs"
        )
    known = dict.fromkeys(agent for one in examined for agent in one.facts.agents if agent)
    unknown = next((agent for agent in request.agents or () if agent not in known), None)
    if unknown is None:
        return
    if not any(one.facts.kind in ("parallel", "turns", "agents") for one in examined):
        raise ExtractionError(f"there is no agent {unknown}: the environments have no agents")
    if known:  # An environment need not tell its agents.
        raise ExtractionError(f"there is no agent {unknown}; agents: {', '.join(known)}")


def columns_to_plain(columns: TransitionColumns) -> dict[str, Any]:
    """Columns as JSON objects."""
    return {
        "forms": forms_to_plain(columns.forms),
        "left_out": sorted(columns.left_out),
        "has_environment": columns.has_environment,
        "has_env": columns.has_env,
        "has_options": columns.has_options,
        "seed_dtype": columns.seed_dtype,
    }


def columns_from_plain(plain: Mapping[str, Any]) -> TransitionColumns:
    """Columns from JSON objects."""
    return TransitionColumns(
        forms_from_plain(plain["forms"]),
        frozenset(plain["left_out"]),
        has_environment=plain["has_environment"],
        has_env=plain["has_env"],
        has_options=plain["has_options"],
        seed_dtype=plain["seed_dtype"],
    )
