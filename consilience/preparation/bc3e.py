"""Labels for bc3e from raw rows: classifiers fitted at the sites, and clusterings that all sites share.

With the rows of several sites in one folder, all is done in one place, as a simulation is. Real sites prepare their own
rows, each by itself: what crosses between them are files of fitted classifiers (`Options.models`), and the summaries of
a run of `coreset` for each clustering, which leaves each site the clusters of its rows (`Options.clusterings`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64

from clients.bc3e.shard import label_numbers
from clients.data import DataError, Table, holds_numbers, match_columns, numeric, split_patterns
from clients.data.categories import categories_of
from clients.data.cells import text_of
from clients.data.preparation import prepare as in_order
from clients.data.table import NUMBER
from common import settings
from common.csv_text import csv_text
from common.files import encode_text
from common.settings import ConfigError, setting
from common.value_ranges import at_least
from numerics.shared.regressors import quiet_fit
from protocols.coreset.settings import Consents
from protocols.settings import SiteSettings
from server.report.formatting import counted

CLASSIFIERS = ("bayes", "discriminant", "logistic", "neighbors", "tree")
SENT = ("discriminant", "logistic")
"""Classifiers that may go to other sites, as tables of coefficients: a few numbers of all rows that they learned from.

Neighbors hold rows, leaves of trees and the means of `bayes` may be single ones.
"""
_FEWEST = SiteSettings.min_rows
"""Fewest labeled rows of a class from which such a classifier learns."""
_MOST_CLASSES = 100
"""Most classes that are text."""
_LARGEST_CLASS, _LARGEST = 1000, 1e100
"""Largest number of a class, and of a coefficient that another site sends."""
_ALL = "_all"
"""Column of the one group of a clustering that is not fair to several."""


@dataclass(frozen=True)
class Options(settings.Settings):
    """Roles of columns, and models that label the rows."""

    target: str = setting("", "column of the classes, empty where a row has none")
    features: str = setting(
        "", "columns that the models see; never target, id or truth", words="all columns of numbers"
    )
    missing: Literal["refuse", "drop", "impute"] = setting(
        "refuse", "rows with an empty input: an error, left out, or filled with the median of the site's column"
    )
    categories: str = setting("", "values of columns of text, which become 0 and 1: sex=f|m", words="none")
    ordinal: str = setting(
        "",
        "classes that are text, by column: target=well<sick",
        words="in order of their names; needed where each site prepares its own rows",
    )
    id: str = setting("", "column that names the rows", words="none")
    truth: str = setting("", "column of true classes that no model sees", words="none")
    classifiers: str = setting("logistic discriminant tree", f"some of {', '.join(CLASSIFIERS)}")
    clusters: str = setting("1 2 4", "numbers of clusters of the clusterings, in multiples of the number of classes")
    exchange: bool = setting(True, "every site's classifiers label the rows of all sites; false: of their own site")
    models: str = setting(
        "",
        "folder of coefficients of classifiers: own ones are written there, and all that are there label the rows",
        words="none",
    )
    clusterings: str = setting(
        "",
        "files of the clusters of one site's rows, as coreset writes them, in place of own clusterings",
        words="none",
    )
    seed: int = setting(0, "seed of trees and clusterings", at_least(0))


@dataclass(frozen=True, eq=False)
class _Site:
    """Rows of a site: their columns for the models, and classes, -1 where there is none."""

    table: Table
    x: Float64[np.ndarray, "n p"]
    y: Int64[np.ndarray, "n"]


def prepare(tables: Mapping[str, Table], options: Options, folder: Path) -> list[str]:
    """Write a file of labels for each site: all rows without a class, labeled by classifiers and clusterings.

    Parameters
    ----------
    tables : Mapping[str, Table]
        Rows by site.
    options : Options
        Which columns are what, and which models label the rows.
    folder : Path
        Where the files ``SITE.csv`` go: columns ``class_*``, ``cluster_*``, and those of `id` and `truth`.

    Returns
    -------
    list of str
        Lines on the models, and the command that runs on the files.

    Raises
    ------
    ConfigError
        If an option cannot be used.
    DataError
        If a column is missing or has a cell that cannot be used, or no site has labeled rows of two classes.
    """
    if not options.target:
        raise ConfigError("target is not set: name the column of the classes, empty where a row has none")
    names = _some(options.classifiers, SENT if options.models else CLASSIFIERS)
    multiples = [int(each) for each in options.clusters.split() if each.isdigit() and int(each)]
    if len(multiples) != len(options.clusters.split()):
        raise ConfigError(f"clusters={options.clusters!r}: write whole numbers from 1 on, as in '1 2 4'")
    lines: list[str] = []
    tables = dict(tables)
    if not options.models and not options.clusterings:
        lines, tables = _with_numbered_classes(tables, options)
    # A class is no input: as columns with these roles, target and truth are neither filled nor read as numbers.
    roles = {"id": options.id, "truth": options.target, "group": options.truth}
    steps = {key: getattr(options, key) for key in ("features", "missing", "categories", "ordinal")}
    tables = {site: in_order(table, {**roles, **steps}).table for site, table in tables.items()}
    features = _features(tables, options)
    sites = {site: _site(table, features, options.target) for site, table in tables.items()}
    k = max(int(each.y.max(initial=-1)) for each in sites.values()) + 1
    files = split_patterns(options.clusterings)
    if files and len(sites) > 1:
        raise ConfigError(f"clusterings={options.clusterings!r} are of one site's rows; prepare each site by itself")
    fits, labels = _classify(sites, features, names, options)
    lines += fits
    for file in map(Path, files):
        (site,) = sites
        labels[site][f"cluster_{file.stem}"] = _read_clusters(file, sites[site].table, options.id)
    fitting, left_out = _sizes([] if files else [k * multiple for multiple in multiples], sites)
    for size in fitting:
        for site, column in _cluster(sites, features, size, options.seed).items():
            labels[site][f"cluster_{size}"] = column
    folder.mkdir(parents=True, exist_ok=True)
    for site, each in sites.items():
        own_columns = [name for name in (options.id, options.truth) if name]
        columns = {**{name: each.table.column(name) for name in own_columns}, **labels[site]}
        unlabeled = {name: np.asarray(values)[each.y < 0] for name, values in columns.items()}
        (folder / f"{site}.csv").write_bytes(encode_text(csv_text(unlabeled)))
    lines.append(
        f"clusterings of {sum(len(each.y) for each in sites.values())} rows: {len(files or fitting)}{left_out}"
    )
    sets = "".join(f" --set {key}={value}" for key, value in (("id", options.id), ("truth", options.truth)) if value)
    return [*lines, f"next: consilience run --protocol bc3e --data {folder}{sets}"]


def _some(text: str, known: Sequence[str]) -> list[str]:
    names = split_patterns(text)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ConfigError(f"classifiers={text!r}: choose among {', '.join(known)}")
    return names


def _with_numbered_classes(tables: dict[str, Table], options: Options) -> tuple[list[str], dict[str, Table]]:
    """Number the classes that are text and that ``ordinal`` does not name, and say the numbers in a line.

    The rows of all sites must be here, so that a class has the same number at each.
    """
    named = [each.column for each in categories_of({"ordinal": options.ordinal})]
    columns = [name for name in (options.target, options.truth) if name]
    columns = [name for name in columns if not any(fnmatchcase(name, pattern) for pattern in named)]
    cells = {site: {name: text_of(table.column(name)) for name in columns} for site, table in tables.items()}
    classes = sorted({text for own in cells.values() for texts in own.values() for text in texts if text})
    if all(NUMBER.fullmatch(text) or text in ("True", "False") for text in classes):
        return [], tables
    if len(classes) > _MOST_CLASSES:
        names = " and ".join(map(repr, columns))
        wrong = f"{names}: {len(classes)} different texts; {_MOST_CLASSES} classes at most"
        raise DataError(wrong, "label-out-of-range")
    numbers = {text: float(number) for number, text in enumerate(classes)} | {"": np.nan}
    for site, own in cells.items():
        numbered = {name: np.array([numbers[text] for text in texts]) for name, texts in own.items()}
        tables[site] = replace(tables[site], columns={**tables[site].columns, **numbered})
    return [f"classes: {', '.join(f'{number} {text}' for number, text in enumerate(classes))}"], tables


def _features(tables: Mapping[str, Table], options: Options) -> list[str]:
    """Return the columns that the models see: those named, else the columns of numbers at every site."""
    own = {options.target, options.id, options.truth}
    first = next(iter(tables.values()))
    if options.features:
        return [name for name in match_columns(first, options.features) if name not in own]
    names = [
        name
        for name in first.columns
        if name not in own
        and all(name in each.columns and holds_numbers(each.columns[name]) for each in tables.values())
    ]
    if not names:
        raise DataError("no column of numbers is at every site: name the columns in features", "missing-column")
    return names


def _site(table: Table, features: Sequence[str], target: str) -> _Site:
    y = label_numbers(table, target)
    x = np.stack([numeric(table, name, allow_missing=False) for name in features], axis=1)
    known = ~np.isnan(y)
    if ((y[known] < 0) | (y[known] != np.floor(y[known])) | (y[known] > _LARGEST_CLASS)).any():
        raise DataError(f"{table.source}: column {target!r} has classes other than 0, 1, ...", "label-out-of-range")
    return _Site(table, x, np.where(known, y, -1).astype(np.int64))


# -- classifiers ------------------------------------------------------------------------------------------------------


def _classifier(name: str, seed: int) -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    model = {
        "bayes": lambda: GaussianNB(var_smoothing=1e-2),
        "discriminant": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
        "logistic": lambda: LogisticRegression(max_iter=1000),
        "neighbors": lambda: KNeighborsClassifier(3),
        "tree": lambda: DecisionTreeClassifier(random_state=seed),
    }[name]()
    return make_pipeline(StandardScaler(), model)


def _classify(
    sites: Mapping[str, _Site], features: Sequence[str], names: Sequence[str], options: Options
) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Fit every classifier at every site with labeled rows of two classes, and label the rows."""
    labels: dict[str, dict[str, Any]] = {site: {} for site in sites}
    lines, fitted = [], {}
    for teacher, own in sites.items():
        known = own.y >= 0
        if options.models:
            known &= np.bincount(own.y + 1)[own.y + 1] >= _FEWEST
        classes = np.unique(own.y[known])
        if len(classes) < 2 or known.sum() <= len(classes):
            of = f"{len(classes)} class{'es' * (len(classes) != 1)}"
            lines.append(f"{teacher}: {counted(known.sum(), 'labeled row')} of {of}, too few for a classifier")
            continue
        who = f"{teacher}: {counted(len(names), 'classifier')}"
        lines.append(f"{who} from {known.sum()} labeled rows of {len(classes)} classes")
        for name in names:
            with quiet_fit():
                model = _classifier(name, options.seed).fit(own.x[known], own.y[known])
            fitted[f"{teacher}_{name}"] = model
            for site in sites if options.exchange and not options.models else [teacher]:
                labels[site][f"class_{teacher}_{name}"] = model.predict(sites[site].x)
    if options.models:
        exchanged = _exchange(fitted, Path(options.models).expanduser(), features)
        lines.append(f"{options.models}: {len(exchanged)} classifiers, {len(fitted)} of them from here")
        for site, rows in sites.items():
            labels[site] = {f"class_{name}": _label(table, rows.x) for name, table in exchanged.items()}
    if not any(labels.values()):
        least = f"{_FEWEST} labeled rows of each of two classes"
        if not options.models:
            least = "labeled rows of two classes, and more of them than classes"
        raise DataError(f"no site has {least}, so that no classifier can be fitted", "too-few-rows")
    return lines, labels


def _exchange(fitted: Mapping[str, Any], folder: Path, features: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Write the coefficients of classifiers into a folder, and return all tables that are there, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, model in fitted.items():
        (folder / f"{name}.csv").write_bytes(encode_text(csv_text(_coefficients(model, features))))
    tables = {}
    for file in sorted(folder.glob("*.csv")):
        try:
            table = pd.read_csv(file)
            classes = table.pop("class").to_numpy()
            sound = classes.dtype == np.int64 and len({*classes.tolist()}) == len(classes) > 1
            sound &= 0 <= classes.min() <= classes.max() <= _LARGEST_CLASS
            sound &= np.abs(table.to_numpy(np.float64)).max() <= _LARGEST
        except (OSError, ValueError, KeyError):
            sound = False
        if not sound:
            raise DataError(f"{file}: is no classifier that prepare wrote; remove it", "no-data-file")
        if list(table) != ["intercept", *features]:
            raise DataError(f"{file}: is not of the features {', '.join(features)}; agree on features", "bad-shape")
        tables[file.stem] = table.set_index(classes)
    return tables


def _coefficients(model: Any, features: Sequence[str]) -> dict[str, np.ndarray]:
    """Return a linear classifier as a table: a row for each class, whose score is the intercept and a sum."""
    (_, scaler), (_, fitted) = model.steps
    weights, intercept = fitted.coef_ / scaler.scale_, fitted.intercept_
    intercept = intercept - weights @ scaler.mean_
    if len(fitted.classes_) == 2:  # scikit-learn has the second one's score less the first one's
        weights, intercept = np.vstack([0 * weights, weights]), np.append(0.0, intercept)
    return {"class": fitted.classes_, "intercept": intercept, **dict(zip(features, weights.T, strict=True))}


def _label(table: pd.DataFrame, x: Float64[np.ndarray, "n p"]) -> Int64[np.ndarray, "n"]:
    """Return the class with the largest score of each row."""
    values = table.to_numpy(np.float64)
    return np.asarray(table.index.to_numpy()[(x @ values[:, 1:].T + values[:, 0]).argmax(axis=1)])


# -- clusterings ------------------------------------------------------------------------------------------------------


def _sizes(sizes: Sequence[int], sites: Mapping[str, _Site]) -> tuple[list[int], str]:
    """Return the numbers of clusters for which there are rows enough, and in words which are left out."""
    rows = [len(each.y) for each in sites.values()]
    most = sum(rows) // Consents.min_weight if max(rows) >= Consents.min_weight else 0
    large = [str(size) for size in sizes if size > most]
    left_out = f"; not of {' and '.join(large)} clusters, which take {Consents.min_weight} rows each" if large else ""
    return [size for size in sizes if size <= most], left_out


def _cluster(
    sites: Mapping[str, _Site], features: Sequence[str], size: int, seed: int
) -> dict[str, Int64[np.ndarray, "n"]]:
    """Cluster the rows of all sites by a run of coreset; a cluster's number means the same at every site."""
    import consilience as cs
    from numerics.shared.distances import squared_distances

    frames = {
        site: pd.DataFrame(each.x, columns=list(features)).assign(**{_ALL: "all"}) for site, each in sites.items()
    }
    with tempfile.TemporaryDirectory(prefix="consilience-") as folder:
        run = cs.run(cs.Coreset(k=size), data=frames, sensitive=_ALL, seed=seed, progress=False, output_dir=folder)
        scale, centers = run.arrays["scale"], run.arrays["centers"]
    return {site: squared_distances(each.x / scale, centers / scale).argmin(axis=1) for site, each in sites.items()}


def _read_clusters(file: Path, table: Table, entity: str) -> Int64[np.ndarray, "n"]:
    """Read the clusters of a site's rows from the file that coreset writes at the site."""
    try:
        frame = pd.read_csv(file, dtype={"entity": str})
        clusters = frame["cluster"].to_numpy(np.int64)
        names = frame["entity"].tolist()
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"{file}: is no file of clusters with the columns entity and cluster, as coreset writes it", "no-data-file"
        ) from error
    numbers = [str(row) for row in (range(table.n) if table.places is None else table.places.tolist())]
    if names not in (numbers, [str(name) for name in table.column(entity)] if entity else numbers):
        raise DataError(f"{file}: does not name the {table.n} rows of {table.source}, in their order", "bad-shape")
    return clusters
