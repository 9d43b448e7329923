"""Open every page of the built site in a headless browser and say what is broken: `python scripts/check_site.py`.

Needs `make docs` before, `pip install --group browser`, and a Chromium (Debian: `apt install chromium`), which
`--browser` names if it is not on the path. Looks for links and anchors that lead nowhere, pictures that are not shown,
messages on the console, and requests to other hosts; then searches for a word. With `--screenshots FOLDER` it takes
pictures of some pages. Exit status 0 if nothing is broken, 1 otherwise.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urldefrag, urljoin

from playwright.sync_api import Page, sync_playwright

SITE = Path(__file__).resolve().parents[1] / "site"
#: What screenshots are taken of.
SHOWN = ("index.html", "rung3_register.html", "bank_conflicts.html", "rung7_warp_tiled.html", "tuning.html")
#: A word that the search has to find on more than one page.
SEARCHED = "wavefront"


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, *arguments: object) -> None:
        """Nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server for that folder on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


class Crawl:
    """Opens pages from the first on, and collects what is broken."""

    def __init__(self, page: Page, home: str) -> None:
        self.page, self.home = page, home
        self.broken: list[str] = []
        #: Pages that were opened, and the anchors that others want there.
        self.anchors: dict[str, set[str]] = {}
        self.wanted: list[tuple[str, str, str]] = []
        page.on("console", lambda message: self._note(f"console: {message.type}: {message.text}"))
        page.on("pageerror", lambda error: self._note(f"error: {error}"))
        page.on("requestfailed", lambda request: self._note(f"failed: {request.url}"))
        page.on("request", lambda request: self._of_this_host(request.url))
        page.on(
            "response", lambda response: response.status >= 400 and self._note(f"{response.status}: {response.url}")
        )

    def run(self) -> None:
        """Open every page that can be reached, then look the anchors up."""
        waiting = [("", urljoin(self.home, "index.html"))]
        while waiting:
            origin, address = waiting.pop()
            if address in self.anchors:
                continue
            for link in self._open(address, origin):
                target, anchor = urldefrag(link)
                if not target.startswith(self.home):
                    continue
                if anchor:
                    self.wanted.append((address, target, unquote(anchor)))
                waiting.append((address, target))
        for address, target, anchor in self.wanted:
            if anchor not in self.anchors[target]:
                self.broken.append(f"{address}: no #{anchor} on {target}")

    def search(self, word: str) -> None:
        """Type a word into the search and see whether it is found."""
        self.page.goto(self.home + "index.html")
        field = self.page.locator("input.md-search__input")
        field.click(timeout=10_000)
        field.press_sequentially(word)
        found = self.page.locator(".md-search-result__item")
        try:
            found.nth(1).wait_for(timeout=10_000)
        except Exception as error:  # whatever the browser says, the word was not found
            self._note(f"the search finds {word!r} on {found.count()} pages: {error}")

    def _open(self, address: str, origin: str) -> list[str]:
        response = self.page.goto(address, wait_until="networkidle")
        if response is None or not response.ok:
            self.broken.append(f"{origin}: a link leads to {address}, where nothing is")
        ids = self.page.eval_on_selector_all("[id], a[name]", "all => all.map(one => one.id || one.name)")
        self.anchors[address] = set(ids)
        for picture in self.page.eval_on_selector_all(
            "img", "all => all.filter(one => !(one.complete && one.naturalWidth)).map(one => one.src)"
        ):
            self._note(f"picture not shown: {picture}")
        links: list[str] = self.page.eval_on_selector_all("a[href]", "all => all.map(one => one.href)")
        return links

    def _of_this_host(self, address: str) -> None:
        if not address.startswith((self.home, "data:", "blob:")):
            self._note(f"asks another host: {address}")

    def _note(self, what: str) -> None:
        self.broken.append(f"{self.page.url}: {what}")


def main() -> int:
    """Crawl the site."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("google-chrome"))
    parser.add_argument("--screenshots", type=Path)
    options = parser.parse_args()
    if not (SITE / "index.html").is_file():
        print(f"{SITE} has no index.html: run make docs", file=sys.stderr)
        return 2
    with served(SITE) as home, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=options.browser, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        crawl = Crawl(page, home)
        crawl.run()
        crawl.search(SEARCHED)
        if options.screenshots:
            options.screenshots.mkdir(parents=True, exist_ok=True)
            for name in SHOWN:
                page.goto(home + name, wait_until="networkidle")
                page.screenshot(path=options.screenshots / f"{Path(name).stem}.png", full_page=True)
        browser.close()
    for line in dict.fromkeys(crawl.broken):
        print(line)
    print(f"{len(crawl.anchors)} pages, {len(crawl.wanted)} links to anchors, {len(crawl.broken)} broken")
    return 1 if crawl.broken else 0


if __name__ == "__main__":
    sys.exit(main())
