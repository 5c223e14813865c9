"""Reading one party's file, and finding the parties' files of a simulation."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from clients.data.table import DataError, Table, check_names, frame_columns, make_table
from protocols.faults import usable_name

if TYPE_CHECKING:
    from _csv import Reader

ENDINGS = (".csv", ".csv.gz", ".parquet", ".npz")
"""What the name of a party's file may end in, in upper or lower case."""

_ZERO_LED = r"\s*[+-]?0[0-9]"
_ZERO_LED_CELL = re.compile(rb'[,"\r\n]' + _ZERO_LED.encode())


def read_table(path: str | Path) -> Table:
    """Read one party's file.

    CSV (``.csv``, ``.csv.gz``) is UTF-8, separated by commas, with a header. Only an empty cell is missing: ``None``,
    ``NA`` and ``?`` are text. A column with zero-led whole numbers (``0012``) is text: codes, not quantities. NPZ
    holds arrays of equal length by name; a two-dimensional array ``x`` becomes the columns ``x_0``, ``x_1``, ...

    Raises
    ------
    DataError
        If the file is missing or damaged, or has no proper columns, or fewer than two rows.
    """
    path = Path(path).expanduser()
    name = path.name.lower()
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name one file in it", "no-data-file")
    if not path.is_file():
        raise DataError(f"{path}: there is no such file", "no-data-file")
    if not name.endswith(ENDINGS):
        raise DataError(f"{path}: unknown kind of file; its name must end in {', '.join(ENDINGS)}", "unreadable")
    try:
        if name.endswith(".parquet"):
            return _read_parquet(path)
        if name.endswith(".npz"):
            return _read_npz(path)
        content = path.read_bytes()
        return _read_csv(path, gzip.decompress(content) if name.endswith(".gz") else content)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError(f"{path}: cannot be read: {reason}", "unreadable") from error


def site_name(path: str | Path) -> str:
    """The name of the site whose file this is: the file's name without its ending (``.csv.gz`` is one ending)."""
    name = Path(path).name
    ending = max((e for e in ENDINGS if name.lower().endswith(e)), key=len, default="")
    return name[: len(name) - len(ending)]


def party_files(folder: str | Path) -> list[Path]:
    """The parties' files of a simulation, sorted by name; names that start with ``_`` or ``.`` are no party's.

    Raises
    ------
    DataError
        If `folder` is no folder, holds no party's file, or two files that would make sites of one name.
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


def _read_csv(path: Path, content: bytes) -> Table:
    import pandas as pd

    content = content.rstrip(b"\r\n")  # blank lines below the last row are no rows
    header, first_line, lines = _check_records(path, content)
    options: dict[str, Any] = {"index_col": False, "keep_default_na": False, "na_values": [""], "encoding": "utf-8"}
    # Without low_memory=False one column may come back as numbers in one block and text in the next.
    options |= {"skip_blank_lines": False, "low_memory": False}
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
        options["float_precision"] = "round_trip"  # from 3.1 on the default is exact, and this deprecated
    try:
        columns = dict(frame_columns(pd.read_csv(io.BytesIO(content), **options)))
        numbers = [name for name, values in columns.items() if values.dtype.kind in "iuf"]
        if numbers and _ZERO_LED_CELL.search(content):
            text = pd.read_csv(io.BytesIO(content), dtype=str, usecols=numbers, **options)
            zero_led = [name for name in numbers if text[name].str.match(_ZERO_LED, na=False).any()]
            columns |= dict(frame_columns(text[zero_led]))
    except ValueError as error:  # pandas' parser errors among them
        raise DataError(f"{path}: is not a proper CSV file: {str(error).strip()}", "unreadable") from error
    return make_table(str(path), ((name, columns[name]) for name in header), first_line, lines)


def _check_records(path: Path, content: bytes) -> tuple[list[str], int, Int[np.ndarray, "n"] | None]:
    """Header, line of the first row, and `Table.lines`, of a CSV file whose rows all have the header's cells.

    pandas alone would fill short rows with empty cells, take a surplus cell for an index, and rename duplicates.
    """
    if not content:
        raise DataError(f"{path}: is empty; the first line must name the columns", "too-few-rows")
    records = _records(content)
    try:
        header = next(records)
        header_end = records.line_num
        counts = np.fromiter(map(len, records), dtype=np.int64)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not UTF-8 text; save it as CSV in UTF-8", "unreadable") from error
    except csv.Error as error:
        line = records.line_num
        raise DataError(f"{path}, line {line}: is not proper CSV: {error}", "unreadable") from error
    check_names(str(path), header)
    if len(header) == 1 and re.search(r"[;\t]", header[0]):
        raise DataError(f"{path}: its cells must be separated by commas, not semicolons or tabs", "bad-shape")

    lines = None
    if records.line_num != header_end + len(counts):
        lines = np.fromiter(_record_ends(content), dtype=np.int64)[:-1] + 1
    for row in np.flatnonzero(counts != len(header))[:1]:
        line = header_end + 1 + row if lines is None else lines[row]
        cells = "is empty" if counts[row] == 0 else f"has {counts[row]} cells"
        raise DataError(f"{path}, line {line}: {cells}, but the header names {len(header)} columns", "bad-shape")
    return header, header_end + 1, lines


def _records(content: bytes) -> Reader:
    return csv.reader(io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", newline=""), strict=True)


def _record_ends(content: bytes) -> Iterator[int]:
    """The last line of every record, the header's first."""
    records = _records(content)
    return (records.line_num for _ in records)


# --- Parquet and NPZ ----------------------------------------------------------------------------------------------


def _read_parquet(path: Path) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # ParquetFile, not read_table: the latter makes columns of folder names such as site=1.
        with pq.ParquetFile(path) as file:
            arrow = file.read()
        # pandas keeps an unnamed row index in the file under such a name; a named one is a column like others.
        arrow = arrow.select([i for i, name in enumerate(arrow.column_names) if not name.startswith("__index_level_")])
        check_names(str(path), arrow.column_names)
        frame = arrow.to_pandas(ignore_metadata=True)
    except pa.ArrowException as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{path}: is not a proper Parquet file: {reason}", "unreadable") from error
    return make_table(str(path), frame_columns(frame))


def _read_npz(path: Path) -> Table:
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise DataError(f"{path}: is a single array; write named arrays with numpy.savez", "unreadable")
        with archive:
            arrays = {name: archive[name] for name in archive.files}
    except DataError:
        raise
    except (zipfile.BadZipFile, ValueError, KeyError, NotImplementedError) as error:
        raise DataError(
            f"{path}: is not an NPZ file of plain arrays ({error}); store text as strings, not as objects",
            "unreadable",
        ) from error
    return make_table(str(path), arrays.items())
