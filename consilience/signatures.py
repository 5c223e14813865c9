"""The stub `public_types.pyi`: types of settings, results and errors for a type checker, written from declarations.

A type checker of a user's script finds only the package `consilience`: the app's packages have common names, so a wheel
hides them in a folder, and a checkout does not offer them either. ``make keys`` writes the stub.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import consilience
from clients.data.categories import SEPARATORS
from common.settings import Settings
from protocols import registry
from protocols.settings import RunSettings, public_name
from server.report.data import Report
from server.report.verdict import Decision, Verdict, Way

STUB = Path(__file__).with_name("public_types.pyi")

_NAMED = frozenset({"scenario", "seed", "output_dir", "resume_from", "protocol", "data", "target", "labels", "test"})
"""Keys of every run that are arguments of `consilience.run`, or that it does not take."""
_HEADER = '''"""What a type checker knows. Written by make keys (consilience/signatures.py)."""

# fmt: off
# ruff: noqa: E501

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict

from common.settings import Settings as _Declared
from consilience.finished_run import Run

Text = str | float | Sequence[str] | PathLike[str]

class Settings(_Declared): ...
'''
_ERRORS = ("Setting", "Config", "Checkpoint", "Data", "Fusion", "Results", "Scenario")
_TYPES = {bool: "bool", int: "int", float: "float", str: "Text"}


def stub() -> str:
    """Return the text of the stub.

    Examples
    --------
    >>> "class RunKeywords(TypedDict, total=False):" in stub()
    True
    """
    lines = [_HEADER]
    for protocol in registry.BUILT_IN:
        cls: type[Settings] = registry.room(protocol, "settings").Settings
        lines += [f"class {public_name(protocol)}(Settings):", "    def __init__(", "        self,", "        *,"]
        lines += [f"        {name}: {_written(kind)} = ...," for name, kind in _fields(cls)]
        lines += ["    ) -> None: ...", *(f"    {name}: {_read(kind)}" for name, kind in _fields(cls)), ""]
    lines += ["class RunKeywords(TypedDict, total=False):"]
    special = {"from_": "Run | str | PathLike[str]", **dict.fromkeys(SEPARATORS, "Mapping[str, Sequence[str]] | Text")}
    lines += [
        f"    {name}: {special.get(name, _written(kind))}" for name, kind in _fields(RunSettings) if name not in _NAMED
    ]
    lines += ["", f"Decision = {_read(Decision)}"]
    for result in (Way, Verdict, Report):
        lines += ["", *_class(result)]
    errors = [getattr(consilience, f"{name}Error") for name in _ERRORS]
    lines += ["", *(f"class {each.__name__}({each.__base__.__name__}): ..." for each in errors)]
    return "\n".join(lines) + "\n"


def _class(cls: type[Any]) -> list[str]:
    """Return a class of results: its fields and methods."""
    methods = [(name, inspect.signature(each)) for name, each in vars(cls).items() if inspect.isfunction(each)]
    return [
        f"class {cls.__name__}:",
        *(f"    {each.name}: {each.type}" for each in dataclasses.fields(cls)),
        *(f"    def {name}{signature}: ..." for name, signature in methods if not name.startswith("_")),
    ]


def _fields(cls: type[Settings]) -> Iterator[tuple[str, object]]:
    hints = typing.get_type_hints(cls)
    return ((each.name, hints[each.name]) for each in dataclasses.fields(cls) if "setting" in each.metadata)


def _written(kind: object) -> str:
    """Return the type of a value in a call: for text, also numbers, lists of names, and paths."""
    return _TYPES[kind] if isinstance(kind, type) else _read(kind)


def _read(kind: object) -> str:
    if isinstance(kind, type):
        return kind.__name__
    words = ", ".join(f'"{word}"' for word in typing.get_args(kind))
    return f"Literal[{words}]"
