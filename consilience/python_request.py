"""One run as Python asks for it: settings objects, DataFrames and keywords, as a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from clients.data.categories import SEPARATORS, Category, can_be_named, categories_text
from clients.data.column_selection import patterns_text
from clients.data.in_memory import HeldTables
from common.results import PREDICT
from common.settings import Config, ConfigError, Setting, Settings, as_typed, did_you_mean
from consilience.python_data import named_data, named_rows, write_tables
from consilience.run_request import RunRequest, simulated_run
from protocols import registry
from protocols.prediction import prediction_of, read_report
from protocols.settings import ProtocolSettings, public_name, run_keys

_CENTER_FILES = ("test", "labels")
"""Keys for which the fusion center's own rows may be given."""


@dataclass(frozen=True)
class PythonRequest:
    """A request, and the tables to which it refers.

    Attributes
    ----------
    request : RunRequest
        Name of a scenario, or settings of a protocol.
    kept : Mapping[str, HeldTables]
        Tables by the key that names them; they must live as long as the run and its results.
    """

    request: RunRequest
    tables: Mapping[str, HeldTables] = field(default_factory=dict)

    def with_files(self, folder: Path) -> RunRequest:
        """Return the same request with every table in a file below a folder."""
        settings = dict(self.request.settings)
        for key, tables in self.tables.items():
            own = folder / key
            own.mkdir(mode=0o700)
            write_tables(tables, own)
            settings[key] = str(own if key == "data" and len(tables.sites) > 1 else own / f"{tables.sites[0]}.parquet")
        return replace(self.request, settings=settings, plan=None)


def python_request(
    what: str | Settings,
    more: Sequence[Settings],
    *,
    data: Any,
    sites: int | None,
    rows: Mapping[str, Any],
    keywords: Mapping[str, Any],
) -> PythonRequest:
    """Return the request for a run.

    Parameters
    ----------
    what : str or Settings
        A scenario, or the settings of a protocol that runs on own data.
    more : sequence of Settings
        Further settings.
    data : Data or None
        The sites' own rows.
    sites : int or None
        Number of sites.
    rows : Mapping
        Rows of the fusion center's own by the name of their keyword: ``test``, ``labels``, ``queries``; None: none.
    keywords : Mapping
        Keys of every run by their names in Python.

    Raises
    ------
    ConfigError
        If a name, a value, or their combination cannot be used.
    DataError
        If data cannot be used.
    """
    objects = [each for each in (what, *more) if not isinstance(each, str)]
    settings = explicit_settings(objects)
    settings.update(_of_keywords(keywords, settings))
    options, protocol = _subject(what, objects, data, keywords)
    tables: dict[str, HeldTables] = {}
    if data is not None:
        points = options.get("scenario") == PREDICT and not _has_new_rows(protocol)
        _keep(settings, tables, "data", *(named_rows("points", data) if points else named_data(data, sites)))
    for name, value in rows.items():
        if value is not None:
            key = name if name in _CENTER_FILES else f"{protocol}.{name}"
            if key not in run_keys():
                raise ConfigError(f"{name} is for another protocol than {protocol}; leave it out")
            _keep(settings, tables, key, *named_rows(name, value))
    settings.update(options)
    return PythonRequest(simulated_run((), settings, sites, 0.0), tables)


def explicit_settings(objects: Sequence[object]) -> Config:
    """Return the keys that settings objects give, even at their defaults."""
    settings: Config = {}
    for each in objects:
        if isinstance(each, type) and issubclass(each, Settings):
            raise ConfigError(f"give settings, not their class: {_example(each.prefix.rstrip('.'))}")
        if not isinstance(each, Settings):
            raise ConfigError(
                f"settings are objects such as {_example()}, not {type(each).__name__}; a key of every run is a keyword"
            )
        settings.update(each.explicit())
    return settings


def protocol_of(settings: object) -> str:
    """Return the protocol whose settings these are.

    Raises
    ------
    ConfigError
        If they are of none.
    """
    if isinstance(settings, type) and issubclass(settings, ProtocolSettings):
        raise ConfigError(f"give settings, not their class: {_example(settings.prefix.rstrip('.'))}")
    if not isinstance(settings, ProtocolSettings):
        raise ConfigError(f"a run has a scenario's name or a protocol's settings ({_example()}), not {settings!r}")
    return settings.prefix.rstrip(".")


def settings_of_keywords(keywords: Mapping[str, Any], known: Mapping[str, Setting]) -> Config:
    """Return the keys that keywords name: ``min_sites`` is ``min-sites``, ``from_`` is ``from``.

    Raises
    ------
    ConfigError
        If there is no such key, or its value cannot be used.
    """
    settings: Config = {}
    for name, value in keywords.items():
        key = name.rstrip("_").replace("_", "-")
        if key not in known:
            raise ConfigError(f"there is no setting {name!r}; {_hint(key, known)}")
        settings.update(_check(known[key], value))
    return settings


def _check(key: Setting, value: Any) -> Config:
    return {key.key: key.check(as_typed(values_as_text(key.key, value), key.kind))}


_NAMES_OF_COLUMNS = ("classes", "clusters", "features", "indicators", "sensitive")
"""Settings that are names of columns, or globs."""


def values_as_text(key: str, value: Any) -> Any:
    """Return values of columns, given as a dictionary, or names of columns as the text of their key; else the value.

    Examples
    --------
    >>> values_as_text("ordinal", {"ward": ["a", "b"]}), values_as_text("features", ["age", "mean area"])
    ('ward=a<b', "age, 'mean area'")
    """
    if key in _NAMES_OF_COLUMNS and isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return patterns_text(value)
    if key not in SEPARATORS or not isinstance(value, Mapping):
        return value
    categories = [Category(column, tuple(map(str, each)), key == "ordinal") for column, each in value.items()]
    if unnamed := [text for each in categories for text in each.values if not can_be_named(text)]:
        raise ConfigError(f"{key} cannot name {unnamed[0]!r}, which has both kinds of quotes")
    return categories_text(categories)


def _hint(key: str, known: Mapping[str, Setting]) -> str:
    of_protocols = [each for each in known if each.endswith(f".{key}")]
    if of_protocols:
        owners = [each.partition(".")[0] for each in of_protocols]
        return f"it is one of {' and '.join(owners)}: give it in that protocol's settings object"
    return did_you_mean(key.replace("-", "_"), [each.replace("-", "_") for each in known if "." not in each])


def _of_keywords(keywords: Mapping[str, Any], other: Mapping[str, Any]) -> Config:
    values = {name: getattr(value, "_folder", value) for name, value in keywords.items() if value is not None}
    settings = settings_of_keywords(values, run_keys())
    for key in settings:
        if key in other:
            raise ConfigError(f"{key} is given twice")
    return settings


def _subject(
    what: str | Settings, objects: Sequence[Settings], data: Any, keywords: Mapping[str, Any]
) -> tuple[Config, str]:
    """Return the keys that say what is run, and the protocol."""
    protocols = {protocol_of(each) for each in objects}
    if isinstance(what, str):
        protocol = _protocol_of_scenario(what, keywords)
        options: Config = {"scenario": what}
        if stray := sorted(protocols - {protocol}):
            raise ConfigError(f"{what} is one of {protocol}; settings of {', '.join(stray)} are not for it")
        if what != PREDICT and not isinstance(data, str | Path | None):
            raise ConfigError(f"{what} has data of its own; for other data give {_example(protocol)} in its place")
        return options, protocol
    protocol = protocol_of(what)
    if len(protocols) > 1:
        raise ConfigError(f"a run has one protocol, not {' and '.join(sorted(protocols))}")
    if data is None:
        raise ConfigError(f"{protocol} on own data needs data=: rows by site, a folder, or a function")
    return {"protocol": protocol}, protocol


def _protocol_of_scenario(name: str, keywords: Mapping[str, Any]) -> str:
    if name == PREDICT:
        source = keywords.get("from_")
        if not source:
            raise ConfigError("predict needs from_=: the run that has learned, or its results directory")
        return str(read_report(str(getattr(source, "path", source)))["protocol"])
    if registry.exists(name):
        raise ConfigError(f"{name!r} is a protocol: give its settings, {_example(name)}, or a scenario's name")
    from scenarios.registry import find

    return find(name).protocol


def _has_new_rows(protocol: str) -> bool:
    """Whether the sites have new rows to predict; if not, they answer at points of the fusion center's."""
    prediction = prediction_of(protocol)
    return prediction is None or prediction.new_rows


def _keep(
    settings: Config, tables_by_key: dict[str, HeldTables], key: str, text: str, tables: HeldTables | None
) -> None:
    if key in settings:
        raise ConfigError(f"{key} is given twice")
    settings[key] = text
    if tables is not None:
        tables_by_key[key] = tables


def _example(protocol: str = "") -> str:
    """Return settings as a user makes them."""
    return f"consilience.{public_name(protocol or registry.names()[0])}()"
