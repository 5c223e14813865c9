"""The schema of settings: a dataclass whose fields say what a key may hold, its default, and what it is for.

A field made by `setting` is one key of a configuration. Its name gives the key (``min_leaf`` is ``min-leaf``, behind
the prefix of its class), its annotation the type. A `typing.Literal` lists the words that are allowed.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import os
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

from common.data_places import absolute_place
from common.grouping import list_names
from common.value_ranges import ANY, Value, ValueRange, one_of

Config = dict[str, Value]
"""A configuration whose values are checked."""

SCENARIO = "what the scenario sets"
"""Default of `other_source`."""

_MOST_LISTED = 40
"""Most names in a hint."""
TYPE_WORDS = {bool: "true or false", int: "a whole number", float: "a finite number", str: "text"}
"""Types in words."""


class SettingError(ValueError):
    """Error about a setting: one line that says what to type instead."""


class ConfigError(SettingError):
    """Error about a value in a configuration: one line that names the key and its allowed values."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """One key of a configuration.

    Attributes
    ----------
    key : str
        Name of the key, with the prefix of its class.
    kind : type
        ``bool``, ``int``, ``float`` or ``str``; a whole number is accepted where a float is wanted.
    default : bool, int, float or str
        Value of a key that is not set.
    help : str
        Purpose of the key in one line.
    allowed : ValueRange
        The values that it may have.
    unset : int, float, str or None
        The value that counts as not set, ``""`` or 0; None: the default itself is declared. A key that a
        scenario may set needs it, to tell a default that the user has typed from a key that is not set.
    words : str
        The default in words; empty: its value says enough.
    path : bool
        Whether the value is the path of a file or folder.
    own : bool
        Whether a real site takes it from its node configuration only.
    data : bool
        Whether it says which data the run has: the files and columns, or how a scenario makes them.

    Examples
    --------
    >>> from common.value_ranges import at_least
    >>> seed = Setting("seed", int, 0, "seed of everything random", at_least(0), None, "", False, False, False)
    >>> seed.check(3), seed.range
    (3, '0 or greater')
    """

    key: str
    kind: type[Value]
    default: Value
    help: str
    allowed: ValueRange
    unset: Value | None
    words: str
    path: bool
    own: bool
    data: bool

    @property
    def declared(self) -> Value:
        """Value of the key in a configuration that does not set it."""
        return self.default if self.unset is None else self.unset

    @property
    def meaning(self) -> str:
        """What the key is for, and what is used if it is not set."""
        return f"{self.help}; {_text_of(self.declared)}: {self.words}" if self.words else self.help

    @property
    def range(self) -> str:
        """The values that may be set, in words."""
        if self.unset is None or not self.allowed.words:
            return self.allowed.words
        return f"{_text_of(self.unset)} (not set), or {self.allowed.words}"

    def check(self, value: Any) -> Value:
        """Return a value in the key's type.

        Raises
        ------
        ConfigError
            If it is of another type or out of range.
        """
        if self.kind is float and type(value) is int:
            value = float(value)
        if type(value) is not self.kind or (isinstance(value, float) and not math.isfinite(value)):
            wanted = (self.range or "text in quotes") if self.kind is str else TYPE_WORDS[self.kind]
            raise ConfigError(f"{self.key} must be {wanted}, got {value!r}")
        assert isinstance(value, bool | int | float | str)  # noqa: S101 - compared above; mypy cannot see it
        if value != self.unset and not self.allowed.test(value):
            raise ConfigError(f"{self.key} must be {self.range}, got {value!r}")
        return value


def _text_of(value: Value) -> str:
    return "empty" if value == "" else f"{value:g}" if isinstance(value, float) else str(value)


def setting(
    default: Value,
    help: str,
    allowed: ValueRange = ANY,
    *,
    unset: int | float | str | None = None,
    other_source: str = SCENARIO,
    words: str = "",
    path: bool = False,
    own: bool = False,
    data: bool = False,
) -> Any:
    """Declare a key as a field of a `Settings` class.

    Parameters
    ----------
    default : bool, int, float or str
        Value of a key that is not set.
    help : str
        Purpose of the key in one line.
    allowed : ValueRange
        The values that may be set; those of a `typing.Literal` need not be said again.
    unset : int, float, str, optional
        ``""`` or 0, which stands for "not set" if another source than the user may set the key.
    other_source : str
        This source, in words.
    words : str
        The default in words, if its value does not say it all (0 for "as many as there are").
    path, own, data : bool
        As in `Setting`.

    Examples
    --------
    >>> from common.value_ranges import at_least
    >>> @dataclasses.dataclass(frozen=True)
    ... class Example(Settings, prefix="example"):
    ...     k: int = setting(10, "number of clusters", at_least(1), unset=0)
    >>> Example.of({"example.k": 0}).k
    10
    >>> Example.keys()["example.k"].meaning
    'number of clusters; 0: 10, or what the scenario sets'
    """
    if unset:
        raise ValueError(f"{unset!r} cannot stand for 'not set': '' and 0 do")
    if unset is not None and not words:
        words = f"{_text_of(default)}, or {other_source}"
    options = (help, allowed, unset, words, path, own, data)
    return dataclasses.field(default=default, metadata={"setting": options})


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings with their defaults: a frozen dataclass whose fields are made by `setting`.

    A field without `setting` is not a key; the caller fills it in.
    """

    prefix: ClassVar[str] = ""

    def __init_subclass__(cls, prefix: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.prefix = f"{prefix}." if prefix else ""

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Note which fields are given, and refuse a name that no field has."""
        names = [each.name for each in dataclasses.fields(cls)]
        for name in named:
            if name not in names:
                family = cls.prefix.rstrip(".") or "the settings"
                raise ConfigError(f"{family}: there is no setting {name!r}; {did_you_mean(name, names)}")
        settings = super().__new__(cls)
        object.__setattr__(settings, "_explicit", frozenset([*names[: len(values)], *named]))
        return settings

    def __post_init__(self) -> None:
        """Check the values that are given, as those of a configuration."""
        settings = self._settings()
        for name in self._explicit_names():
            object.__setattr__(self, name, settings[name].check(as_typed(getattr(self, name), settings[name].kind)))

    @classmethod
    def describe(cls) -> str:
        """Return the settings with their ranges and defaults, as a docstring lists parameters.

        Examples
        --------
        >>> from common.value_ranges import at_least
        >>> @dataclasses.dataclass(frozen=True)
        ... class Example(Settings, prefix="example"):
        ...     k: int = setting(0, "number of clusters", at_least(0), words="as many as fit")
        >>> print(Example.describe())
        k : int, default 0
            number of clusters; 0: as many as fit (0 or greater)
        """
        lines: list[str] = []
        for name, each in cls._settings().items():
            values = f" ({each.allowed.words})" if each.allowed.words else ""
            about = each.meaning if each.unset is None else each.help
            lines += [f"{name} : {each.kind.__name__}, default {each.default!r}", f"    {about}{values}"]
        return "\n".join(lines)

    def explicit(self) -> Config:
        """Return the keys that the caller has set, with their values, also where these equal the defaults.

        Examples
        --------
        >>> from common.value_ranges import at_least
        >>> @dataclasses.dataclass(frozen=True)
        ... class Example(Settings, prefix="example"):
        ...     k: int = setting(10, "number of clusters", at_least(1), unset=0)
        ...     names: str = setting("", "names of columns")
        >>> Example(k=10, names=["a", "b"]).explicit()
        {'example.k': 10, 'example.names': 'a, b'}
        """
        settings = self._settings()
        return {settings[name].key: getattr(self, name) for name in self._explicit_names()}

    def _explicit_names(self) -> list[str]:
        return [name for name in self._settings() if name in self.__dict__["_explicit"]]

    @classmethod
    def keys(cls) -> Mapping[str, Setting]:
        """Return the keys of the class, in the order of its fields."""
        return {each.key: each for each in cls._settings().values()}

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """Return the settings that a configuration makes: keys that it lacks or leaves unset have their default."""
        settings = cls._settings()
        values = {name: config[each.key] for name, each in settings.items() if each.key in config}
        return cls(**{name: value for name, value in values.items() if value != settings[name].unset})

    @classmethod
    def _settings(cls) -> Mapping[str, Setting]:
        return _fields_of(cls)  # type: ignore[arg-type]  # of classes mypy knows no hash


def as_typed(value: Any, kind: type[Value]) -> Any:
    """Convert a value from Python to a configuration's: a list to text, and a number where the key holds text.

    Examples
    --------
    >>> as_typed(5, str), as_typed(["a", "b"], str)
    ('5', 'a, b')
    """
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if kind is not str or isinstance(value, str | bool):
        return value
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return value


@cache
def _fields_of(cls: Any) -> Mapping[str, Setting]:
    """Settings of a class by the names of their fields."""
    hints, settings = get_type_hints(cls), {}
    for each in dataclasses.fields(cls):
        if "setting" not in each.metadata:
            continue
        about, allowed, unset, *rest = each.metadata["setting"]
        kind = hints[each.name]
        if get_origin(kind) is Literal:
            kind, allowed = str, one_of(*get_args(kind))
        key = cls.prefix + each.name.rstrip("_").replace("_", "-")
        unset = unset if unset is None else kind(unset)  # 0 of a float is 0.0
        settings[each.name] = Setting(key, kind, kind(each.default), about, allowed, unset, *rest)
    return settings


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a hint for an unknown name: names that end in it or are similar, else the first of all names.

    Examples
    --------
    >>> did_you_mean("sed", ["seed", "cells"])
    'did you mean seed?'
    >>> did_you_mean("k", ["seed", "example.k"])
    'did you mean example.k?'
    >>> did_you_mean("x", ["seed", "cells"])
    'there are: seed, cells'
    """
    names = list(names)
    near = [each for each in names if each.endswith(f".{name}")]
    if not near:
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        likeness = [difflib.SequenceMatcher(None, each, name).ratio() for each in near]
        near = [each for each, own in zip(near, likeness, strict=True) if own > likeness[0] - 0.15]
    return f"did you mean {' or '.join(near)}?" if near else f"there are: {list_names(names, _MOST_LISTED)}"


def absolute(values: Mapping[str, Value], keys: Mapping[str, Setting]) -> Config:
    """Return the values with absolute paths, for processes in other directories; functions stay unchanged.

    Examples
    --------
    >>> absolute({"data": "/data/../wells", "seed": 3}, {})
    {'data': '/data/../wells', 'seed': 3}
    """
    return {
        key: absolute_place(str(value)) if value and key in keys and keys[key].path else value
        for key, value in values.items()
    }


def to_toml(values: Mapping[str, Value]) -> str:
    """Return the values as one argument of ``flwr run --run-config``.

    Raises
    ------
    SettingError
        If a text holds both kinds of quotes or a control character: Flower's parser of this argument cannot carry it.

    Examples
    --------
    >>> to_toml({"seed": 3, "scenario": "bc3e-wine"})
    'seed=3 scenario="bc3e-wine"'
    """
    return " ".join(f"{key}={toml_value(key, value)}" for key, value in values.items())


def toml_value(key: str, value: Value) -> str:
    """Return a value as TOML writes it; errors as in `to_toml`.

    Examples
    --------
    >>> toml_value("secure-aggregation", True), toml_value("data", "my wells")
    ('true', '"my wells"')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value)
    if not value.isprintable() or ("'" in value and '"' in value):
        raise SettingError(f"{key}: a value with a control character or with both ' and \" cannot be given to Flower")
    # JSON's escapes are TOML's; between single quotes TOML takes every character as it is.
    return f"'{value}'" if '"' in value else json.dumps(value, ensure_ascii=False)
