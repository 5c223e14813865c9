"""Pages compared with the code: links have targets, keys and defaults are the declared ones, names exist."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from clients.policy import Policy
from consilience._path import PACKAGES
from protocols.registry import SHARED
from protocols.registry import names as protocol_names
from protocols.settings import run_keys, site_keys
from protocols.wire.message import find
from scenarios.registry import scenarios
from tests.support.documentation import ROOT, anchors, blocks, pages, prose, quoted, read, tables, unquoted

PAGES = pages()
NEW = "quantile"
"""The protocol that docs/extend.md adds; tests/docs/test_extend.py tests its names."""
_OF_FLOWER = {
    *("site", "partition-id", "num-partitions"),
    *("num-supernodes", "client-resources-num-cpus", "client-resources-num-gpus", "init-args-num-cpus"),
}
"""Keys of nodes and of simulated federations."""
_FAMILIES = "|".join(protocol_names())
_ROOMS = "|".join((*PACKAGES, "benchmarks", "consilience", "docs", "tests"))
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)(?: \"[^\"]*\")?\)")
_TAG = re.compile(r"<(?P<tag>img|source|a)\s(?P<attributes>[^>]*)>", re.S)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


# -- links ------------------------------------------------------------------------------------------------------------


def links(page: str) -> list[tuple[str, str]]:
    """Return every link and image of a page: its target, and the alternative text of an image."""
    text = unquoted(prose(page))
    targets = [(each["target"], each["text"] if each["image"] else "-") for each in _LINK.finditer(text)]
    for each in _TAG.finditer(text):
        attributes = dict(_ATTRIBUTE.findall(each["attributes"]))
        target = attributes.get("src") or attributes.get("srcset") or attributes.get("href")
        if target:
            targets.append((target, attributes.get("alt", "") if each["tag"] == "img" else "-"))
    return targets


@pytest.mark.parametrize("page", PAGES)
def test_links_have_targets_and_images_alternative_texts(page: str) -> None:
    broken = []
    for target, words in links(page):
        if not words.strip():
            broken.append(f"{target}: an image without alternative text")
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = unquote(target).partition("#")
        path = (ROOT / page).parent / file if file else ROOT / page
        if not path.exists():
            broken.append(f"{target}: there is no such file")
        elif not path.resolve().is_relative_to(ROOT):
            broken.append(f"{target}: leads out of the repository")
        elif anchor and path.suffix == ".md" and anchor not in anchors(path.resolve().relative_to(ROOT).as_posix()):
            broken.append(f"{target}: there is no such heading")
    assert not broken, f"{page}: " + "; ".join(broken)


def test_every_page_is_in_the_site() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    missing = [page for page in PAGES if page.startswith("docs/") and f" {Path(page).name}\n" not in nav]
    assert not missing, f"the nav of mkdocs.yml lacks {missing}"


# -- keys -------------------------------------------------------------------------------------------------------------


def known_keys() -> set[str]:
    """Return the keys of runs, of nodes and of policies."""
    policy = [each.name.replace("_", "-") for each in fields(Policy)]
    return {*run_keys(), *site_keys(), *policy, *_OF_FLOWER}


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])  # that one names former keys, too
def test_every_key_that_a_page_names_exists(page: str) -> None:
    known, text = known_keys(), " ".join(f"`{each}`" for each in quoted(page))
    named = set(re.findall(rf"`((?:{_FAMILIES})\.[a-z][a-z0-9-]*)(?=[`=])", text))
    named |= set(re.findall(r"`([a-z]+(?:-[a-z]+)+)=", text))
    assert not named - known, f"{page} names keys that do not exist: {sorted(named - known)}"


def test_every_key_is_documented() -> None:
    text = "\n".join(read(page) for page in PAGES)
    # A table may name several keys of one family: `coreset.rows`, `.split`.
    text += "".join(
        f"`{family}{key}`"
        for family, rest in re.findall(r"`(\w+)\.[\w-]+`((?:, `\.[\w-]+`)+)", text)
        for key in re.findall(r"`(\.[\w-]+)`", rest)
    )
    missing = sorted(
        key for key in known_keys() - _OF_FLOWER if not re.search(rf"(?<![\w.-]){re.escape(key)}(?![\w-])", text)
    )
    assert not missing, f"no page documents these keys: {missing}"


def defaults(page: str) -> list[tuple[str, str]]:
    """Return the keys and defaults of a page's tables of parameters."""
    stated_defaults = []
    for heading, *rows in tables(page):
        if heading[:2] != ["key", "default"]:
            continue
        for names, stated, *_ in rows:
            keys = re.findall(r"`([^`]+)`", names)
            values = [stated] if len(keys) == 1 else stated.split(", ")
            if len(keys) == len(values):
                stated_defaults += list(zip(keys, values, strict=True))
    return stated_defaults


@pytest.mark.parametrize("page", [page for page in PAGES if defaults(page)])
def test_every_default_that_a_table_states_is_the_declared_one(page: str) -> None:
    wrong = []
    for key, stated in defaults(page):
        each, value = run_keys().get(key), _value(stated)
        if each is not None and each.default not in ("", 0) and value is not None and not _same(value, each.default):
            wrong.append(f"{key}: the page has {stated!r}, the default is {each.default!r}")
    assert not wrong, f"{page}: " + "; ".join(wrong)


def _value(stated: str) -> str | None:
    """Return a default as the page states it, without remarks; None: a sentence, or nothing."""
    plain = re.sub(r"\([^)]*\)", "", stated).strip()
    match = re.fullmatch(r"`([^`]*)`|([^\s`]+)", plain)
    return None if match is None else (match[1] if match[1] is not None else match[2])


def _same(value: str, default: Any) -> bool:
    if isinstance(default, bool):
        return value == str(default).lower()
    if isinstance(default, str):
        return value == default
    try:
        return float(value) == float(default)
    except ValueError:
        return False


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_scenarios_payloads_and_files_that_a_page_names_exist(page: str) -> None:
    missing = []
    for name in quoted(page):
        if re.fullmatch(rf"(?:{_FAMILIES})-[a-z0-9-]+", name) and "-own-data" not in name:
            known = name in scenarios() or re.sub(r"-\d+$", "", name) in scenarios()  # a run's short name
            missing += [] if known else [f"scenario {name}"]
        elif re.fullmatch(rf"(?:{'|'.join((*protocol_names(), *SHARED))})\.[A-Z]\w+", name):
            try:
                find(name)
            except ValueError:
                missing.append(f"payload {name}")
        elif re.fullmatch(rf"(?:{_ROOMS})/\S*", name) and not _exists(name):
            missing.append(f"file {name}")
        elif re.fullmatch(r"(?:[a-z_]+/)?[a-z_]+\.py", name) and not (_exists(name) or _exists(f"[a-z]*/**/{name}")):
            missing.append(f"module {name}")
    assert not missing, f"{page}: " + "; ".join(missing)


def _exists(name: str) -> bool:
    """Whether there is such a file, or it belongs to the package of docs/extend.md."""
    return NEW in name or "NAME" in name or any(ROOT.glob(name.partition("::")[0].rstrip("/")))


def test_blocks_that_are_not_run_say_why() -> None:
    marked = [block for page in PAGES for block in blocks(page) if block.not_run]
    assert all(len(block.not_run.split()) >= 3 for block in marked)
    marks = sum(unquoted(prose(page)).count("<!-- not run:") for page in PAGES)
    assert not marks, "a comment 'not run' is before no block"
