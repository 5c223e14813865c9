"""What a party should know before it joins a run of SEC: what of its data is used, and what leaves."""

from __future__ import annotations

from collections.abc import Mapping

from clients.data import Table, setting
from clients.data.table import DataError
from clients.regressors import ROW_MODELS, Candidate, CandidateError, parse_candidates
from numerics.rows import Rows
from protocols.sec import Select

_TOLD = {
    "lr": "its coefficients",
    "ridge": "its coefficients",
    "lasso": "its coefficients",
    "en": "its coefficients",
    "lars": "its coefficients",
    "nn": "its weights",
    "rf": "its trees: thresholds lie between two of your values, leaves are means of your outcomes",
    "gb": "its trees: thresholds lie between two of your values, leaves are means of residuals of your outcomes",
    "hgb": "its trees: thresholds lie between two of your values, leaves are means of residuals of your outcomes",
    "knn": "ALL YOUR ROWS, outcomes too",
    "svr": "SOME OF YOUR ROWS, those at the margin",
}


def describe(rows: Rows, table: Table, config: Mapping[str, object], held_out: int) -> list[str]:
    """Lines to print for `consilience check`.

    Parameters
    ----------
    rows : Rows
        As they were read from `table`.
    table : Table
        The party's own.
    config : Mapping
        Run or node configuration.
    held_out : int
        Rows that are not learnt from.

    Raises
    ------
    DataError
        If the list of candidate methods cannot be read.
    """
    try:
        own_list = setting(config, "candidates") or setting(config, "sec.candidates")
        candidates = parse_candidates(own_list or Select.candidates)
    except CandidateError as error:
        raise DataError(f"configuration: {error}", "bad-configuration") from error
    target = setting(config, "target")
    unused = [name for name in table.columns if name not in {*rows.features, target}]
    learnt = rows.n - held_out
    return [
        f"{table.source}: {rows.n} rows",
        "",
        "What would be used",
        f"  outcome {target}",
        f"  inputs, in this order at every site: {', '.join(rows.features)}",
        f"  columns not used: {', '.join(unused) or 'none'}",
        f"  {learnt} rows to learn from, {held_out} held out to compare predictions on (sec.holdout)",
        "",
        "What would leave this site",
        f"  once: the names of the inputs, the number of rows learnt from ({learnt}), and the fitted model of the",
        "  method that predicts one half of them best when it is fitted to the other, with its mean squared error:",
        *_candidate_lines(candidates, config),
        *_moment_lines(config),
        "  once: the mean squared error on your rows of every model that the others sent",
        "  once: mean squared errors on the rows held out, with your model alone, your cluster's, and everybody's;",
        "    and their number",
        "  The fusion center sees every model, and passes it on to every site.",
        "",
        "What never leaves this site",
        f"  single rows{' (but see above)' if _rows_leave(candidates, config) else ''}, predictions of single rows, and"
        " every column not used",
    ]


def _allowed(config: Mapping[str, object]) -> bool:
    return bool(config.get("allow-row-models", config.get("sec.allow-row-models", False)))


def _rows_leave(candidates: tuple[Candidate, ...], config: Mapping[str, object]) -> bool:
    return _allowed(config) and any(each.method in ROW_MODELS for each in candidates)


def _candidate_lines(candidates: tuple[Candidate, ...], config: Mapping[str, object]) -> list[str]:
    lines = []
    for each in candidates:
        told = _TOLD[each.method]
        if each.method in ROW_MODELS and not _allowed(config):
            told = "not tried: such a model holds rows, and allow-row-models is not set"
        if each.method in ("rf", "gb", "hgb"):
            told += f" ({config.get('sec.min-leaf') or Select.min_leaf} rows or more in a leaf)"
        lines.append(f"    {each.text}: {told}")
    return lines


def _moment_lines(config: Mapping[str, object]) -> list[str]:
    if config.get("sec.combine") != "pooled-linear":
        return []
    return [
        "  once, because of sec.combine=pooled-linear: the mean of every column used, and the sums of products of any",
        "    two of them",
    ]
