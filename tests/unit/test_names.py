"""Every name that a function reads is defined in it, around it, in its module, or built in; names are nouns.

Ruff's rule for the first (F821) is off: it takes the dimensions of jaxtyping's annotations for names. mypy reads the
product alone.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from functools import cache
from symtable import SymbolTable, symtable

from tests.support.documentation import ROOT
from tests.unit.test_rooms import ARROWS

# Words that say what has happened to a thing, and not what it is.
_NO_NOUNS = {"asked", "drawn", "found", "given", "kept", "made", "shown", "there", "told"}

_BUILT_IN = {*vars(builtins), "__file__", "__name__", "__doc__", "__path__", "__spec__"}


def scopes(table: SymbolTable) -> Iterator[SymbolTable]:
    yield table
    for child in table.get_children():
        yield from scopes(child)


@cache
def tables_of(source: str, name: str) -> list[SymbolTable]:
    """Symbol tables of a module and of all that is defined in it."""
    return list(scopes(symtable(source, name, "exec")))


def undefined(source: str, name: str) -> list[str]:
    """Undefined names of a module, each with file and line of the function that reads it; annotations do not count."""
    tables = tables_of(source, name)
    module = tables[0]
    known = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    known |= {each.get_name() for table in tables for each in table.get_symbols() if each.is_declared_global()}
    known |= {child.get_name() for child in module.get_children()} | _BUILT_IN
    return [
        f"{name}:{table.get_lineno()}: {table.get_name()} reads {symbol.get_name()}, which nothing defines"
        for table in tables
        for symbol in table.get_symbols()
        if symbol.is_referenced() and symbol.is_global() and symbol.get_name() not in known
    ]


def test_every_name_is_defined() -> None:
    paths = [path for room in (*ARROWS, "benchmarks", "tests") for path in sorted((ROOT / room).rglob("*.py"))]
    assert paths
    wrong = [each for path in paths for each in undefined(path.read_text("utf-8"), str(path.relative_to(ROOT)))]
    assert not wrong, "\n".join(wrong)


def test_what_counts_as_defined() -> None:
    source = """
from __future__ import annotations
import os
def f(a: Unknown) -> None:
    b = 1
    def g():
        return a, b, os, len, late
    return [gone for x in a]
def late():
    global made
    made = 1
class C:
    y = made
    def m(self):
        return y
"""
    assert [line.split(" reads ")[1].split(",")[0] for line in undefined(source, "m.py")] == ["gone", "y"]


def participles(source: str, name: str) -> list[str]:
    """Names that a module defines and that are no nouns, each with file and line of what it is defined in."""
    return [
        f"{name}:{table.get_lineno()}: {symbol.get_name()} is no noun"
        for table in tables_of(source, name)
        for symbol in table.get_symbols()
        if symbol.get_name().strip("_").lower() in _NO_NOUNS
        and (symbol.is_assigned() or symbol.is_parameter() or symbol.is_annotated())
    ]


def test_names_are_nouns() -> None:
    paths = [path for room in ARROWS for path in sorted((ROOT / room).rglob("*.py"))]
    wrong = [each for path in paths for each in participles(path.read_text("utf-8"), str(path.relative_to(ROOT)))]
    assert not wrong, "\n".join(wrong)


def test_what_counts_as_a_participle() -> None:
    source = """
class Shown:
    kept: bool
    def _given(self, told):
        found = [made for made in self.asked]
        return lambda drawn: found
"""
    names = [line.split()[1] for line in participles(source, "m.py")]
    assert sorted(names) == sorted(["Shown", "kept", "_given", "told", "found", "made", "drawn"])
