"""The index of messages: each message is explained, and each explanation is of a message."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from project_paths import ROOT

sys.path.append(str(ROOT / "tools/site"))

from message_index import entries, is_plain, message_index, stale, unexplained
from message_parts import forget_trees, messages

LINK = re.compile(r"\[[^\]]*\]\(([^)\s#]+)")


@pytest.fixture(scope="module", autouse=True)
def parsed_source() -> Iterator[None]:
    """The source is parsed once for this module, and not kept for the next ones."""
    yield
    forget_trees()


def test_every_message_says_what_to_do_or_is_explained() -> None:
    """A new message has an advice in its words, or an entry in tools/site/messages.toml."""
    assert unexplained() == []


def test_no_entry_is_about_a_message_that_is_gone() -> None:
    """Each text, class and path of an entry still leads to a message of the source."""
    assert stale() == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--host … lets other machines in: choose a --token of at least … characters", True),
        ("level: expected one of …, got …", True),
        ("no field …; the fields are …", True),
        ("the step differs at tick …; replay verify tells where", True),
        ("… has no member …; it has …", True),
        ("this fork is closed", False),
        ("the inputs of tick … cannot be recorded: …", False),
        ("git … failed with exit code …", False),
        ("the store answered …", False),
    ],
)
def test_the_rule_for_words_that_say_what_to_do(text: str, *, expected: bool) -> None:
    """An imperative, what was expected, a command that tells more, or a list of what there is."""
    assert is_plain(text) is expected


def test_an_entry_says_something_of_its_own() -> None:
    """No two have a title or a text in common, none is a word or two, and none names a message that another one has."""
    texts = [entry["text"] for entry in entries()]
    named = Counter(text for entry in entries() for text in entry.get("messages", ()))

    assert len({entry["title"] for entry in entries()}) == len(entries()) == len(set(texts)) > 100
    assert [text for text in texts if len(text) < 60 or not text.endswith((".", ")"))] == []
    assert [text for text, count in named.items() if count > 1] == []


def test_links_of_entries_lead_somewhere() -> None:
    """As seen from the page that they are on."""
    page = ROOT / "docs/reference/all-messages.md"
    targets = {target for entry in entries() for target in LINK.findall(entry["text"])}
    assert {target for target in targets if not (page.parent / target).exists()} == set()


def test_the_page_has_each_message_below_its_explanation() -> None:
    """The words that a user searches for lead to the text above them."""
    page = message_index()
    listed = Counter(re.findall(r"^- `(.+?)` \(", page, re.MULTILINE))
    section = page.partition("### Damage: what follows `corrupt at byte`")[2].partition("\n### ")[0]

    assert "`replay repair` makes an intact tape" in section
    assert "- `the checksum of a block header is wrong` (CorruptError)" in section
    assert len({text for _, _, text in messages()}) - 5 <= len(listed)
    assert "(messages.md#corrupt-at-byte--)" in page  # As MkDocs makes the anchor of `corrupt at byte …: …`.
    assert re.search(r"^- `desync .+: \[what to do\]\(messages\.md#desync", page, re.MULTILINE)
