"""Fingerprint of a site's data file: hashes of its rows, independent of their order and of the file's name and format.

The hash of a row is that of all its cells. If the site names an `id` column, it is the hash of the cell in that column,
so that an entity stays the same when its other cells change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Shaped, UInt64

from clients.data.blocks import open_blocks
from clients.data.table import Table, setting

MOST_KEPT = 2**16
"""Number of smallest hashes that represent a file: a fair sample of a large one."""


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """Hashes of a file's rows.

    Attributes
    ----------
    digest : str
        Digest of all rows in any order.
    n_rows : int
        Number of rows.
    rows : ndarray
        The `MOST_KEPT` smallest hashes of distinct rows, ascending.
    """

    digest: str
    n_rows: int
    rows: UInt64[np.ndarray, "k"]

    def new_rows(self, known: UInt64[np.ndarray, "l"]) -> int:
        """Return the number of rows that are not among the known ones; an estimate for more than `MOST_KEPT` rows.

        Examples
        --------
        >>> now = Fingerprint("", 4, np.array([1, 2, 5, 9], np.uint64))
        >>> now.new_rows(np.array([2, 9], np.uint64))
        2
        """
        compared = self.rows[: np.searchsorted(self.rows, known[-1], "right")] if len(known) == MOST_KEPT else self.rows
        if not len(compared):
            return self.n_rows
        share = np.mean(~np.isin(compared, known))
        return int(share * len(compared)) if len(compared) == self.n_rows else round(share * self.n_rows)

    def rows_changed(self, before: Fingerprint) -> int:
        """Return the number of rows that are new since an earlier state, or gone; an estimate for large files.

        Examples
        --------
        >>> before = Fingerprint("a", 3, np.array([1, 2, 5], np.uint64))
        >>> Fingerprint("b", 4, np.array([1, 2, 6, 9], np.uint64)).rows_changed(before)
        3
        """
        if self.digest == before.digest:
            return 0
        last = min((each.rows[-1] for each in (self, before) if len(each.rows) == MOST_KEPT), default=None)
        hashes = [each.rows if last is None else each.rows[each.rows <= last] for each in (self, before)]
        changed = len(np.setxor1d(hashes[0], hashes[1], assume_unique=True))
        if last is not None:
            changed = round(changed * max(self.n_rows, before.n_rows) / max(map(len, hashes)))
        return max(changed, abs(self.n_rows - before.n_rows), 1)  # rows that occur twice have one hash


def fingerprint(config: Mapping[str, object]) -> Fingerprint:
    """Return the fingerprint of a site's data file, which is read a block at a time.

    Parameters
    ----------
    config : Mapping
        Configuration with the file's path in ``data``, and perhaps ``id``.

    Raises
    ------
    DataError
        If the file cannot be read.
    """
    blocks = open_blocks(config)
    name = setting(config, "id")
    names = [name] if name in blocks.schema.columns else list(blocks.schema.columns)
    n_rows, total, rows = 0, 0, np.zeros(0, np.uint64)
    for table in blocks.tables(names):
        hashes = _row_hashes(table, names, named=len(names) == 1 and names[0] == name)
        n_rows += len(hashes)
        total += int(hashes.sum(dtype=np.uint64))
        rows = smallest(rows, hashes)
    about = f"{n_rows} {total} ".encode() + rows.astype("<u8").tobytes()
    return Fingerprint(hashlib.sha256(about).hexdigest(), n_rows, rows)


def smallest(*hashes: UInt64[np.ndarray, "_"]) -> UInt64[np.ndarray, "k"]:
    """Return the `MOST_KEPT` smallest hashes of several arrays, ascending, each once.

    Examples
    --------
    >>> smallest(np.array([5, 2], np.uint64), np.array([2, 9], np.uint64)).tolist()
    [2, 5, 9]
    """
    return np.unique(np.concatenate(hashes))[:MOST_KEPT]


def _row_hashes(table: Table, names: list[str], *, named: bool) -> UInt64[np.ndarray, "n"]:
    """Return a hash of each row, for any order of the columns; with `named`, for any name of the single column."""
    total = np.zeros(table.n, np.uint64)
    for name in names:
        origin = b"" if named else name.encode(errors="surrogatepass")
        seed = np.frombuffer(hashlib.blake2b(origin, digest_size=8).digest(), np.uint64)
        total += _mix_bits(_cell_hashes(table.columns[name]) ^ seed)
    return _mix_bits(total)


def _cell_hashes(cells: Shaped[np.ndarray, "n"]) -> UInt64[np.ndarray, "n"]:
    """Return a hash of each cell; a number and its text have the same hash, with or without decimals."""
    import pandas as pd

    if cells.dtype != object:
        return _number_hashes(cells.astype(np.float64))
    numbers = pd.to_numeric(pd.Series(cells), errors="coerce").to_numpy(np.float64)
    empty = np.asarray(pd.isna(cells))
    texts = np.where(empty, "", cells)
    hashes: UInt64[np.ndarray, "n"] = _number_hashes(numbers)
    is_text = np.isnan(numbers) & ~empty
    hashes[is_text] = pd.util.hash_array(texts[is_text])
    return hashes


def _number_hashes(numbers: Shaped[np.ndarray, "n"]) -> UInt64[np.ndarray, "n"]:
    plain = np.where(np.isnan(numbers), np.nan, numbers + 0.0)  # one NaN, and no negative zero
    return _mix_bits(plain.view(np.uint64))


def _mix_bits(words: UInt64[np.ndarray, "n"]) -> UInt64[np.ndarray, "n"]:
    """Mix the bits of each 64-bit word: every bit then depends on all (Steele, Lea and Flood 2014, SplitMix)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    mixed: UInt64[np.ndarray, "n"] = words ^ (words >> np.uint64(31))
    return mixed
