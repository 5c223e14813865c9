"""The examples in docstrings do what they say."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.support.documentation import ROOT

ROOMS = ("clients", "common", "consilience", "numerics", "protocols", "scenarios", "server", "strategies")

MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for room in ROOMS
    for path in sorted((ROOT / room).rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert outcome.attempted
    assert not outcome.failed
