"""The run configuration as a user types it, and the app folder that Flower bundles."""

import difflib
import importlib.metadata
import json
import math
import shutil
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

Value = bool | int | float | str
"""What a key of Flower's run configuration may hold."""

PACKAGES = ("clients", "common", "consilience", "numerics", "protocols", "scenarios", "server", "strategies")
"""The packages that make up the app, in a checkout and in site-packages alike."""

_KINDS = {bool: "true or false", int: "a whole number", float: "a finite number", str: "text"}


class SettingError(ValueError):
    """A setting that cannot be used; the message is one line that says what to type instead."""


def declared() -> dict[str, Value]:
    """Every key that a run may set, with its default, as pyproject.toml declares them (``bc3e.max-rounds``, ...)."""
    return dict(_declared())


@cache
def _declared() -> Mapping[str, Value]:
    return _flat(tomllib.loads(_app_texts()["pyproject.toml"])["tool"]["flwr"]["app"]["config"])


def parse(assignments: Iterable[str], keys: Mapping[str, Value]) -> dict[str, Value]:
    """Values of ``key=value`` assignments, in the type of each key's default.

    Parameters
    ----------
    assignments : iterable of str
        As typed after ``--set``; the value needs no quotes.
    keys : Mapping[str, bool | int | float | str]
        The keys there are, with their defaults.

    Raises
    ------
    SettingError
        If an assignment has no ``=``, names no such key, names one twice, or its value is of another type.
    """
    values: dict[str, Value] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        key = key.strip()
        if not equals:
            raise SettingError(f"--set takes key=value, not {assignment!r}")
        if key not in keys:
            near = difflib.get_close_matches(key, keys, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(keys)}"
            raise SettingError(f"unknown key {key!r}; {hint}")
        if key in values:
            raise SettingError(f"{key} is set twice")
        values[key] = _typed(key, text.strip(), type(keys[key]))
    return values


def _typed(key: str, text: str, kind: type[Value]) -> Value:
    try:
        if kind is str:
            return text
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        number = int(text) if kind is int else float(text)
        if math.isfinite(number):
            return number
    except (KeyError, ValueError):
        pass
    raise SettingError(f"{key} takes {_KINDS[kind]}, not {text!r}")


def to_toml(values: Mapping[str, Value]) -> str:
    """The values as one argument of ``flwr run --run-config``.

    Raises
    ------
    SettingError
        If a text holds both kinds of quotes or a control character: Flower's parser of this argument cannot carry it.
    """
    return " ".join(f"{key}={_toml_value(key, value)}" for key, value in values.items())


def _toml_value(key: str, value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value)
    if not value.isprintable() or ("'" in value and '"' in value):
        raise SettingError(f"{key}: a value with a control character or with both ' and \" cannot be given to Flower")
    # JSON's escapes are TOML's; between single quotes TOML takes every character as it is.
    return f"'{value}'" if '"' in value else json.dumps(value, ensure_ascii=False)


def stage_app(folder: Path) -> None:
    """Fill an existing empty folder with the app: its packages, pyproject.toml and licence, and nothing else.

    Flower walks through all of an app folder to bundle it; a checkout with an environment inside costs it seconds,
    and site-packages is no app folder at all.
    """
    for package in PACKAGES:
        shutil.copytree(_root() / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in _app_texts().items():
        (folder / name).write_text(text, encoding="utf-8")


def _root() -> Path:
    return Path(__file__).resolve().parents[1]


def _app_texts() -> dict[str, str]:
    """pyproject.toml and LICENSE: of the checkout that this file is in, else from the installed package's metadata."""
    pyproject = _root() / "pyproject.toml"
    if pyproject.is_file() and _publisher(pyproject) == "consilience":
        return {name: (_root() / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "LICENSE")}
    metadata = importlib.metadata.distribution("consilience")
    texts = {
        "pyproject.toml": metadata.read_text("extra_metadata/pyproject.toml"),
        "LICENSE": metadata.read_text("licenses/LICENSE"),
    }
    missing = [name for name, text in texts.items() if text is None]
    if missing:
        raise SettingError(f"the installed consilience lacks its {' and '.join(missing)}; install it again with pip")
    return {name: text for name, text in texts.items() if text is not None}


def _publisher(pyproject: Path) -> str:
    tool = tomllib.loads(pyproject.read_text(encoding="utf-8")).get("tool", {})
    return str(tool.get("flwr", {}).get("app", {}).get("publisher", ""))


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Value]:
    flat: dict[str, Value] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
