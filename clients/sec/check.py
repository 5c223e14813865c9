"""`consilience check` of a site's data for sec: what is used, and what leaves the site."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from clients.cost import Work, cost_lines
from clients.data import Table, load, setting
from clients.data.persons import person_lines
from clients.data.table import own_number
from clients.data.target import target_lines
from clients.sec.rows import same_order, step_held_out
from clients.sec.shard import FEWEST_HELD_OUT, allows_row_models, candidates_of, n_held_out, rows_of, sample_rows
from numerics.sec.left_out import FOLDS
from numerics.shared.candidates import ROW_MODELS, Candidate
from numerics.shared.classifiers import fit_classes
from numerics.shared.regression_rows import RegressionRows
from numerics.shared.regressors import fit
from protocols.sec.settings import Consents, Settings

_CONTENT = {
    "lr": "its coefficients",
    "ridge": "its coefficients",
    "lasso": "its coefficients",
    "en": "its coefficients",
    "lars": "its coefficients",
    "nn": "its weights",
    "rf": "its trees: thresholds lie between groups of 5 of your values, leaves are means of your outcomes (or shares)",
    "gb": "its trees, as of rf; many of them together can come close to single outcomes",
    "hgb": "its trees, as of rf; many of them together can come close to single outcomes",
    "tree": "the tree: thresholds lie between groups of 5 of your values, leaves are means of your outcomes",
    "knn": "ALL YOUR ROWS, outcomes too",
    "svr": "SOME OF YOUR ROWS, those at the margin",
}
"""What the model of each method contains."""

_TREES = {"rf", "gb", "hgb", "tree"}
"""Methods whose models have leaves."""
_GROWTH = {"knn": (1.0, 1.5), "svr": (1.5, 3.0)}
"""By method, lowest and highest exponent of the number of rows in the time of a fit; about 1 for other methods."""
_HEAVY = {"rf", "gb", "hgb", "nn", "svr"}
"""Methods that take much longer to fit than others."""


def check_lines(config: Mapping[str, object]) -> list[str]:
    """Return the lines of `consilience check`.

    Raises
    ------
    DataError
        As `clients.sec.shard.open_shard`; or if the list of candidate methods cannot be read.
    """
    table = load(config)
    all_rows = rows_of(table, config)
    lines = describe(all_rows, table, config)
    rows = sample_rows(all_rows)
    candidates = [
        each
        for each in candidates_of(config, classes=bool(rows.classes))
        if allows_row_models(config) or each.method not in ROW_MODELS
    ]
    return [*lines, "", *cost_lines({"sec.Select": _fits(rows, candidates, config)}, rows.n, config)]


def describe(rows: RegressionRows, table: Table, config: Mapping[str, object]) -> list[str]:
    """Describe what is used of the site's table and its rows, and what leaves the site."""
    candidates = candidates_of(config, classes=bool(rows.classes))
    target = setting(config, "target")
    unused = [name for name in table.columns if name not in {*rows.features, target}]
    error = "log loss" if rows.classes else "mean squared error"
    sample = sample_rows(rows)
    step = step_held_out(FEWEST_HELD_OUT, len(rows.features), config)
    used, held_out = sample.n, _held_out(sample, n_held_out(len(sample.persons), config, step))
    learned = used - held_out
    return [
        f"{table.source}: {rows.n} rows",
        "",
        "What would be used",
        *(f"  {line}" for line in target_lines(table, config, Settings.tasks)),
        f"  inputs, in this order at every site: {', '.join(rows.features)}",
        f"  columns not used: {', '.join(unused) or 'none'}",
        *(f"  {line}" for line in person_lines(table, config)),
        *([f"  a sample of {used} rows, the same in all runs"] if used < rows.n else []),
        f"  {used} rows to learn from; predictions are compared on {held_out} of them (sec.holdout)",
        *(["    there, fits without these rows stand for your model"] if held_out else []),
        "",
        "What would leave this site",
        *([f"  once: the number of rows ({rows.n})"] if used < rows.n else []),
        f"  once: the names of the inputs, the numbers of rows ({learned}, and {held_out} held out), and the model",
        f"  of all rows of the method that predicts best rows that it was not fitted to, with its {error} on such:",
        *(["  once: the names of these classes; the model says how frequent they are here"] if rows.classes else []),
        *_candidate_lines(candidates, config),
        *_moment_lines(config, learned, len(rows.features)),
        f"  once: the {error} on your rows of every model that your site gets. A dishonest center could send",
        "    models of its own, made to learn about your rows, in every run",
        *_error_lines(held_out, error),
        "  The fusion center sees every model, keeps it with its results, and passes it on to every site.",
        "  This command assumes the center's settings (candidates, combine) that you give it. Your site's own",
        "  candidates, min-leaf and allow-row-models apply whatever the center asks.",
        "",
        "What never leaves this site",
        f"  single rows{' (but see above)' if _rows_leave(candidates, config) else ''}, predictions of single rows, and"
        " every column not used",
    ]


def _held_out(rows: RegressionRows, n_persons: int) -> int:
    """Return the number of rows that a real site holds out with so many persons, or rows."""
    return len(rows.hold_out(rows.persons[same_order(len(rows.persons))[:n_persons]]).y_test)


def _fits(rows: RegressionRows, candidates: Sequence[Candidate], config: Mapping[str, object]) -> list[Work]:
    """Return the work on each candidate: the fits of cross-validation; for a heavy method also those of the chosen one.

    The method that is chosen is fitted to all rows and to both halves of them. That takes long only for a heavy one.
    """
    settings = Settings.of(config)
    min_leaf = max(settings.min_leaf, own_number(config, "min-leaf", Consents.min_leaf))
    order = np.random.default_rng(0).permutation(rows.n)

    def fit_first(candidate: Candidate, m: int) -> None:
        x, y = rows.x[order[:m]], rows.y[order[:m]]
        with contextlib.suppress(Exception):  # a run skips such a candidate, too
            fitted = fit_classes if candidate.classes else fit
            fitted(candidate, x, y, standardize=settings.standardize, min_leaf=min_leaf, seed=0).predict(x)

    def work(candidate: Candidate) -> Work:
        folds = FOLDS if settings.selection == "k-fold" else 1
        rest = max(folds - 1, 1) / max(folds, 2)  # share of the rows that each of these fits takes
        fits = folds + (2 / rest if candidate.method in _HEAVY else 0.0)
        growth = _GROWTH.get(candidate.method, (1.0, 1.2))
        return Work(partial(fit_first, candidate), growth, lambda n: (math.ceil(rest * n), fits), first=500)

    return [work(each) for each in candidates]


def _rows_leave(candidates: tuple[Candidate, ...], config: Mapping[str, object]) -> bool:
    pooled = config.get("sec.combine") == "pooled-rows" and bool(config.get("allow-pooling", False))
    return pooled or (allows_row_models(config) and any(each.method in ROW_MODELS for each in candidates))


def _candidate_lines(candidates: tuple[Candidate, ...], config: Mapping[str, object]) -> list[str]:
    lines, how = [], Settings.of(config).standardize
    for each in candidates:
        content = _CONTENT[each.method]
        if each.method in ROW_MODELS and not allows_row_models(config):
            content = "not tried: such a model holds rows, and allow-row-models is not set"
        if each.method in _TREES:
            least = max(Settings.of(config).min_leaf, own_number(config, "min-leaf", Consents.min_leaf))
            content += f" ({least} rows or more in a leaf)"
        if (each.method == "nn" and how != "learner") or (each.method in ROW_MODELS and how == "model"):
            content += "; and the mean and deviation of every column used"
        lines.append(f"    {each.text}: {content}")
    return lines


def _error_lines(held_out: int, error: str) -> list[str]:
    if not held_out:
        return ["  no error on rows held out: there are none, or so few that it would reveal single rows"]
    return [
        f"  once: the number of rows held out, and the {error} on them: of your model alone, of your",
        "    cluster's models, of all models, and of your own mixture of them (its weights stay here); and standard",
        "    errors of their differences",
    ]


def _moment_lines(config: Mapping[str, object], n: int, p: int) -> list[str]:
    if config.get("sec.combine") == "pooled-rows":
        if not config.get("allow-pooling", False):
            return ["  no rows, whatever sec.combine=pooled-rows asks for: allow-pooling is not set"]
        return [
            f"  once, because of sec.combine=pooled-rows and allow-pooling: ALL {n} ROWS that are not held out,",
            "    outcomes too, if your site is in a cluster of several; every member gets the model of these rows",
        ]
    if config.get("sec.combine") != "pooled-linear":
        return []
    if n < p + 2:
        return ["  nothing more: sec.combine=pooled-linear is refused, because the sums of so few rows reveal the rows"]
    return [
        "  once, because of sec.combine=pooled-linear: the mean of every column used, and the sums of products of any",
        "    two of them",
    ]
