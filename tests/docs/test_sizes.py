"""The table of extras in docs/deploy.md: what each takes on disk, by the files of what is installed here."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from common.extras import EXTRA_OF
from tests.support.documentation import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OF_USERS = sorted({*EXTRA_OF.values()})
TABLE = dict(
    re.findall(
        r"^\| `?([a-z]+)`? \|.*\| (\d+)(?: more| in all)? \|$",
        (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8"),
        re.M,
    )
)
"""Megabytes by extra, as the page has them."""
SLACK = 0.1
PIP = 20.0
"""Megabytes of pip, which an empty environment has."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="wheels differ in size")


def closure(requirements: Iterable[str]) -> set[str]:
    """Names of all distributions that an installation of these requirements brings."""
    waiting = [Requirement(each) for each in requirements]
    names: set[str] = set()
    seen: set[tuple[str, str]] = set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        for extra in ("", *wanted.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            names.add(name)
            for text in distribution(name).requires or ():
                each = Requirement(text)
                # Without an extra, one that only an extra brings has a marker that does not hold.
                if each.marker is None or each.marker.evaluate({"extra": extra}):
                    waiting.append(each)
    return names


@cache
def megabytes(name: str) -> float:
    """What it takes once pip has compiled it, which here it may not be: compiled, a module takes its own size again."""
    own = distribution(name)
    paths = [ROOT / str(own.locate_file(file)) for file in own.files or () if file.suffix != ".pyc"]
    blocks = (path.stat().st_blocks * (2 if path.suffix == ".py" else 1) for path in paths if path.is_file())
    return sum(blocks) * 512 / 2**20


@pytest.fixture(scope="module")
def base() -> set[str]:
    return closure(PROJECT["dependencies"])


def test_the_table_has_every_extra() -> None:
    assert {"none", "all", *OF_USERS} == TABLE.keys()


def test_every_library_of_an_extra_is_known_by_it() -> None:
    """What is not in `EXTRA_OF` would be a traceback where it is missing."""
    for extra in OF_USERS:
        direct = {canonicalize_name(Requirement(each).name) for each in PROJECT["optional-dependencies"][extra]}
        assert direct - {"flwr"} <= EXTRA_OF.keys()
        assert {library for library, of in EXTRA_OF.items() if of == extra} <= direct | {"ray"}


def test_what_everybody_installs(base: set[str]) -> None:
    assert not base & EXTRA_OF.keys()
    assert sum(map(megabytes, base)) == pytest.approx(int(TABLE["none"]) - PIP, rel=SLACK)


@pytest.mark.parametrize("extra", OF_USERS)
def test_what_an_extra_adds(extra: str, base: set[str]) -> None:
    try:
        added = closure(PROJECT["optional-dependencies"][extra]) - base
    except PackageNotFoundError as error:
        pytest.skip(f"{error} is not installed here")
    if any(name.startswith("nvidia") for name in added):
        pytest.skip("this torch is the build for CUDA")
    assert sum(map(megabytes, added)) == pytest.approx(int(TABLE[extra]), rel=SLACK)
