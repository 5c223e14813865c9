"""A real Chromium without a window, for tests of the pages; what a reader, a screen reader and a printer find."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

REQUIRED = "CONSILIENCE_CHROMIUM"
"""An environment variable: with the value ``required`` a test fails where there is no browser."""
PATHS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

_PAPER = 688
"""Width of the text on a sheet of A4 with margins of 14 mm, in the browser's pixels."""
_SERIOUS = ("serious", "critical")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; where there is none, the test is skipped, or fails if one is required."""
    path = next((found for name in PATHS if (found := shutil.which(name))), None)
    if path is None:
        _without("no Chromium on the path (Debian: apt-get install chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _without("playwright is not installed (pip install -e '.[dev]')")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


def _without(reason: str) -> None:
    if os.environ.get(REQUIRED) == "required":
        pytest.fail(f"{reason}; {REQUIRED}=required")
    pytest.skip(reason)


@dataclass
class Seen:
    """A page that is open, and what it did while it was opened.

    Attributes
    ----------
    page : Page
    console : list of str
        Warnings and errors on the console, exceptions included.
    requests : list of str
        Addresses asked for beside the page's own.
    """

    page: Page
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def overflow(self, width: int) -> list[str]:
        """Elements that stick out of a window of this width, if the document can be scrolled sideways in it."""
        self.page.set_viewport_size({"width": width, "height": 900})
        found: list[str] = self.page.evaluate(_OVERFLOW)
        return found

    def background(self) -> str:
        """The color behind the text, as the browser has it."""
        found: str = self.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        return found

    def violations(self, *rules: str) -> list[str]:
        """What axe finds that keeps readers out, by these rules or by all: rule, element and what is wrong with it."""
        if not self.page.evaluate("() => 'axe' in window"):
            # Evaluated as the browser's own, not as a script of the page, whose policy would refuse it.
            self.page.evaluate(_axe())
        result: dict[str, Any] = self.page.evaluate(
            "rules => axe.run(rules.length ? {runOnly: rules} : {})", list(rules)
        )
        return [
            f"{each['id']}: {node['html'][:120]}: {node['failureSummary']}"
            for each in result["violations"]
            if each["impact"] in _SERIOUS
            for node in each["nodes"]
        ]

    def print_cuts(self) -> list[str]:
        """On paper: elements whose content is cut off, folded away or not shown, or that are wider than the paper."""
        self.page.emulate_media(media="print")
        found: list[str] = self.page.evaluate(_PRINT_CUTS) + self.overflow(_PAPER)
        self.page.emulate_media(media="screen")
        return found


@contextmanager
def opened(browser: Browser, path: Path) -> Iterator[Seen]:
    """The page in a light window of its own."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    seen = Seen(page)
    page.on("console", lambda said: seen.console.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: seen.console.append(str(error)))
    page.on("request", lambda request: seen.requests.append(request.url[:80]))
    try:
        page.goto(path.absolute().as_uri(), wait_until="load")
        own = [path.absolute().as_uri()[:80], "data:image/png;base64,"]
        seen.requests = [url for url in seen.requests if not url.startswith(tuple(own))]
        yield seen
    finally:
        page.close()


@cache
def _axe() -> str:
    import axe_playwright_python

    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


_OVERFLOW = """() => {
  const root = document.documentElement;
  if (root.scrollWidth <= root.clientWidth) return [];
  const wide = [...document.querySelectorAll("body *")].filter(
    each => each.getBoundingClientRect().right > root.clientWidth + 1);
  return wide.map(each => each.outerHTML.slice(0, 120)).concat([`${root.scrollWidth} wide`]);
}"""
_PRINT_CUTS = """() => {
  const cut = [...document.querySelectorAll(".box, pre, section, table")].filter(each => {
    const style = getComputedStyle(each);
    const hidden = !each.checkVisibility({contentVisibilityAuto: true}) || each.getBoundingClientRect().height === 0;
    const clips = axis => ["auto", "scroll", "hidden"].includes(axis);
    return hidden || clips(style.overflowX) || clips(style.overflowY);
  });
  return cut.map(each => each.outerHTML.slice(0, 120));
}"""
