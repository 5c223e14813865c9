"""The documentation as tests read it: prose, blocks of code, and comments before blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(
    r"^(?:<!-- not run: (?P<why>[^>]*?) -->\n+)?"
    r"(?P<indent> *)```(?P<language>[a-z]*)\n(?P<text>.*?)^(?P=indent)```[ ]*$",
    re.M | re.S,
)


@dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes
    ----------
    page : str
        Path of the page in the repository.
    line : int
        Number of its first line.
    language, text : str
        Its language, and its lines.
    not_run : str
        Why it cannot be run, by the comment before it; empty: it can.
    """

    page: str
    line: int
    language: str
    text: str
    not_run: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Return the paths of all pages in the repository."""
    top = [name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md") if (ROOT / name).is_file()]
    return [*top, *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").glob("*.md")))]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page in order."""
    text = read(page)
    page_blocks = []
    for each in FENCE.finditer(text):
        line = text.count("\n", 0, each.start("text")) + 1
        page_blocks.append(Block(page, line, each["language"], each["text"], each["why"] or ""))
    return page_blocks


def prose(page: str) -> str:
    """Return a page with empty lines in place of its blocks."""
    return FENCE.sub(lambda each: "\n" * each[0].count("\n"), read(page))


def anchors(page: str) -> set[str]:
    """Return the anchors of a page: those that GitHub gives headings, and those that the page sets."""
    text, counts, names = prose(page), dict[str, int](), set[str]()
    for each in re.finditer(r"^#{1,6} +(.*?) *#*$", text, re.M):
        shown = re.sub(r"<[^>]+>|[`*]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", each[1])).strip()
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        before = counts.get(name, 0)
        counts[name] = before + 1
        names.add(f"{name}-{before}" if before else name)
    return names | set(re.findall(r'<a id="([^"]+)"', text))


def unquoted(text: str) -> str:
    """Return prose without text in backquotes; line numbers do not change."""
    return re.sub(r"(`+)(?:(?!\1).)+?\1", lambda each: "\n" * each[0].count("\n"), text, flags=re.S)


def quoted(page: str) -> list[str]:
    """Return the texts in backquotes in the sentences and tables of a page."""
    return [" ".join(each[2].split()) for each in re.finditer(r"(`+)((?:(?!\1).)+?)\1(?!`)", prose(page), re.S)]


def tables(page: str) -> list[list[list[str]]]:
    """Return every table of a page: rows of cells, the heading first."""
    page_tables: list[list[list[str]]] = []
    inside = False
    for line in prose(page).splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        if not inside:
            page_tables.append([])
        inside = True
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if not all(set(cell) <= set("-: ") for cell in cells):
            page_tables[-1].append(cells)
    return page_tables
