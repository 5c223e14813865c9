"""Data sets of people, for fair clustering: columns of quantities, and columns of classes that may be sensitive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64

from scenarios.registry import Config, ScenarioError
from scenarios.sources.files import DATA_VARIABLE, check_columns, find_file, from_openml, read_text, to_numbers


@dataclass(frozen=True, eq=False)
class Coloured:
    """Rows of quantities, and what else is known of each.

    Attributes
    ----------
    x : ndarray
        ``(n, d)`` quantities, finite.
    features : tuple of str
        Names of the d columns.
    classes : Mapping[str, pandas.Series]
        By name of a column the class of each row, as text. None of them is among the quantities.
    """

    x: Float64[np.ndarray, "n d"]
    features: tuple[str, ...]
    classes: Mapping[str, pd.Series]


@dataclass(frozen=True)
class _Layout:
    """Which columns of a file are what.

    Attributes
    ----------
    quantities, classes : tuple of str
        Names of columns.
    unknown : Mapping[str, str]
        By column of classes, what stands there for "not known": such rows are left out. The paper deletes rows with
        missing entries (papers/fair_coresets.txt, section 4); other marks of a missing class, such as ``?``, are a
        class of their own, for dropping them would cost diabetes two rows of a hundred for its `race` alone.
    """

    quantities: tuple[str, ...]
    classes: tuple[str, ...]
    unknown: Mapping[str, str] = field(default_factory=dict)

    def read(self, table: pd.DataFrame, path: Path) -> Coloured:
        """The columns of a file's cells, which are text.

        Raises
        ------
        ScenarioError
            If a column is missing, a quantity is no finite number, a class is empty, or there are no rows.
        """
        check_columns(table.columns, path, (*self.quantities, *self.classes), n_free=1)
        if table.empty:
            raise ScenarioError(f"{path} has no rows below its header")
        for name in self.classes:
            empty = np.flatnonzero(table[name].str.strip() == "")
            if len(empty):
                raise ScenarioError(f"{path}: line {empty[0] + 2}, column {name!r} is empty")
        return self.of(to_numbers(table[list(self.quantities)], path), table)

    def of(self, x: Float64[np.ndarray, "n d"], table: pd.DataFrame) -> Coloured:
        """Quantities, and the columns of classes, without the rows whose class is not known."""
        classes = table[list(self.classes)].apply(lambda column: column.str.strip())
        known = np.ones(len(table), bool)
        for name, mark in self.unknown.items():
            known &= (classes[name] != mark).to_numpy(bool)
        kept = classes[known].reset_index(drop=True)
        return Coloured(np.ascontiguousarray(x[known]), self.quantities, {name: kept[name] for name in self.classes})


# -- Census Income ----------------------------------------------------------------------------------------------------

_ADULT_FILES = ("adult.csv",)
_ADULT_OPENML = 1590
_ADULT = _Layout(
    ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"),
    ("workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "native_country"),
)


def find_adult(config: Config) -> Path | None:
    """The absolute path of the file of Census Income, ``adult.csv`` in a directory, or None for OpenML.

    Looked for as `scenarios.sources.find_heart` does: the run configuration's `data`, then CONSILIENCE_DATA.

    Raises
    ------
    ScenarioError
        If `data` is given and names neither a file nor a directory that holds one.
    """
    return find_file(config, _ADULT_FILES)


def read_adult(path: Path | None) -> Coloured:
    """Census Income, "Adult" (UCI 2): 48,842 people, all six columns of numbers.

    That one of them, ``fnlwgt``, is the weight of a row in the census, and outweighs all others where columns are not
    scaled, is as in the experiments of the field. The classes are the other columns but ``income``; ``?`` is one.

    Parameters
    ----------
    path : Path or None
        A CSV file with a header, may be gzipped; None: OpenML's ``adult``, number 1590.

    Raises
    ------
    ScenarioError
        If a column is missing or holds what it may not, or OpenML cannot be reached.
    """
    if path is not None:
        return _ADULT.read(read_text(path), path)
    return _from_openml(_ADULT, _ADULT_OPENML, "the Adult data", "an adult.csv (https://archive.ics.uci.edu/dataset/2)")


# -- Diabetes 130-US hospitals ----------------------------------------------------------------------------------------

_DIABETES_FILES = ("diabetes130.csv", "diabetic_data.csv")
_DIABETES_OPENML = 4541
_DIABETES = _Layout(
    (
        *("time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications"),
        *("number_outpatient", "number_emergency", "number_inpatient", "number_diagnoses"),
    ),
    ("race", "gender", "age"),
    {"gender": "Unknown/Invalid"},
)


def find_diabetes(config: Config) -> Path | None:
    """The absolute path of the file of Diabetes 130-US hospitals, or None for OpenML.

    Looked for as `find_adult` does; in a directory the file is called ``diabetes130.csv`` or, as at the UCI repository,
    ``diabetic_data.csv``.

    Raises
    ------
    ScenarioError
        If `data` is given and names neither a file nor a directory that holds one.
    """
    return find_file(config, _DIABETES_FILES)


def read_diabetes(path: Path | None) -> Coloured:
    """Diabetes 130-US hospitals (UCI 296): 101,763 stays in hospital, eight counts of days, procedures and visits.

    The other columns of whole numbers are names, of stays and patients (``encounter_id``, ``patient_nbr``) and of kinds
    of admission and discharge (``..._id``): a distance between them means nothing, so they are left out. Classes are
    ``race`` (``?`` is one), ``gender`` and ``age``, in ten years; three stays of gender ``Unknown/Invalid`` are left
    out.

    Parameters
    ----------
    path : Path or None
        A CSV file with a header, may be gzipped; None: OpenML's ``Diabetes130US``, number 4541.

    Raises
    ------
    ScenarioError
        As `read_adult`.
    """
    if path is not None:
        return _DIABETES.read(read_text(path), path)
    file = "the diabetic_data.csv of https://archive.ics.uci.edu/dataset/296"
    return _from_openml(_DIABETES, _DIABETES_OPENML, "the Diabetes 130-US hospitals data", file)


def _from_openml(layout: _Layout, number: int, what: str, file: str) -> Coloured:
    frame = from_openml(what, file, data_id=number, as_frame=True).frame
    frame = frame.rename(columns=lambda name: name.replace("-", "_"))
    # What a file marks with "?" OpenML leaves empty.
    classes = frame[list(layout.classes)].astype(object).fillna("?").astype(str)
    return layout.of(frame[list(layout.quantities)].to_numpy(np.float64), classes)


# -- Bank Marketing ---------------------------------------------------------------------------------------------------

_BANK_FILES = ("bank.csv", "bank-full.csv", "bank-additional.csv", "bank-additional-full.csv")
_BANK_CLASSES = ("job", "marital", "education", "default", "housing", "loan")
_BANK_UNKNOWN = {"marital": "unknown"}
_BANK = _Layout(("age", "balance", "day", "duration", "campaign", "pdays", "previous"), _BANK_CLASSES, _BANK_UNKNOWN)
_BANK_ADDITIONAL = _Layout(
    (
        *("age", "duration", "campaign", "pdays", "previous"),
        *("emp.var.rate", "cons.price.idx", "cons.conf.idx", "euribor3m", "nr.employed"),
    ),
    _BANK_CLASSES,
    _BANK_UNKNOWN,
)


def find_bank(config: Config) -> Path:
    """The absolute path of a file of Bank Marketing.

    Looked for as `find_adult` does; in a directory the file has a name of the UCI repository's: ``bank.csv``,
    ``bank-full.csv``, ``bank-additional.csv`` or ``bank-additional-full.csv``, the first that is there.

    Raises
    ------
    ScenarioError
        If there is none.
    """
    path = find_file(config, _BANK_FILES)
    if path is None:
        raise ScenarioError(
            "the Bank Marketing data were found in no file: set the run configuration's data to the bank.csv of"
            f" https://archive.ics.uci.edu/dataset/222, or {DATA_VARIABLE} to a directory that holds it"
        )
    return path


def read_bank(path: Path) -> Coloured:
    """Bank Marketing (UCI 222): 4,521 calls in ``bank.csv``, all columns of numbers; cells separated by semicolons.

    ``pdays``, the days since an earlier call, keeps its mark for "never", -1 or 999. Beside the classes of the file
    there is ``married``, yes or no, of which Chierichetti et al. (2017) make their two colours.

    Raises
    ------
    ScenarioError
        If the file is none of the UCI repository's four.
    """
    names = read_text(path, rows=0).columns
    # A file that somebody saved anew has commas.
    table = read_text(path, separator=";" if len(names) == 1 and ";" in names[0] else ",")
    data = (_BANK if "balance" in table.columns else _BANK_ADDITIONAL).read(table, path)
    married = data.classes["marital"].eq("married").map({True: "yes", False: "no"})
    return Coloured(data.x, data.features, {**data.classes, "married": married})
