"""What the pages say of the code is so: links lead somewhere, keys and defaults are the declared ones, names exist."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from clients.policy import Policy
from consilience.app_folder import PACKAGES
from protocols.registry import SHARED
from protocols.registry import names as protocol_names
from protocols.settings import run_keys, site_keys
from protocols.wire.message import find
from scenarios.registry import scenarios
from tests.support.documentation import ROOT, anchors, blocks, pages, prose, quoted, read, tables, unquoted

PAGES = pages()
NEW = "quantile"
"""The protocol that docs/extend.md adds; its names are tested by tests/docs/test_extend.py."""
_OF_FLOWER = {
    *("site", "partition-id", "num-partitions"),
    *("num-supernodes", "client-resources-num-cpus", "client-resources-num-gpus"),
}
"""Keys of nodes and of simulated federations."""
_FAMILIES = "|".join(protocol_names())
_ROOMS = "|".join((*PACKAGES, "benchmarks", "docs", "tests"))
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)(?: \"[^\"]*\")?\)")
_TAG = re.compile(r"<(?P<tag>img|source|a)\s(?P<attributes>[^>]*)>", re.S)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


# -- links ------------------------------------------------------------------------------------------------------------


def links(page: str) -> list[tuple[str, str]]:
    """Every link and image of a page: where it leads, and of an image the words for who cannot see it."""
    text = unquoted(prose(page))
    found = [(each["target"], each["text"] if each["image"] else "-") for each in _LINK.finditer(text)]
    for each in _TAG.finditer(text):
        attributes = dict(_ATTRIBUTE.findall(each["attributes"]))
        target = attributes.get("src") or attributes.get("srcset") or attributes.get("href")
        if target:
            found.append((target, attributes.get("alt", "") if each["tag"] == "img" else "-"))
    return found


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere_and_images_are_told_in_words(page: str) -> None:
    broken = []
    for target, words in links(page):
        if not words.strip():
            broken.append(f"{target}: an image without words for who cannot see it")
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
    told = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    missing = [page for page in PAGES if page.startswith("docs/") and f" {Path(page).name}\n" not in told]
    assert not missing, f"the nav of mkdocs.yml lacks {missing}"


# -- keys -------------------------------------------------------------------------------------------------------------


def known_keys() -> set[str]:
    """Keys of runs, of nodes and of policies."""
    policy = [each.name.replace("_", "-") for each in fields(Policy)]
    return {*run_keys(), *site_keys(), *policy, *_OF_FLOWER}


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])  # that one names former keys, too
def test_every_key_that_a_page_names_is_one(page: str) -> None:
    known, told = known_keys(), " ".join(f"`{each}`" for each in quoted(page))
    named = set(re.findall(rf"`((?:{_FAMILIES})\.[a-z][a-z0-9-]*)(?=[`=])", told))
    named |= set(re.findall(r"`([a-z]+(?:-[a-z]+)+)=", told))
    assert not named - known, f"{page} names keys that there are not: {sorted(named - known)}"


def test_every_key_is_documented() -> None:
    told = "\n".join(read(page) for page in PAGES)
    # A table may name several keys of one family: `coreset.rows`, `.split`.
    told += "".join(
        f"`{family}{key}`"
        for family, rest in re.findall(r"`(\w+)\.[\w-]+`((?:, `\.[\w-]+`)+)", told)
        for key in re.findall(r"`(\.[\w-]+)`", rest)
    )
    missing = sorted(
        key for key in known_keys() - _OF_FLOWER if not re.search(rf"(?<![\w.-]){re.escape(key)}(?![\w-])", told)
    )
    assert not missing, f"no page says what these keys are: {missing}"


def defaults(page: str) -> list[tuple[str, str]]:
    """Keys and defaults of a page's tables of parameters."""
    found = []
    for heading, *rows in tables(page):
        if heading[:2] != ["key", "default"]:
            continue
        for names, stated, *_ in rows:
            keys = re.findall(r"`([^`]+)`", names)
            values = [stated] if len(keys) == 1 else stated.split(", ")
            if len(keys) == len(values):
                found += list(zip(keys, values, strict=True))
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if defaults(page)])
def test_every_default_that_a_table_states_is_the_declared_one(page: str) -> None:
    wrong = []
    for key, stated in defaults(page):
        each, said = run_keys().get(key), _value(stated)
        if each is not None and each.default not in ("", 0) and said is not None and not _same(said, each.default):
            wrong.append(f"{key}: {stated!r} is said, {each.default!r} holds")
    assert not wrong, f"{page}: " + "; ".join(wrong)


def _value(stated: str) -> str | None:
    """A default as it is written, without remarks; None: a sentence, or nothing."""
    plain = re.sub(r"\([^)]*\)", "", stated).strip()
    found = re.fullmatch(r"`([^`]*)`|([^\s`]+)", plain)
    return None if found is None else (found[1] if found[1] is not None else found[2])


def _same(said: str, holds: Any) -> bool:
    if isinstance(holds, bool):
        return said == str(holds).lower()
    if isinstance(holds, str):
        return said == holds
    try:
        return float(said) == float(holds)
    except ValueError:
        return False


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_scenarios_payloads_and_files_that_a_page_names_are_there(page: str) -> None:
    missing = []
    for name in quoted(page):
        if re.fullmatch(rf"(?:{_FAMILIES})-[a-z0-9-]+", name) and not name.endswith("-own-data"):
            missing += [] if name in scenarios() else [f"scenario {name}"]
        elif re.fullmatch(rf"(?:{'|'.join((*protocol_names(), *SHARED))})\.[A-Z]\w+", name):
            try:
                find(name)
            except ValueError:
                missing.append(f"payload {name}")
        elif re.fullmatch(rf"(?:{_ROOMS})/\S*", name) and not _there(name):
            missing.append(f"file {name}")
        elif re.fullmatch(r"(?:[a-z_]+/)?[a-z_]+\.py", name) and not (_there(name) or _there(f"[a-z]*/**/{name}")):
            missing.append(f"module {name}")
    assert not missing, f"{page}: " + "; ".join(missing)


def _there(name: str) -> bool:
    """Whether there is such a file; what a new protocol would add, docs/extend.md puts in a copy."""
    return NEW in name or "NAME" in name or any(ROOT.glob(name.partition("::")[0].rstrip("/")))


def test_blocks_that_are_not_run_say_why() -> None:
    marked = [block for page in PAGES for block in blocks(page) if block.not_run]
    assert all(len(block.not_run.split()) >= 3 for block in marked)
    marks = sum(unquoted(prose(page)).count("<!-- not run:") for page in PAGES)
    assert not marks, "a comment 'not run' stands before no block"
