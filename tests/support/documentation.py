"""The documentation as tests read it: prose, blocks of code, and what stands before a block."""

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
        Of its first line.
    language, text : str
        What it is in, and its lines.
    not_run : str
        Why it cannot be run, as the page says in a comment before it; empty: it can.
    """

    page: str
    line: int
    language: str
    text: str
    not_run: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """All pages by path in the repository."""
    top = [name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md") if (ROOT / name).is_file()]
    return [*top, *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").glob("*.md")))]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    """The blocks of a page in their order."""
    text = read(page)
    found = []
    for each in FENCE.finditer(text):
        line = text.count("\n", 0, each.start("text")) + 1
        found.append(Block(page, line, each["language"], each["text"], each["why"] or ""))
    return found


def prose(page: str) -> str:
    """A page without its blocks; what stood in them are empty lines."""
    return FENCE.sub(lambda each: "\n" * each[0].count("\n"), read(page))


def anchors(page: str) -> set[str]:
    """The anchors that GitHub gives a page's headings, and those that it sets itself."""
    text, seen, found = prose(page), dict[str, int](), set[str]()
    for each in re.finditer(r"^#{1,6} +(.*?) *#*$", text, re.M):
        shown = re.sub(r"<[^>]+>|[`*]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", each[1])).strip()
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        before = seen.get(name, 0)
        seen[name] = before + 1
        found.add(f"{name}-{before}" if before else name)
    return found | set(re.findall(r'<a id="([^"]+)"', text))


def unquoted(text: str) -> str:
    """Prose without what stands in backquotes; lines stay where they are."""
    return re.sub(r"(`+)(?:(?!\1).)+?\1", lambda each: "\n" * each[0].count("\n"), text, flags=re.S)


def quoted(page: str) -> list[str]:
    """What stands in backquotes in the sentences and tables of a page."""
    return [" ".join(each[2].split()) for each in re.finditer(r"(`+)((?:(?!\1).)+?)\1(?!`)", prose(page), re.S)]


def tables(page: str) -> list[list[list[str]]]:
    """Every table of a page: rows of cells, the heading first."""
    found: list[list[list[str]]] = []
    inside = False
    for line in prose(page).splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        if not inside:
            found.append([])
        inside = True
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if not all(set(cell) <= set("-: ") for cell in cells):
            found[-1].append(cells)
    return found
