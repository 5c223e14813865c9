"""Real data sets as tables: from a file, from OpenML, or from scikit-learn."""

from __future__ import annotations

import http.client
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from scenarios.readers import Columns, known_rows, mark_test_rows, read_regression
from scenarios.registry import Config, ScenarioError
from scenarios.tables import Table, is_omitted

DATA_VARIABLE = "CONSILIENCE_DATA"
"""Environment variable: a directory with data files."""
_OPENML = "https://api.openml.org/api/v1/json/data"
"""Address of the descriptions of OpenML's data sets."""
_OPENML_SECONDS = 1.0


def _fetch(data: DataSet) -> Any:
    """Fetch a data set from OpenML."""
    from sklearn.datasets import fetch_openml

    try:
        return fetch_openml(data_id=data.openml, as_frame=True, n_retries=1)
    # ValueError covers scikit-learn's OpenMLError and a damaged download.
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _unavailable(data, error) from error


def _is_downloaded(number: int) -> bool:
    """Whether scikit-learn keeps an earlier download of OpenML's data set."""
    home = Path(os.environ.get("SCIKIT_LEARN_DATA") or "~/scikit_learn_data").expanduser()
    return any((home / "openml").glob(f"**/data/{number}.gz"))


def _call_openml(data: DataSet) -> None:
    """Refuse a data set that OpenML does not offer now."""
    from urllib.request import urlopen

    answers: list[Exception | None] = []

    def call() -> None:
        try:
            with urlopen(f"{_OPENML}/{data.openml}", timeout=_OPENML_SECONDS):  # noqa: S310 - https
                answers.append(None)
        except (OSError, http.client.HTTPException) as error:
            answers.append(error)

    # A thread, since no time-out covers a name server that does not answer.
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(_OPENML_SECONDS)
    error = answers[0] if answers else TimeoutError(f"no answer within {_OPENML_SECONDS:g} s")
    if error is not None:
        raise _unavailable(data, error)


def _unavailable(data: DataSet, error: Exception) -> ScenarioError:
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return ScenarioError(
        f"no file of the {data.title} data was found, and they cannot be fetched from OpenML ({reason}): {data.remedy}"
    )


def fetch_regression(data: DataSet) -> Table:
    """Fetch a regression from OpenML; the outcome is the column `target`, or else OpenML's target."""
    bunch = _fetch(data)
    inputs, outcomes = bunch.data, bunch.target
    columns = data.columns
    if columns.target in bunch.frame.columns:
        inputs, outcomes = bunch.frame.drop(columns=columns.target), bunch.frame[columns.target]
    inputs = inputs.loc[:, [not is_omitted(str(name), columns.omitted) for name in inputs.columns]]
    if inputs.shape[1] != columns.n_inputs:  # OpenML has changed the data set, or the number is wrong
        raise ScenarioError(
            f"OpenML's data set {data.openml} has {inputs.shape[1]} inputs, and the {data.title} data should have"
            f" {columns.n_inputs}: {data.remedy}"
        )
    x, y = np.ascontiguousarray(inputs.to_numpy(np.float64)), outcomes.to_numpy(np.float64)
    table = Table(x, tuple(map(str, inputs.columns)), y)
    return _select(data, table) if columns.rows else table


def _select(data: DataSet, table: Table) -> Table:
    """Return the training rows and the test rows of a whole data set."""
    rows = np.concatenate([np.arange(part.start, part.stop) for part in data.columns.rows])
    if len(table.x) <= rows[-1]:
        raise ScenarioError(f"OpenML's data set {data.openml} has {len(table.x)} rows, too few: {data.remedy}")
    return Table(table.x[rows], table.features, table.outcome[rows], mark_test_rows(data.columns))


def fetch_classification(data: DataSet) -> Table:
    """Fetch inputs and classes from OpenML; a column of categories becomes one of 0 and 1 for each category."""
    import pandas as pd

    bunch = _fetch(data)
    inputs = pd.get_dummies(bunch.data)
    _, classes = np.unique(np.asarray(bunch.target), return_inverse=True)
    return Table(inputs.to_numpy(np.float64), tuple(map(str, inputs.columns)), classes.astype(np.int64))


def fetch_grouping(data: DataSet) -> Table:
    """Fetch inputs and categories from OpenML; missing categories become "?", as in the file."""
    frame = _fetch(data).frame.rename(columns=lambda name: name.replace("-", "_"))
    categories = frame[list(data.columns.categories)].astype(object).fillna("?").astype(str)
    return known_rows(data.columns, frame[list(data.columns.inputs)].to_numpy(np.float64), categories)


def _load_wine(data: DataSet) -> Table:
    """Return the copy of scikit-learn."""
    from sklearn.datasets import load_wine

    return _from_bunch(load_wine())


def _load_cancer(data: DataSet) -> Table:
    """Return the copy of scikit-learn; class 1 is malignant."""
    from sklearn.datasets import load_breast_cancer

    table = _from_bunch(load_breast_cancer())
    return replace(table, y=1 - table.outcome)


def _from_bunch(bunch: Any) -> Table:
    return Table(bunch.data.astype(np.float64), tuple(map(str, bunch.feature_names)), bunch.target.astype(np.int64))


@dataclass(frozen=True)
class DataSet:
    """A data set: its origin, files, columns and reader.

    Attributes
    ----------
    title : str
        Its name, as in "the Adult data".
    citation : str
        Authors and year, and the number at the UCI repository.
    files : tuple of str
        Names of its file in a directory; the first that exists is used, also with ``.gz`` appended.
    file : str
        File to get if none is found, and its source.
    openml : int
        Number at OpenML; 0: OpenML does not have it.
    columns : Columns
        Roles of its columns.
    varying : bool
        Whether inputs that are constant over all rows are left out.
    optional : bool
        Whether a scenario can do without it.
    read : Callable[[Columns, Path], Table]
        Reads its file.
    fetch : Callable[[DataSet], Table]
        Gets it if there is no file.

    Examples
    --------
    >>> from scenarios.datasets import DATA_SETS
    >>> concrete = DATA_SETS["concrete"]
    >>> concrete.files, concrete.openml, concrete.columns.target
    (('concrete.csv',), 44959, 'strength_mpa')
    """

    title: str
    citation: str
    files: tuple[str, ...] = ()
    file: str = ""
    openml: int = 0
    columns: Columns = field(default_factory=Columns)
    varying: bool = False
    optional: bool = False
    read: Callable[[Columns, Path], Table] = read_regression
    fetch: Callable[[DataSet], Table] = fetch_regression

    @property
    def remedy(self) -> str:
        """What to do if it is not found, for messages."""
        return f"set the run configuration's data to {self.file}, or {DATA_VARIABLE} to a directory that holds it"

    def locate(self, config: Config) -> Path | None:
        """Return the absolute path of its file; None: it comes from OpenML or a package, or is optional.

        Raises
        ------
        ScenarioError
            If `data` names neither a file nor a directory that holds one, or if there is no file and no other source.
        """
        if not self.files:
            return None
        data = str(config.get("data", ""))
        place = data or os.environ.get(DATA_VARIABLE, "")
        path = self._in(Path(place).expanduser().resolve(), whole=bool(data)) if place else None
        if data and path is None:
            listed = " or ".join(f"{name}[.gz]" for name in self.files)
            raise ScenarioError(f"data={data!r} is neither a CSV file nor a directory that holds {listed}")
        if path is None and not (self.openml or self.optional):
            raise ScenarioError(f"no file of the {self.title} data was found: {self.remedy}")
        return path

    def _in(self, place: Path, *, whole: bool) -> Path | None:
        """Return its file in a directory, or the place itself if that may be a file."""
        candidates = (place / f"{name}{suffix}" for name in self.files for suffix in ("", ".gz"))
        return place if whole and place.is_file() else next((path for path in candidates if path.is_file()), None)

    def check(self, config: Config) -> None:
        """Refuse a data set that `load` could not get: no file, no download, and no answer of OpenML within a second.

        Raises
        ------
        ScenarioError
            As `locate`; or if there is no file, no earlier download, and OpenML cannot be reached.
        """
        if self.locate(config) is None and self.openml and not _is_downloaded(self.openml):
            _call_openml(self)

    def load(self, path: Path | None) -> Table:
        """Return its contents, from a file, or from OpenML or a package (None).

        Raises
        ------
        ScenarioError
            If the file is not as described, or OpenML cannot be reached.
        """
        table = self.fetch(self) if path is None else self.read(self.columns, path)
        if not self.varying:
            return table
        places = np.flatnonzero(np.ptp(table.x, axis=0) > 0)
        features = tuple(table.features[place] for place in places)
        return replace(table, x=np.ascontiguousarray(table.x[:, places]), features=features)
