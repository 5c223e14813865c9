"""Hooks of MkDocs: the site has the same links and anchors as GitHub, and the repository's own files as pages.

A page of `docs/` may link to `../README.md` or `../protocols/gp/payloads.py`, which are outside of a site. Such a
target becomes a page of the site: Markdown as it is, code as a listing, a folder as a listing of its files.
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
"""Pages outside of `docs/`, and their paths in the site."""
SOURCES = "source"
"""Folder of the listings in the site."""
_FENCE = re.compile(r"(^ *```.*?^ *```[^\n]*$)", re.M | re.S)
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_IMAGE = re.compile(r'\b(src|srcset)="(?![a-z]+:)([^"]+)"')
"""Image of an HTML element, which MkDocs does not change."""


def github_anchor(heading: str, separator: str = "-") -> str:
    """Return the anchor that GitHub gives a heading: lower case, without punctuation, every space a hyphen."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the anchors of headings as on GitHub."""
    config.mdx_configs["toc"]["slugify"] = github_anchor
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside of `docs/`, and a listing of every other file that a page links to."""
    for name, place in TOP.items():
        files.append(File.generated(config, place, content=(ROOT / name).read_text(encoding="utf-8")))
    pages = {file.src_uri: file.content_string for file in files if file.is_documentation_page()}
    for place, text in pages.items():
        for target in sorted(_outside(place, text)):
            if files.get_file_from_path(_listing(target)) is None:
                files.append(File.generated(config, _listing(target), content=_listing_text(target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace links to files outside of `docs/` by links to their pages in the site."""
    place = page.file.src_uri

    def site_link(match: re.Match[str]) -> str:
        target, anchor = _repository_path(place, match[1]), match[2] or ""
        page = _site_path(target)
        return match[0] if page is None else f"]({_relative(page, place)}{anchor})"

    def site_image(match: re.Match[str]) -> str:
        image = _site_path(_repository_path(place, match[2]))
        return match[0] if image is None else f'{match[1]}="{_relative(image, place)}"'

    parts = _FENCE.split(markdown)
    return "".join(
        part if n % 2 else _IMAGE.sub(site_image, _LINK.sub(site_link, part)) for n, part in enumerate(parts)
    )


def _repository_path(place: str, link: str) -> str:
    """Return the path in the repository of a page's link."""
    folder = "" if place in TOP.values() else "docs"
    return posixpath.normpath(posixpath.join(folder, link))


def _site_path(target: str) -> str | None:
    """Return the path in the site for a path in the repository; None: there is nothing at that path."""
    if target in TOP:
        return TOP[target]
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    return _listing(target) if (ROOT / target).exists() else None


def _outside(place: str, text: str) -> set[str]:
    """Return the paths in the repository that a page links to and that become listings."""
    prose = _FENCE.sub("", text)
    targets = {_repository_path(place, match[1]) for match in _LINK.finditer(prose)}
    return {each for each in targets if (_site_path(each) or "").startswith(f"{SOURCES}/")}


def _listing(target: str) -> str:
    return f"{SOURCES}/{target}.md"


def _listing_text(target: str) -> str:
    """Return the listing of a file of code, or of a folder of them, which the search leaves out."""
    path = ROOT / target
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    if not files or any(not each.resolve().is_relative_to(ROOT) for each in files):
        raise PluginError(f"a page links to {target}, which has no file to list")
    parts = [f"---\nsearch:\n  exclude: true\n---\n# {target}\n\nAs it is in the repository.\n"]
    for each in files:
        name = each.relative_to(ROOT).as_posix()
        heading = f"## {name}\n\n" if path.is_dir() else ""
        language = {".py": "python", ".toml": "toml"}.get(each.suffix, "text")
        parts.append(f"{heading}```` {language}\n{each.read_text(encoding='utf-8').rstrip()}\n````\n")
    return "\n".join(parts)


def _relative(target: str, place: str) -> str:
    return posixpath.relpath(target, posixpath.dirname(place) or ".")
