"""Files: reading one site's file, and finding the sites' files of a simulation."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from clients.data.bombs import npz_bytes, parquet_bytes, refuse_bomb
from clients.data.csv_file import open_csv, readable
from clients.data.table import DataError, Table, check_names, check_rows, frame_columns, make_table
from common.extras import MissingLibraryError, require
from protocols.wire.faults import usable_name

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

ENDINGS = (".csv", ".csv.gz", ".parquet", ".npz")
"""Endings of a site's file, in upper or lower case."""
_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")

_BUFFER = 2**20  # bytes of a column read ahead; by default pyarrow reads whole row groups


def read_table(
    path: str | Path,
    *,
    own: bool = True,
    text: Sequence[str] = (),
) -> Table:
    r"""Return the table in a site's file.

    CSV (``.csv``, ``.csv.gz``) is UTF-8 with a header. Cells are separated by commas; or by semicolons or tabs, if the
    header has no commas, and then numbers may have decimal commas. Only an empty cell is missing: ``None``, ``NA`` and
    ``?`` are text. A column with leading zeros (``0012``) is text: codes, not quantities. NPZ holds arrays of equal
    length by name; a two-dimensional array ``x`` becomes the columns ``x_0``, ``x_1``, ...

    Parameters
    ----------
    path : str or Path
        Path of the file.
    own : bool
        Whether these are a site's own rows, which must be two at least.
    text : sequence of str
        Names or globs of columns of a CSV file to read as text; those that match no column are ignored.

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


def site_name(path: str | Path) -> str:
    """Return the name of a file's site: the file's name without its ending (``.csv.gz`` is one ending).

    Examples
    --------
    >>> site_name("hospitals/north.csv.gz")
    'north'
    """
    name = Path(path).name
    ending = max((e for e in ENDINGS if name.lower().endswith(e)), key=len, default="")
    return name[: len(name) - len(ending)]


def numbered_site(place: int, n_sites: int) -> str:
    """Return the name of a simulated site without a file: ``site-NUMBER``, with leading zeros.

    Examples
    --------
    >>> numbered_site(7, 20)
    'site-07'
    """
    return f"site-{place:0{len(str(n_sites - 1))}d}"


def site_files(folder: str | Path) -> list[Path]:
    """Return the sites' files of a simulation, sorted by name, without names that start with ``_``, ``.`` or ``~``.

    Raises
    ------
    DataError
        If `folder` is no folder, holds no site's file, a spreadsheet, or two files of sites of the same name.

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
    here = sorted((p for p in folder.iterdir() if p.name[0] not in "_.~" and p.is_file()), key=lambda path: path.name)
    for path in (p for p in here if p.name.lower().endswith(_SPREADSHEETS)):
        raise DataError(f"{path}: is a spreadsheet; save it as CSV in UTF-8, or take it away", "unreadable")
    files = [path for path in here if path.name.lower().endswith(ENDINGS)]
    if not files:
        raise DataError(f"{folder}: holds no file of a site; names must end in {', '.join(ENDINGS)}", "no-data-file")
    by_site: dict[str, Path] = {}
    for path in files:
        if not usable_name(site_name(path)):
            raise DataError(
                f"{path}: the file's name without its ending is the site's name, and may have A-Z, a-z, digits, dot, "
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
        with readable(path), pq.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False) as file:
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
        with readable(path):
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
