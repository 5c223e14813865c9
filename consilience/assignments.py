"""Settings on the command line: assignments such as ``seed=3``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from common.settings import TYPE_WORDS, Config, Setting, SettingError, did_you_mean
from common.value_ranges import Value


def parse(assignments: Iterable[str], keys: Mapping[str, Setting]) -> Config:
    """Return the values of ``key=value`` assignments, each in its key's type and range.

    Parameters
    ----------
    assignments : iterable of str
        Arguments of ``--set``; the value needs no quotes.
    keys : Mapping[str, Setting]
        The keys that may be set.

    Raises
    ------
    SettingError
        If an assignment has no ``=``, names an unknown key, names a key twice, or has a value of another type or out of
        range.

    Examples
    --------
    >>> from protocols.settings import run_keys
    >>> parse(["seed=3", "repetitions=5"], run_keys())
    {'seed': 3, 'repetitions': 5}
    """
    values: Config = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        key = key.strip()
        if not equals:
            raise SettingError(f"--set takes key=value, not {assignment!r}")
        if key not in keys:
            raise SettingError(f"unknown key {key!r}; {did_you_mean(key, keys)}")
        if key in values:
            raise SettingError(f"{key} is set twice")
        values[key] = keys[key].check(_value(keys[key], text.strip()))
    return values


def _value(setting: Setting, text: str) -> Value:
    """Convert text to the type of a key."""
    try:
        if setting.kind is str:
            return text
        if setting.kind is bool:
            return {"true": True, "false": False}[text.lower()]
        number = int(text) if setting.kind is int else float(text)
        if math.isfinite(number):
            return number
    except (KeyError, ValueError):
        pass
    raise SettingError(f"{setting.key} takes {TYPE_WORDS[setting.kind]}, not {text!r}")
