"""All real data sets in one table, `DATA_SETS`: names, files, OpenML numbers, columns and readers.

A data set is looked for in three places: the file or directory that the run configuration's `data` names; the
directory in the environment variable ``CONSILIENCE_DATA``; and OpenML. A new data set is a new row of the table. Its
reader is one of `scenarios.readers`; a file of another form needs a new reader.
"""

from __future__ import annotations

import http.client
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from scenarios.readers import (
    Columns,
    known_rows,
    mark_test_rows,
    read_airfoil,
    read_bank,
    read_classification,
    read_grouping,
    read_regression,
    read_sarcos,
    read_songs,
)
from scenarios.registry import Config, ScenarioError
from scenarios.tables import Table, is_omitted

DATA_VARIABLE = "CONSILIENCE_DATA"
"""Environment variable: a directory with data files."""

_OPENML = "https://api.openml.org/api/v1/json/data"
"""Address of the descriptions of OpenML's data sets."""
_OPENML_SECONDS = 1.0


# -- OpenML and scikit-learn ------------------------------------------------------------------------------------------


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
    """Fetch inputs and categories from OpenML, which leaves empty what a file marks with "?"."""
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


# -- the table --------------------------------------------------------------------------------------------------------


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
        """Refuse what `load` could not have: no file, and none at OpenML either, which must answer within a second.

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


def locate(name: str, config: Config) -> Path | None:
    """Return the path of a data set's file, as `DataSet.locate`.

    Examples
    --------
    >>> locate("adult", {"data": "/nowhere"})
    Traceback (most recent call last):
    ...
    scenarios.registry.ScenarioError: data='/nowhere' is neither a CSV file nor a directory that holds adult.csv[.gz]
    """
    return DATA_SETS[name].locate(config)


@lru_cache(maxsize=2)  # 165 MB of CT slices, 80 MB of songs, others less
def load(name: str, path: Path | None) -> Table:
    """Return the contents of a data set, as `DataSet.load`; the same object for the same arguments.

    Examples
    --------
    >>> load("wine", locate("wine", {})).x.shape
    (178, 13)
    """
    return DATA_SETS[name].load(path)


_UCI = "https://archive.ics.uci.edu/dataset"

DATA_SETS: dict[str, DataSet] = {
    # -- classes
    "wine": DataSet("Wine", "Aeberhard and Forina (1992), UCI 109", fetch=_load_wine),
    "cancer": DataSet("Breast Cancer Wisconsin", "Street, Wolberg and Mangasarian (1993), UCI 17", fetch=_load_cancer),
    "heart": DataSet(
        "Statlog Heart",
        "Statlog (Heart), UCI 145",
        ("heart.csv",),
        "a heart.csv",
        53,
        Columns(target="class", n_inputs=13),
        read=read_classification,
        fetch=fetch_classification,
    ),
    "german": DataSet(
        "German Credit",
        "Hofmann (1994), UCI 144",
        ("german.csv", "german.data-numeric"),
        f"the german.data-numeric of {_UCI}/144",
        31,  # the categories of german.data
        Columns(target="class", n_inputs=24),
        read=read_classification,
        fetch=fetch_classification,
    ),
    "pima": DataSet(
        "Pima Indians Diabetes",
        "Smith et al. (1988)",
        ("pima.csv", "pima-indians-diabetes.data"),
        "a pima.csv with a column class",
        37,
        Columns(target="class", n_inputs=8),
        read=read_classification,
        fetch=fetch_classification,
    ),
    # -- outcomes
    "airfoil": DataSet(
        "Airfoil Self-Noise",
        "Brooks, Pope and Marcolini (1989), UCI 291",
        ("airfoil.csv", "airfoil_self_noise.dat"),
        f"the airfoil_self_noise.dat of {_UCI}/291",
        44957,
        Columns(
            target="sound_pressure_db",
            inputs=("frequency_hz", "angle_of_attack_deg", "chord_m", "velocity_ms", "displacement_thickness_m"),
            n_inputs=5,
        ),
        read=read_airfoil,
    ),
    "concrete": DataSet(
        "Concrete Compressive Strength",
        "Yeh (1998), UCI 165",
        ("concrete.csv",),
        f"a concrete.csv ({_UCI}/165, with a column strength_mpa)",
        44959,
        Columns(target="strength_mpa", n_inputs=8),
    ),
    "ct": DataSet(
        "CT slices",
        "Graf et al. (2011), UCI 206",
        ("slice_localization_data.csv",),
        f"the slice_localization_data.csv of {_UCI}/206",
        # The reference is 0 at the top of the head and 180 at the soles of the feet; the unit is a scan.
        columns=Columns(target="reference", n_inputs=384, unit="patientId"),
        optional=True,
    ),
    "grid": DataSet(
        "Electrical Grid Stability",
        "Arzamasov (2018), UCI 471",
        ("grid_stability.csv", "Data_for_UCI_named.csv"),
        f"the Data_for_UCI_named.csv of {_UCI}/471",
        44973,
        Columns(target="stab", n_inputs=12, omitted=("stabf",)),  # the sign of stab
    ),
    "parkinsons": DataSet(
        "Parkinsons Telemonitoring",
        "Tsanas and Little (2009), UCI 189",
        ("parkinsons.csv", "parkinsons_updrs.data"),
        f"the parkinsons_updrs.data of {_UCI}/189",
        4531,
        # The outcome would be almost a function of the subject.
        Columns(
            target="total_UPDRS",
            n_inputs=20,
            omitted=("subject#", "subject"),
            other_targets=("total UPDRS", "total.UPDRS", "target"),
        ),
    ),
    "pole": DataSet(
        "Pole Telecommunication",
        "Weiss and Indurkhya (1995)",
        ("pole.csv", "pol.csv"),
        "a pole.csv with a column foo",
        201,
        Columns(target="foo", n_inputs=48, split="split", other_targets=("target", "class", "y")),
        varying=True,  # 22 inputs are constant
    ),
    "protein": DataSet(
        "Physicochemical Properties of Protein Tertiary Structure",
        "Rana (2013), UCI 265",
        ("protein.csv", "CASP.csv"),
        f"the CASP.csv of {_UCI}/265",
        44963,
        Columns(target="RMSD", n_inputs=9),
    ),
    "pumadyn": DataSet(
        "Pumadyn",
        "Rasmussen et al. (1996), pumadyn-32nm of DELVE",
        ("pumadyn32nm.csv",),
        "a pumadyn32nm.csv (of https://www.cs.toronto.edu/~delve/data/pumadyn/desc.html, with a column y)",
        # OpenML has noisier members of the family (pumadyn32nh, puma8NH), and not this one.
        columns=Columns(target="y", n_inputs=32, split="split"),
    ),
    "sarcos": DataSet(
        "SARCOS",
        "Rasmussen and Williams (2006)",
        ("sarcos_inv.mat", "sarcos.csv"),
        "the sarcos_inv.mat of http://www.gaussianprocess.org/gpml/data",
        44976,
        # V22 to V28 are the torques of the joints. Most of the test rows are among the training rows: an error on them
        # says little of other rows.
        Columns(target="V22", n_inputs=21, omitted=tuple(f"V{j}" for j in range(23, 29)), split="split"),
        read=read_sarcos,
    ),
    "song": DataSet(
        "YearPredictionMSD",
        "Bertin-Mahieux et al. (2011), UCI 203",
        ("YearPredictionMSD.txt",),
        f"the YearPredictionMSD.txt of {_UCI}/203",
        44027,  # in the order of the file, as far as is known
        # The first of the training rows and of the test rows, which share no artist.
        Columns(target="year", n_inputs=90, rows=(range(100_000), range(463_715, 473_715))),
        read=read_songs,
    ),
    # -- groups
    "adult": DataSet(
        "Adult",
        "Becker and Kohavi (1996), UCI 2",
        ("adult.csv",),
        f"an adult.csv ({_UCI}/2)",
        1590,
        Columns(
            # fnlwgt, a row's weight in the census, outweighs the others where columns are not scaled. It is an input
            # in the experiments of the field as well.
            inputs=("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"),
            categories=(
                *("workclass", "education", "marital_status", "occupation", "relationship", "race", "sex"),
                "native_country",
            ),
        ),
        read=read_grouping,
        fetch=fetch_grouping,
    ),
    "bank": DataSet(
        "Bank Marketing",
        "Moro, Rita and Cortez (2014), UCI 222",
        ("bank.csv", "bank-full.csv", "bank-additional.csv", "bank-additional-full.csv"),
        f"the bank.csv of {_UCI}/222",
        columns=Columns(
            # pdays, the days since an earlier call, keeps its mark for "never", -1 or 999.
            inputs=("age", "balance", "day", "duration", "campaign", "pdays", "previous"),
            # Beside these there is "married", yes or no, the two groups of Chierichetti et al. (2017).
            categories=("job", "marital", "education", "default", "housing", "loan"),
            unknown={"marital": "unknown"},
        ),
        read=read_bank,
    ),
    "diabetes": DataSet(
        "Diabetes 130-US hospitals",
        "Strack et al. (2014), UCI 296",
        ("diabetes130.csv", "diabetic_data.csv"),
        f"the diabetic_data.csv of {_UCI}/296",
        4541,
        Columns(
            # The other columns of whole numbers are names of stays, patients, and kinds of admission and discharge.
            inputs=(
                *("time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications"),
                *("number_outpatient", "number_emergency", "number_inpatient", "number_diagnoses"),
            ),
            categories=("race", "gender", "age"),  # "?" is a race: without it two rows of a hundred would be lost
            unknown={"gender": "Unknown/Invalid"},
        ),
        read=read_grouping,
        fetch=fetch_grouping,
    ),
}
"""By name, every real data set. A grouping data set has categories in place of an outcome, any of which may be
sensitive; as in Schmidt, Schwiegelshohn and Sohler (2018), section 4, rows with missing entries are left out."""
