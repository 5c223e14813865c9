"""`consilience check` of a site's data for bc3e: what is used, and what leaves the site."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from clients.bc3e.consent import FEWEST_IN_CLUSTER
from clients.bc3e.shard import SOFT_COLUMN, labels_of
from clients.cost import Work, cost_lines
from clients.data import Table, load, setting
from numerics.bc3e.e_step import EStepSettings, cold_start, e_step
from numerics.bc3e.ensemble import Ensemble, Labels, n_values, present
from numerics.bc3e.gamma import add_alpha
from numerics.bc3e.m_step import initial_beta
from numerics.bc3e.responsibilities import likelihood_table
from numerics.bc3e.support import share_withheld, without_rare_combinations
from protocols.bc3e.payloads import MUCH_WITHHELD

_FEWEST_COMPARED = 20
"""Fewest rows by which two classifiers are compared."""
_BITS = 40
"""Bits of the grid in a run over a million rows."""


def check_lines(config: Mapping[str, object]) -> list[str]:
    """Return the lines of `consilience check`; errors are those of `clients.bc3e.shard.open_shard`."""
    loaded = load(config, Ensemble)
    ensemble = labels_of(loaded, config)
    lines = describe(ensemble, loaded if isinstance(loaded, Table) else None, config)
    k = _n_classes(ensemble)
    return [*lines, "", *cost_lines({"bc3e.EStep": [_e_step(ensemble, k)]}, ensemble.n, config)] if k else lines


def describe(ensemble: Ensemble, table: Table | None, config: Mapping[str, object]) -> list[str]:
    """Describe what is used of a site's data, and what leaves the site.

    Parameters
    ----------
    ensemble : Ensemble
        Labels of `table`, or labels that the site's function returned.
    table : Table or None
        The site's table; None if a function returned the labels.
    config
        As for `ensemble_from_table`.
    """
    k = _n_classes(ensemble)
    used = [f"{table.source if table else setting(config, 'data')}: {ensemble.n} rows, one an instance", ""]
    used += ["What would be used"]
    used += _model_lines("classifier", "classes", ensemble.classifiers)
    used += _model_lines("clustering", "clusters", ensemble.clusterings)
    used += _role_lines(ensemble, table, config)
    return [
        *used,
        "",
        *_row_lines(
            ensemble,
            k,
            confusion=config.get("bc3e.reliability") != "none",
            fewest=int(str(config.get("min-combination", FEWEST_IN_CLUSTER))),
        ),
        "",
        *_shared_lines(
            ensemble,
            k,
            secret=bool(setting(config, "align-key-file")),
            shares=bool(config.get("allow-shared-instances")),
            consent=bool(config.get("allow-single-model") or config.get("bc3e.allow-single-model")),
        ),
        "",
        *_private_lines(ensemble),
    ]


def _n_classes(ensemble: Ensemble) -> int:
    return max((n_values(labels) for labels in ensemble.classifiers.values()), default=0)


def _e_step(ensemble: Ensemble, k: int) -> Work:
    """Return the work of the first E-step, which takes the most sweeps."""
    order = np.random.default_rng(0).permutation(ensemble.n)
    tables = {
        name: likelihood_table(initial_beta(name, k, n_values(labels), start=1))
        for name, labels in ensemble.clusterings.items()
    }

    def run(m: int) -> object:
        distinct = ensemble.rows(order[:m]).distinct
        part, counts = distinct.part, distinct.counts
        start = add_alpha(np.ones(k), cold_start(part.classifiers, part.clusterings, part.n, k, _BITS), _BITS)
        settings = EStepSettings(_BITS)
        return e_step(np.ones(k), tables, part.classifiers, part.clusterings, start, settings, counts=counts)

    return Work(run, (1.0, 1.0), first=1000)


def _model_lines(kind: str, values: str, models: Mapping[str, Labels]) -> list[str]:
    """Return a line for each model: number of values, share of rows without a label."""
    lines, copies = [], _copies(models) if kind == "classifier" else {}
    for name, labels in models.items():
        form = "probabilities of" if labels.ndim == 2 else "labels of"
        missing = 1 - present(labels).mean() if len(labels) else 0.0
        without = f"{missing:.1%} of the rows without one" if missing else "in every row"
        lines.append(f"  {kind} {name}: {form} {n_values(labels)} {values}, {without}")
        if name in copies:
            lines.append(
                f"    ({copies[name]}; if so at all sites, name one of them in classes; copies overrule others)"
            )
    return lines or [f"  no {kind}"]


def _copies(models: Mapping[str, Labels]) -> dict[str, str]:
    """Return, by name of a classifier that is a copy or nearly one, a phrase that names the earlier classifier.

    Near copies disagree in less than a quarter of the rows in which either disagrees with a third classifier.
    """
    pairs = list(combinations(models, 2))
    apart: dict[str, dict[str, float]] = {name: {} for name in models}
    for first, second in pairs:
        if (share := _disagreement(models[first], models[second])) is not None:
            apart[first][second] = apart[second][first] = share
    copies: dict[str, str] = {}
    for first, second in pairs:
        thirds = [
            each for name in (first, second) for other, each in apart[name].items() if other not in (first, second)
        ]
        share, least = apart[first].get(second, 1.0), min(thirds, default=0.0)
        if np.array_equal(models[first], models[second]):
            copies.setdefault(second, f"equal to {first}")
        elif share < least / 4:
            copies.setdefault(second, f"nearly {first}: differs in {share:.1%} of the rows, third ones in {least:.1%}")
    return copies


def _disagreement(first: Labels, second: Labels) -> float | None:
    """Return the share of the rows with two hard labels in which they differ; None where these are too few."""
    if first.ndim + second.ndim > 2:
        return None
    both = (first >= 0) & (second >= 0)
    return float((first != second)[both].mean()) if both.sum() >= _FEWEST_COMPARED else None


def _role_lines(ensemble: Ensemble, table: Table | None, config: Mapping[str, object]) -> list[str]:
    """Return lines on truth, entity, and columns that are not used."""
    truth, entity = setting(config, "truth"), setting(config, "id")
    lines = ["  truth: not known, so this site counts no right decisions"]
    if ensemble.truth is not None:
        lines = [f"  truth{f' {truth}' if truth else ''}: known for {(ensemble.truth >= 0).sum()} of {ensemble.n} rows"]
    lines.append("  entity: none, so rows are named by their number")
    if ensemble.entity is not None:
        lines[-1] = f"  entity{f' {entity}' if entity else ''}: names every row"
    if table is not None:
        models = {*ensemble.classifiers, *ensemble.clusterings}
        unused = [name for name in table.columns if name not in {*models, truth, entity} and _base(name) not in models]
        lines.append(f"  columns not used: {', '.join(unused) or 'none'}")
    return lines


def _base(column: str) -> str:
    """Return the name of a column's model: that of a column of probabilities without the class."""
    soft = SOFT_COLUMN.fullmatch(column)
    return soft[1] if soft else column


def _row_lines(ensemble: Ensemble, k: int, *, confusion: bool, fewest: int) -> list[str]:
    """Return lines on what leaves the site if each site holds instances of its own.

    `confusion` is whether classifiers have confusion matrices, `fewest` the site's `min-combination`.
    """
    distinct = ensemble.distinct
    remainder = without_rare_combinations(distinct.part, fewest, distinct.counts)
    withheld = share_withheld(remainder, distinct.part, distinct.counts)
    classes = str(k) if k else "k"
    lines = ["What would leave this site, row distribution (each site holds its own instances)"]
    lines += ["  once: the number of rows, the models' names with their numbers of classes or clusters, and whether"]
    lines += ["  truth is known; every round:"]
    for name, labels in ensemble.clusterings.items():
        size = n_values(labels)
        if labels.ndim == 2:
            sums = "the sums of its probabilities"
        else:
            counts = np.bincount(labels[labels >= 0], minlength=size)
            rarest = f" ({counts[counts > 0].min()} of your rows have the rarest)" if counts.any() else ""
            sums = f"the numbers of its labels{rarest}"
        lines += [f"    {name}: a table of {classes} x {size} expected counts, whose column sums are"]
        lines += [f"      {sums}"]
    total = sum(n_values(labels) for labels in ensemble.clusterings.values())
    if confusion:
        for name in ensemble.classifiers:
            lines += [f"    {name}: a table of {classes} x {classes} expected counts of right and wrong labels, whose"]
            lines += ["      column sums are the numbers of its labels (none with bc3e.reliability=none)"]
        total += k * len(ensemble.classifiers)
    lines += [f"    the number of instances, {ensemble.n}"]
    lines += [f"    {classes} numbers: the logarithms of the class probabilities, summed over all instances"]
    lines += ["    1 number: this site's part of the bound"]
    lines += [
        "  The rounds together tell the center the joint counts of all labels, of all models at once (of the sum over"
    ]
    lines += [f"    sites where masked), but of no combination of fewer than {fewest} rows (min-combination): about"]
    lines += [
        f"    {withheld:.0%} of your labels enter no sum for that. The classes of your rows are found by all labels"
    ]
    if 100 * withheld > MUCH_WITHHELD:
        lines += [
            "    That is most of them, and the run learns little here: use fewer models, or set min-combination=1,"
        ]
        lines += ["    which tells the center rare combinations"]
    lines += [f"  together {k * (total + 1) + 2 if k else f'k x {total + 1} + 2'} numbers a round, however many rows"]
    if ensemble.truth is not None:
        methods = ", ".join(["bc3e", "vote", *ensemble.classifiers])
        lines += [f"  at the end: the number of rows with known truth, and of right decisions, for each of {methods}"]
    return lines


def _shared_lines(ensemble: Ensemble, k: int, *, secret: bool, shares: bool, consent: bool) -> list[str]:
    """Return lines on what leaves the site if several sites hold labels of the same instances.

    `secret` is whether the sites share a secret key, `shares` whether votes of single instances may leave, and
    `consent` whether the labels of a single model may.
    """
    r1, r2 = len(ensemble.classifiers), len(ensemble.clusterings)
    each = f"{k} numbers" if k else "k numbers"
    lines = ["What would leave this site, column distribution (all sites hold the same instances, each its own models)"]
    if not (shares or consent):
        lines += ["  nothing: a deployed site refuses, unless its node configuration sets allow-shared-instances; then"]
    name = "name" if ensemble.entity is not None else "row number"
    lines += [f"  once: as above, and a keyed hash of each instance's {name}, which matches the sites' rows"]
    if ensemble.entity is not None and not secret:
        lines += ["    (the fusion center knows the key, and can test whether a name that it guesses is among yours;"]
        lines += ["    a secret that only the sites share prevents that: align-key-file)"]
    lines += [f"  once, for each instance: {each}, its votes summed over this site's classifiers"]
    if r1 == 1:
        lines += ["    (this site has one classifier, so these votes are that classifier's labels)"]
    lines += [f"  every sweep, for each instance that has not converged: {each}, its votes plus its cluster"]
    lines += ["    probabilities by class, summed over this site's models; and 1 number, this site's part of the bound"]
    if r1 + r2 == 1 and consent:
        lines += ["  This site has a single model, so these sums reveal its labels: the site answers, because"]
        lines += ["  allow-single-model is set"]
    elif r1 + r2 == 1:
        lines += ["  This site has a single model, so these sums would reveal its labels: the site refuses, unless"]
        lines += ["  its node configuration sets allow-single-model (in a simulation: bc3e.allow-single-model)"]
    else:
        lines += [f"  These sums mix the labels of this site's {r1 + r2} models; sums of a single model would reveal"]
        lines += ["  its labels"]
    lines += ["  every round: inner products of the changes of beta, the probabilities of clusters by class, which"]
    lines += ["    save rounds; beta itself stays at this site"]
    lines += ["", "What would leave this site, arbitrary distribution (any mixture of the two)"]
    lines += ["  for instances that other sites hold too: as in the column distribution; another site that holds an"]
    lines += ["    instance can infer what this site adds to it"]
    lines += ["  for instances that this site alone holds: as in the row distribution, in sums only; the table of a"]
    lines += ["    clustering leaves only if other sites hold labels of that clustering too"]
    return lines


def _private_lines(ensemble: Ensemble) -> list[str]:
    """Return lines on what never leaves the site."""
    never = ["single rows", "their class and cluster labels", "their class probabilities"]
    if ensemble.truth is not None:
        never.append("their true classes")
    if ensemble.entity is not None:
        never.append("their names")
    return [
        "What never leaves this site, row distribution",
        f"  {', '.join(never)}, and every column not used",
    ]
