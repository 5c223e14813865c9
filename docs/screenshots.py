"""Screenshots of reports for these pages: ``make screenshots`` runs the scenarios and writes ``docs/images/``.

It needs Chromium and the ``dev`` extra, and fetches no data: the scenarios are synthetic, or come with scikit-learn.
"""

from __future__ import annotations

import io
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IMAGES = Path(__file__).parent / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
COLORS = 255
"""Colors of an image: text and lines need few, and pages of the documentation should load quickly."""
HEIGHT = 1600
MOST_SECONDS = 300
"""Time limit of each command."""

RUNS: dict[str, list[str]] = {
    "bc3e": ["bc3e-wine", "--set", "repetitions=20"],
    "sec": ["sec-simulation1", "--set", "cells=p=5 SNR=16"],
    "residual": shlex.split("--protocol residual --data firms --set target=owed --set id=customer --set features=*"),
    "coreset": ["coreset-synthetic", "--set", "coreset.rows=4000", "--set", "coreset.k=4"],
    "gp": ["gp-synthetic", "--set", "cells=part=rules gate=knn rule=grbcm"],
}
"""Arguments of `consilience run`, by protocol; `residual` runs on the example of its guide, which has a verdict."""


@dataclass(frozen=True)
class Shot:
    """A screenshot of a page.

    Attributes
    ----------
    name : str
        File name, without ``.png``.
    page : Path
        The page.
    width, height : int
        Size of the window in pixels.
    dark : bool
        Whether the browser prefers dark pages.
    """

    name: str
    page: Path
    width: int = 1280
    height: int = HEIGHT
    dark: bool = False


def main() -> int:
    """Run the scenarios, and write the screenshots."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        print("no Chromium on the path (Debian: apt-get install chromium)", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="consilience-") as name:
        folder = Path(name).resolve()
        example("residual", folder)
        results = {protocol: run(arguments, folder) for protocol, arguments in RUNS.items()}
        shots = [Shot(f"report-{protocol}", path / "report.html") for protocol, path in results.items()]
        shots.append(Shot("report-dark", results["gp"] / "report.html", dark=True))
        shots.append(Shot("report-phone", results["bc3e"] / "report.html", width=360, height=1400))
        shots.append(Shot("compare", comparison(results["coreset"], folder)))
        write_images(shots, browser)
    return 0


def example(protocol: str, folder: Path) -> None:
    """Write the files of a guide's example into a folder, by its first block of Python."""
    page = (Path(__file__).parent / f"{protocol}.md").read_text(encoding="utf-8")
    block = page.partition("```python\n")[2].partition("```")[0]
    subprocess.run([sys.executable, "-c", block], cwd=folder, check=True)  # noqa: S603 - a block of these pages


def run(arguments: Sequence[str], folder: Path) -> Path:
    """Run a scenario in a folder, and return the results directory, which the command prints last."""
    output = consilience(["run", *arguments, "--quiet"], folder)
    return Path(output.strip().splitlines()[-1].removeprefix("results: "))


def consilience(arguments: Sequence[str], folder: Path) -> str:
    """Return what the command prints; if it fails, print its error and exit."""
    command = ["consilience", *arguments]
    print("$", shlex.join(command), flush=True)
    done = subprocess.run(  # noqa: S603 - arguments of our own, no shell
        command, cwd=folder, capture_output=True, text=True, timeout=MOST_SECONDS
    )
    if done.returncode:
        sys.exit(f"{shlex.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def comparison(first: Path, folder: Path) -> Path:
    """Return a page with this run of `coreset` beside one whose sites send a tenth of the points."""
    second = run([*RUNS["coreset"], "--set", "coreset.size=80"], folder)
    # Relative paths, as a user types them: the page shows no others.
    consilience(["compare", *(str(each.relative_to(folder)) for each in (first, second))], folder)
    return folder / "compare.html"


def write_images(shots: Sequence[Shot], path: str) -> None:
    """Write the screenshots, taken by the browser at `path`."""
    from playwright.sync_api import sync_playwright

    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        for shot in shots:
            file = IMAGES / f"{shot.name}.png"
            file.write_bytes(image_of(browser, shot))
            print(f"{file} {file.stat().st_size / 1000:.0f} kB", flush=True)
        browser.close()


def image_of(browser: Browser, shot: Shot) -> bytes:
    """Return the top of a page as a PNG image of few colors."""
    page = browser.new_page(
        viewport={"width": shot.width, "height": shot.height}, color_scheme="dark" if shot.dark else "light"
    )
    page.goto(shot.page.absolute().as_uri())
    image = Image.open(io.BytesIO(page.screenshot()))
    page.close()
    small = io.BytesIO()
    image.convert("RGB").quantize(COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        small, "PNG", optimize=True
    )
    return small.getvalue()


if __name__ == "__main__":
    raise SystemExit(main())
