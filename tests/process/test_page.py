"""The pages as readers find them in a real browser: a report of every protocol, and runs compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import consilience as cs
from protocols.registry import names as protocol_names
from server.report.compare import compare_html, open_runs
from server.report.glossary import meaning
from server.report.headline import answer
from server.results import load
from tests.support.browser import chromium, opened
from tests.support.grid import config
from tests.support.parameters import few
from tests.support.runs import run_with_grid

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WIDTHS = (360, 768, 1280)
WHITE = "rgb(255, 255, 255)"
RUNS: dict[str, tuple[int, dict[str, object]]] = {
    "bc3e": (2, {"scenario": "bc3e-wine", "bc3e.max-rounds": 4}),
    "sec": (4, {"protocol": "sec", "target": "y", "sec.candidates": "lr"}),
    "residual": (5, {"scenario": "residual-friedman1", "cells": "algorithm=average"}),
    "coreset": (3, {"scenario": "coreset-synthetic", "coreset.rows": 600, "coreset.k": 3, "coreset.restarts": 1}),
    "gp": (4, {"protocol": "gp", "target": "y", "gp.fit-rounds": 3}),
}
"""By protocol, number of sites and what differs from the defaults of a small run: scenarios, and own data."""


def made(folder: Path) -> Path:
    """Files of four sites of whom one sees another relation, and of test rows."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in ("ada", "ben", "cyd", "dan", "_test"):
        x = rng.uniform(-2, 2, size=(40, 1))
        y = (-2 if name == "dan" else 1) * x[:, 0] + rng.normal(0, 0.2, 40)
        np.savetxt(folder / f"{name}.csv", np.column_stack([x, y]), delimiter=",", header="x,y", comments="")
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By protocol, the results of a small run; and of another of the first protocol."""
    folder = tmp_path_factory.mktemp("runs")
    data = str(made(folder / "data"))

    def made_run(protocol: str, **more: object) -> Path:
        sites, settings = RUNS[protocol]
        own = {"data": data} if "protocol" in settings else {}
        return run_with_grid(
            {**config(folder), "round-timeout": 120.0, **settings, **own, **more}, sites, run_id=len(found) + 1
        )[0]

    found: dict[str, Path] = {}
    for protocol in RUNS:
        found[protocol] = made_run(protocol)
    return {**found, "another": made_run("bc3e", **{"bc3e.sweeps": 1})}


@pytest.fixture(scope="module")
def pages(results: dict[str, Path]) -> dict[str, Path]:
    """By protocol, the page of that run; and one of two of them compared."""
    found = {name: path / "report.html" for name, path in results.items()}
    found["compared"] = results["bc3e"].parent / "compare.html"
    html = compare_html(open_runs([results["bc3e"], results["another"]]))
    found["compared"].write_text(html, encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.mark.parametrize("name", few([*protocol_names(), "compared"], 2))
def test_a_page_can_be_read_by_everybody(browser: Browser, pages: dict[str, Path], name: str) -> None:
    with opened(browser, pages[name]) as seen:
        assert not seen.console
        assert not seen.requests
        assert not {width: wide for width in WIDTHS if (wide := seen.overflow(width))}
        assert not seen.violations()
        images = seen.page.locator("img").all()
        assert images
        assert all((image.get_attribute("alt") or "").strip() for image in images)
        assert all(image.evaluate("each => each.naturalWidth > 0") for image in images), "every image is drawn"
        seen.page.emulate_media(color_scheme="dark")
        assert seen.background() != WHITE
        assert not seen.violations("color-contrast"), "all else is as in the light"
        assert not seen.print_cuts(), "printed whole, whatever the screen's colors are"


def test_a_run_in_a_notebook_has_its_page_in_a_frame(
    browser: Browser, results: dict[str, Path], tmp_path: Path
) -> None:
    """With its figures, its own links, and no style that reaches the notebook."""
    notebook = tmp_path / "notebook.html"
    shown = cs.load(results["bc3e"])._repr_html_()
    notebook.write_text(f"<!DOCTYPE html><title>n</title><body><h2>cell</h2>{shown}</body>", encoding="utf-8")
    page = browser.new_page()
    page.goto(notebook.as_uri())
    style = "getComputedStyle(document.querySelector('h2')).fontFamily"
    plain = page.evaluate(style)
    assert plain != page.frames[1].evaluate(style)
    images = page.frames[1].locator("img").all()
    assert images
    assert all(image.evaluate("each => each.naturalWidth > 0") for image in images)
    page.frames[1].get_by_role("link", name="Figures").first.click()
    assert [frame.url for frame in page.frames] == [notebook.as_uri(), "about:srcdoc"]
    page.close()


def test_what_sticks_out_or_cannot_be_read_would_be_found(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        '<!DOCTYPE html><html lang="en"><title>x</title><body><section><details><table><tr><td>no</table></details>'
        '</section><p style="width:2000px;color:#aaa">low</p><img src="http://127.0.0.1:9/x.png">',
        encoding="utf-8",
    )
    with opened(browser, page) as seen:
        assert seen.console
        assert seen.requests == ["http://127.0.0.1:9/x.png"]
        assert seen.overflow(360)
        told = " ".join(seen.violations())
        assert "color-contrast" in told
        assert "image-alt" in told
        assert seen.violations("color-contrast")
        assert any("<table" in each for each in seen.print_cuts())


@pytest.mark.parametrize("protocol", protocol_names())
def test_a_run_says_what_was_asked_and_every_metric_has_words(results: dict[str, Path], protocol: str) -> None:
    report, _ = load(results[protocol])
    assert {"question", "data", "holdings", "disclosure"} <= set(report.overview)
    own = "protocol" in RUNS[protocol][1]
    started = f"--protocol {protocol} --data" if own else f"{report.scenario} --sites {len(report.sites)}"
    assert report.shorthand.startswith("consilience run ")
    assert started in report.shorthand
    assert len(answer(report)) > 80
    assert not [name for name in report.metrics if not name.endswith("_se") and meaning(protocol, name) is None]
