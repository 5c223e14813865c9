"""The rooms of the house: which may import which, and that shared code names no protocol.

The imports are read from the source, so nothing is loaded. A room may import what stands in its row of `ARROWS`,
itself, and nothing else of this repository.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from protocols.registry import BUILT_IN
from tests.support.documentation import ROOT

ARROWS: dict[str, tuple[str, ...]] = {
    "common": (),
    "numerics": ("common",),
    "protocols": ("numerics", "common"),
    "scenarios": ("protocols", "numerics", "common"),
    "clients": ("scenarios", "protocols", "numerics", "common"),
    "strategies": ("protocols", "numerics", "common"),
    # The center's own files are read as a site reads its own.
    "server": ("strategies", "scenarios", "clients.data", "protocols", "numerics", "common"),
    "consilience": ("server", "strategies", "scenarios", "clients", "protocols", "numerics", "common"),
}
"""By room, what it may import."""

FLOWER_FREE = ("numerics", "common", "scenarios")
"""Rooms that do not import Flower."""

NAMES_NO_PROTOCOL = ("clients", "consilience", "server", "strategies")
"""Rooms whose shared modules name no protocol."""


@cache
def sources(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """Line and dotted name of everything a file imports, wherever in the file."""
    return list(_imports(path))


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, each.name) for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.lineno, f"{node.module}.{each.name}") for each in node.names)


@pytest.mark.parametrize("room", ARROWS)
def test_imports_point_downward(room: str) -> None:
    allowed = (room, *ARROWS[room])
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {room} may not import {name}"
        for path in sources(room)
        for line, name in imports(path)
        if name.partition(".")[0] in ARROWS and not any(f"{name}.".startswith(f"{each}.") for each in allowed)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("room", FLOWER_FREE)
def test_rooms_without_flower(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {room} may not import {name}"
        for path in sources(room)
        for line, name in imports(path)
        if name.partition(".")[0] in ("flwr", "grpc", "ray")
    ]
    assert not wrong, "\n".join(wrong)


def modules(room: str) -> dict[str, Path]:
    """Files of a room by dotted name."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in sources(room)
    }


@pytest.mark.parametrize("room", ARROWS)
def test_no_circles(room: str) -> None:
    """No module imports itself through others, were it only for types or in a function."""
    found = modules(room)
    arrows = {
        name: {target for _, each in imports(path) for target in (each, each.rpartition(".")[0]) if target in found}
        - {name}
        for name, path in found.items()
    }
    # A package's own __init__ may import its modules and be imported by them only if it imports nothing.
    circles = [cycle for name in arrows if (cycle := circle_from(name, arrows))]
    assert not circles, "\n".join(sorted({" -> ".join(cycle) for cycle in circles}))


def circle_from(start: str, arrows: dict[str, set[str]]) -> list[str]:
    """A shortest way from a module back to itself; empty if there is none."""
    ways, seen = [[start]], {start}
    while ways:
        way = ways.pop(0)
        for target in sorted(arrows[way[-1]]):
            if target == start:
                return [*way, start]
            if target not in seen:
                seen.add(target)
                ways.append([*way, target])
    return []


_NAME = re.compile(rf"(?<![\w-])(?:{'|'.join(BUILT_IN)})(?![\w-])", re.IGNORECASE)


PUBLIC = tuple(ROOT / "consilience" / name for name in ("__init__.py", "api.py", "strategies.py"))
"""What a user imports, the protocols' settings and strategies among them, with examples."""


@pytest.mark.parametrize("room", NAMES_NO_PROTOCOL)
def test_shared_code_names_no_protocol(room: str) -> None:
    """Neither in code nor in prose: a protocol is named by its own modules only."""
    wrong = []
    for path in sources(room):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if path in PUBLIC or any(part in BUILT_IN for part in parts):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if _NAME.search(line):
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not wrong, "\n".join(wrong)
