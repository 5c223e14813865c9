"""Files: reading one site's file, and finding the sites' files of a simulation."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from jaxtyping import Int, Shaped

from clients.data.bombs import GzipText, npz_bytes, parquet_bytes, refuse_bomb
from clients.data.table import DataError, Table, check_names, check_rows, frame_columns, make_table
from common.extras import MissingLibraryError, require
from protocols.wire.faults import usable_name

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

ENDINGS = (".csv", ".csv.gz", ".parquet", ".npz")
"""Endings of a site's file, in upper or lower case."""

_ZERO_LED = r"\s*[+-]?0[0-9]"
_ZERO_LED_CELL = re.compile(rb'[,;\t"\r\n]' + _ZERO_LED.encode())
_COMMA_CELL = re.compile(rb"[;\t\r\n]\s*[+-]?\d+,\d+\s*(?=[;\t\r\n]|$)")
"""A number with a decimal comma, in a file whose cells are not separated by commas."""
_POINT_CELL = re.compile(rb"[;\t\r\n]\s*[+-]?\d*\.\d+\s*(?=[;\t\r\n]|$)")
_BUFFER = 2**20  # bytes of a column read ahead; by default pyarrow reads whole row groups


def read_table(
    path: str | Path,
    *,
    own: bool = True,
    text: Sequence[str] = (),
) -> Table:
    r"""Return the table in a site's file.

    CSV (``.csv``, ``.csv.gz``) is UTF-8 with a header, separated by commas; or by semicolons or tabs, if the header has
    more of these, and then numbers may have decimal commas. Only an empty cell is missing: ``None``,
    ``NA`` and ``?`` are text. A column with zero-led whole numbers (``0012``) is text: codes, not quantities. NPZ
    holds arrays of equal length by name; a two-dimensional array ``x`` becomes the columns ``x_0``, ``x_1``, ...

    Parameters
    ----------
    path : str or Path
        Of the file.
    own : bool
        Whether these are a site's own rows, of which there must be two at least.
    text : sequence of str
        Names or globs of columns of a CSV file that are read as text whatever they hold; those that match no column are
        ignored.

    Raises
    ------
    DataError
        If the file is missing or damaged, has no proper columns, or has too few rows.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "ward.csv"
    >>> _ = path.write_text("case,age\n007,41\n008,52\n")
    >>> table = read_table(path)
    >>> table.column("case").tolist(), table.column("age").tolist()
    (['007', '008'], [41, 52])
    """
    path = data_file(path)
    name = path.name.lower()
    if name.endswith(".parquet"):
        return _read_parquet(path, own)
    if name.endswith(".npz"):
        return _read_npz(path, own)
    with open_csv(path) as file:
        part = file.take()
        typed = [name for name in file.header if any(fnmatchcase(name, pattern) for pattern in text)]
        return make_table(str(path), file.parse(part, None, typed).items(), part.first_line, part.lines, whole=own)


def data_file(path: str | Path) -> Path:
    """Return the path of a site's file; a `DataError` if it is missing, or is of an unknown kind."""
    path = Path(path).expanduser()
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name one file in it", "no-data-file")
    if not path.is_file():
        raise DataError(f"{path}: there is no such file", "no-data-file")
    if not path.name.lower().endswith(ENDINGS):
        raise DataError(f"{path}: unknown kind of file; its name must end in {', '.join(ENDINGS)}", "unreadable")
    return path


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn the system's errors about a damaged file into a `DataError`."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError(f"{path}: cannot be read: {reason}", "unreadable") from error


def site_name(path: str | Path) -> str:
    """Return the name of the site whose file this is: the file's name without its ending (``.csv.gz`` is one ending).

    Examples
    --------
    >>> site_name("hospitals/north.csv.gz")
    'north'
    """
    name = Path(path).name
    ending = max((e for e in ENDINGS if name.lower().endswith(e)), key=len, default="")
    return name[: len(name) - len(ending)]


def numbered_site(place: int, n_sites: int) -> str:
    """Return the name of a simulated site without a file: ``site-NUMBER``, with as many digits as the largest needs.

    Examples
    --------
    >>> numbered_site(7, 20)
    'site-07'
    """
    return f"site-{place:0{len(str(n_sites - 1))}d}"


def site_files(folder: str | Path) -> list[Path]:
    """Return the sites' files of a simulation, sorted by name; names that start with ``_`` or ``.`` are no site's.

    Raises
    ------
    DataError
        If `folder` is no folder, holds no site's file, or holds two files whose sites would have the same name.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("north.csv", "south.csv", "_test.csv"):
    ...     (folder / name).touch()
    >>> [path.name for path in site_files(folder)]
    ['north.csv', 'south.csv']
    """
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder; it must hold one file a site", "no-data-file")
    files = sorted(
        (p for p in folder.iterdir() if p.name.lower().endswith(ENDINGS) and p.name[0] not in "_." and p.is_file()),
        key=lambda path: path.name,
    )
    if not files:
        raise DataError(f"{folder}: holds no file of a site; names must end in {', '.join(ENDINGS)}", "no-data-file")
    by_site: dict[str, Path] = {}
    for path in files:
        if not usable_name(site_name(path)):
            raise DataError(
                f"{path}: the file's name without its ending is the site's name, and may have letters, digits, dot, "
                "hyphen and underscore only, 64 at most; rename the file",
                "bad-configuration",
            )
        other = by_site.setdefault(site_name(path), path)
        if other is not path:
            raise DataError(
                f"{folder}: {other.name} and {path.name} would both be site {site_name(path)!r}; rename one",
                "bad-configuration",
            )
    return files


# --- CSV ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CsvPart:
    """Consecutive records of a CSV file.

    Attributes
    ----------
    n : int
        Number of records.
    content : bytes
        The header and the records, in UTF-8.
    first_line, lines
        As in `Table`.
    """

    n: int
    content: bytes
    first_line: int
    lines: Int[np.ndarray, "n"] | None


class CsvFile:
    """A CSV file, read some records at a time; every record must have as many cells as the header.

    pandas alone would fill short rows with empty cells, take a surplus cell for an index, and rename duplicates.

    Parameters
    ----------
    path : Path
        Its name in messages.
    stream : binary file
        Its content.

    Raises
    ------
    DataError
        If the header is unusable.
    """

    def __init__(self, path: Path, stream: BinaryIO | gzip.GzipFile) -> None:
        self._path = path
        self._text = io.StringIO()
        # Held here: if only the records held it, their end would close the stream under its owner.
        self._lines = io.TextIOWrapper(stream, "utf-8-sig", newline="")
        with self._proper():
            first = self._lines.readline()
            self._separator = _separator_of(first)
            lines = self._copy_lines(chain([first] if first else [], self._lines))
            self._records = csv.reader(lines, delimiter=self._separator, strict=True)
            self.header = next(self._records, [])
            if not self.header and not any(self._records):
                raise DataError(f"{path}: is empty; the first line must name the columns", "too-few-rows")
        self._header_text = self._text.getvalue()
        check_names(str(path), self.header)

    def take(self, most: int | None = None) -> CsvPart:
        """Return the next records, `most` at most; none after the last.

        Raises
        ------
        DataError
            If a record has another number of cells than the header, or is no proper CSV.
        """
        self._text = io.StringIO()  # a new one: emptied, it would hold four bytes a character
        before = self._records.line_num
        with self._proper():
            counts = np.fromiter(map(len, islice(self._records, most)), dtype=np.int64)
            lines = None
            if self._records.line_num != before + len(counts):
                lines = np.fromiter(self._record_ends(), dtype=np.int64)[:-1] + before + 1
            for row in np.flatnonzero(counts != len(self.header))[:1]:
                # Blank lines below the last row are no rows.
                if counts[row:].any() or any(self._records):
                    line = before + 1 + row if lines is None else lines[row]
                    raise self._ragged(int(line), int(counts[row]))
                counts, lines = counts[:row], None if lines is None else lines[:row]
        content = (self._header_text + self._text.getvalue()).rstrip("\r\n").encode()
        return CsvPart(len(counts), content, before + 1, lines)

    def parse(
        self, part: CsvPart, numbers: Sequence[str] | None = None, text: Sequence[str] = ()
    ) -> dict[str, Shaped[np.ndarray, "n"]]:
        """Return the columns of a part.

        Parameters
        ----------
        part : CsvPart
            Of this file.
        numbers : sequence of str or None
            Columns to be read as numbers if they are. None: all columns, those of codes (``0012``) as text.
        text : sequence of str
            Columns to be read as text whatever they hold.

        Raises
        ------
        DataError
            If pandas cannot read it.
        """
        import pandas as pd

        options: dict[str, Any] = {"index_col": False, "keep_default_na": False, "na_values": [""], "encoding": "utf-8"}
        # Without low_memory=False one column may come back as numbers in one chunk and text in the next.
        options |= {"skip_blank_lines": False, "low_memory": False}
        if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
            options["float_precision"] = "round_trip"  # from 3.1 on the default is exact, and this deprecated
        if self._separator != ",":
            decimal = "," if _COMMA_CELL.search(part.content) and not _POINT_CELL.search(part.content) else "."
            options |= {"sep": self._separator, "decimal": decimal}
        wanted: dict[str, Any] = {
            "usecols": None if numbers is None else [*numbers, *text],
            "dtype": dict.fromkeys(text, str),
        }
        try:
            columns = dict(frame_columns(pd.read_csv(io.BytesIO(part.content), **wanted, **options)))
            parsed = [name for name, values in columns.items() if values.dtype.kind in "iuf"]
            if numbers is None and parsed and _ZERO_LED_CELL.search(part.content):
                cells = pd.read_csv(io.BytesIO(part.content), usecols=parsed, dtype=str, **options)
                zero_led = [name for name in parsed if cells[name].str.match(_ZERO_LED, na=False).any()]
                columns |= dict(frame_columns(cells[zero_led]))
        except ValueError as error:  # pandas' parser errors among them
            raise DataError(f"{self._path}: is not a proper CSV file: {str(error).strip()}", "unreadable") from error
        return {name: columns[name] for name in self.header if name in columns}

    def _copy_lines(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield lines, and keep them: pandas reads the very lines that the records were checked from."""
        for line in lines:
            self._text.write(line)
            yield line

    def _record_ends(self) -> Iterator[int]:
        """Yield the number of lines up to the end of each record, from 0 before the first."""
        records = csv.reader(io.StringIO(self._text.getvalue(), newline=""), delimiter=self._separator, strict=True)
        yield 0
        for _ in records:
            yield records.line_num

    @contextmanager
    def _proper(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:
            raise DataError(f"{self._path}: is not UTF-8 text; save it as CSV in UTF-8", "unreadable") from error
        except csv.Error as error:
            line = self._records.line_num
            raise DataError(f"{self._path}, line {line}: is not proper CSV: {error}", "unreadable") from error

    def _ragged(self, line: int, count: int) -> DataError:
        cells = "is empty" if count == 0 else f"has {count} cells"
        return DataError(
            f"{self._path}, line {line}: {cells}, but the header names {len(self.header)} columns", "bad-shape"
        )


def _separator_of(header: str) -> str:
    """Return what separates the cells of a header: a comma, unless semicolons or tabs alone do.

    Examples
    --------
    >>> _separator_of("age;height"), _separator_of('"a;b",c'), _separator_of("age")
    (';', ',', ',')
    """
    plain = re.sub(r'"[^"]*"', "", header)
    return next((mark for mark in ";\t" if mark in plain and "," not in plain), ",")


@contextmanager
def open_csv(path: Path) -> Iterator[CsvFile]:
    """Open a CSV file, compressed (``.gz``) or not; a `DataError` if it is damaged, at once or while it is read."""
    with _readable(path), GzipText(path) if path.name.lower().endswith(".gz") else path.open("rb") as stream:
        yield CsvFile(path, stream)


# --- Parquet and NPZ ----------------------------------------------------------------------------------------------


@contextmanager
def open_parquet(path: Path) -> Iterator[tuple[ParquetFile, list[str]]]:
    """Open a Parquet file, with the names of its columns; a `DataError` if it is damaged, also while it is read."""
    try:
        require("pyarrow", f"{path}: a Parquet file")
    except MissingLibraryError as error:
        raise DataError(str(error), "missing-library") from None
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # ParquetFile, not read_table, which turns folder names such as site=1 into columns.
        with _readable(path), pq.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False) as file:
            refuse_bomb(path, parquet_bytes(file))
            # pandas keeps an unnamed row index in the file under such a name; a named one is a column like others.
            names = [name for name in file.schema_arrow.names if not name.startswith("__index_level_")]
            check_names(str(path), names)
            yield file, names
    except pa.ArrowException as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{path}: is not a proper Parquet file: {reason}", "unreadable") from error


def parquet_schema(path: Path) -> tuple[Table, int]:
    """Return the columns of a site's own Parquet file without a row, and its number of rows.

    Raises
    ------
    DataError
        As `open_parquet`, and if there are fewer than two rows.
    """
    with open_parquet(path) as (file, names):
        n = int(file.metadata.num_rows)
        check_rows(str(path), n)
        return empty_table(path, file, names), n


def _read_parquet(path: Path, own: bool) -> Table:
    with open_parquet(path) as (file, names):
        # Column by column, each freed in Arrow once it is converted: one copy of the data, not three.
        frame = file.read(names).select(names).to_pandas(ignore_metadata=True, split_blocks=True, self_destruct=True)
    return make_table(str(path), frame_columns(frame), whole=own)


def empty_table(path: Path, file: ParquetFile, names: Sequence[str]) -> Table:
    """Return the columns of a Parquet file without a row."""
    frame = file.schema_arrow.empty_table().select(names).to_pandas(ignore_metadata=True)
    return make_table(str(path), frame_columns(frame), whole=False)


def _read_npz(path: Path, own: bool) -> Table:
    try:
        with _readable(path):
            archive = np.load(path, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise DataError(f"{path}: is a single array; write named arrays with numpy.savez", "unreadable")
            with archive:
                refuse_bomb(path, npz_bytes(path))
                arrays = {name: archive[name] for name in archive.files}
    except DataError:
        raise
    except (zipfile.BadZipFile, ValueError, KeyError, NotImplementedError) as error:
        raise DataError(
            f"{path}: is not an NPZ file of plain arrays ({error}); store text as strings, not as objects",
            "unreadable",
        ) from error
    return make_table(str(path), arrays.items(), whole=own)
