"""Settle the columns of the table of transitions before its first row, so that all of its files have the same.

The spaces tell which columns there are; the first steps of each tape tell what the environment returns in fact. Where
the spaces are unknown, and for infos, all steps are replayed once for it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import numpy as np

from recorder.errors import MissingTickError, SimulationFailedError
from recorder.processes.pool import Pool, Report, results_in_order
from replayer.datasets.plan import ENVIRONMENT_TAPES, TAPES_TOGETHER, DatasetPart, TapeInput, open_source, ranges_of
from replayer.datasets.request import ExtractionError, Request
from replayer.datasets.transitions.agent_stream import facts_of_agents
from replayer.datasets.transitions.column_forms import ColumnForm, form_of, forms_of_space, merged
from replayer.datasets.transitions.environment_label import environment_label
from replayer.datasets.transitions.flat_values import joined
from replayer.datasets.transitions.made_environment import open_environment
from replayer.datasets.transitions.transition import EnvironmentFacts, StreamKind
from replayer.datasets.transitions.transition_rows import (
    ABOUT,
    DONE,
    OBSERVED,
    THEN,
    WORTH,
    TransitionColumns,
    values_of_transition,
)
from replayer.datasets.transitions.transitions_of_part import transitions_of_part
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory
from replayer.tape.environment_calls import adapter_name, described_environment
from replayer.tape.episodes import find_calls
from replayer.tape.tape import Tape
from sim.adapters.interface.adapter_registry import NoAdapterError, adapter_named
from sim.kernel.simulation import Simulation, inner_of
from sim.near_names import did_you_mean

FIRST_TICKS = 100  # Replayed to see what the environment returns.
_INT64_MAX = (1 << 63) - 1


@attrs.frozen
class SeenForm:
    """The form of a column's values, and the first place where it was seen.

    Attributes:
        tape: its name. agent: "" if there are none.
    """

    form: ColumnForm
    tape: str
    agent: str


Seen = dict[str, SeenForm]  # By column.


@attrs.frozen
class Examined:
    """A tape of an environment, examined.

    Attributes:
        facts: about the environment. seen: the columns of the first steps.
        seed_max: the largest seed of a reset. has_options: True if a reset has options.
    """

    facts: EnvironmentFacts
    seen: Seen
    seed_max: int
    has_options: bool


def examine_tapes(
    sources: Sequence[TapeInput], request: Request, factory: Factory | None, pool: Pool
) -> list[Examined]:
    """Examine the environments of tapes. Raises ExtractionError, and as making their simulations does."""
    for name in {source.environment for source in sources} - {""}:
        with contextlib.suppress(NoAdapterError):  # Where it is needed, it is reported.
            adapter_named(name)  # Imported once here, not in each worker.
    work = partial(_examined_together, request=request, factory=factory)
    together = ENVIRONMENT_TAPES if sources[0].environment else TAPES_TOGETHER
    batches = [sources[start : start + together] for start in range(0, len(sources), together)]
    results = results_in_order(pool, work, batches, name=lambda batch: f"examined {batch[0].name}")
    return [examined for together in results for examined in together]


def _examined_together(
    sources: Sequence[TapeInput], _: Report, *, request: Request, factory: Factory | None
) -> list[Examined]:
    """Examine tapes one after the other. Of those of one environment, the first one with a step is replayed."""
    known: dict[bytes, EnvironmentFacts] = {}
    return [_examined(source, request, factory, known) for source in sources]


def _examined(
    source: TapeInput, request: Request, factory: Factory | None, known: dict[bytes, EnvironmentFacts]
) -> Examined:
    """known: environments that were replayed, by their descriptions on the tapes; a new one is added."""
    with open_source(source) as tape:
        description = described_environment(tape) if source.environment else b""
        if description in known:
            return _with_seen(_with_calls(known[description], tape), {})
        with open_environment(tape, factory) as simulation:
            if source.environment:
                facts = _with_calls(_facts_of(tape, simulation), tape)
            else:
                facts = facts_of_agents(tape, simulation)
            first, last = ranges_of(source, request)[0]
            if factory is not None and source.environment:
                _ensure_takes_states(source, tape, simulation, first)
            last = min(last, first + FIRST_TICKS)
            part = DatasetPart(0, 0, range(first, last + 1), None, first, last)
            seen = _columns_of_part(part, source, request, facts, tape, simulation, factory)
        if seen and source.environment:
            known[description] = facts
        return _with_seen(facts, seen)


def _ensure_takes_states(source: TapeInput, tape: Tape, simulation: Simulation, tick: int) -> None:
    """Raise ExtractionError if no state can be loaded into an environment of the user, such as one with other wrappers."""
    try:
        Cursor(tape, simulation).place_before(tick)
    except SimulationFailedError as error:
        raise ExtractionError(
            f"{source.name}: the environment does not take the states of the tape: {error}"
        ) from error
    except MissingTickError:
        return  # What is damaged is reported with the samples that are missing.


def _with_calls(facts: EnvironmentFacts, tape: Tape) -> EnvironmentFacts:
    calls = find_calls(tape)
    return attrs.evolve(facts, episodes=calls.episodes, raised=calls.raised, lost=calls.lost)


def _with_seen(facts: EnvironmentFacts, seen: Seen) -> Examined:
    seeds = [0, *(episode.seed for episode in facts.episodes if episode.seed is not None)]
    return Examined(facts, seen, max(seeds), any(episode.options is not None for episode in facts.episodes))


def _facts_of(tape: Tape, simulation: Simulation) -> EnvironmentFacts:
    """The facts on the tape; those of the rebuilt environment if the tape has none."""
    described: Mapping[str, Any] = tape.meta["adapter"]
    inner: Any = inner_of(simulation)
    is_alone, name = adapter_name(tape) == "gymnasium", type(inner.env.unwrapped).__name__
    if not isinstance(described.get("spaces"), Mapping):
        from sim.adapters.gymnasium.described_spaces import describe_agents, describe_env  # noqa: PLC0415 - an extra

        described = describe_env(inner.env) if is_alone else describe_agents(inner.env)
    spaces, spec = described.get("spaces") or {}, described.get("env_spec") if is_alone else None
    if is_alone:
        kind: StreamKind = "vector" if "envs" in spaces else "single"
    else:
        kind = "parallel" if inner.is_parallel else "turns"
    metadata = getattr(inner.env, "metadata", None)
    metadata = metadata if isinstance(metadata, Mapping) else {}
    title = _title(tape.meta["adapter"].get("subject"), metadata) or name
    each_spec = spec
    if kind == "vector":
        from sim.adapters.gymnasium.described_spaces import describe_each  # noqa: PLC0415 - an extra

        each_spec = describe_each(inner.env)
    rate = _rate(metadata.get("render_fps"))
    label = environment_label(title, each_spec, {**tape.meta["adapter"], "spaces": spaces})
    return EnvironmentFacts(kind, spaces, spec, name, title=title, label=label, each_spec=each_spec, render_fps=rate)


def _title(subject: Any, metadata: Mapping[str, Any]) -> str:
    """The id that an environment is registered by, or the name in its metadata, or the class inside its wrappers."""
    subject = subject if isinstance(subject, Mapping) else {}
    names = [subject.get("id"), subject.get("vector"), metadata.get("name")]
    names += [str(layer).rpartition(".")[2] for layer in [*subject.get("layers", ())][-1:]]
    return next((name for name in names if isinstance(name, str) and name), "")


def _rate(value: Any) -> float | None:
    """Frames per second; None for anything else: metadata is the user's, and nothing but one format needs it."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) and value > 0 else None


def _columns_of_part(
    part: DatasetPart,
    source: TapeInput,
    request: Request,
    facts: EnvironmentFacts,
    tape: Tape,
    simulation: Simulation,
    factory: Factory | None,
) -> Seen:
    """Replay a part and find the columns of its transitions."""
    seen: Seen = {}
    rows = transitions_of_part(
        part,
        source,
        request,
        facts,
        tape,
        simulation,
        factory=factory,
        missing=[],
        problems=[],
        on_progress=lambda _: None,
    )
    for row in rows:
        for name, value in values_of_transition(row):
            form = form_of(value)
            known = seen.get(name)
            if known is None or known.form != form:
                _add(seen, name, SeenForm(form, source.name, row.agent))
    return seen


def needs_all_steps(examined: Sequence[Examined], request: Request) -> bool:
    """Return True if the columns cannot be known from the spaces and the first steps."""
    return request.info or any(
        not forms_of_space(one.facts.space(kind, agent))
        for one in examined
        for agent in one.facts.agents or ("",)
        for kind in ("observation", "action")
    )


def columns_of_all_steps(
    sources: Sequence[TapeInput],
    parts: Sequence[DatasetPart],
    request: Request,
    examined: Sequence[Examined],
    factory: Factory | None,
    pool: Pool,
) -> list[Seen]:
    """Replay all parts and find the columns of each. Raises ExtractionError."""
    facts = [one.facts for one in examined]
    work = partial(_scanned, sources=sources, request=request, facts=facts, factory=factory)
    return list(results_in_order(pool, work, parts, name=lambda part: f"scanned {sources[part.source].name}"))


def _scanned(
    part: DatasetPart,
    _: Report,
    *,
    sources: Sequence[TapeInput],
    request: Request,
    facts: Sequence[EnvironmentFacts],
    factory: Factory | None,
) -> Seen:
    source = sources[part.source]
    with open_source(source) as tape, open_environment(tape, factory) as simulation:
        return _columns_of_part(part, source, request, facts[part.source], tape, simulation, factory)


def settle(
    sources: Sequence[TapeInput], examined: Sequence[Examined], scans: Iterable[Seen], request: Request
) -> TransitionColumns:
    """Settle the columns of all tapes. scans: of all steps; may be empty. Raises ExtractionError."""
    seen: Seen = {}
    for found in [*(one.seen for one in examined), *scans]:
        for name, one_seen in found.items():
            _add(seen, name, one_seen)
    if not seen and any(one.facts.kind == "agents" for one in examined):
        asked = f"of {', '.join(request.agents)} " if request.agents else ""
        raise ExtractionError(
            f"{sources[0].name}: there is no row {asked}in the requested ticks: agent_names() and agent_actions() of the "
            "simulation decide which there are; choose others with --agent or --ticks"
        )
    for source, one in zip(sources, examined, strict=True):
        for name, form, agent in _from_spaces(one.facts, request):
            seen.setdefault(name, SeenForm(form, source.name, agent))
    reward = {name: _as_decimal(form) for name, form in _of(seen, WORTH).items()}
    observed = {name.partition(".")[2]: form for name, form in _of(seen, OBSERVED).items()}
    chosen, dropped = _chosen(observed, request.fields)
    forms: dict[str, ColumnForm] = {_named(OBSERVED, path): form for path, form in chosen.items()}
    forms |= _of(seen, DONE)
    forms |= reward or {WORTH: ColumnForm("array", "<f8")}
    forms |= {_named(THEN, path): form for path, form in chosen.items()}
    forms |= _of(seen, ABOUT)
    empty = {name for name, form in forms.items() if form.is_empty}
    left_out = empty | {_named(prefix, path) for path in dropped for prefix in (OBSERVED, THEN)}
    return TransitionColumns(
        {name: form for name, form in forms.items() if name not in empty},
        frozenset(left_out),
        has_env=any(one.facts.kind == "vector" for one in examined),
        has_options=any(one.has_options for one in examined),
        seed_dtype="<i8" if all(one.seed_max <= _INT64_MAX for one in examined) else "<u8",
    )


def _of(seen: Seen, prefix: str) -> dict[str, ColumnForm]:
    return {name: one.form for name, one in seen.items() if name.partition(".")[0] == prefix}


def _add(seen: Seen, name: str, new: SeenForm) -> None:
    """Add the form of a value. The next observation is one as the observation is. Raises ExtractionError."""
    prefix, _, path = name.partition(".")
    name = _named(OBSERVED, path) if prefix == THEN else name
    if name not in seen:
        seen[name] = new
        return
    known = seen[name]
    both = merged(known.form, new.form)
    if both is None and prefix == ABOUT:
        both = ColumnForm("json")
    if both is None:
        raise ExtractionError(_why_not_merged(name, known, new))
    seen[name] = attrs.evolve(known, form=both)


def _why_not_merged(name: str, known: SeenForm, new: SeenForm) -> str:
    if known.tape != new.tape:
        return (
            f"{name} is {known.form} in {known.tape} and {new.form} in {new.tape}: extract them into separate data sets"
        )
    if known.agent != new.agent:
        return (
            f"{known.tape}: {name} of {known.agent} is {known.form}, and of {new.agent} {new.form}: choose agents whose "
            f"values have one form, such as --agent {known.agent}"
        )
    is_part = "." in name and name.partition(".")[0] != DONE
    fix = "leave it out (--field with the names of others)" if is_part else "use the table states"
    return f"{known.tape}: {name} is {known.form} in some steps and {new.form} in others, which no column holds: {fix}"


def _from_spaces(facts: EnvironmentFacts, request: Request) -> Iterator[tuple[str, ColumnForm, str]]:
    for agent in facts.agents:
        if request.agents is not None and agent not in request.agents:
            continue
        for kind, prefix in (("observation", OBSERVED), ("action", DONE)):
            for path, form in forms_of_space(facts.space(kind, agent)).items():  # type: ignore[arg-type]
                yield _named(prefix, path), form, agent


def _chosen(
    observed: Mapping[str, ColumnForm], fields: Sequence[str]
) -> tuple[dict[str, ColumnForm], dict[str, ColumnForm]]:
    """The observations that the fields choose, all without fields, and the others. Raises ExtractionError."""
    if not fields:
        return dict(observed), {}

    def is_in(path: str, field: str) -> bool:
        return path == field or path.startswith(f"{field}.")

    unknown = next((field for field in fields if not any(is_in(path, field) for path in observed)), None)
    if unknown is not None:
        known = ", ".join(path for path in observed if path)
        has = f"it has {known}" if known else "it is a single value"
        raise ExtractionError(
            f"there is no field {unknown} in the observation, {has}; fields of the state are in the table states "
            f"(--table states){did_you_mean(unknown.removeprefix(f'{OBSERVED}.'), filter(None, observed))}"
        )
    chosen = {path: form for path, form in observed.items() if any(is_in(path, field) for field in fields)}
    return chosen, {path: form for path, form in observed.items() if path not in chosen}


def _named(prefix: str, path: str) -> str:
    return joined(prefix, path) if path else prefix


def _as_decimal(form: ColumnForm) -> ColumnForm:
    """Rewards are float64: environments mix 0 and 1.0."""
    if form.kind != "array" or np.dtype(form.dtype).kind not in "biuf":
        return form
    return attrs.evolve(form, dtype="<f8")
