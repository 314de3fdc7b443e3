"""Open every page of the built site in Chromium, and some in the dark, and report what a reader would stumble over.

Reported are requests to other machines, answers that are errors, errors on the console, and links within the site that
lead nowhere. The search is used once in each colour scheme.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import TimeoutError as PlaywrightTimeoutError
from playwright.sync_api import sync_playwright

SITE = Path(__file__).parents[2] / "build/site"
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
TYPED_AGAIN_MS = 10_000  # The search answers in a second.
PATIENCE_MS = 120_000  # A page takes half a second; on a machine that does much else, a hundred times as long.
SEARCHED = "keyframe"
INDEX = "search_index.json"  # Each page builds it again: most of the time of all pages together.
PICTURED = (  # Also in the dark.
    "index.html",
    "how-it-works.html",
    "reference/replay.html",
    "reference/python-recorder.html",
    "reference/messages.html",
)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback; the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


class Visit:
    """What one browser met on the pages of the site."""

    def __init__(self, page: Any, address: str, scheme: str, empty_index: dict[str, Any] | None) -> None:
        """empty_index: given to the pages in place of that of the search; None leaves it."""
        self.empty_index = empty_index
        self.page, self.address, self.scheme = page, address, scheme
        self.here = ""
        self.requests = 0
        self.problems: list[str] = []
        self.links: set[tuple[str, str, str]] = set()  # The page with the link, the page that it leads to, the anchor.
        self.anchors: dict[str, set[str]] = {}
        page.set_default_timeout(PATIENCE_MS)
        page.route("**/*", self._route)
        page.on("response", self._response)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self._note(f"error of a script: {error}"))

    def _note(self, problem: str) -> None:
        self.problems.append(f"{self.here} ({self.scheme}): {problem}")

    def _console(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self._note(f"console: {message.text}")

    def _route(self, route: Any) -> None:
        self.requests += 1
        if not route.request.url.startswith((self.address, "data:", "blob:")):
            self._note(f"a request to {route.request.url}")
            route.abort()
            return
        if route.request.url.endswith(INDEX) and self.empty_index is not None:
            route.fulfill(json=self.empty_index)
            return
        route.continue_()

    def _response(self, response: Any) -> None:
        if response.status >= 400:
            self._note(f"{response.status} for {response.url}")

    def open(self, name: str, pictures: Path | None) -> None:
        """Open a page; note its links and anchors, and take a picture of it."""
        self.here = name
        self.page.goto(f"{self.address}/{name}", wait_until="load")
        shown = self.page.evaluate("document.body.dataset.mdColorScheme")
        if shown != {"light": "default", "dark": "slate"}[self.scheme]:
            self._note(f"it is shown in the scheme {shown}")
        self.anchors[name] = set(self.page.eval_on_selector_all("[id]", "all => all.map(one => one.id)"))
        for link in self.page.eval_on_selector_all("a[href]", "all => all.map(one => one.href)"):
            if link.startswith(self.address):
                parts = urlsplit(link)
                self.links.add((name, parts.path.lstrip("/") or "index.html", parts.fragment))
        if pictures is not None and name in PICTURED:
            self.page.screenshot(path=pictures / f"{name.replace('/', '-')}-{self.scheme}.png")

    def search(self) -> None:
        """Search for a word; note it if nothing is found. What is typed before the page listens is lost: it is typed again."""
        self.here = "the search"
        self.page.goto(f"{self.address}/index.html", wait_until="networkidle")
        field, found = self.page.locator(".md-search__input").first, self.page.locator(".md-search-result__item")
        for _ in range(PATIENCE_MS // TYPED_AGAIN_MS):
            field.fill("")
            field.press_sequentially(SEARCHED)
            try:
                found.first.wait_for(timeout=TYPED_AGAIN_MS)
            except PlaywrightTimeoutError:
                continue
            return
        self._note(f"nothing was found for {SEARCHED!r}")


def check(site: Path, pictures: Path | None) -> tuple[list[str], str]:
    """Return the problems of a built site, and a line that says what was looked at."""
    names = sorted(str(path.relative_to(site)) for path in site.rglob("*.html") if path.name != "404.html")
    empty_index = json.loads((site / "search" / INDEX).read_text(encoding="utf-8")) | {"docs": []}
    problems: list[str] = []
    visits: list[Visit] = []
    with serving(site) as address, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in SCHEMES:
            page = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900}).new_page()
            visits.append(visit := Visit(page, address, scheme, empty_index))
            for name in names if scheme == "light" else PICTURED:
                visit.open(name, pictures)
            # In a context of its own: the cache of this one has the empty index.
            page = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900}).new_page()
            visits.append(searching := Visit(page, address, scheme, None))
            searching.search()
            problems += visit.problems + searching.problems
        browser.close()
    problems += dead_links(site, visits[0])
    requests, links = sum(visit.requests for visit in visits), len(visits[0].links)
    return (
        problems,
        f"{len(names)} pages, {len(PICTURED)} of them in the dark, too, {requests} requests, {links} links within the site",
    )


def dead_links(site: Path, visit: Visit) -> list[str]:
    """Return a line for each link to a file or an anchor that does not exist."""
    dead = []
    for source, target, anchor in sorted(visit.links):
        if not (site / target).is_file():
            dead.append(f"{source}: a link to {target}, which does not exist")
        elif anchor and target in visit.anchors and anchor not in visit.anchors[target] and anchor != "__skip":
            dead.append(f"{source}: a link to {target}#{anchor}, which does not exist")
    return dead


def main() -> None:
    """Check the site; exit with 1 if there is a problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", type=Path, default=SITE)
    parser.add_argument("--pictures", type=Path, help="a folder for pictures of some pages")
    given = parser.parse_args()
    if shutil.which("chromium") is None:
        print("Chromium is not installed: the site was built, and not looked at in a browser")
        return
    if given.pictures is not None:
        given.pictures.mkdir(parents=True, exist_ok=True)
    problems, line = check(given.site, given.pictures)
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{line}: {len(problems) or 'no'} problem{'' if len(problems) == 1 else 's'}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
