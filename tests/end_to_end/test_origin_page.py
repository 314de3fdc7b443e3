"""docs/origin.md: each sentence has a test that exists, and a page with the heading that the link names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"^\| (.+) \| `(tests/[\w/]+\.py)::(test_\w+)` \| \[[^]]+\]\(([^)#]+)(?:#([\w-]+))?\) \|$",
    (ROOT / "docs" / "origin.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_row_of_the_tables_is_read() -> None:
    """No row that names a test escapes the checks below."""
    page = (ROOT / "docs" / "origin.md").read_text(encoding="utf-8")
    assert len(ROWS) == page.count("::test_") > 100
    tables, _ = page.split("## What is different, and why")
    rows = [line for line in tables.splitlines() if line.startswith("| ") and not line.endswith("| test | page |")]
    assert len(rows) == len(ROWS)  # No sentence is without a test.
    sentences = [row[0] for row in ROWS]
    assert len(set(sentences)) == len(sentences)
    assert set(re.findall(r"^## .+\((\d{3})\)$", page, re.MULTILINE)) == {f"00{n}" for n in range(5)}


@pytest.mark.parametrize(("sentence", "file", "test", "page", "anchor"), ROWS, ids=[row[2] for row in ROWS])
def test_the_test_and_the_page_of_a_sentence_exist(sentence: str, file: str, test: str, page: str, anchor: str) -> None:
    """The test is defined in that file; the page has that heading."""
    assert re.search(rf"^\s*def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), sentence
    content = (ROOT / "docs" / page).read_text(encoding="utf-8")
    headings = {slug(heading) for heading in re.findall(r"^#+ (.+)$", content, re.MULTILINE)}
    assert not anchor or anchor in headings, sentence
