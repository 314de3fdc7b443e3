"""Write a state as an .npz file for NumPy."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from recorder.storage.atomic_file import atomic_file
from sim.kernel.state import Snapshot


def write_state(path: Path, state: Snapshot) -> None:
    """Write the fields of a state as a compressed .npz file: one array per field, rows in use only.

    numpy.savez is not used: it takes fields that are called file or allow_pickle for its own arguments.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in state:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(state[name], order="C"), allow_pickle=False)


def write_state_whole(path: Path, snapshot: Snapshot) -> None:
    """Write a state as .npz atomically; an existing file is replaced. Raises OSError."""
    with atomic_file(path, existing="replace") as part:
        write_state(part, snapshot)
