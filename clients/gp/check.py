"""`consilience check` of a site's data for gp: what is used, and what leaves the site."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from clients.cost import Work, cost_lines
from clients.data import DataError, Table, cell_name, load, setting
from clients.data.persons import person_lines
from clients.data.table import own_number
from clients.data.target import target_lines
from clients.gp.shard import lone_queries, measurements_of
from clients.policy import FEWEST_ROWS
from numerics.gp.dirichlet import SHARPNESS
from numerics.gp.measurements import LIMIT, WRONG_LIMIT, Measurements
from numerics.gp.nearest_rows import learning_rows
from numerics.gp.rare_values import without_rare_inputs
from numerics.shared.folds import rows_that_hold
from protocols.gp.settings import Consents, Settings

_CONSENTS = {
    "allow-inputs": "THE INPUTS OF ALL YOUR ROWS, to the fusion center (gp.covariance=inputs)",
    "allow-rows": "UP TO HALF OF YOUR ROWS, outputs too, to the fusion center and all sites (gp.aggregation=grbcm)",
    "allow-gate-training": (
        "gradients of a network over your rows (gp.gate=dnn), from which a malicious center can infer single rows"
    ),
}
"""What leaves a site that sets the key."""
_REFUSALS = {
    "allow-inputs": "the inputs of rows as they are (allow-inputs is not set)",
    "allow-rows": "rows for a communication expert (allow-rows is not set)",
    "allow-gate-training": "gradients over your rows (allow-gate-training is not set)",
}
"""What never leaves a site that does not set the key."""


def check_lines(config: Mapping[str, object]) -> list[str]:
    """Return the lines of `consilience check`.

    Raises
    ------
    DataError
        As `clients.gp.shard.open_shard`; or if a key of the site's own configuration is unusable.
    """
    table = load(config)
    rows = measurements_of(table, config)
    return [*describe(rows, table, config), "", *cost_lines(_answers(rows, config), rows.n, config)]


def describe(rows: Measurements, table: Table, config: Mapping[str, object]) -> list[str]:
    """Describe what is used of the site's table and its rows, and what leaves the site."""
    lines = [
        f"{table.source}: {rows.n} rows",
        "",
        "What would be used",
        *_used_lines(rows, table, config),
        "",
        "What would leave this site",
        *_leaving_lines(rows, config),
        "",
        "What never leaves this site",
        *[f"  {what}" for key, what in _REFUSALS.items() if not _consents(config, key)],
        f"  columns not used{'' if _consents(config, 'allow-rows') else '; rows as they are'}",
    ]
    warnings = _warnings(rows, table, config)
    return [*lines, *(["", "Worth a look", *warnings] if warnings else [])]


def _used_lines(rows: Measurements, table: Table, config: Mapping[str, object]) -> list[str]:
    """Return lines on output, inputs, columns that are not used, persons, and experts."""
    target, settings = setting(config, "target"), Settings.of(config)
    nearest = _nearest(rows.n, settings)
    unused = [name for name in table.columns if name not in {*rows.features, target}]
    return [
        *(
            [f"  {line}" for line in target_lines(table, config, Settings.tasks)]
            if rows.classes
            else [f"  output: {target}"]
        ),
        f"  inputs: {', '.join(rows.features)}",
        "    each measured in its standard deviation over all sites",
        f"  columns not used: {', '.join(unused) or 'none'}",
        *(f"  {line}" for line in person_lines(table, config)),
        f"  experts: 1, which predicts a point from its {nearest} nearest rows; of"
        f" {math.prod(learning_rows(rows.n))} rows in the search for hyperparameters"
        if nearest
        else f"  experts: {_experts(rows.n, settings)}, of {settings.max_expert_rows} rows at most",
    ]


def _leaving_lines(rows: Measurements, config: Mapping[str, object]) -> list[str]:
    """Return lines on what leaves the site."""
    settings, d = Settings.of(config).of_classes(len(rows.classes)), len(rows.features)
    queries = own_number(config, "max-queries", Consents.max_queries)
    lone = own_number(config, "max-lone-queries", lone_queries(rows.n))
    return [
        f"  once: the names of the {d} inputs; for each expert the number of its rows, mean and covariance of the",
        f"    inputs, {'number of rows of each class' if rows.classes else 'mean and variance of the outputs'};",
        "    what you consent to; and the hyperparameters that fit a part of your rows best, with a measure of their",
        "    precision",
        "  for every value of the hyperparameters that is tried: the log likelihood of your outputs, with its first",
        "    and second derivatives, summed over your experts;",
        *_left_out_lines(rows, settings),
        "  at every query point for which an expert is chosen: its prediction, the reduction of the variance by your",
        "    rows, and features that give its covariance with other experts;",
        *(
            [f"    the same for {settings.n_landmarks(d)} places around it (gp.answers), each counted as a point;"]
            if settings.joint
            else []
        ),
        f"    for one value of the hyperparameters only, and at {queries} points in a run at most (max-queries)",
        "    Answers are rounded. Those that rest on fewer than five of your rows are rounded most, and",
        f"    {lone} of them leave in a run at most (max-lone-queries), and none where your rows do not predict each",
        "    other: they could show SINGLE ROWS",
        *(
            ["  once, if the center knows outputs: how well you predict its test points alone, in at most 25 sums"]
            if settings.alone
            else []
        ),
        *[f"  {what}" for key, what in _CONSENTS.items() if _consents(config, key)],
    ]


def _left_out_lines(rows: Measurements, settings: Settings) -> list[str]:
    """Return lines on what leaves the site about predictions of its rows by its other rows."""
    if rows.classes:
        return [
            "    once, for a few of these values, the sum of the log losses with which your other rows predict your",
            f"    classes; and for one, the same for each of {len(SHARPNESS)} degrees of sharpness",
        ]
    steps = "    once, the number of your outputs that your other rows predict so well or so badly, in 50 steps"
    if not _nearest(rows.n, settings):
        return [steps]
    return [f"{steps};", "    and for a few of these values the sum of their squared errors"]


def _nearest(n: int, settings: Settings) -> int:
    """Return how many nearest rows predict a point at a site of n rows; 0 if it has experts of fixed rows."""
    return settings.nearest if n > settings.max_expert_rows else 0


def _experts(n: int, settings: Settings) -> int:
    """Return the number of experts at a site of n rows."""
    return 1 if _nearest(n, settings) else -(-n // settings.max_expert_rows)


def _answers(rows: Measurements, config: Mapping[str, object]) -> dict[str, list[Work]]:
    """Return the work on the site's heaviest answers: the split into experts, and the likelihoods."""
    from numerics.gp.kernel_names import kernels_of
    from numerics.gp.kernel_registry import kernel_of
    from numerics.gp.likelihood import evaluate, start_theta
    from numerics.gp.split import split

    settings = Settings.of(config)
    order = np.random.default_rng(0).permutation(rows.n)
    spread = rows.x.std(axis=0)
    x = (rows.x - rows.x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    y = (rows.y - rows.y.mean()) / (rows.y.std() or 1.0)
    kernel = kernel_of(kernels_of(settings.kernel)[-1], x.shape[1])

    def count_evaluations(n: int) -> tuple[int, float]:
        if _nearest(n, settings):
            parts, size = learning_rows(n)
            return size, float(parts * settings.candidates)
        experts = _experts(n, settings)
        return -(-n // experts), float(experts * settings.candidates)

    def evaluate_first(m: int) -> object:
        return evaluate(kernel, start_theta(kernel), x[order[:m]], y[order[:m]])

    def halve_first(m: int) -> object:
        return split(x[order[:m]], -(-m // 2), np.random.default_rng(0))

    def count_halvings(n: int) -> tuple[int, float]:
        return n, float(np.log2(max(-(-n // settings.max_expert_rows), 1)))

    answers = {"gp.Evaluate": [Work(evaluate_first, (1.5, 3.0), count_evaluations, memory=2.0)]}
    if rows.part is None and rows.n > settings.max_expert_rows and not settings.nearest:
        answers["gp.Survey"] = [Work(halve_first, (0.9, 1.2), count_halvings)]
    return answers


def _warnings(rows: Measurements, table: Table, config: Mapping[str, object]) -> list[str]:
    target, least = setting(config, "target"), own_number(config, "min-rows", Consents.min_rows)
    experts = _experts(rows.n, Settings.of(config))
    named = [*zip(rows.features, rows.x.T, strict=True), (target, rows.y)]
    lines = [f"  {name}: every row has the same value" for name, values in named if np.ptp(values) == 0]
    lines += _rare_lines(rows, FEWEST_ROWS)
    cells, wrong = rows.cells_beyond(LIMIT), rows.cells_beyond(np.inf)
    for place in np.flatnonzero(cells.any(axis=0)).tolist():
        outliers, name = np.flatnonzero(cells[:, place]), (*rows.features, target)[place]
        is_wrong = wrong[outliers, place].any()
        lines += [
            f"  {cell_name(table, name, int(outliers[0]))}: beyond {WRONG_LIMIT if is_wrong else LIMIT:g} deviations of"
            f" the median of {name}, as {len(outliers)} of {rows.n} rows are.",
            "    A run leaves such rows out: look at the data"
            if is_wrong
            else "    A run leaves them out if other rows are then predicted better (gp.outliers)",
        ]
    if rows.n // (1 if experts == 1 else 2 * experts) < least:  # the smallest expert may have half the mean number
        lines.append(f"  an expert may have fewer than {least} rows (min-rows): this site then takes no part")
    return lines


def _rare_lines(rows: Measurements, least: int) -> list[str]:
    """Return a line for each input of which some values count as others, since few rows have them."""
    moved = without_rare_inputs(rows.x, rows_that_hold(least, rows.person)) != rows.x
    return [
        f"  {name}: values that few rows have, in {count} of {rows.n} rows, count as those of {least} rows, or as"
        " nearer ones"
        for name, count in zip(rows.features, moved.sum(axis=0).tolist(), strict=True)
        if count
    ]


def _consents(config: Mapping[str, object], key: str) -> bool:
    value = config.get(key, False)
    if type(value) is not bool:
        raise DataError(f"configuration: {key} must be true or false, not {value!r}", "bad-configuration")
    return value
