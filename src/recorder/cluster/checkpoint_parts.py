"""The parts of a checkpoint of the whole: the organisms of one worker, each complete, as one file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from sim.kernel.plain_data import decode_plain, encode_plain
from sim.worlds.organisms.execution import Bodies
from sim.worlds.organisms.layout import COLUMNS

DIGEST_BYTES = 32


@attrs.frozen
class PartNote:
    """What the manifest states of a part.

    Attributes:
        name: of its file, in the folder of the manifest. worker: the number of the worker that wrote it.
        count: its organisms. size_bytes, blake2b: of the file; the digest is hexadecimal.
    """

    name: str
    worker: int
    count: int
    size_bytes: int
    blake2b: str


@attrs.frozen(eq=False)
class OrganismPart:
    """A part as read: of which simulation, tick and worker, and its organisms."""

    simulation_id: str
    tick: int
    worker: int
    bodies: Bodies


def encode_part(simulation_id: str, tick: int, worker: int, bodies: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """A part as the bytes of its file; equal organisms give equal bytes."""
    organisms = {column.name: np.ascontiguousarray(bodies[column.name]) for column in COLUMNS}
    return encode_plain({"simulation_id": simulation_id, "global_step": tick, "worker": worker, "organisms": organisms})


def decode_part(content: bytes) -> OrganismPart:
    """The part of a file. Raises ValueError for other bytes."""
    match decode_plain(content):
        case {
            "simulation_id": str(name),
            "global_step": int(tick),
            "worker": int(worker),
            "organisms": dict(organisms),
        }:
            bodies: Bodies = {}
            count = len(organisms.get("id", ()))
            for column in COLUMNS:
                values = organisms.get(column.name)
                expected = (count, *column.shape)
                if not isinstance(values, np.ndarray) or (values.dtype, values.shape) != (column.dtype, expected):
                    raise ValueError(f"{column.name}: expected {column.dtype} of shape {expected}")
                bodies[column.name] = values
            return OrganismPart(name, tick, worker, bodies)
    raise ValueError("expected the organisms of a worker")


def digest_of(content: bytes) -> str:
    """The BLAKE2b of bytes, hexadecimal."""
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).hexdigest()
