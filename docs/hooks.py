"""Makes the site of what GitHub shows: the same links, the same anchors, and the repository's own files as pages.

A page of `docs/` links to `../README.md` or `../protocols/gp/payloads.py`, which GitHub follows and a site has no
place for.
What is linked to so becomes a page of the site: Markdown as it is, code as a listing, a folder as that of its files.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
TOP = {"README.md": "overview.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages that lie beside `docs/`, and where they are in the site."""
SOURCES = "source"
"""Folder of the site with the listings."""
_FENCE = re.compile(r"(^ *```.*?^ *```[^\n]*$)", re.M | re.S)
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_IMAGE = re.compile(r'\b(src|srcset)="(?![a-z]+:)([^"]+)"')
"""Of an element of HTML, which MkDocs leaves as it is."""


def github_anchor(heading: str, separator: str = "-") -> str:
    """The anchor that GitHub gives a heading: lower case, without punctuation, every space a hyphen."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give headings the anchors that links on GitHub use."""
    config.mdx_configs["toc"]["slugify"] = github_anchor
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie beside `docs/`, and a listing of everything else that a page links to."""
    for name, place in TOP.items():
        files.append(File.generated(config, place, content=(ROOT / name).read_text(encoding="utf-8")))
    pages = {file.src_uri: file.content_string for file in files if file.is_documentation_page()}
    for place, text in pages.items():
        for target in sorted(_outside(place, text)):
            if files.get_file_from_path(_listing(target)) is None:
                files.append(File.generated(config, _listing(target), content=_listed(target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links out of `docs/` into links to the pages that stand for what they lead to."""
    place = page.file.src_uri

    def turned(found: re.Match[str]) -> str:
        target, anchor = _of_repository(place, found[1]), found[2] or ""
        inside = _of_site(target)
        return found[0] if inside is None else f"]({_relative(inside, place)}{anchor})"

    def shown(found: re.Match[str]) -> str:
        inside = _of_site(_of_repository(place, found[2]))
        return found[0] if inside is None else f'{found[1]}="{_relative(inside, place)}"'

    parts = _FENCE.split(markdown)
    return "".join(part if n % 2 else _IMAGE.sub(shown, _LINK.sub(turned, part)) for n, part in enumerate(parts))


def _of_repository(place: str, link: str) -> str:
    """Path in the repository of what a page of the site links to."""
    folder = "" if place in TOP.values() else "docs"
    return posixpath.normpath(posixpath.join(folder, link))


def _of_site(target: str) -> str | None:
    """The page or file of the site that stands for a path in the repository; None: there is nothing at that path."""
    if target in TOP:
        return TOP[target]
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    return _listing(target) if (ROOT / target).exists() else None


def _outside(place: str, text: str) -> set[str]:
    """Paths in the repository that a page links to and that are no pages."""
    prose = _FENCE.sub("", text)
    linked = {_of_repository(place, found[1]) for found in _LINK.finditer(prose)}
    return {each for each in linked if (_of_site(each) or "").startswith(f"{SOURCES}/")}


def _listing(target: str) -> str:
    return f"{SOURCES}/{target}.md"


def _listed(target: str) -> str:
    """The page of a file of code, or of a folder of them."""
    path = ROOT / target
    shown = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    if not shown or any(not each.resolve().is_relative_to(ROOT) for each in shown):
        raise PluginError(f"a page links to {target}, which has nothing to show")
    parts = [f"# {target}\n\nAs it is in the repository.\n"]
    for each in shown:
        name = each.relative_to(ROOT).as_posix()
        heading = f"## {name}\n\n" if path.is_dir() else ""
        language = {".py": "python", ".toml": "toml"}.get(each.suffix, "text")
        parts.append(f"{heading}```` {language}\n{each.read_text(encoding='utf-8').rstrip()}\n````\n")
    return "\n".join(parts)


def _relative(target: str, place: str) -> str:
    return posixpath.relpath(target, posixpath.dirname(place) or ".")
