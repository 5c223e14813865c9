"""A site's own data in blocks of rows, for data that need not fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from clients.data.column_selection import holds_numbers
from clients.data.csv_file import open_csv
from clients.data.files import data_file, empty_table, open_parquet, read_table
from clients.data.preparation import is_wanted
from clients.data.source import call, load, own_code, source_of, table_of
from clients.data.table import DataError, Table, check_rows, frame_columns, make_table, quote
from common.data_places import is_function, is_query

BLOCK_ROWS = 65_536
"""Most rows of a block."""
BLOCK_CELLS = 2**18
"""Most cells of a block: blocks of a table of many columns have fewer rows."""

_HEAD_ROWS = 200

_Names = Sequence[str]
_Read = Callable[[_Names | None, _Names], Iterator[Table]]
"""Yields all rows, given names of columns to read as numbers where possible (None: all), and as text."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """A site's own data in blocks, which can be read any number of times.

    Attributes
    ----------
    schema : Table
        All columns without rows, with the types of the first block.
    read : Callable
        Reads the rows, for `tables`.
    """

    schema: Table
    read: _Read

    def tables(self, numbers: Sequence[str], text: Sequence[str] = ()) -> Iterator[Table]:
        """Yield all rows, from the first on, a block at a time.

        Parameters
        ----------
        numbers, text : sequence of str
            Names of the wanted columns, each in one of the two. In a CSV file, which has no types, columns of `text`
            hold their cells verbatim (``007``). Columns of `numbers` hold numbers in every block in which all cells are
            numbers, else text. A block of empty cells is NaN in both.

        Yields
        ------
        Table
            The next `BLOCK_ROWS` rows at most, in the order of the source; messages about a row have its line or number
            in the source.

        Raises
        ------
        DataError
            If the next rows cannot be read; an error inside the site's function is its ``__cause__``.
        """
        return _two_rows(self.schema.source, self.read(numbers, text))


def open_blocks(config: Mapping[str, object]) -> Blocks:
    r"""Open a site's own data, and read the first block.

    One block of a CSV or Parquet file is in memory at a time, whatever the size of the file. An NPZ file is read as a
    whole in every pass.

    Parameters
    ----------
    config : Mapping
        Run configuration overridden by the node configuration. ``data`` as for `clients.data.load`; a function may also
        return an iterable of tables, mappings or frames with the same columns, such as a generator. It is then called
        anew for every pass; a single table is kept.

    Raises
    ------
    DataError
        As `clients.data.load`, for errors in the first block.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "ward.csv"
    >>> _ = path.write_text("case,age\na,41\nb,52\n")
    >>> blocks = open_blocks({"data": str(path)})
    >>> [table.column("age").tolist() for table in blocks.tables(["age"])]
    [[41, 52]]
    """
    source = source_of(config)
    if is_wanted(config):  # medians need all rows
        table = load(config)
        # Without its rows, an empty column would pass for one of numbers.
        none = {
            name: np.zeros(0, object) if cells.dtype.kind == "f" and not holds_numbers(cells) else cells[:0]
            for name, cells in table.columns.items()
        }
        return Blocks(replace(table, columns=none), partial(_slices, table))
    read: _Read
    if is_query(source):
        read = partial(_query_tables, source, config)
    elif is_function(source):
        read = _function_reader(source, config)
    else:
        path = data_file(source)
        source, read = str(path), _file_reader(path)
    tables = _two_rows(source, read(None, ()))
    head = next(tables)
    if head.n == 1:
        next(tables)  # raises if there is no second row
    # Copies: a view would keep the block in memory.
    return Blocks(replace(head, columns={name: cells[:0].copy() for name, cells in head.columns.items()}), read)


def read_head(path: str | Path) -> Table:
    """Return the first rows of a site's file: 200 at most, perhaps none. An NPZ file is read as a whole.

    Raises
    ------
    DataError
        As `clients.data.read_table`, for errors in these rows.
    """
    path = data_file(path)
    name = path.name.lower()
    if name.endswith(".npz"):
        return read_table(path, own=False)
    if name.endswith(".parquet"):
        with open_parquet(path) as (file, names):
            for batch in file.iter_batches(_HEAD_ROWS, columns=names):
                frame = batch.select(names).to_pandas(ignore_metadata=True)
                return make_table(str(path), frame_columns(frame), whole=False)
            return empty_table(path, file, names)
    with open_csv(path) as csv:
        part = csv.take(_HEAD_ROWS)
        return make_table(str(path), csv.parse(part).items(), part.first_line, part.lines, whole=False)


def _block_rows(columns: int) -> int:
    return min(BLOCK_ROWS, max(BLOCK_CELLS // max(columns, 1), 1))


def _two_rows(source: str, tables: Iterator[Table]) -> Iterator[Table]:
    """Yield the tables that have rows; a `DataError` if all of them have fewer than two."""
    n = 0
    for table in tables:
        n += table.n
        if table.n:
            yield table
    check_rows(source, n)


# --- Files --------------------------------------------------------------------------------------------------------


def _file_reader(path: Path) -> _Read:
    name = path.name.lower()
    if name.endswith(".parquet"):
        return partial(parquet_tables, path)
    if name.endswith(".npz"):
        return partial(_npz_tables, path)
    return partial(_csv_tables, path)


def _csv_tables(path: Path, numbers: _Names | None, text: _Names) -> Iterator[Table]:
    with open_csv(path) as file:
        most = _block_rows(len(file.header))
        while (part := file.take(most)).n:
            columns = file.parse(part, numbers, text)
            yield make_table(str(path), columns.items(), part.first_line, part.lines, whole=False)


def parquet_tables(path: Path, numbers: _Names | None, text: _Names) -> Iterator[Table]:
    """Yield the rows of a Parquet file a block at a time; parameters as of `Blocks.tables`."""
    with open_parquet(path) as (file, names):
        from pyarrow import default_memory_pool

        wanted = _select_names(names, numbers, text)
        before = 0
        for batch in file.iter_batches(_block_rows(len(names)), columns=wanted):
            frame = batch.select(wanted).to_pandas(ignore_metadata=True)
            rows = np.arange(before + 1, before + 1 + len(frame))
            before += len(frame)
            del batch
            default_memory_pool().release_unused()  # else Arrow keeps tens of megabytes that it has freed
            yield make_table(str(path), frame_columns(frame), lines=rows, whole=False)


def _npz_tables(path: Path, numbers: _Names | None, text: _Names) -> Iterator[Table]:
    yield from _slices(read_table(path), numbers, text)


def _select_names(names: Iterable[str], numbers: _Names | None, text: _Names) -> list[str]:
    return [name for name in names if numbers is None or name in numbers or name in text]


def _slices(table: Table, numbers: _Names | None, text: _Names, before: int = 0) -> Iterator[Table]:
    """Yield a table in blocks; `before` is the number of rows of its source before it."""
    wanted = _select_names(table.columns, numbers, text)
    most = _block_rows(len(table.columns))
    for start in range(0, table.n, most):
        part = slice(start, min(start + most, table.n))
        first = table.first_line + before
        lines = np.arange(first + part.start, first + part.stop) if table.lines is None else table.lines[part]
        places = None if table.places is None else table.places[part]
        yield replace(table, columns={name: table.columns[name][part] for name in wanted}, lines=lines, places=places)


def _query_tables(query: str, config: Mapping[str, object], numbers: _Names | None, text: _Names) -> Iterator[Table]:
    from clients.data.sql import query_blocks

    for table in query_blocks(query, config, BLOCK_ROWS):
        wanted = _select_names(table.columns, numbers, text)
        yield replace(table, columns={name: table.columns[name] for name in wanted})


# --- A site's own function ----------------------------------------------------------------------------------------


def _function_reader(reference: str, config: Mapping[str, object]) -> _Read:
    answer = call(reference, config)
    table = table_of(reference, answer)
    if table is not None:
        return partial(_slices, table)
    if not isinstance(answer, Iterable) or isinstance(answer, str | bytes | np.ndarray):
        raise DataError(
            f"{reference}: the function returned {type(answer).__name__}; it must return a Table, a mapping of column "
            "names to one-dimensional arrays, a pandas DataFrame, or an iterable of these",
            "bad-shape",
        )
    return partial(_pieces, reference, config)


def _pieces(reference: str, config: Mapping[str, object], numbers: _Names | None, text: _Names) -> Iterator[Table]:
    """Yield the tables that the function returns one after the other, in blocks."""
    names: set[str] = set()
    before = 0
    for number, answer in enumerate(_answers(reference, config), start=1):
        table = table_of(reference, answer, whole=False)
        if table is None:
            raise DataError(
                f"{reference}: the function gave {type(answer).__name__} as its table {number}; it must give a Table, "
                "a mapping of column names to one-dimensional arrays or a pandas DataFrame",
                "bad-shape",
            )
        names = names or set(table.columns)
        for name in sorted(names ^ set(table.columns))[:1]:
            lacks = "lacks" if name in names else "has, beside those of the first,"
            raise DataError(
                f"{reference}: table {number} {lacks} the column {name!r}; all tables must have the same columns, "
                f"{quote(sorted(names))}",
                "bad-shape",
            )
        own_rows = table.source == reference  # a table from a file counts that file's rows
        yield from _slices(table, numbers, text, before if own_rows else 0)
        before += table.n if own_rows else 0


def _answers(reference: str, config: Mapping[str, object]) -> Iterator[Any]:
    answers: Iterable[Any] = call(reference, config)
    with own_code(reference):
        yield from answers
