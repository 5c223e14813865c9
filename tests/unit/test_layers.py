"""The layers of the tests: what is in tests/unit runs without a whole run.

The imports are read from the source, so nothing is loaded.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.documentation import ROOT

WHOLE_RUNS = "server.app"
"""The module whose import means whole runs."""


@cache
def imported_names(path: Path, *, everywhere: bool) -> list[str]:
    """Dotted names that a file imports; inside functions too if `everywhere`."""
    return list(_imported_names(ast.parse(path.read_text(encoding="utf-8")), everywhere))


def _imported_names(tree: ast.Module, everywhere: bool) -> Iterator[str]:
    for node in ast.walk(tree) if everywhere else tree.body:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{each.name}" for each in node.names)


@cache
def source_of(name: str) -> Path | None:
    """The file of this repository that a dotted name stands for, or whose attribute it is."""
    parts = name.split(".")
    for count in (len(parts), len(parts) - 1):
        stem = ROOT.joinpath(*parts[:count])
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            if count and path.exists():
                return path
    return None


def chain_to(target: Path, starts: list[Path]) -> list[str]:
    """A chain of imports from some files to another; empty if there is none."""
    chains, visited = [[start] for start in starts], {*starts}
    for chain in chains:
        is_test = chain[-1] in starts
        for name in imported_names(chain[-1], everywhere=is_test):
            path = source_of(name)
            if path == target:
                return [str(each.relative_to(ROOT)) for each in (*chain, path)]
            if path and path not in visited:
                visited.add(path)
                chains.append([*chain, path])
    return []


def test_unit_tests_reach_no_whole_run() -> None:
    target = source_of(WHOLE_RUNS)
    assert target is not None
    tests = sorted((ROOT / "tests" / "unit").rglob("test_*.py"))
    # Together first, which is quick. Only where some chain exists, the chain of each test.
    chains = [chain_to(target, [path]) for path in tests] if chain_to(target, tests) else []
    wrong = [" imports ".join(chain) for chain in chains if chain]
    assert not wrong, "move the test to tests/contract: " + "; ".join(wrong)
