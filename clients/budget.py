"""The budget of a site's data: the amounts answered about them over all runs, and their limits.

The counters of a run begin anew with every run, and a center may start a run a minute. So a site also keeps an account
for its rows, in ``budget/`` in its own directory. It recognizes rows by their hashes (clients/data/fingerprint.py): a
copy of the file, in another order or format, has the same account, and so has a file that shares any row with an
earlier one. Accounts are written before an answer leaves, by one process at a time.

Sums over a file before and after the addition of a single row reveal that row. So a site answers nothing about a file
that has changed by few rows since the last answers, until more rows have changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from jaxtyping import UInt64

from clients.logged_fault import LoggedFault
from common.data_places import is_function, is_query
from common.files import file_state, lock, replacing, sync_directory, write_file
from protocols.budget import KINDS, RUNS, Limit
from protocols.wire.faults import Fault, SiteFault

if TYPE_CHECKING:
    from clients.data.fingerprint import Fingerprint

FOLDER = "budget"
NAME = "budget.json"
_RUNS_KNOWN = 100
"""Run numbers that an account keeps. A run that asks again after so many others counts as a new one."""
_FILES_KNOWN = 100
"""Files whose account is noted, so that an unchanged file is not read again."""


@dataclass
class Account:
    """The amounts answered about some rows.

    Attributes
    ----------
    source : str
        Place of the rows when they were last read.
    n_rows, new_rows : int
        Number of rows at that time, and of those in no earlier file of this account; 0: not known.
    since : str
        Day of the first ask.
    all : dict
        By kind, the amount in all.
    day, today : str, dict
        The last day with an ask, in UTC, and by kind the amount on this day.
    runs : list of int
        Flower's numbers of the last runs.
    digest : str
        Digest of all rows when the site last answered about them.
    changed : int
        Number of rows that are new since then, or gone.

    Examples
    --------
    >>> account, limits = Account("ward.csv"), {"models": Limit(day=5, all=9)}
    >>> account.add({"models": 4}, limits), account.all
    ('', {'models': 4})
    >>> account.add({"models": 2}, limits).partition(";")[0]
    'budget: models: 4 of 5 a day are spent, and this ask takes 2'
    """

    source: str
    n_rows: int = 0
    new_rows: int = 0
    since: str = ""
    all: dict[str, int] = field(default_factory=dict)
    day: str = ""
    today: dict[str, int] = field(default_factory=dict)
    runs: list[int] = field(default_factory=list)
    digest: str = ""
    changed: int = 0

    def on(self, day: str) -> Self:
        """Begin a new day; an earlier day, of a clock that was set back, begins nothing."""
        if day > self.day:
            self.day, self.today = day, {}
        self.since = self.since or day
        return self

    def add(self, amounts: Mapping[str, int], limits: Mapping[str, Limit]) -> str:
        """Add an ask's amounts, all or none; return a sentence on the limit that they exceed, or an empty text."""
        for kind, more in amounts.items():
            limit = limits[kind]
            for so_far, most, span in ((self.today, limit.day, "a day"), (self.all, limit.all, "in all")):
                if so_far.get(kind, 0) + more > most:
                    return (
                        f"budget: {kind}: {so_far.get(kind, 0):,} of {most:,} {span} are spent, and this ask takes"
                        f" {more:,}; raise it under [budget] in the site's policy, or wait"
                    )
        for so_far in (self.today, self.all):
            so_far.update({kind: so_far.get(kind, 0) + more for kind, more in amounts.items()})
        return ""

    def absorb(self, other: Account) -> None:
        """Add another account, which has rows in common with this one."""
        day = max(self.day, other.day)
        self.since = min(filter(None, (self.since, other.since)), default="")
        for mine, others in ((self.all, other.all), (self.on(day).today, other.on(day).today)):
            mine.update({kind: mine.get(kind, 0) + more for kind, more in others.items()})
        self.runs += other.runs


class Budget:
    """The budget of one site's data, kept in the site's own directory.

    Parameters
    ----------
    directory : Path or None
        The site's own; None: nothing is counted.
    config : Mapping
        The site's configuration, with ``data`` and ``id``.
    limits : Mapping
        By kind (`protocols.budget.KINDS`).
    run : int
        Flower's number of the run that asks.
    fewest_new : int
        Rows by which a file that has changed must differ from the one that the site last answered about.

    Examples
    --------
    >>> import tempfile
    >>> limits = {kind: Limit(day=5, all=9) for kind in KINDS}
    >>> budget = Budget(Path(tempfile.mkdtemp()), {"data": "hospital.data:rows"}, limits, run=1)
    >>> budget.charge({"models": 4})
    >>> budget.account().all
    {'models': 4, 'runs': 1}
    """

    def __init__(
        self,
        directory: Path | None,
        config: Mapping[str, Any],
        limits: Mapping[str, Limit],
        run: int,
        fewest_new: int = 1,
    ) -> None:
        self._folder = None if directory is None or not config.get("data") else directory / FOLDER
        self._config = {"data": str(config.get("data", "")), "id": config.get("id", "")}
        self._limits, self._run, self._fewest_new = limits, run, fewest_new

    def charge(self, amounts: Mapping[str, int]) -> None:
        """Count an ask, or an answer before anything of it leaves.

        Parameters
        ----------
        amounts : Mapping
            By kind.

        Raises
        ------
        SiteFault
            If that would exceed a limit, or cannot be written: then nothing is answered.
        """
        if self._folder is None:
            return
        with _open_book(self._folder) as book:
            account = book.account(self._config).on(datetime.now(UTC).date().isoformat())
            if 0 < account.changed < self._fewest_new:  # nothing is saved: the next ask compares again
                raise LoggedFault(
                    Fault.FEW_NEW_ROWS,
                    f"{account.source}: {account.changed} rows are new or gone since this site last answered about it:"
                    f" wait until {self._fewest_new} are, or set new-rows in the site's policy",
                )
            account.changed = 0
            began = self._run in account.runs
            spent = account.add({**amounts, **({} if began else {RUNS: 1})}, self._limits)
            if not (spent or began):
                account.runs = [*account.runs[1 - _RUNS_KNOWN :], self._run]
            book.save()
        if spent:
            raise LoggedFault(Fault.BUDGET_SPENT, spent)

    def account(self) -> Account:
        """Return the account of the data as they are now; nothing is written."""
        if self._folder is None:
            return Account(self._config["data"])
        return Book.read(self._folder).account(self._config)


class Book:
    """All accounts of a site.

    Attributes
    ----------
    accounts : dict of Account
        By the digest of the rows with which each began, or the place of data that have none.
    """

    def __init__(self, folder: Path, accounts: dict[str, Account], files: dict[str, Any]) -> None:
        self._folder, self.accounts, self._files = folder, accounts, files
        self._rows: dict[str, UInt64[np.ndarray, "k"]] = {}
        self._last: dict[str, UInt64[np.ndarray, "k"]] = {}

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return the accounts in a folder; none if it holds none.

        Raises
        ------
        SiteFault
            If they cannot be read: a site whose budget may be spent answers nothing.
        """
        path = folder / NAME
        try:
            content = json.loads(path.read_bytes())
            accounts = {key: Account(**each) for key, each in content["accounts"].items()}
            return cls(folder, accounts, dict(content["files"]))
        except (FileNotFoundError, NotADirectoryError):
            return cls(folder, {}, {})
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            raise LoggedFault(Fault.OUTPUT_NOT_WRITTEN, f"{path} cannot be read: {error}") from error

    def account(self, config: Mapping[str, Any]) -> Account:
        """Return the account of a site's data: that of its rows, or a new one. A changed file is read again."""
        source = config["data"]
        if is_function(source) or is_query(source):
            return self.accounts.setdefault(source, Account(source))
        path = Path(source).expanduser().absolute()
        now = {"state": file_state(path), "id": config["id"]}
        known = self._files.pop(str(path), {})
        unread = hashlib.sha256(os.fsencode(path)).hexdigest()
        key = known.get("account", unread)
        if {**known, **now} != known:
            same = {unread, key if known.get("state") == now["state"] else unread}
            key = self._key(path, config, same) or key  # rows that cannot be read are those of before
        self._files = {**dict([*self._files.items()][1 - _FILES_KNOWN :]), str(path): {**now, "account": key}}
        return self.accounts.setdefault(key, Account(str(path)))

    def _key(self, path: Path, config: Mapping[str, Any], same: set[str]) -> str:
        """Return the key of the account that has any of a file's rows, or of a new one; empty if it cannot be read.

        `same` holds keys of earlier accounts of this file: by its path alone, by whole rows, or by another id column.
        """
        from clients.data import DataError
        from clients.data.fingerprint import fingerprint, smallest

        try:
            read = fingerprint(config)
        except DataError:
            return ""  # the protocol reads the file, too, and says what is wrong
        rows = {key: self._load_rows(key) for key in self.accounts}
        keys = [key for key in rows if key in same or np.isin(read.rows, rows[key], assume_unique=True).any()]
        known = smallest(np.zeros(0, np.uint64), *(rows[key] for key in keys))
        changed = [read.rows_changed(last) for last in map(self._load_last, keys) if last is not None]
        key, *others = keys or [read.digest]
        account = self.accounts.setdefault(key, Account(str(path)))
        account.source, account.new_rows = str(path), read.new_rows(known)
        account.n_rows, account.digest, account.changed = read.n_rows, read.digest, min(changed, default=0)
        for other in others:
            account.absorb(self.accounts.pop(other))
        for file in self._files.values():
            file["account"] = key if file["account"] in others else file["account"]
        self._rows[key], self._last[key] = smallest(known, read.rows), read.rows
        return key

    def _load_last(self, key: str) -> Fingerprint | None:
        """Return the rows of an account when the site last answered about them; None if they are not known."""
        from clients.data.fingerprint import Fingerprint

        account = self.accounts[key]
        try:
            rows = np.fromfile(self._folder / f"{key}.last", "<u8").astype(np.uint64)
        except OSError:
            return None
        return Fingerprint(account.digest, account.n_rows, rows) if account.digest else None

    def _load_rows(self, key: str) -> UInt64[np.ndarray, "k"]:
        try:
            return np.fromfile(self._folder / f"{key}.rows", "<u8").astype(np.uint64)
        except OSError:
            return np.zeros(0, np.uint64)

    def save(self) -> None:
        """Write the accounts, and the hashes of rows that were read."""
        content = {"accounts": {key: asdict(each) for key, each in self.accounts.items()}, "files": self._files}
        hashes = {f"{key}.rows": rows for key, rows in self._rows.items()}
        hashes |= {f"{key}.last": rows for key, rows in self._last.items()}
        files = {name: rows.astype("<u8").tobytes() for name, rows in hashes.items()}
        try:
            for name, data in (*files.items(), (NAME, json.dumps(content, indent=1).encode())):
                with replacing(self._folder / name) as temporary:
                    write_file(temporary, [data])
            sync_directory(self._folder)
        except OSError as error:
            raise SiteFault(Fault.OUTPUT_NOT_WRITTEN, f"{self._folder} cannot be written: {error}") from error


@contextlib.contextmanager
def _open_book(folder: Path) -> Iterator[Book]:
    """Yield the accounts, locked for other processes until the block ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("ab")
    except OSError as error:
        raise SiteFault(Fault.OUTPUT_NOT_WRITTEN, f"{folder} cannot be written: {error}") from error
    with file:
        lock(file)
        yield Book.read(folder)


def budget_lines(account: Account, limits: Mapping[str, Limit]) -> list[str]:
    """Return lines about an account: the amounts, today and in all, and the limits.

    Examples
    --------
    >>> budget_lines(Account("ward.csv"), {})
    ['data: ward.csv', 'nothing has been answered about them']
    """
    account.on(datetime.now(UTC).date().isoformat())
    lines = [f"data: {account.source}"]
    if account.n_rows:
        new = f", {account.new_rows:,} of them new when they were read last" if account.all else ""
        lines.append(f"rows: {account.n_rows:,}{new}")
    if account.changed:
        lines.append(f"changed: {account.changed:,} rows are new or gone since the last answers about them")
    if not account.all:
        return [*lines, "nothing has been answered about them"]
    width = max(map(len, KINDS))
    for kind in KINDS:
        today, total, limit = account.today.get(kind, 0), account.all.get(kind, 0), limits[kind]
        spent = "   SPENT" if today >= limit.day or total >= limit.all else ""
        lines.append(f"  {kind:<{width}}  today {today:,} of {limit.day:,}, in all {total:,} of {limit.all:,}{spent}")
    return [*lines, f"  since {account.since}"]
