"""What a site should know before it joins a run of BC3E: what of its data is used, and what leaves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clients.bc3e.shard import SOFT_COLUMN, labels_of
from clients.cost import Work, cost_lines
from clients.data import Table, load, setting
from numerics.bc3e.e_step import EStepSettings, add_alpha, cold_start, e_step
from numerics.bc3e.ensemble import Ensemble, Labels, n_values, present
from numerics.bc3e.m_step import initial_beta
from numerics.bc3e.responsibilities import likelihood_table

_BITS = 40
"""Fineness of the grid of a run between sites of together a million rows."""


def check_lines(config: Mapping[str, object]) -> list[str]:
    """Return the lines of `consilience check`; raises as `clients.bc3e.shard.open_shard`."""
    loaded = load(config, Ensemble)
    ensemble = labels_of(loaded, config)
    lines = describe(ensemble, loaded if isinstance(loaded, Table) else None, config)
    k = _n_classes(ensemble)
    return [*lines, "", *cost_lines({"bc3e.EStep": [_e_step(ensemble, k)]}, ensemble.n, config)] if k else lines


def describe(
    ensemble: Ensemble, table: Table | None, config: Mapping[str, object], n_classes: int | None = None
) -> list[str]:
    """Return lines about what BC3E would use of a site's data, and what would leave the site.

    Parameters
    ----------
    ensemble : Ensemble
        Labels of `table`, or those that the site's function returned.
    table : Table or None
        None if there is no table.
    config, n_classes
        As for `ensemble_from_table`.
    """
    k = n_classes or _n_classes(ensemble)
    used = [f"{table.source if table else setting(config, 'data')}: {ensemble.n} rows, one an instance", ""]
    used += ["What would be used"]
    used += _model_lines("classifier", "classes", ensemble.classifiers)
    used += _model_lines("clustering", "clusters", ensemble.clusterings)
    used += _role_lines(ensemble, table, config)
    return [
        *used,
        "",
        *_row_lines(ensemble, k),
        "",
        *_shared_lines(
            ensemble,
            k,
            secret=bool(setting(config, "align-key-file")),
            consent=bool(config.get("allow-single-model") or config.get("bc3e.allow-single-model")),
        ),
        "",
        *_private_lines(ensemble),
    ]


def _n_classes(ensemble: Ensemble) -> int:
    return max((n_values(labels) for labels in ensemble.classifiers.values()), default=0)


def _e_step(ensemble: Ensemble, k: int) -> Work:
    """Return the first E-step, which takes the most sweeps."""
    order = np.random.default_rng(0).permutation(ensemble.n)
    tables = {
        name: likelihood_table(initial_beta(name, k, n_values(labels), start=1))
        for name, labels in ensemble.clusterings.items()
    }

    def run(m: int) -> object:
        part = ensemble.rows(order[:m])
        start = add_alpha(np.ones(k), cold_start(part.classifiers, part.clusterings, m, k, _BITS), _BITS)
        return e_step(np.ones(k), tables, part.classifiers, part.clusterings, start, EStepSettings(_BITS))

    return Work(run, (1.0, 1.0), first=1000)


def _model_lines(kind: str, values: str, models: Mapping[str, Labels]) -> list[str]:
    """Return a line for each model: number of values, share of rows without a label."""
    lines = []
    for name, labels in models.items():
        form = "probabilities of" if labels.ndim == 2 else "labels of"
        missing = 1 - present(labels).mean() if len(labels) else 0.0
        without = f"{missing:.1%} of the rows without one" if missing else "in every row"
        lines.append(f"  {kind} {name}: {form} {n_values(labels)} {values}, {without}")
    return lines or [f"  no {kind}"]


def _role_lines(ensemble: Ensemble, table: Table | None, config: Mapping[str, object]) -> list[str]:
    """Return lines about truth, entity, and columns that are not used."""
    truth, entity = setting(config, "truth"), setting(config, "id")
    lines = ["  truth: not known, so nothing is evaluated here"]
    if ensemble.truth is not None:
        lines = [f"  truth{f' {truth}' if truth else ''}: known for {(ensemble.truth >= 0).sum()} of {ensemble.n} rows"]
    lines.append("  entity: none, the rows go by their numbers")
    if ensemble.entity is not None:
        lines[-1] = f"  entity{f' {entity}' if entity else ''}: names every row"
    if table is not None:
        models = {*ensemble.classifiers, *ensemble.clusterings}
        unused = [name for name in table.columns if name not in {*models, truth, entity} and _base(name) not in models]
        lines.append(f"  columns not used: {', '.join(unused) or 'none'}")
    return lines


def _base(column: str) -> str:
    """Return the model that a column of probabilities belongs to; else the column's own name."""
    soft = SOFT_COLUMN.fullmatch(column)
    return soft[1] if soft else column


def _row_lines(ensemble: Ensemble, k: int) -> list[str]:
    """Return lines about what leaves the site where each site holds instances of its own."""
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
            rarest = f" (the rarest stands for {counts[counts > 0].min()} of your rows)" if counts.any() else ""
            sums = f"the exact histogram of its labels{rarest}"
        lines += [f"    {name}: a table of {classes} x {size} expected counts, whose column sums are"]
        lines += [f"      {sums}"]
    total = sum(n_values(labels) for labels in ensemble.clusterings.values())
    lines += [f"    the number of instances, {ensemble.n}"]
    lines += [f"    {classes} numbers: the logarithms of the class probabilities, summed over all instances"]
    lines += ["    1 number: this site's part of the bound"]
    lines += [f"  together {k * (total + 1) + 2 if k else f'k x {total + 1} + 2'} numbers a round, however many rows"]
    if ensemble.truth is not None:
        methods = ", ".join(["bc3e", "vote", *ensemble.classifiers])
        lines += [f"  at the end: how many rows were counted and how many were right, for each of {methods}"]
    return lines


def _shared_lines(ensemble: Ensemble, k: int, *, secret: bool, consent: bool) -> list[str]:
    """Return lines about what leaves the site where several sites hold labels of the same instances.

    `secret`: whether the sites share one. `consent`: whether a single model's labels may be given away.
    """
    r1, r2 = len(ensemble.classifiers), len(ensemble.clusterings)
    each = f"{k} numbers" if k else "k numbers"
    lines = ["What would leave this site, column distribution (all sites hold the same instances, each its own models)"]
    named = "name" if ensemble.entity is not None else "row number"
    lines += [f"  once: as above, and a keyed hash of each instance's {named}, by which the sites' rows are matched"]
    if ensemble.entity is not None and not secret:
        lines += [
            "    (the fusion center knows the key and can test whether a name that it guesses is among yours, unless"
        ]
        lines += ["    the sites share a secret: align-key-file)"]
    lines += [f"  once, for each instance: {each}, its votes summed over this site's classifiers"]
    if r1 == 1:
        lines += ["    (this site has one classifier, so these votes are that classifier's labels)"]
    lines += [f"  every sweep, for each instance that still moves: {each}, its votes plus its cluster probabilities by"]
    lines += ["    class, summed over this site's models; and 1 number, this site's part of the bound"]
    if r1 + r2 == 1 and consent:
        lines += ["  These sums give the labels of a site with a single model away, and this site has one: it answers,"]
        lines += ["  because allow-single-model is set"]
    elif r1 + r2 == 1:
        lines += ["  These sums give the labels of a site with a single model away, and this site has one: it refuses"]
        lines += ["  unless its node configuration says allow-single-model (in a simulation: bc3e.allow-single-model)"]
    else:
        lines += [f"  These sums mix the labels of this site's {r1 + r2} models; with a single one they would give its"]
        lines += ["  labels away"]
    lines += ["  what each cluster says about the classes (beta) stays here, but for inner products of its changes, by"]
    lines += ["    which the fusion center saves rounds"]
    lines += ["", "What would leave this site, arbitrary distribution (any mixture of the two)"]
    lines += ["  as column for the instances that other sites hold too; another site that holds an instance can infer"]
    lines += ["  what this site adds to it; as row, in sums only, for the instances that this site alone holds; the"]
    lines += ["  table of a clustering leaves only if other sites hold labels of that clustering too"]
    return lines


def _private_lines(ensemble: Ensemble) -> list[str]:
    """Return lines about what never leaves the site."""
    never = ["single rows", "their class and cluster labels", "their class probabilities"]
    if ensemble.truth is not None:
        never.append("their true classes")
    if ensemble.entity is not None:
        never.append("their names")
    return [
        "What never leaves this site, row distribution",
        f"  {', '.join(never)}, and every column not used",
    ]
