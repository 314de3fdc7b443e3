"""The name of a Minari data set, and what its metadata says about where it comes from."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import minari

from replayer.datasets.plan import TapeInput, open_source

DATA_FORMAT = "hdf5"
SEED_MAX = (1 << 63) - 1  # The limit of an attribute of HDF5.
NOTES = (
    "author",
    "author_email",
    "code_permalink",
    "description",
    "algorithm_name",
)  # Notes of a tape that are copied.


def dataset_id(name: str, split: str) -> str:
    """Make the id of a data set from the folder's name: without forbidden characters, and with the required version."""
    stem, version = re.fullmatch(r"(.*?)(-v\d+)?", name, re.DOTALL).groups()  # type: ignore[union-attr]
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-") or "data"
    return f"{stem}{'-' if split else ''}{split}{version or '-v0'}"


def describe_dataset(
    identity: str, sources: Sequence[TapeInput], agents: Collection[str], description: str
) -> dict[str, Any]:
    """Collect author, description and policies from the notes of the tapes. description: if no note has one."""
    notes: dict[str, list[str]] = {}
    policies: dict[str, None] = {}
    for source in sources:
        with open_source(source) as tape:
            recorded = tape.meta.get("notes")
        own = recorded if isinstance(recorded, dict) else {}
        for name in NOTES:
            if isinstance(own.get(name), str) and own[name] not in notes.setdefault(name, []):
                notes[name].append(own[name])
        players = own.get("players")
        for agent, policy in (players if isinstance(players, dict) else {}).items():
            if agent in agents:
                policies[f"{agent}={policy}"] = None
    if policies:
        notes.setdefault("algorithm_name", list(policies))
    notes.setdefault("description", [description])
    people = {name: {", ".join(texts)} for name, texts in notes.items() if name.startswith("author")}
    texts = {name: ", ".join(texts) for name, texts in notes.items()}
    return {"dataset_id": identity, "minari_version": minari.__version__} | texts | people
