"""The notebook of the examples runs from top to bottom, and prints what is kept in it."""

from __future__ import annotations

import runpy
from typing import Any

import pytest

from project_paths import EXAMPLES, ROOT


def printed(notebook: Any) -> list[tuple[str, ...]]:
    """The printed texts and the kinds of pictures of each cell."""
    return [
        tuple(output.get("text", "picture") for output in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.seldom(0.18)
def test_the_notebook_gives_the_outputs_that_it_shows() -> None:
    """Texts are equal, and each picture is drawn. tools/run_notebook.py keeps them."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    nbformat = pytest.importorskip("nbformat")
    kept = nbformat.read(EXAMPLES / "outpost/outpost.ipynb", as_version=4)
    shown = printed(kept)
    assert sum(outputs.count("picture") for outputs in shown) == 2
    assert printed(runpy.run_path(str(ROOT / "tools/run_notebook.py"))["execute"]()) == shown
