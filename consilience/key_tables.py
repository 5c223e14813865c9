"""Settings of a run in a TOML file: written with comments for the user, and read again."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any

from common.data_places import as_text, is_function, paths_by_site
from common.settings import Config, Setting, SettingError, did_you_mean, toml_value
from protocols.settings import RunSettings, run_keys

SITES = "sites"
"""Key of a file for the number of simulated sites, which is no key of a run."""

_TO_SET = ("data", "target", "features", "id", "sensitive")
"""Keys that own data often need."""
_NOT_IN_FILES = ("scenario", "protocol", "resume-from", "from")
_WIDTH = 100


def default_of(each: Setting) -> str:
    """Return the default of a key in TOML's form.

    Examples
    --------
    >>> default_of(run_keys()["round-timeout"])
    '600.0'
    """
    return toml_value(each.key, each.default)


def config_file(protocol: str, scenario: str) -> str:
    """Return a file of settings: those that the user must set, and the others as comments with their defaults.

    Parameters
    ----------
    protocol : str
        Protocol of the run.
    scenario : str
        Name of a scenario; empty: the protocol on own data.

    Examples
    --------
    >>> [line for line in config_file("mean", "").splitlines() if line and line[0] != "#"]
    ['protocol = "mean"', 'data = "data"', '[mean]']
    """
    keys = RunSettings.keys()
    own = {key: each for key, each in run_keys().items() if key.startswith(f"{protocol}.")}
    what = {"scenario": scenario} if scenario else {"protocol": protocol, "data": "data"}
    others = {key: each for key, each in keys.items() if key not in {*what, *_NOT_IN_FILES}}
    lines = [f"# Settings of a run: consilience run --config FILE. {_LEGEND}", ""]
    for key, value in what.items():
        lines += [*_comment(keys[key]), f"{key} = {toml_value(key, value)}", ""]
    lines += ["# number of simulated sites; as many as the scenario or the data have", f"# {SITES} = 3", ""]
    order = sorted(others, key=lambda key: (key not in _TO_SET or bool(scenario), list(others).index(key)))
    for key in order:
        lines += [*_comment(keys[key]), f"# {key} = {default_of(keys[key])}", ""]
    lines.append(f"[{protocol}]")
    for key, each in own.items():
        lines += [*_comment(each), f"# {key.partition('.')[2]} = {default_of(each)}", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


_LEGEND = "A line that begins with # holds a default; remove the # to set it."


def _comment(each: Setting) -> Iterator[str]:
    allowed = f" ({each.range})" if each.range else ""
    for line in wrap(f"{each.meaning}{allowed}", _WIDTH):
        yield f"# {line}"


def read_config(path: str | Path) -> tuple[Config, int | None]:
    """Return the settings in a file, each of its key's type and range, and the number of sites if it has one.

    Parameters
    ----------
    path : str or Path
        Path of the TOML file. Keys with a dot may be in a table (``[PROTOCOL]``). Paths are relative to its folder.

    Raises
    ------
    SettingError
        If it cannot be read, or holds a key or a value that cannot be used.
    """
    file = Path(path).expanduser()
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # no TOML, or no UTF-8
        raise SettingError(f"{path} is no TOML file: {error}") from None
    sites = tables.pop(SITES, None)
    if sites is not None and (type(sites) is not int or sites < 1):
        raise SettingError(f"{path}: {SITES} must be a whole number, 1 or greater, got {sites!r}")
    keys, values = run_keys(), {}
    for key, value in _flat(tables, ""):
        if key not in keys:
            raise SettingError(f"{path}: unknown key {key!r}; {did_you_mean(key, [*keys, SITES])}")
        try:
            values[key] = keys[key].check(value)
        except SettingError as error:
            raise SettingError(f"{path}: {error}") from None
        if keys[key].path and value:
            values[key] = _beside(file, str(value))
    return values, sites


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _beside(file: Path, value: str) -> str:
    """Return a path, or paths by site, relative to the file's folder; a function unchanged."""
    if is_function(value):
        return value
    paths = {site: str(file.parent / Path(path).expanduser()) for site, path in paths_by_site(value).items()}
    return as_text(paths) if paths else str(file.parent / Path(value).expanduser())
