"""The source of a site's data: a file, a function of the site's own, or a query of its database."""

from __future__ import annotations

import importlib
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, overload

from clients.data.files import read_table
from clients.data.preparation import KEYS_OF_NUMBERS, empty_columns, is_wanted, prepare, prepare_new_rows
from clients.data.table import Code, DataError, Table, check_rows, frame_columns, make_table, setting
from common.data_places import is_function, is_query
from protocols.prediction import predicts_new_rows

logger = logging.getLogger("flwr")

T = TypeVar("T")


def is_simulated(config: Mapping[str, Any]) -> bool:
    """Whether a configuration is of a simulated SuperNode: it has Flower's ``partition-id``, and no ``site``.

    Examples
    --------
    >>> is_simulated({"partition-id": 0, "num-partitions": 3}), is_simulated({"partition-id": 0, "site": "north"})
    (True, False)
    """
    return "partition-id" in config and "site" not in config


def partition_of(config: Mapping[str, Any]) -> tuple[int, int]:
    """Return the place of a simulated site and the number of sites; 0 and 1 for a real one.

    Examples
    --------
    >>> partition_of({"partition-id": 2, "num-partitions": 3}), partition_of({"site": "north"})
    ((2, 3), (0, 1))
    """
    return int(config.get("partition-id", 0)), int(config.get("num-partitions", 1))


@overload
def load(config: Mapping[str, object], *, whole: bool = ...) -> Table: ...


@overload
def load(config: Mapping[str, object], other: type[T]) -> Table | T: ...


def load(
    config: Mapping[str, object],
    other: type[Any] | None = None,
    *,
    whole: bool = True,
) -> Any:
    """Return the table that a site configured as its data.

    Parameters
    ----------
    config : Mapping
        Run configuration overridden by the node configuration. ``data`` is a path; a query of the site's ``database``;
        or ``package.module:function``: a function that returns a `Table`, a mapping of column names to arrays, or a
        pandas DataFrame. The function of a real site takes `config`; in a simulation it takes a site's place and the
        number of sites.
    other : type, optional
        Another class whose instances the function may return; `load` returns them unchanged.
    whole : bool
        Whether two rows are required.

    Raises
    ------
    DataError
        If the data cannot be used; an error inside the site's function is its ``__cause__``.

    Examples
    --------
    >>> load({"data": "records.csv"})
    Traceback (most recent call last):
    clients.data.table.DataError: records.csv: there is no such file
    """
    if other is None:
        return _prepared(_read(config, whole), config)
    for key in KEYS_OF_NUMBERS:
        if is_wanted(config, key):
            raise DataError(
                f"configuration: {key} is for columns of numbers, and these data are labels; leave it out",
                "bad-configuration",
            )
    data = source_of(config)
    if not is_function(data):
        return _prepared(_read_rows(data, config, whole), config)
    answer = call(data, config)
    if isinstance(answer, other):
        return answer
    return _prepared(_as_table(data, answer, whole, f"a pandas DataFrame or an {other.__name__}"), config)


def read_source(config: Mapping[str, object]) -> Table:
    """Return a site's own table without preparation; parameters and errors as in `load`."""
    return _read(config, whole=True)


def _read(config: Mapping[str, object], whole: bool) -> Table:
    data = source_of(config)
    if not is_function(data):
        return _read_rows(data, config, whole)
    return _as_table(data, call(data, config), whole, "or a pandas DataFrame")


def _as_table(data: str, answer: Any, whole: bool, last: str) -> Table:
    table = table_of(data, answer, whole=whole)
    if table is None:
        raise DataError(
            f"{data}: the function returned {type(answer).__name__}; it must return a Table, a mapping of column "
            f"names to one-dimensional arrays, {last}",
            "bad-shape",
        )
    return table


def _read_rows(data: str, config: Mapping[str, object], whole: bool) -> Table:
    """Return the table of a file, or all rows of a query."""
    if not is_query(data):
        return read_table(data, own=whole)
    from clients.data.sql import MOST_ROWS, query_blocks

    (table,) = query_blocks(data, config, MOST_ROWS)
    if whole:
        check_rows(table.source, table.n)
    return table


def _prepared(table: Table, config: Mapping[str, object]) -> Table:
    """Prepare a table, with notes in the site's own log. Rows to predict get the model's medians later."""
    if predicts_new_rows(config):
        return prepare_new_rows(table, config, {})
    done = prepare(table, config)
    if not is_simulated(config):  # the report has those of simulated sites
        for note in (*done.notes, *empty_columns(done.empty)):
            logger.info("%s: %s", table.source, note)
    return done.table


@contextmanager
def without_notes() -> Iterator[None]:
    """Keep notes on the preparation out of the log, while data of sites are checked before a run."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def source_of(config: Mapping[str, object]) -> str:
    """Return the key ``data``; a `DataError` if it is not set.

    Examples
    --------
    >>> source_of({"data": "ward.csv"})
    'ward.csv'
    """
    data = setting(config, "data")
    if not data:
        raise DataError(
            "configuration: data is not set; give a CSV, Parquet or NPZ file, a query, or package.module:function",
            "bad-configuration",
        )
    return data


def call(reference: str, config: Mapping[str, object]) -> Any:
    """Call a site's own function with the configuration, or in a simulation with the site's place and their number."""
    function = find_function(reference)
    if not is_simulated(config):
        with own_code(reference):
            return function(config)
    return call_for_site(reference, function, *partition_of(config))


def call_for_site(reference: str, function: Callable[..., Any], place: int, n_sites: int) -> Any:
    """Call a function for the site at a place of a simulation; `reference` is its name in messages.

    Examples
    --------
    >>> call_for_site("wards:load", lambda place, n_sites: f"{place} of {n_sites}", 1, 3)
    '1 of 3'
    """
    try:
        inspect.signature(function).bind(place, n_sites)
    except TypeError:
        raise DataError(
            f"{reference}: in a simulation the function takes two arguments, a site's place (from 0) and the number of"
            " sites",
            "bad-configuration",
        ) from None
    except ValueError:  # a function of which Python does not know the arguments
        pass
    with own_code(reference):
        return function(place, n_sites)


@contextmanager
def own_code(reference: str) -> Iterator[None]:
    """Turn errors of a site's own code into a `DataError`, with the error as its ``__cause__``."""
    try:
        yield
    except (Exception, SystemExit) as error:  # sys.exit() would end the process, and Flower would send its text
        code: Code = error.code if isinstance(error, DataError) else "function-failed"
        raise DataError(f"{reference}: the function raised {type(error).__name__}: {error}", code) from error


def table_of(reference: str, answer: Any, *, whole: bool = True) -> Table | None:
    """Return a function's answer as a table; None if it is not one. `whole` as in `make_table`.

    Examples
    --------
    >>> table_of("wards:load", {"age": [41, 52]}).n, table_of("wards:load", 5)
    (2, None)
    """
    if isinstance(answer, Table):
        return make_table(answer.source, answer.columns.items(), answer.first_line, answer.lines, whole=whole)
    if isinstance(answer, Mapping):
        return make_table(reference, answer.items(), whole=whole)
    # Recognized by its module, so that pandas is imported only by those who use it.
    if type(answer).__module__.partition(".")[0] == "pandas" and hasattr(answer, "columns"):
        return make_table(reference, frame_columns(answer), whole=whole)
    return None


def find_function(reference: str) -> Callable[..., Any]:
    """Return the function that ``package.module:function`` names; a `DataError` if there is none.

    Examples
    --------
    >>> find_function("math:sqrt")(9.0)
    3.0
    """
    module_name, _, attribute = reference.partition(":")
    try:
        attribute_value: Any = importlib.import_module(module_name)
    except Exception as error:  # whatever the site's code raises while it is imported
        raise DataError(
            f"{reference}: cannot import {module_name} ({type(error).__name__}: {error}); install it, or add its "
            "folder to PYTHONPATH",
            "function-failed",
        ) from error
    for part in attribute.split("."):
        attribute_value = getattr(attribute_value, part, None)
    if not callable(attribute_value):
        raise DataError(f"{reference}: {module_name} has no function {attribute}", "bad-configuration")
    function: Callable[..., Any] = attribute_value
    return function
