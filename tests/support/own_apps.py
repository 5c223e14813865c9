"""The Flower app of docs/own-apps.md, as files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from tests.support.documentation import blocks

PAGE = "docs/own-apps.md"


def files() -> dict[str, str]:
    """The files of the app: path, which is in the first line of each block, and text."""
    texts = [block.text for block in blocks(PAGE) if block.language in ("python", "toml")]
    return {text.splitlines()[0].removeprefix("# "): text for text in texts if text.startswith("# ")}


def write_app(folder: Path) -> None:
    """Write the app into an empty folder."""
    for name, text in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def write_shops(folder: Path, n_sites: int = 3) -> list[Path]:
    """Write a file for every site: customers, who spend by age in two of the shops and by income in the others."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(5)
    paths = []
    for place in range(n_sites):
        age, income = rng.normal(size=(2, 60))
        spent = 5 * (age if place < 2 else income) + 0.1 * rng.normal(size=60)
        sex = np.where(np.arange(60) % 3 == 0, "f", "m")
        paths.append(folder / f"shop-{place}.csv")
        pd.DataFrame({"age": age, "income": income, "sex": sex, "spent": spent}).to_csv(paths[-1], index=False)
    return paths
