"""Regressions that others measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from scenarios.registry import Config, ScenarioError
from scenarios.sources.files import (
    Divided,
    Regression,
    find_file,
    has_header,
    openml_regression,
    read_headless,
    read_marks,
    read_regression,
)

# -- Airfoil Self-Noise -----------------------------------------------------------------------------------------------

_AIRFOIL_FILES = ("airfoil.csv", "airfoil_self_noise.dat")
_AIRFOIL_TARGET = "sound_pressure_db"
_AIRFOIL_INPUTS = ("frequency_hz", "angle_of_attack_deg", "chord_m", "velocity_ms", "displacement_thickness_m")
_AIRFOIL_OPENML = 44957


def find_airfoil(config: Config) -> Path | None:
    """The absolute path of the file of Airfoil Self-Noise, or None for OpenML.

    Looked for as `scenarios.sources.find_heart` does: the run configuration's `data`, then the directory of
    CONSILIENCE_DATA. In a directory the file is called ``airfoil.csv`` or, as at the UCI repository,
    ``airfoil_self_noise.dat``; or has ``.gz`` behind it.

    Raises
    ------
    ScenarioError
        If `data` is given and names neither a file nor a directory that holds one.
    """
    return find_file(config, _AIRFOIL_FILES)


def read_airfoil(path: Path | None) -> Divided:
    """Airfoil Self-Noise (UCI 291): 1503 rows, 5 inputs, outcome ``sound_pressure_db`` in decibels.

    Parameters
    ----------
    path : Path or None
        A CSV file with a header, or the UCI repository's, of columns between tabs without one; None: OpenML's
        ``airfoil_self_noise``, number 44957.

    Raises
    ------
    ScenarioError
        If the file is not a table of numbers with these columns, or OpenML cannot be reached.
    """
    if path is None:
        what, file = (
            "the Airfoil Self-Noise data",
            "the airfoil_self_noise.dat of https://archive.ics.uci.edu/dataset/291",
        )
        return openml_regression(_AIRFOIL_OPENML, what, file, len(_AIRFOIL_INPUTS)), None
    if has_header(path):
        return read_regression(path, _AIRFOIL_TARGET)[0], None
    numbers = read_headless(path, len(_AIRFOIL_INPUTS) + 1, separator=r"\s+")
    return Regression(np.ascontiguousarray(numbers[:, :-1]), numbers[:, -1].copy(), _AIRFOIL_INPUTS), None


# -- Physicochemical Properties of Protein Tertiary Structure ---------------------------------------------------------

_PROTEIN_FILES = ("protein.csv", "CASP.csv")
_PROTEIN_TARGET = "RMSD"
_PROTEIN_OPENML, _PROTEIN_INPUTS = 44963, 9


def find_protein(config: Config) -> Path | None:
    """The absolute path of the file of protein structures, or None for OpenML.

    Looked for as `find_airfoil` does; the file is called ``protein.csv`` or, as at the UCI repository, ``CASP.csv``.

    Raises
    ------
    ScenarioError
        As `find_airfoil`.
    """
    return find_file(config, _PROTEIN_FILES)


def read_protein(path: Path | None) -> Divided:
    """Physicochemical Properties of Protein Tertiary Structure (UCI 265): 45,730 rows, 9 inputs, outcome ``RMSD``.

    Parameters
    ----------
    path : Path or None
        A CSV file, may be gzipped; None: OpenML's ``physiochemical_protein``, number 44963.

    Raises
    ------
    ScenarioError
        If the file is not a table of numbers with a column ``RMSD``, or OpenML cannot be reached.
    """
    if path is not None:
        return read_regression(path, _PROTEIN_TARGET)[0], None
    what, file = "the protein structures", "the CASP.csv of https://archive.ics.uci.edu/dataset/265"
    return openml_regression(_PROTEIN_OPENML, what, file, _PROTEIN_INPUTS), None


# -- Parkinsons Telemonitoring ----------------------------------------------------------------------------------------

_PARKINSONS_FILES = ("parkinsons.csv", "parkinsons_updrs.data")
_PARKINSONS_TARGET, _PARKINSONS_SUBJECT = "total_UPDRS", "subject#"
_PARKINSONS_OPENML, _PARKINSONS_INPUTS = 4531, 20


def find_parkinsons(config: Config) -> Path | None:
    """The absolute path of the file of Parkinsons Telemonitoring, or None for OpenML.

    Looked for as `find_airfoil` does; the file is called ``parkinsons.csv`` or, as at the UCI repository,
    ``parkinsons_updrs.data``.

    Raises
    ------
    ScenarioError
        As `find_airfoil`.
    """
    return find_file(config, _PARKINSONS_FILES)


def read_parkinsons(path: Path | None) -> Divided:
    """Parkinsons Telemonitoring (UCI 189): 5875 recordings of 42 people, 20 inputs, outcome ``total_UPDRS``.

    Left out is ``subject#``, of which the outcome would be almost a function. The 20 inputs are as many as in the
    paper's Table III, which does not name them: with them the errors are far below the paper's.

    Parameters
    ----------
    path : Path or None
        A CSV file, may be gzipped; None: OpenML's ``parkinsons-telemonitoring``, number 4531.

    Raises
    ------
    ScenarioError
        If the file is not a table of numbers with a column ``total_UPDRS``, or OpenML cannot be reached.
    """
    if path is not None:
        return read_regression(path, _PARKINSONS_TARGET, ignored=(_PARKINSONS_SUBJECT,))[0], None
    what, file = "the Parkinsons data", "the parkinsons_updrs.data of https://archive.ics.uci.edu/dataset/189"
    # OpenML spells "#" otherwise.
    return (
        openml_regression(_PARKINSONS_OPENML, what, file, _PARKINSONS_INPUTS, _PARKINSONS_TARGET, ignored="subject"),
        None,
    )


# -- Pole Telecommunication -------------------------------------------------------------------------------------------

_POLE_FILES = ("pole.csv", "pol.csv")
_POLE_TARGET = "foo"
_POLE_OPENML, _POLE_INPUTS = 201, 48


def find_pole(config: Config) -> Path | None:
    """The absolute path of the file of Pole Telecommunication, or None for OpenML.

    Looked for as `find_airfoil` does; the file is called ``pole.csv`` or ``pol.csv``.

    Raises
    ------
    ScenarioError
        As `find_airfoil`.
    """
    return find_file(config, _POLE_FILES)


def read_pole(path: Path | None) -> Divided:
    """Pole Telecommunication (Weiss and Indurkhya 1995): 15,000 rows, 26 inputs that vary, outcome ``foo``.

    Of the 48 inputs 22 are the same in all rows, and left out as in the paper.

    Parameters
    ----------
    path : Path or None
        A CSV file, may be gzipped; a column ``split``, if there is one, says ``train`` or ``test`` of each row. None:
        OpenML's ``pol``, number 201, which does not say it.

    Raises
    ------
    ScenarioError
        If the file is not a table of numbers with a column ``foo``, or OpenML cannot be reached.
    """
    if path is not None:
        data, marks = read_regression(path, _POLE_TARGET, ignored=("split",))[0], read_marks(path)
    else:
        what, file = "the Pole Telecommunication data", f"a pole.csv with a column {_POLE_TARGET}"
        data, marks = openml_regression(_POLE_OPENML, what, file, _POLE_INPUTS), None
    varies = np.flatnonzero(np.ptp(data.x, axis=0) > 0)
    features = tuple(data.features[place] for place in varies)
    return Regression(np.ascontiguousarray(data.x[:, varies]), data.y, features), marks


# -- YearPredictionMSD ------------------------------------------------------------------------------------------------

_SONG_FILES = ("YearPredictionMSD.txt",)
_SONG_OPENML, _SONG_INPUTS = 44027, 90
SONG_TEST = 463_715
"""Row of the file, from 0, at which its makers' test rows begin."""
SONG_LEARNT, SONG_TESTED = 100_000, 10_000
"""The first so many of either are what the paper uses (section V-B)."""


def find_song(config: Config) -> Path | None:
    """The absolute path of the file of YearPredictionMSD, or None for OpenML.

    Looked for as `find_airfoil` does; the file is called ``YearPredictionMSD.txt``, as at the UCI repository.

    Raises
    ------
    ScenarioError
        As `find_airfoil`.
    """
    return find_file(config, _SONG_FILES)


def read_song(path: Path | None) -> Divided:
    """YearPredictionMSD (UCI 203): the year of a song by 90 averages and covariances of its timbre.

    Of 515,345 songs the first 100,000 of those to learn from, and the first 10,000 of those to test with: no artist is
    in both.

    Parameters
    ----------
    path : Path or None
        The UCI repository's file, the year first, without a header; may be gzipped. None: OpenML's ``year``, number
        44027, taken to be in the same order.

    Raises
    ------
    ScenarioError
        If the file is not such a table, or OpenML cannot be reached.
    """
    if path is None:
        what, file = "the songs", "the YearPredictionMSD.txt of https://archive.ics.uci.edu/dataset/203"
        data = openml_regression(_SONG_OPENML, what, file, _SONG_INPUTS)
        rows = np.concatenate([np.arange(SONG_LEARNT), SONG_TEST + np.arange(SONG_TESTED)])
        if len(data.y) <= rows[-1]:
            raise ScenarioError(f"OpenML's data set {_SONG_OPENML} has {len(data.y)} songs: set data to {file}")
        songs = Regression(data.x[rows], data.y[rows], data.features)
    else:
        parts = [
            read_headless(path, _SONG_INPUTS + 1, first=first, rows=rows)
            for first, rows in ((0, SONG_LEARNT), (SONG_TEST, SONG_TESTED))
        ]
        numbers = np.concatenate(parts)
        features = tuple(f"timbre{j + 1}" for j in range(_SONG_INPUTS))
        songs = Regression(np.ascontiguousarray(numbers[:, 1:]), numbers[:, 0].copy(), features)
    return songs, np.arange(len(songs.y)) >= SONG_LEARNT
