"""A state as a file that NumPy reads."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from recorder.storage.os_errors import writing
from sim.kernel.state import Snapshot


def write_state(path: Path, state: Snapshot) -> None:
    """Write the fields of a state as a compressed .npz file, one array a field, live rows only.

    Not by numpy.savez, which takes fields for arguments of its own if they are called file or allow_pickle.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in state:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(state[name], order="C"), allow_pickle=False)


def write_state_whole(path: Path, snapshot: Snapshot) -> None:
    """Write a state as .npz under another name and rename it, so that no half file stays behind. Raises OSError."""
    part = path.with_name(f"{path.name}.part")
    with writing(path):
        try:
            write_state(part, snapshot)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
