"""A CSV file, read in parts."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import Int, Shaped

from clients.data.bombs import GzipText
from clients.data.cells import without_points
from clients.data.table import DataError, check_names, frame_columns

_ZERO_LED = r"\s*[+-]?0[0-9]"
_ZERO_LED_CELL = re.compile(rb'[,;\t"\r\n]' + _ZERO_LED.encode())
_COMMA_CELL = re.compile(rb"[;\t\r\n]\s*[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+\s*(?=[;\t\r\n]|$)")
"""A number with a decimal comma, in a file whose cells are not separated by commas."""
_POINT_CELL = re.compile(rb"[;\t\r\n]\s*[+-]?(?![1-9]\d{0,2}\.\d{3}\s*(?:[;\t\r\n]|$))\d*\.\d+\s*(?=[;\t\r\n]|$)")
"""A number with a decimal point, other than `1.234`, which is a thousand in a file of decimal commas."""


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn the system's errors about a damaged file into a `DataError`."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError(f"{path}: cannot be read: {reason}", "unreadable") from error


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
        Name of the file in messages.
    stream : binary file
        Content of the file.

    Raises
    ------
    DataError
        If the header is unusable.
    """

    def __init__(self, path: Path, stream: BinaryIO | gzip.GzipFile) -> None:
        self._path = path
        self._text = io.StringIO()
        # This reference keeps the stream open for its owner after the records have ended.
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
        if first.startswith("sep="):
            raise DataError(f"{path}: {first.strip()!r} is no header; leave out this line", "unreadable")
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
            A part of this file.
        numbers : sequence of str or None
            Columns to read as numbers where possible; None: all columns, those of codes (``0012``) as text.
        text : sequence of str
            Columns to read as text.

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
        commas = self._separator != "," and _COMMA_CELL.search(part.content) and not _POINT_CELL.search(part.content)
        options |= {"sep": self._separator, "decimal": "," if commas else "."}
        wanted: dict[str, Any] = {
            "usecols": None if numbers is None else [*numbers, *text],
            "dtype": dict.fromkeys(text, str),
        }
        try:
            columns = dict(frame_columns(pd.read_csv(io.BytesIO(part.content), **wanted, **options)))
            if commas:
                others = columns.keys() - set(text)
                columns |= {name: without_points(columns[name]) for name in others if columns[name].dtype == object}
            parsed = [name for name, values in columns.items() if values.dtype.kind in "iuf"]
            if numbers is None and parsed and _ZERO_LED_CELL.search(part.content):
                cells = pd.read_csv(io.BytesIO(part.content), usecols=parsed, dtype=str, **options)
                zero_led = [name for name in parsed if cells[name].str.match(_ZERO_LED, na=False).any()]
                columns |= dict(frame_columns(cells[zero_led]))
        except ValueError as error:  # pandas' parser errors among them
            raise DataError(f"{self._path}: is not a proper CSV file: {str(error).strip()}", "unreadable") from error
        return {name: columns[name] for name in self.header if name in columns}

    def _copy_lines(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield lines, and keep a copy for pandas, which then parses the same lines that were checked."""
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
        first = f"the header names {len(self.header)} columns"
        if len(self.header) == 1:
            first = f"the first line is no header: {self.header[0]!r}; leave out what stands above the names of columns"
        return DataError(f"{self._path}, line {line}: {cells}, but {first}", "bad-shape")


def _separator_of(header: str) -> str:
    """Return the separator of a header's cells: a comma, unless only semicolons or tabs occur.

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
    with readable(path), GzipText(path) if path.name.lower().endswith(".gz") else path.open("rb") as stream:
        yield CsvFile(path, stream)
