"""Hooks of MkDocs: pages from the repository's root, links to files beside the docs, and parts made from the code.

A line ``<!-- site: NAME -->`` in a page stands for a part that is made from the code when the site is built.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "src"), str(Path(__file__).parent)]  # MkDocs runs this file by its path.

from mkdocs.structure.files import File  # noqa: E402 - only the environment of the docs has it

from api_parts import members_of  # noqa: E402
from command_parts import commands_of  # noqa: E402
from message_index import message_index  # noqa: E402

ROOT_PAGES = {
    "index.md": "README.md",
    "SPEC.md": "SPEC.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
}
OWN_FILES = {"site.css": "tools/site/site.css"}
PARTS: dict[str, Callable[..., str]] = {"commands": commands_of, "api": members_of, "messages": message_index}

# What a reader searches is rather in a lesson or a guide than in the history or in a list of all names.
SEARCH_BOOSTS = (
    (("index.md", "tutorial/", "guides/", "glossary.md", "how-it-works.md", "reference/messages.md"), 1.7),
    (("reference/python-", "reference/all-messages.md", "names.md", "performance.md", "findings.md"), 0.5),
    (("CHANGELOG.md", "CONTRIBUTING.md", "origin.md", "trials.md", "testing.md", "architecture.md", "pages.md"), 0.25),
)

_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
_IMAGE = re.compile(r'(<img [^>]*src="([^"]+)"[^>]*>)(?!</a>)')
_PART = re.compile(r"^<!-- site: (\w+) ?(.*?) -->$", re.MULTILINE)


_titles: dict[str, str] = {}  # Of the pages in the navigation.


def on_config(config: Any) -> Any:
    """Put the pages of a folder in the place of an entry of the nav that ends in a slash."""
    config.nav = [_expanded(entry) for entry in config.nav]
    config.nav = [entry for entry in config.nav if entry is not None]
    for section in config.nav:
        for entry in next(iter(section.values())):
            if isinstance(entry, dict):
                _titles.update((page, title) for title, page in entry.items())
    return config


def _expanded(entry: Any) -> Any:
    if isinstance(entry, dict):
        ((title, inner),) = entry.items()
        if isinstance(inner, str) and inner.endswith("/"):
            pages = pages_of(inner)
            return {title: pages} if pages else None
        if isinstance(inner, list):
            inner = [page for one in inner for page in (pages_of(one) if _is_folder(one) else [one])]
        return {title: inner}
    return entry


def _is_folder(entry: Any) -> bool:
    return isinstance(entry, str) and entry.endswith("/")


def pages_of(folder: str) -> list[str]:
    """Return the pages of a folder of docs/ in the order of their names, index.md first."""
    found = (ROOT / "docs" / folder).rglob("*.md")
    return sorted(
        (str(page.relative_to(ROOT / "docs")) for page in found), key=lambda page: (not page.endswith("index.md"), page)
    )


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the repository's root, and each file outside docs/ that a page links to."""
    for uri, path in {**ROOT_PAGES, **OWN_FILES}.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    pages = [*((ROOT / path, path) for path in ROOT_PAGES.values())]
    pages += [(path, str(path.relative_to(ROOT))) for path in (ROOT / "docs").rglob("*.md")]
    linked = {target for path, name in pages for target in _targets(path.read_text(encoding="utf-8"), name)}
    for target in sorted(linked):
        if _site_uri(target).startswith("files/"):
            files.append(File.generated(config, _site_uri(target), content=(ROOT / target).read_bytes()))
    return files


def _targets(text: str, page: str) -> set[str]:
    paths = {posixpath.normpath(posixpath.join(posixpath.dirname(page), match[2])) for match in _LINK.finditer(text)}
    return {path for path in paths if (ROOT / path).is_file()}


def _site_uri(path: str) -> str:
    """Return where a file of the repository is in the site."""
    by_path = {source: uri for uri, source in ROOT_PAGES.items()}
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    # Pages of the source tree are shown as they are, not rendered.
    return by_path.get(path) or f"files/{path}{'.txt' if path.endswith('.md') or '.' not in path else ''}"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Make the parts of a page, and turn its links to files of the repository into links within the site."""
    uri = page.file.src_uri
    source = ROOT_PAGES.get(uri, f"docs/{uri}")
    for begins, boost in SEARCH_BOOSTS:
        if uri.startswith(begins):
            page.meta["search"] = {"boost": boost}
    text = _PART.sub(lambda match: PARTS[match[1]](*match[2].split()), markdown)
    return _LINK.sub(lambda match: _link(match, source, uri), text)


def on_page_content(html: str, **_: Any) -> str:
    """Let a click on a picture show it alone: figures of several panels are small in the text."""
    return _IMAGE.sub(r'<a href="\2">\1</a>', html)


def _link(match: re.Match[str], source: str, uri: str) -> str:
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[2]))
    if not (ROOT / path).exists():
        return match[0]  # MkDocs reports it, unless it is code that looks like a link.
    if (ROOT / path).is_dir():
        return match[1]  # A site has no listing of a folder.
    text = match[1]
    if text.endswith(".md") and text == posixpath.basename(path):  # On a page, its title says more than its file.
        text = _titles.get(_site_uri(path), text)
    return f"[{text}]({posixpath.relpath(_site_uri(path), posixpath.dirname(uri) or '.')}{match[3] or ''})"
