"""Execute examples/outpost/outpost.ipynb from top to bottom, and keep its outputs in the file. Needs nbclient and ipykernel.

Run it in the checkout after a change of the notebook: python tools/run_notebook.py. With a path as argument, the executed notebook is
written there, and the example stays as it is.
"""

from __future__ import annotations

import importlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

# Both have annotations only in part, and are installed only with the group viewers.
nbformat: Any = importlib.import_module("nbformat")
nbclient: Any = importlib.import_module("nbclient")

NOTEBOOK = Path(__file__).parents[1] / "examples/outpost/outpost.ipynb"
TIMEOUT_S = 120  # A cell that takes longer has hung.


def execute() -> Any:
    """Return the notebook with new outputs. It runs in a copy of its folder, so no tape is left there."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "outpost")
        shutil.copytree(NOTEBOOK.parent, copy, ignore=shutil.ignore_patterns("*.tape", "__pycache__"))
        nbclient.NotebookClient(notebook, timeout=TIMEOUT_S, resources={"metadata": {"path": str(copy)}}).execute()
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
        cell["metadata"] = {}
    notebook["metadata"] = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return notebook


if __name__ == "__main__":
    nbformat.write(execute(), sys.argv[1] if sys.argv[1:] else NOTEBOOK)
