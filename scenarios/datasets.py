"""All real data sets in one table, `DATA_SETS`: names, files, OpenML numbers, columns and readers.

A data set is looked for in three places: the file or directory that the run configuration's `data` names; the
directory in the environment variable ``CONSILIENCE_DATA``; and OpenML. A new data set is a new row of the table. Its
reader is one of `scenarios.readers`; a file of another form needs a new reader.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from scenarios.data_set import DataSet, _load_cancer, _load_wine, fetch_classification, fetch_grouping
from scenarios.readers import (
    Columns,
    read_airfoil,
    read_bank,
    read_classification,
    read_grouping,
    read_sarcos,
    read_songs,
)
from scenarios.registry import Config
from scenarios.tables import Table


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
