"""Build a Minari data set from transitions: one episode for each episode of an environment and agent.

Its spaces are those of the environment, cut to the requested fields, and its specification makes the environment again.

Invariant: an episode of T actions has T + 1 observations, the last one as the environment returned it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from minari.data_collector.episode_buffer import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage

from replayer.datasets.plan import TapeInput
from replayer.datasets.request import ExtractionError
from replayer.datasets.rows.states import TICK
from replayer.datasets.stores.episode_rows import EpisodeRows, about_origin, episodes_of
from replayer.datasets.stores.minari_metadata import DATA_FORMAT, SEED_MAX, describe_dataset
from replayer.datasets.table import DatasetTable
from replayer.datasets.task import Task
from replayer.datasets.transitions.column_forms import ColumnForm
from replayer.datasets.transitions.flat_values import NUMBER_SPACES, Space, joined
from replayer.datasets.transitions.transition_rows import ABOUT, DONE, ENDS, OBSERVED, THEN, WORTH
from sim.adapters.gymnasium.space_codec import SpaceNotKnownError, space_from_plain

_PRESENT = ".present"
_HELD = (*NUMBER_SPACES, "Text", "Dict", "Tuple")  # Kinds of spaces that Minari can describe.


def ensure_episodes_fit(task: Task) -> None:
    """Raise ExtractionError if Minari cannot hold the transitions of these environments."""
    if len(task.request.ranges) > 1:
        raise ExtractionError("an episode of Minari must not have gaps, which several ranges of ticks would cause")
    assert task.columns is not None
    for prefix in (OBSERVED, DONE):
        _ensure_values_fit(_space_of(task, prefix), prefix, task.columns.forms)
    _ensure_infos(_infos_of(task))


def write_episodes(table: DatasetTable, sources: Sequence[TapeInput], identity: str, path: Path, task: Task) -> None:
    """Write a data set at path. Raises ExtractionError if a transition is missing inside an episode, OSError."""
    observed, done = _space_of(task, OBSERVED), _space_of(task, DONE)
    path.mkdir(parents=True)
    storage = MinariStorage.new(
        path,
        observation_space=_made(observed, OBSERVED),
        action_space=_made(done, DONE),
        env_spec=_env_spec(task),
        data_format=DATA_FORMAT,
        jpeg_encoding=False,  # Pixels must come back as they were.
    )
    names, infos = {source.run: source for source in sources}, _infos_of(task)
    abouts: list[dict[str, Any]] = []

    def buffers() -> Iterator[EpisodeBuffer]:
        for number, episode in enumerate(episodes_of(table, "Minari")):
            abouts.append(about_origin(episode, names))
            yield _buffer(episode, number, observed, done, infos)

    storage.update_episodes(buffers())
    storage.update_episode_metadata(abouts, range(len(abouts)))
    agents = {about["agent"] for about in abouts if about["agent"]}
    text = (
        f"Recordings of {task.environments[0].name or 'an environment'}: {len(abouts)} episodes of {len(sources)} runs."
    )
    storage.update_metadata(describe_dataset(identity, sources, agents, text))


def _buffer(
    episode: EpisodeRows, number: int, observed: Space, done: Space, infos: Mapping[str, ColumnForm]
) -> EpisodeBuffer:
    """An episode as Minari writes it. Raises ExtractionError if a step is missing."""
    episode.ensure_complete()
    terminated, truncated = (episode.column(name).copy() for name in ENDS)
    truncated[-1] |= not terminated[-1]  # Minari has no other end; the attribute "end" tells.
    ticks = episode.column(TICK)
    is_each_tick = bool(np.all(np.diff(ticks) == 1))  # Not if agents act in turn: the last tick is then unknown.
    return EpisodeBuffer(
        id=number,
        seed=_seed(episode),
        options=_options(episode),
        observations=_nested(episode, observed, OBSERVED, THEN),
        actions=_nested(episode, done, DONE),
        rewards=episode.column(WORTH),
        terminations=terminated,
        truncations=truncated,
        infos=({"tick": np.append(ticks, ticks[-1] + 1)} if is_each_tick else {}) | _infos(episode, infos),
    )


def _ensure_values_fit(space: Space, path: str, forms: Mapping[str, ColumnForm]) -> None:
    """Raise ExtractionError if steps had values of another kind than their space describes: Minari reads them by it."""
    match space:
        case {"type": "Dict", "spaces": list(inner)}:
            for key, one in inner:
                if not isinstance(key, str) or "/" in key:
                    raise ExtractionError(
                        f"Minari names the parts of {path} by texts without a slash, and the space has the key {key!r}: "
                        "rename it with a wrapper, or use another format"
                    )
                _ensure_values_fit(one, joined(path, key), forms)
            return
        case {"type": "Tuple", "spaces": list(inner)}:
            for index, one in enumerate(inner):
                _ensure_values_fit(one, joined(path, index), forms)
            return
    form = forms.get(path)
    expected = "text" if space["type"] == "Text" else "array"
    if form is None and 0 in space.get("shape", ()):
        return
    others = [name for name in forms if name.startswith(f"{path}.")]
    if form is None or form.kind != expected or others:
        had = f"{others[0]}, {forms[others[0]]}" if others else str(form)
        raise ExtractionError(
            f"{path}: the space is a {space.get('class', space['type'])}, and steps had {had}, which Minari cannot read by this "
            "space: correct the space, or use parquet"
        )


def _infos_of(task: Task) -> dict[str, ColumnForm]:
    """The forms of the infos by their paths."""
    assert task.columns is not None
    named = {name.partition("."): form for name, form in task.columns.forms.items()}
    return {path: form for (prefix, _, path), form in named.items() if prefix == ABOUT}


def _ensure_infos(infos: Mapping[str, ColumnForm]) -> None:
    """Raise ExtractionError for infos that Minari cannot hold."""
    hint = "leave --info out, or use parquet"
    for path, form in infos.items():
        if form.kind in ("list", "texts"):
            raise ExtractionError(f"Minari holds infos of one shape, and info.{path} is {form}: {hint}")
        if "/" in path or not path:
            raise ExtractionError(f"Minari cannot hold an info called {path!r}: {hint}")
        if f"{path}{_PRESENT}" in infos:
            raise ExtractionError(
                f"info.{path}{_PRESENT} clashes with the mask of info.{path}, which gets this name in Minari: {hint}"
            )


def _infos(episode: EpisodeRows, forms: Mapping[str, ColumnForm]) -> dict[str, Any]:
    """The infos by path, each with a mask of those that are there: zeros or empty texts stand in for the others.

    As Minari has it, the first one is that of the reset, which is never there.
    """
    infos: dict[str, Any] = {}
    for path, form in forms.items():
        name = joined(ABOUT, path)
        if form.kind == "array":
            values: Any = np.ma.concatenate([piece[name] for piece in episode.pieces])  # type: ignore[no-untyped-call]
            present = ~np.ma.getmaskarray(values).reshape(len(values), -1)[:, 0]
            first = np.zeros((1, *values.shape[1:]), values.dtype)
            infos[path] = np.concatenate([first, np.ma.filled(values, 0)])
        else:
            texts = episode.texts(name)
            present = np.array([text is not None for text in texts])
            infos[path] = ["", *(text or "" for text in texts)]
        infos[f"{path}{_PRESENT}"] = np.concatenate([[False], present])
    return infos


def _nested(episode: EpisodeRows, space: Space, prefix: str, then: str | None = None) -> Any:
    """The values of a space of all steps; then: the prefix of the columns whose last value is added."""
    match space:
        case {"type": "Dict", "spaces": list(inner)}:
            return {key: _nested(episode, one, joined(prefix, key), then and joined(then, key)) for key, one in inner}
        case {"type": "Tuple", "spaces": list(inner)}:
            return tuple(
                _nested(episode, one, joined(prefix, at), then and joined(then, at)) for at, one in enumerate(inner)
            )
        case {"type": "Text"}:
            texts = episode.texts(prefix)
            return texts if then is None else [*texts, episode.texts(then)[-1]]
    if 0 in space.get("shape", ()):
        return np.zeros((len(episode) + (then is not None), *space["shape"]), space["dtype"])
    values = episode.column(prefix)
    return values if then is None else np.concatenate([values, episode.column(then)[-1:]])


def _seed(episode: EpisodeRows) -> int | None:
    """The seed, if it makes the first observation again, and attributes of HDF5 can hold it."""
    seed = episode.seed if episode.has_first_step else None
    return seed if seed is not None and 0 <= seed <= SEED_MAX else None


def _options(episode: EpisodeRows) -> dict[str, Any] | None:
    """The options, if attributes of HDF5 can hold them."""
    options = None if episode.options is None else json.loads(episode.options)
    return options if isinstance(options, dict) and _fits_attributes(options) else None


def _space_of(task: Task, prefix: str) -> Space:
    """The space of observations or actions that all tapes and agents share. Raises ExtractionError."""
    assert task.columns is not None
    kind = "observation" if prefix == OBSERVED else "action"
    shared: Space | None = None
    for source, facts in zip(task.sources, task.environments, strict=True):
        for agent in facts.agents:
            if task.request.agents is not None and agent not in task.request.agents:
                continue
            space = facts.space(kind, agent)  # type: ignore[arg-type]
            space = None if space is None else _cut(space, prefix, [*task.columns.forms, *_empty(space, prefix)])
            if space is None:
                raise ExtractionError(f"{source.name}: the {kind} space is unknown, and Minari needs it: use parquet")
            if shared is not None and json.dumps(space, default=repr) != json.dumps(shared, default=repr):
                fix = "choose agents with --agent" if agent else "extract the tapes one by one"
                raise ExtractionError(f"a data set of Minari has one {kind} space, and these differ: {fix}")
            shared = space
    if shared is None:
        raise ExtractionError(f"the {kind} space of the agents is unknown, and Minari needs it: use parquet")
    _made(shared, prefix)
    return shared


def _empty(space: Space, path: str) -> list[str]:
    """The paths of spaces without numbers, for which there is no column."""
    match space:
        case {"type": "Dict", "spaces": list(inner)}:
            return [name for key, one in inner for name in _empty(one, joined(path, key))]
        case {"type": "Tuple", "spaces": list(inner)}:
            return [name for index, one in enumerate(inner) for name in _empty(one, joined(path, index))]
    return [path] if 0 in space.get("shape", ()) else []


def _cut(space: Space, path: str, columns: Sequence[str], *, can_go: bool = False) -> Space | None:
    """The parts of a space that have columns; None if nothing of it has. Raises ExtractionError for other spaces.

    can_go: True for a part that --field can leave out.
    """
    if not any(name == path or name.startswith(f"{path}.") for name in columns):
        return None
    if space["type"] == "Dict":
        can_go = can_go or path == OBSERVED
        inner = [[key, _cut(one, joined(path, key), columns, can_go=can_go)] for key, one in space["spaces"]]
        return {**space, "spaces": [[key, one] for key, one in inner if one is not None]}
    if space["type"] == "Tuple":
        parts = [_cut(one, joined(path, index), columns) for index, one in enumerate(space["spaces"])]
        if None in parts:
            raise ExtractionError(f"Minari needs all parts of the Tuple {path}: leave --field out, or use parquet")
        return {**space, "spaces": parts}
    if space["type"] not in _HELD:
        fix = "leave it out (--field with the names of others), or use parquet" if can_go else "use parquet"
        raise ExtractionError(f"Minari cannot hold {path}, which is a {space.get('class', space['type'])}: {fix}")
    return space


def _made(space: Space, path: str) -> gymnasium.Space[Any]:
    try:
        return space_from_plain(space)
    except SpaceNotKnownError as error:
        raise ExtractionError(f"Minari needs the space of {path}: {error}; use parquet") from None


def _env_spec(task: Task) -> EnvSpec | None:
    """The specification of the environment, of one environment of a vector, if all tapes have the same."""
    [text, *others] = {facts.each_spec for facts in task.environments}
    return None if others or text is None else EnvSpec.from_json(text)


def _fits_attributes(value: Any) -> bool:
    if isinstance(value, dict):
        return all("/" not in key and _fits_attributes(item) for key, item in value.items())
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, int | float) for item in value)
    return isinstance(value, str | int | float)
